//! What the client itself answers, without a broker's error.

use rdkafka::mocking::MockCoordinator;
use rdkafka::types::RDKafkaRespErr::{
    RD_KAFKA_RESP_ERR_NO_ERROR, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED,
};

use super::*;
use crate::kafka::producer::{Producer, Trouble};

fn result(answer: Answer) -> TransactionResult {
    let Answer::Transacted { result, .. } = answer else { panic!("{answer:?}") };
    result
}

fn tier(rig: &Rig) -> &str {
    rig.pipeline.tiers[0].topic.name.as_str()
}

#[test]
fn a_record_too_large_for_the_client_is_refused_and_the_producer_goes_on() {
    let rig = Rig::new();
    let running = rig.start().unwrap();
    let large = vec![b'x'; 100_000_001];
    let found = result(rig.transact(&running, 1, &[b"small", &large]));
    assert_eq!(ends(&rig, &running, found, RDKafkaApiKey::Produce), Ends::Refused);
    assert_eq!(result(rig.transact(&running, 1, &[b"small"])), TransactionResult::Committed);
}

#[test]
fn a_topic_that_the_metadata_show_as_denied_is_unwritable_and_the_producer_goes_on() {
    let rig = Rig::new();
    rig.cluster().topic_error(tier(&rig), RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED).unwrap();
    let running = rig.start().unwrap();
    let found = result(rig.transact(&running, 1, &[b"value"]));
    let found = ends(&rig, &running, found, RDKafkaApiKey::Produce);
    assert!(matches!(found, Ends::Unwritable | Ends::UnwritableAndRemade), "{found:?}");
}

#[test]
fn a_partition_without_a_leader_is_unwritable_once_its_records_ran_out_of_time() {
    let rig = Rig::new();
    let running = rig.start().unwrap();
    rig.cluster().partition_leader(tier(&rig), TASK.0, None).unwrap();
    let found = result(rig.transact(&running, 1, &[b"value"]));
    assert_eq!(ends(&rig, &running, found, RDKafkaApiKey::Produce), Ends::UnwritableAndRemade);
    rig.cluster().partition_leader(tier(&rig), TASK.0, Some(1)).unwrap();
    assert_eq!(result(rig.transact(&running, 1, &[b"value"])), TransactionResult::Committed);
}

#[test]
fn transactions_go_on_with_a_coordinator_that_moves() {
    let rig = Rig::of_brokers(2);
    let running = rig.start().unwrap();
    for number in 1..=4 {
        let to = if number % 2 == 0 { 1 } else { 2 };
        for slot in 0..2 {
            let id = format!("t.mock.0.0.{slot}");
            rig.cluster().coordinator(MockCoordinator::Transaction(id), to).unwrap();
        }
        rig.cluster().coordinator(MockCoordinator::Group(rig.pipeline.group.clone()), to).unwrap();
        let found = result(rig.transact(&running, number, &[b"value"]));
        assert_eq!(ends(&rig, &running, found, RDKafkaApiKey::EndTxn), Ends::Committed);
    }
}

#[test]
fn a_commit_that_is_answered_late_is_waited_for_on_the_same_producer() {
    let rig = Rig::new();
    let running = rig.start().unwrap();
    // Longer than one call waits.
    rig.answer(RDKafkaApiKey::EndTxn, RD_KAFKA_RESP_ERR_NO_ERROR, Duration::from_millis(5_500));
    let found = result(rig.transact(&running, 1, &[b"value"]));
    assert_eq!(ends(&rig, &running, found, RDKafkaApiKey::EndTxn), Ends::Committed);
}

#[test]
fn a_commit_without_an_answer_is_read_back() {
    let rig = Rig::new();
    let running = rig.start().unwrap();
    // Longer than the brokers may take to decide; the client asks a second time by itself.
    for _ in 0..10 {
        rig.answer(RDKafkaApiKey::EndTxn, RD_KAFKA_RESP_ERR_NO_ERROR, PATIENCE);
    }
    let found = result(rig.transact(&running, 1, &[b"value"]));
    assert_eq!(ends(&rig, &running, found, RDKafkaApiKey::EndTxn), Ends::UnknownAndReadBack);
}

#[test]
fn a_commit_that_runs_out_of_time_before_it_is_sent_may_be_repeated() {
    let rig = Rig::new();
    let config = settings::transactional_producer(&rig.kafka(), &rig.pipeline, "t.flush", 1_000_000);
    let producer = Producer::make(&config, &rig.kafka()).unwrap();
    producer.initialise(PATIENCE).unwrap();
    producer.begin().unwrap();
    rig.cluster().broker_round_trip_time(-1, Duration::from_millis(500)).unwrap();
    let write = transaction(1, &[b"value"]).writes.remove(0);
    producer.send(tier(&rig), Some(TASK), 0, &write).unwrap();
    let early = producer.commit(Duration::from_millis(50));
    assert!(matches!(early, Err(Trouble::Again(_))), "{early:?}");
    assert_eq!(producer.commit(PATIENCE), Ok(()));
}

#[test]
fn an_error_without_any_flag_leaves_a_producer_that_nobody_trusts() {
    let rig = Rig::new();
    let config = settings::transactional_producer(&rig.kafka(), &rig.pipeline, "t.flags", 1_000_000);
    let producer = Producer::make(&config, &rig.kafka()).unwrap();
    producer.initialise(PATIENCE).unwrap();
    // There is nothing to commit.
    let found = producer.commit(PATIENCE);
    assert!(matches!(found, Err(Trouble::Broken(_))), "{found:?}");
}
