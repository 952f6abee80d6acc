use rdkafka::TopicPartitionList;

use super::*;
use crate::kafka::producer::Producer;

#[test]
fn after_a_commit_its_mark_comes_back_and_without_one_none() {
    let rig = Rig::new();
    assert_eq!(rig.read_back(), [(TASK, None)]);
    assert_eq!(rig.transact(transaction(7, Vec::new())), TransactionResult::Committed);
    assert_eq!(rig.read_back(), [(TASK, Some(mark(7)))]);

    rig.transactor.read_back(TransactionId(1), vec![Partition(0), TASK]);
    assert_eq!(marks(&rig.answers), [(Partition(0), None), (TASK, Some(mark(7)))]);
}

#[test]
fn what_a_dead_process_left_open_is_aborted_before_its_marks_are_told() {
    let rig = Rig::new();
    assert_eq!(rig.transact(transaction(1, Vec::new())), TransactionResult::Committed);
    let group = rig.group();
    rig.transactor.end();

    // A process with the same id that is gone between sending its offsets and the commit.
    let id = format!("{}.0.0.0", rig.pipeline.group);
    let config = settings::transactional_producer(&rig.kafka, &rig.pipeline, &id, 1_000_000);
    let dead = Producer::make(&config, &rig.kafka).unwrap();
    dead.initialise(PATIENCE).unwrap();
    dead.begin().unwrap();
    dead.send(rig.pipeline.tiers[0].topic.name.as_str(), Some(TASK), 0, &write(TIER, "open")).unwrap();
    dead.wait_for_deliveries(PATIENCE).unwrap();
    let mut offsets = TopicPartitionList::new();
    let mut element = offsets.add_partition(rig.pipeline.source.as_str(), TASK.0);
    element.set_offset(rdkafka::Offset::Offset(9)).unwrap();
    element.set_metadata(mark(9).to_string());
    dead.send_offsets(&offsets, &group, PATIENCE).unwrap();
    drop(dead);

    let (transactor, answers) = start(&rig.kafka, &rig.pipeline, &rig.epochs, &Metrics::new("t"));
    transactor.read_back(TransactionId(9), vec![TASK]);

    assert_eq!(marks(&answers), [(TASK, Some(mark(1)))]);
    assert_eq!(rig.broker.read(rig.pipeline.tiers[0].topic.name.as_str()), []);
}

#[test]
fn offsets_of_all_lanes_are_those_of_the_transaction() {
    let rig = Rig::new();
    assert_eq!(rig.transact(transaction(4, Vec::new())), TransactionResult::Committed);

    let reader: BaseConsumer = rig.broker.config().set("group.id", &rig.pipeline.group).create().unwrap();
    let mut list = TopicPartitionList::new();
    for lane in [Lane::Source, Lane::Tier(TierIndex(0)), Lane::Tier(TierIndex(1))] {
        list.add_partition(rig.pipeline.lane_topic(lane).as_str(), TASK.0);
    }
    let found = reader.committed_offsets(list, PATIENCE).unwrap();
    let offsets: Vec<_> = found.elements().iter().map(|element| element.offset().to_raw()).collect();
    drop(found);
    assert_eq!(offsets, [Some(4), Some(5), rdkafka::Offset::Invalid.to_raw()]);
}
