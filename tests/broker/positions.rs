//! Where lanes begin and go on: at the first start, after a stop, in new partitions, behind what retention deleted, and
//! where a topic was made anew.

use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use redrive::topology::model::Pipeline;

use crate::process::{Process, eventually};
use crate::support::Kafka;
use crate::topology::Draft;

fn write(kafka: &Kafka, pipeline: &Pipeline, partition: i32, values: std::ops::Range<usize>) {
    let values: Vec<String> = values.map(|number| format!("{number}")).collect();
    let records: Vec<_> = values.iter().map(|value| (Some(&b"key"[..]), Some(value.as_bytes()))).collect();
    kafka.produce(pipeline.source.as_str(), Some(partition), &records);
}

/// The values of the output, sorted.
fn outputs(kafka: &Kafka, pipeline: &Pipeline) -> Vec<usize> {
    let found = kafka.read(pipeline.output.as_ref().unwrap().as_str());
    let number = |value: Option<Vec<u8>>| String::from_utf8(value.unwrap()).unwrap().parse().unwrap();
    let mut numbers: Vec<usize> = found.into_iter().map(|found| number(found.value)).collect();
    numbers.sort_unstable();
    numbers
}

fn admin(kafka: &Kafka) -> AdminClient<DefaultClientContext> {
    kafka.config().create().expect("make an admin client")
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
}

/// Deletes what lies before an offset of a partition, as retention does.
pub(crate) fn delete_before(kafka: &Kafka, topic: &str, partition: i32, offset: i64) {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, partition, Offset::Offset(offset)).unwrap();
    wait(admin(kafka).delete_records(&list, &AdminOptions::new())).expect("delete records");
}

#[test]
fn latest_means_the_first_start_only_and_new_partitions_begin_at_their_beginning() {
    let kafka = Kafka::shared();
    let draft = Draft::new(kafka, 1).start("\"latest\"");
    let topology = draft.made(kafka);
    let pipeline = topology.pipelines.first().unwrap();
    write(kafka, pipeline, 0, 0..100);

    let process = Process::start(&topology, "a");
    let mut next = 100;
    eventually("records written after the start are handled", || {
        write(kafka, pipeline, 0, next..next + 1);
        next += 1;
        !outputs(kafka, pipeline).is_empty()
    });
    process.end().expect("a clean end");
    let first = outputs(kafka, pipeline)[0];
    assert!(first >= 100, "{first} was there before the first start");

    // Written while nobody runs, the second half to a partition that nobody has seen.
    write(kafka, pipeline, 0, next..next + 10);
    let grown = NewPartitions::new(pipeline.source.as_str(), 2);
    wait(admin(kafka).create_partitions([&grown], &AdminOptions::new())).expect("grow the source");
    draft.apply(kafka);
    write(kafka, pipeline, 1, next + 10..next + 20);

    let process = Process::start(&topology, "a");
    let expected: Vec<usize> = (first..next + 20).collect();
    eventually("everything since is handled", || outputs(kafka, pipeline).len() >= expected.len());
    process.end().expect("a clean end");
    assert_eq!(outputs(kafka, pipeline), expected);
}

#[test]
fn latest_holds_for_every_partition_of_the_first_start_whoever_commits_it() {
    let kafka = Kafka::shared();
    let topology = Draft::new(kafka, 2).start("\"latest\"").made(kafka);
    let pipeline = topology.pipelines.first().unwrap();
    write(kafka, pipeline, 0, 0..100);
    write(kafka, pipeline, 1, 100..200);
    // Another worker of the first start has committed its partition, and this one was not yet committed by anybody.
    commit(kafka, pipeline, 0, 100, "1 seq=1 by=00000000000000ab of=2");

    let process = Process::start(&topology, "a");
    let mut next = 200;
    eventually("records written after the start are handled", || {
        write(kafka, pipeline, 1, next..next + 1);
        next += 1;
        !outputs(kafka, pipeline).is_empty()
    });
    process.end().expect("a clean end");
    let first = outputs(kafka, pipeline)[0];
    assert!(first >= 200, "{first} was there before the first start");
}

/// Commits an offset of the source in the group's name, as a worker does.
fn commit(kafka: &Kafka, pipeline: &Pipeline, partition: i32, offset: i64, mark: &str) {
    let member: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", kafka.bootstrap())
        .set("group.id", &pipeline.group)
        .create()
        .unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(pipeline.source.as_str(), partition, Offset::Offset(offset)).unwrap();
    list.find_partition(pipeline.source.as_str(), partition).unwrap().set_metadata(mark);
    member.commit(&list, CommitMode::Sync).expect("commit");
}

#[test]
fn a_pipeline_starts_where_another_group_stands() {
    let kafka = Kafka::shared();
    let old = Draft::new(kafka, 1).made(kafka);
    let old_pipeline = old.pipelines.first().unwrap();
    write(kafka, old_pipeline, 0, 0..50);
    let process = Process::start(&old, "old");
    eventually("the old group reads", || outputs(kafka, old_pipeline).len() == 50);
    process.end().expect("a clean end");

    let new = Draft::new(kafka, 1)
        .source(old_pipeline.source.as_str())
        .start(&format!("{{ group = \"{}\" }}", old_pipeline.group))
        .made(kafka);
    let pipeline = new.pipelines.first().unwrap();
    write(kafka, old_pipeline, 0, 50..60);
    let process = Process::start(&new, "new");
    eventually("the new group reads the rest", || outputs(kafka, pipeline).len() >= 10);
    process.end().expect("a clean end");
    assert_eq!(outputs(kafka, pipeline), (50..60).collect::<Vec<_>>());
}

#[test]
fn a_lane_goes_on_behind_what_retention_deleted_while_it_was_stopped() {
    let kafka = Kafka::shared();
    let topology = Draft::new(kafka, 1).made(kafka);
    let pipeline = topology.pipelines.first().unwrap();
    write(kafka, pipeline, 0, 0..100);
    let process = Process::start(&topology, "a");
    eventually("the first are handled", || outputs(kafka, pipeline).len() == 100);
    process.end().expect("a clean end");

    write(kafka, pipeline, 0, 100..150);
    delete_before(kafka, pipeline.source.as_str(), 0, 120);
    let process = Process::start(&topology, "a");
    eventually("the rest are handled", || outputs(kafka, pipeline).len() >= 130);
    process.end().expect("a clean end");
    assert_eq!(outputs(kafka, pipeline), (0..100).chain(120..150).collect::<Vec<_>>());
}

#[test]
fn a_waiting_lane_goes_on_behind_what_retention_deleted_under_it() {
    let kafka = Kafka::shared();
    let topology = Draft::new(kafka, 1).tiers(&["5s"]).fail("", Some(1), "transient").made(kafka);
    let pipeline = topology.pipelines.first().unwrap();
    // More than the lane's queue takes, so that what is deleted was not fetched.
    let filler = "x".repeat(4000);
    let values: Vec<String> = (0..2000).map(|number| format!("{number:05}{filler}")).collect();
    let records: Vec<_> =
        values.iter().map(|value| (Some(value.as_bytes()[..5].as_ref()), Some(value.as_bytes()))).collect();
    kafka.produce(pipeline.source.as_str(), Some(0), &records);

    let process = Process::start(&topology, "a");
    let tier = pipeline.tiers.first().unwrap().topic.name.as_str();
    eventually("all wait in the tier", || kafka.read(tier).len() == 2000);
    let last = kafka.read(tier).last().unwrap().offset;
    let kept = kafka.read(tier)[1900].offset;
    delete_before(kafka, tier, 0, kept);
    let output = pipeline.output.as_ref().unwrap().as_str();
    eventually("the last is handled", || {
        kafka.read(output).iter().any(|found| found.key == Some(b"01999".to_vec()))
    });
    process.end().expect("a clean end");

    let handled = kafka.read(output);
    let mut keys: Vec<_> = handled.iter().map(|found| found.key.clone().unwrap()).collect();
    keys.sort();
    let distinct = keys.len();
    keys.dedup();
    assert_eq!(keys.len(), distinct, "none twice");
    assert!(handled.len() < 2000, "{} of {last} were deleted, none is missing", kept);
    for number in 1900..2000 {
        assert!(keys.contains(&format!("{number:05}").into_bytes()), "{number} is missing");
    }
}

#[test]
fn a_tier_made_anew_under_its_lane_is_read_from_its_beginning() {
    let kafka = Kafka::shared();
    let draft = Draft::new(kafka, 1).tiers(&["1s"]).fail("", Some(1), "transient");
    let topology = draft.made(kafka);
    let pipeline = topology.pipelines.first().unwrap();
    let tier = pipeline.tiers.first().unwrap().topic.name.as_str();
    write(kafka, pipeline, 0, 0..50);
    let process = Process::start(&topology, "a");
    eventually("the first went through the tier", || outputs(kafka, pipeline).len() == 50);

    // Nothing waits there. With the topic the broker forgets the group's offset.
    kafka.delete(tier);
    draft.apply(kafka);
    // One after the other, until the new log is longer than the lane's old place.
    for number in 50..150 {
        write(kafka, pipeline, 0, number..number + 1);
    }
    eventually("the last is handled", || outputs(kafka, pipeline).contains(&149));
    process.end().expect("a clean end");
    assert_eq!(outputs(kafka, pipeline), (0..150).collect::<Vec<_>>());
}
