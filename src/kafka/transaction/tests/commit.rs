use super::*;
use crate::core::event::AbortCause;
use crate::core::time::Timestamp;

#[test]
fn committed_records_are_visible_with_their_bytes() {
    let rig = Rig::new();
    let header = |name, value: Option<&'static [u8]>| Header {
        name: HeaderName::from_static(name),
        value: value.map(Bytes::from_static),
    };
    let headers = vec![header("a", None), header("a", Some(b"")), header("b", Some(b"\xff"))];
    let bare = Write { key: None, value: None, headers, ..write(TIER, "") };
    let empty =
        Write { key: Some(Bytes::new()), value: Some(Bytes::new()), headers: Vec::new(), ..write(TIER, "") };

    let result = rig.transact(transaction(1, vec![bare, empty]));

    assert_eq!(result, TransactionResult::Committed);
    let found = rig.broker.read(rig.topic(TIER));
    assert!(found.iter().all(|found| found.partition == TASK.0));
    assert_eq!(found[0].key, None);
    assert_eq!(found[0].value, None);
    assert_eq!(
        found[0].headers,
        [("a".into(), None), ("a".into(), Some(vec![])), ("b".into(), Some(vec![0xff]))]
    );
    assert_eq!(found[1].key, Some(vec![]));
    assert_eq!(found[1].value, Some(vec![]));
}

#[test]
fn a_record_carries_the_time_that_it_was_given_or_that_of_its_writing() {
    let rig = Rig::new();
    assert_eq!(rig.transact(transaction(1, vec![write(TIER, "now")])), TransactionResult::Committed);
    let now = rig.broker.read(rig.topic(TIER))[0].timestamp.unwrap();

    // Not long ago, or the topic's retention would take it away.
    let given = Timestamp::from_millis(now - 60_000);
    let dated = Write { timestamp: Some(given), ..write(Target::DeadLetter, "dated") };
    assert_eq!(rig.transact(transaction(2, vec![dated])), TransactionResult::Committed);
    assert_eq!(rig.broker.read(rig.topic(Target::DeadLetter))[0].timestamp, Some(now - 60_000));
}

#[test]
fn output_goes_to_the_partition_of_its_key_as_other_producers_would_send_it() {
    let rig = Rig::new();
    let keys: Vec<String> = (0..20).map(|number| format!("key-{number}")).collect();
    let writes =
        keys.iter().map(|key| Write { key: Some(Bytes::from(key.clone())), ..write(Target::Output, "v") });

    assert_eq!(rig.transact(transaction(1, writes.collect())), TransactionResult::Committed);

    for found in rig.broker.read(rig.topic(Target::Output)) {
        assert_eq!(found.partition, java_partition(&found.key.unwrap(), 3));
    }
}

/// `Utils.toPositive(Utils.murmur2(key)) % partitions` of Kafka's own producer.
fn java_partition(key: &[u8], partitions: i32) -> i32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c_u32 ^ u32::try_from(key.len()).unwrap();
    let mut words = key.chunks_exact(4);
    for word in words.by_ref() {
        let mut word = u32::from_le_bytes(word.try_into().unwrap()).wrapping_mul(M);
        word ^= word >> 24;
        hash = hash.wrapping_mul(M) ^ word.wrapping_mul(M);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        for (place, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * place);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^= hash >> 15;
    i32::try_from(hash & 0x7fff_ffff).unwrap() % partitions
}

#[test]
fn two_producers_take_turns_and_the_order_of_a_partition_is_that_of_the_transactions() {
    let rig = Rig::new();
    for number in 1..=20 {
        let result = rig.transact(transaction(number, vec![write(TIER, number.to_string())]));
        assert_eq!(result, TransactionResult::Committed);
    }
    let expected: Vec<String> = (1..=20).map(|number: u64| number.to_string()).collect();
    assert_eq!(rig.values(TIER), expected);
    assert_eq!(rig.read_back(), [(TASK, Some(mark(20)))]);
}

#[test]
fn a_transaction_may_hold_more_records_than_the_queue_of_the_client() {
    let rig = Rig::new();
    let writes = (0..120_000).map(|_| Write { headers: Vec::new(), ..write(TIER, "v") }).collect();
    assert_eq!(rig.transact(transaction(1, writes)), TransactionResult::Committed);
    assert_eq!(rig.values(TIER).len(), 120_000);
}

#[test]
fn an_old_epoch_aborts_the_whole_transaction_and_nothing_of_it_is_visible() {
    let rig = Rig::new();
    rig.epochs.set(TASK, EPOCH.next());

    let result = rig.transact(transaction(1, vec![write(TIER, "late")]));

    assert!(matches!(result, TransactionResult::Aborted(AbortCause::Passing { .. })), "{result:?}");
    assert_eq!(rig.values(TIER), [""; 0]);
    assert_eq!(rig.broker.read_uncommitted(rig.topic(TIER)).len(), 1);
    assert_eq!(rig.read_back(), [(TASK, None)]);

    rig.epochs.set(TASK, EPOCH);
    assert_eq!(rig.transact(transaction(1, vec![write(TIER, "mine")])), TransactionResult::Committed);
    assert_eq!(rig.values(TIER), ["mine"]);
}

#[test]
fn a_member_that_left_the_group_cannot_commit() {
    let rig = Rig::new();
    let stale = rig.group();
    drop(rig.member);
    let _successor = member(&rig.kafka, &rig.pipeline);

    rig.transactor.transact(Box::new(transaction(1, vec![write(TIER, "late")])), stale);

    let result = super::result(&rig.answers);
    assert!(matches!(result, TransactionResult::Aborted(AbortCause::Passing { .. })), "{result:?}");
    assert_eq!(rig.broker.read(rig.pipeline.tiers[0].topic.name.as_str()), []);
}
