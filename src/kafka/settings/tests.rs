use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer, DefaultConsumerContext};
use rdkafka::producer::{BaseProducer, DefaultProducerContext, Producer, ThreadedProducer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use super::*;
use crate::kafka::fixture;
use crate::topology::model::Text;

/// No call to the mock takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

fn with(property: &str, value: &str, shown: Shown) -> Kafka {
    let mut kafka = fixture::kafka("127.0.0.1:1");
    kafka.properties.insert(property.to_owned(), Text { plain: value.to_owned(), shown });
    kafka
}

#[test]
fn the_client_takes_the_settings_of_every_kind() {
    let (kafka, pipeline) = (fixture::kafka("127.0.0.1:1"), fixture::pipeline("p"));
    for config in [source_consumer(&kafka, &pipeline, "t.p.0.0"), lane_consumer(&kafka, &pipeline)] {
        let made: Result<BaseConsumer<_>, _> = create(&config, DefaultConsumerContext, &kafka);
        assert_eq!(made.err(), None);
    }
    for config in [transactional_producer(&kafka, &pipeline, "id", 1_000_000), admin(&kafka, "admin")] {
        let made: Result<BaseProducer<_>, _> = create(&config, DefaultProducerContext, &kafka);
        assert_eq!(made.err(), None);
    }
}

#[test]
fn users_overrule_defaults_and_never_what_carries_a_guarantee() {
    let pipeline = fixture::pipeline("p");

    let kafka = with("fetch.wait.max.ms", "7", Shown::Plain);
    assert_eq!(source_consumer(&kafka, &pipeline, "t.p.0.0").get("fetch.wait.max.ms"), Some("7"));

    let kafka = with("isolation.level", "read_uncommitted", Shown::Plain);
    assert_eq!(source_consumer(&kafka, &pipeline, "t.p.0.0").get("isolation.level"), Some("read_committed"));

    let kafka = with("enable.auto.commit", "true", Shown::Plain);
    assert_eq!(lane_consumer(&kafka, &pipeline).get("enable.auto.commit"), Some("false"));

    let kafka = with("acks", "1", Shown::Plain);
    assert_eq!(transactional_producer(&kafka, &pipeline, "id", 1000).get("acks"), Some("all"));
}

#[test]
fn another_name_of_our_property_is_no_way_around_it() {
    let (kafka, pipeline) = (with("queue.buffering.max.ms", "500", Shown::Plain), fixture::pipeline("p"));
    let config = transactional_producer(&kafka, &pipeline, "id", 1000);
    let native = config.create_native_config().unwrap();
    assert_eq!(native.get("linger.ms").unwrap().trim_end_matches('\0'), "0");
}

#[test]
fn an_unknown_property_is_named_and_a_secret_is_hidden() {
    let pipeline = fixture::pipeline("p");
    let kafka = with("no.such.property", "1", Shown::Plain);
    let made: Result<BaseConsumer<_>, _> =
        create(&source_consumer(&kafka, &pipeline, "t.p.0.0"), DefaultConsumerContext, &kafka);
    let text = made.err().unwrap().to_string();
    assert!(text.contains("`no.such.property`"), "{text}");

    let kafka = with("security.protocol", "hunter2", Shown::Masked);
    let made: Result<BaseConsumer<_>, _> =
        create(&source_consumer(&kafka, &pipeline, "t.p.0.0"), DefaultConsumerContext, &kafka);
    let text = made.err().unwrap().to_string();
    assert!(text.contains("`security.protocol`") && !text.contains("hunter2"), "{text}");
}

#[test]
fn transactions_take_as_long_as_the_topology_says_and_records_less() {
    let (kafka, mut pipeline) = (fixture::kafka("127.0.0.1:1"), fixture::pipeline("p"));
    pipeline.policy.flow.transaction_timeout = Duration::from_secs(40);
    let config = transactional_producer(&kafka, &pipeline, "id", 1000);
    assert_eq!(config.get("transaction.timeout.ms"), Some("40000"));
    assert_eq!(config.get("message.timeout.ms"), Some("32000"));
}

#[test]
fn the_client_takes_the_longest_session() {
    let (kafka, mut pipeline) = (fixture::kafka("127.0.0.1:1"), fixture::pipeline("p"));
    pipeline.workers.session_timeout = Duration::from_secs(30 * 60);
    let made: Result<BaseConsumer<_>, _> =
        create(&source_consumer(&kafka, &pipeline, "t.p.0.0"), DefaultConsumerContext, &kafka);
    assert_eq!(made.err(), None);
}

#[test]
fn the_client_takes_every_protocol_with_either_membership() {
    for protocol in [Protocol::Classic, Protocol::Consumer] {
        for membership in [Membership::Dynamic, Membership::Static] {
            let (mut kafka, mut pipeline) = (fixture::kafka("127.0.0.1:1"), fixture::pipeline("p"));
            (kafka.protocol, pipeline.workers.membership) = (protocol, membership);
            let config = source_consumer(&kafka, &pipeline, "t.p.0.0");
            let made: Result<BaseConsumer<_>, _> = create(&config, DefaultConsumerContext, &kafka);
            assert_eq!(made.err(), None, "{protocol:?} {membership:?}");
            let name = (membership == Membership::Static).then_some("t.p.0.0");
            assert_eq!(config.get("group.instance.id"), name);
        }
    }
}

#[test]
fn offsets_reach_a_coordinator_that_was_nowhere_to_be_found_for_a_while() {
    let (mut pipeline, unused) = (fixture::pipeline("mock"), fixture::kafka("127.0.0.1:1"));
    pipeline.policy.flow.transaction_timeout = Duration::from_millis(2_500);
    let mut config = lane_consumer(&unused, &pipeline);
    config.set("test.mock.num.brokers", "1");
    let consumer: BaseConsumer<_> = create(&config, DefaultConsumerContext, &unused).unwrap();
    let cluster = consumer.client().mock_cluster().unwrap();
    cluster.create_topic("mock.in", 1, 1).unwrap();
    let mut offsets = TopicPartitionList::new();
    offsets.add_partition_offset("mock.in", 0, Offset::Offset(1)).unwrap();
    // From here on it asks for no coordinator, and leaves the errors to the producer.
    consumer.committed_offsets(offsets.clone(), PATIENCE).unwrap();
    let kafka = fixture::kafka(&cluster.bootstrap_servers());
    let config = transactional_producer(&kafka, &pipeline, "id", 1_000_000);
    let producer: ThreadedProducer<_> = create(&config, DefaultProducerContext, &kafka).unwrap();
    producer.init_transactions(PATIENCE).unwrap();
    producer.begin_transaction().unwrap();

    // One more than the client asks again by itself.
    let nowhere = RDKafkaRespErr::RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE;
    cluster.request_errors(RDKafkaApiKey::FindCoordinator, &[nowhere; 3]);
    let (group, (sender, receiver)) = (consumer.group_metadata().unwrap(), channel());
    thread::spawn(move || {
        let sent = producer.send_offsets_to_transaction(&offsets, &group, Duration::from_secs(5));
        sender.send(sent).unwrap();
    });

    let sent = receiver.recv_timeout(PATIENCE).expect("it must not hang");
    assert_eq!(sent, Ok(()));
}
