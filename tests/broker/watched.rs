//! A test of the tests: the watch of a real Kafka finds what a worker does wrong that goes its own ways.

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::producer::DefaultProducerContext;
use rdkafka::producer::{BaseRecord, Producer, ThreadedProducer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::found::client;
use crate::ledger::Kind;
use crate::process::eventually;
use crate::readback;
use crate::support::{Kafka, PATIENCE};
use crate::topology::Draft;
use crate::watching::Watching;

/// The worst of workers.
struct Bad {
    group: BaseConsumer,
    source: String,
}

impl Bad {
    /// Commits an offset, with nothing that belongs to it.
    fn commit(&self, offset: i64) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.source, 0, Offset::Offset(offset)).unwrap();
        self.group.commit(&list, CommitMode::Sync).expect("commit an offset");
    }
}

/// Writes a record in a transaction, and leaves it open.
fn left_open(kafka: &Kafka, topic: &str) -> ThreadedProducer<DefaultProducerContext> {
    let producer: ThreadedProducer<_> =
        client(kafka.bootstrap()).set("transactional.id", topic).create().expect("a producer");
    producer.init_transactions(PATIENCE).expect("an identity");
    producer.begin_transaction().expect("a transaction");
    producer.send(BaseRecord::<[u8], [u8]>::to(topic).partition(0).payload(b"never")).expect("send");
    producer.flush(PATIENCE).expect("it is written");
    producer
}

#[test]
fn a_worker_that_loses_goes_back_and_leaves_a_transaction_open_is_watched_doing_so() {
    let kafka = Kafka::shared();
    let topology = Draft::new(kafka, 1).made(kafka);
    let pipeline = topology.pipelines.first().unwrap();
    let topics = readback::topics(pipeline).unwrap();
    let mut rules = readback::rules(pipeline);
    rules.longest_open = 500;
    let group = client(kafka.bootstrap()).set("group.id", &pipeline.group).create().expect("a consumer");
    let bad = Bad { group, source: pipeline.source.to_string() };
    kafka.produce(&bad.source, Some(0), &[(None, Some(b"one")), (None, Some(b"two"))]);

    let watching = Watching::start(kafka.bootstrap(), &pipeline.group, &topics, rules);
    let watching = watching.expect("a watch");
    let sees = |kind: Kind| {
        eventually(kind.word(), || watching.found().findings.iter().any(|finding| finding.kind == kind));
    };
    eventually("two cuts are proved", || watching.found().cuts >= 2);
    assert!(watching.found().findings.is_empty(), "{:?}", watching.found());
    bad.commit(2);
    sees(Kind::Lost);
    bad.commit(1);
    sees(Kind::Regression);
    let producer = left_open(kafka, pipeline.output.as_ref().unwrap().as_str());
    sees(Kind::OpenTransaction);
    producer.abort_transaction(PATIENCE).expect("abort");
    bad.commit(2);

    let report = watching.finish(None).expect("a report");
    let kinds: Vec<Kind> = report.findings.iter().map(|finding| finding.kind).collect();
    assert_eq!(kinds, [Kind::Lost, Kind::Lost, Kind::Regression, Kind::OpenTransaction], "{report}");
    assert_eq!((report.source, report.output), (2, 0), "nobody reads what was aborted");
}
