//! Where lanes go on when the group's offsets are gone, and that nothing lags behind when everything is done.

use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::{Offset, TopicPartitionList};
use redrive::core::position::Lane;
use redrive::topology::model::Pipeline;

use crate::binary::Binary;
use crate::process::{Process, eventually};
use crate::size;
use crate::support::{Kafka, PATIENCE};
use crate::topology::Draft;

fn write(kafka: &Kafka, pipeline: &Pipeline, values: std::ops::Range<usize>) {
    let values: Vec<String> = values.map(|number| format!("{number}")).collect();
    let records: Vec<_> =
        values.iter().map(|value| (Some(value.as_bytes()), Some(value.as_bytes()))).collect();
    kafka.produce(pipeline.source.as_str(), Some(0), &records);
}

/// The values of the output, sorted.
pub(crate) fn outputs(kafka: &Kafka, pipeline: &Pipeline) -> Vec<usize> {
    let found = kafka.read(pipeline.output.as_ref().unwrap().as_str());
    let number = |value: Option<Vec<u8>>| String::from_utf8(value.unwrap()).unwrap().parse().unwrap();
    let mut numbers: Vec<usize> = found.into_iter().map(|found| number(found.value)).collect();
    numbers.sort_unstable();
    numbers
}

/// In a full run a broker that keeps offsets for a minute, and it is waited for; else the shared one, which is told.
pub(crate) fn own_broker() -> Option<Kafka> {
    let properties = ["offsets.retention.minutes=1", "offsets.retention.check.interval.ms=5000"];
    size::is_full().then(|| Kafka::start_with(&properties))
}

/// What the broker does when the group has been away for longer than it keeps offsets.
pub(crate) fn forget_offsets(kafka: &Kafka, pipeline: &Pipeline) {
    if size::is_full() {
        return eventually("the offsets have expired", || {
            committed(kafka, pipeline).iter().all(Option::is_none)
        });
    }
    let admin: AdminClient<DefaultClientContext> = kafka.config().create().expect("make an admin client");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    eventually("the group has no members and is forgotten", || {
        let deleted = runtime.block_on(admin.delete_groups(&[&pipeline.group], &AdminOptions::new()));
        deleted.expect("delete the group").iter().all(Result::is_ok)
    });
}

/// The committed offset of every lane.
pub(crate) fn committed(kafka: &Kafka, pipeline: &Pipeline) -> Vec<Option<i64>> {
    try_committed(kafka, pipeline).expect("committed offsets")
}

/// As [`committed`], where the coordinator may be on its way.
pub(crate) fn try_committed(kafka: &Kafka, pipeline: &Pipeline) -> KafkaResult<Vec<Option<i64>>> {
    let client: BaseConsumer = kafka.config().set("group.id", &pipeline.group).create().unwrap();
    let mut list = TopicPartitionList::new();
    for lane in pipeline.policy.lanes() {
        list.add_partition(pipeline.lane_topic(lane).as_str(), 0);
    }
    let found = client.committed_offsets(list, PATIENCE)?;
    let offset =
        |element: &TopicPartitionListElem<'_>| element.offset().to_raw().filter(|offset| *offset >= 0);
    Ok(found.elements().iter().map(offset).collect())
}

/// The offset that the group has committed for a lane of task 0; 0 where it has none, or its coordinator is on its way.
pub(crate) fn committed_of(kafka: &Kafka, pipeline: &Pipeline, lane: Lane) -> i64 {
    let place = pipeline.policy.lanes().position(|of| of == lane).unwrap();
    let committed = try_committed(kafka, pipeline).unwrap_or_default();
    committed.get(place).copied().flatten().unwrap_or(0)
}

/// The lanes whose committed offset is not the high watermark: the lag that `kafka-consumer-groups` tells, which takes ends of
/// transactions for records.
fn lagging(kafka: &Kafka, pipeline: &Pipeline) -> Vec<(String, i64, i64)> {
    let client: BaseConsumer = kafka
        .config()
        .set("group.id", &pipeline.group)
        .set("isolation.level", "read_uncommitted")
        .create()
        .unwrap();
    let mut list = TopicPartitionList::new();
    for lane in pipeline.policy.lanes() {
        list.add_partition(pipeline.lane_topic(lane).as_str(), 0);
    }
    let committed = client.committed_offsets(list, PATIENCE).expect("committed offsets");
    let lag = |element: TopicPartitionListElem<'_>| {
        let (_, end) = client.fetch_watermarks(element.topic(), 0, PATIENCE).expect("the end");
        let Offset::Offset(at) = element.offset() else {
            panic!("{}: {:?}", element.topic(), element.offset())
        };
        (at != end).then(|| (element.topic().to_owned(), at, end))
    };
    committed.elements().into_iter().filter_map(lag).collect()
}

#[test]
fn stopped_in_order_a_task_without_offsets_goes_on_exactly_where_it_stood() {
    let own = own_broker();
    let kafka = own.as_ref().unwrap_or_else(|| Kafka::shared());
    let topology = Draft::new(kafka, 1).tiers(&["1s"]).fail("1", Some(1), "transient").made(kafka);
    let pipeline = topology.pipelines.first().unwrap();
    write(kafka, pipeline, 0..50);
    let process = Process::start(&topology, "a");
    eventually("all are handled", || outputs(kafka, pipeline).len() == 50);
    process.end().expect("a clean end");

    write(kafka, pipeline, 50..60);
    forget_offsets(kafka, pipeline);
    let process = Process::start(&topology, "a");
    eventually("the rest is handled", || outputs(kafka, pipeline).len() >= 60);
    process.end().expect("a clean end");
    assert_eq!(outputs(kafka, pipeline), (0..60).collect::<Vec<_>>());
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the broker's retention is what is waited out")]
fn idle_workers_keep_the_offsets_of_every_lane() {
    let own = own_broker();
    let kafka = own.as_ref().unwrap_or_else(|| Kafka::shared());
    let topology = Draft::new(kafka, 1).tiers(&["1s"]).made(kafka);
    let pipeline = topology.pipelines.first().unwrap();
    let process = Process::start(&topology, "a");
    write(kafka, pipeline, 0..10);
    eventually("all are handled", || outputs(kafka, pipeline).len() == 10);
    // Twice as long as the broker keeps an offset that nobody commits again.
    let began = Instant::now();
    let lasts = if size::is_full() { Duration::from_secs(120) } else { Duration::ZERO };
    eventually("time passes", || {
        assert!(committed(kafka, pipeline).iter().all(Option::is_some), "an offset has expired");
        began.elapsed() >= lasts
    });
    process.end().expect("a clean end");
    assert_eq!(outputs(kafka, pipeline), (0..10).collect::<Vec<_>>());
}

#[test]
fn killed_a_task_without_offsets_waits_for_a_person_and_says_what_may_be_repeated() {
    let own = own_broker();
    let kafka = own.as_ref().unwrap_or_else(|| Kafka::shared());
    let draft = Draft::new(kafka, 1);
    let topology = draft.made(kafka);
    let pipeline = topology.pipelines.first().unwrap();
    let process = Binary::run(&draft.text(kafka), 0);
    for written in 0..5 {
        write(kafka, pipeline, written * 10..written * 10 + 10);
        eventually("they are handled", || outputs(kafka, pipeline).len() == written * 10 + 10);
    }
    process.kill();
    write(kafka, pipeline, 50..60);
    forget_offsets(kafka, pipeline);

    // However often it is started and stopped.
    for _ in 0..2 {
        let (process, words) = Binary::heard(&draft.text(kafka), 0);
        let said = || words.said();
        eventually("it says that it waits", || said().contains("positions-stale"));
        let command = format!("redrive resume {} --accept-repeats {}/0/", pipeline.name, pipeline.source);
        let said = said();
        let range = said.split(&command).nth(1).expect("the command to type");
        let range: String = range.chars().take_while(|c| c.is_ascii_digit() || *c == '-').collect();
        let (from, to) = range.split_once('-').expect("a range");
        assert!((1..50).contains(&from.parse::<usize>().unwrap()), "{range}");
        assert_eq!(to, "60");
        assert_eq!(process.end().code(), Some(0));
        assert_eq!(outputs(kafka, pipeline), (0..50).collect::<Vec<_>>(), "nothing is repeated unasked");
    }
}

#[test]
fn when_everything_is_done_every_lane_is_committed_to_its_end() {
    let kafka = Kafka::shared();
    let topology = Draft::new(kafka, 1).tiers(&["300ms"]).fail("1", Some(1), "transient").made(kafka);
    let pipeline = topology.pipelines.first().unwrap();
    let process = Process::start(&topology, "a");
    write_in_transactions(kafka, pipeline.source.as_str());
    eventually("all are handled", || outputs(kafka, pipeline).len() == 20);
    eventually("nothing lags", || lagging(kafka, pipeline).is_empty());
    process.end().expect("a clean end");
    assert_eq!(lagging(kafka, pipeline), []);
    assert_eq!(outputs(kafka, pipeline), (0..20).collect::<Vec<_>>());
}

/// Records in a transaction of their own each, and behind them some that are taken back.
fn write_in_transactions(kafka: &Kafka, topic: &str) {
    let producer: BaseProducer = kafka.config().set("transactional.id", topic).create().expect("a producer");
    producer.init_transactions(PATIENCE).expect("init");
    for number in 0..25 {
        let text = number.to_string();
        producer.begin_transaction().expect("begin");
        let record = BaseRecord::to(topic).partition(0).key(&text).payload(&text);
        producer.send(record).expect("send");
        producer.flush(Duration::from_secs(10)).expect("flush");
        if number < 20 {
            producer.commit_transaction(PATIENCE).expect("commit");
        } else {
            producer.abort_transaction(PATIENCE).expect("abort");
        }
    }
}
