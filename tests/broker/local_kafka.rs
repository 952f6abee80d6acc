//! The broker of the tests itself: what it is asked to keep, it keeps.

use crate::support::Kafka;

#[test]
fn records_and_port_survive_a_kill() {
    let kafka = Kafka::start();
    let topic = kafka.topic("survive", 3);
    kafka.produce(&topic, Some(2), &[(Some(b"k"), Some(b"v")), (None, Some(b"")), (Some(b""), None)]);
    let before = kafka.read(&topic);

    kafka.kill();
    kafka.restart();

    assert_eq!(kafka.read(&topic), before);
    let bytes: Vec<_> = before.into_iter().map(|found| (found.partition, found.key, found.value)).collect();
    assert_eq!(
        bytes,
        [
            (2, Some(b"k".to_vec()), Some(b"v".to_vec())),
            (2, None, Some(Vec::new())),
            (2, Some(Vec::new()), None)
        ]
    );
}

#[test]
fn a_killed_broker_is_given_up_before_it_leads_again_however_often_it_is_killed() {
    let kafka = Kafka::start();
    for _ in 0..2 {
        kafka.kill();
        kafka.restart();
        // Given up only then, all its partitions would be without a leader under those who use them.
        assert!(!kafka.log().contains("because its session has timed out"));
    }
}

#[test]
fn two_brokers_run_side_by_side_and_share_nothing() {
    let (one, other) = (Kafka::start(), Kafka::start());
    assert_ne!(one.bootstrap(), other.bootstrap());
    one.create("alike", 1, &[]);
    other.create("alike", 1, &[]);
    one.produce("alike", Some(0), &[(None, Some(b"one"))]);

    assert_eq!(one.read("alike").len(), 1);
    assert_eq!(other.read("alike"), []);
}
