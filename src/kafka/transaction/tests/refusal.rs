use super::*;
use crate::core::event::{AbortCause, Flaw, Suspects};

fn unwritable(result: &TransactionResult) -> Option<Target> {
    if let TransactionResult::Aborted(AbortCause::Unwritable { target, .. }) = result {
        Some(*target)
    } else {
        None
    }
}

/// Tries until the result says more than "again": a producer that is made anew waits for the coordinator, which waits
/// for the leader of a topic that is no more.
fn until_named(rig: &Rig, transaction: &Transaction) -> TransactionResult {
    let again =
        |result: &TransactionResult| matches!(result, TransactionResult::Aborted(AbortCause::Passing { .. }));
    let mut result = rig.transact(transaction.clone());
    for _ in 0..10 {
        if !again(&result) {
            break;
        }
        result = rig.transact(transaction.clone());
    }
    result
}

#[test]
fn a_record_too_large_for_its_topic_is_refused_and_the_next_transactions_commit() {
    let rig = Rig::new();
    let large = write(Target::DeadLetter, vec![b'x'; 2_000_000]);

    let result = rig.transact(transaction(1, vec![write(TIER, "small"), large]));

    let TransactionResult::Aborted(AbortCause::Refused { target, flaw, suspects, .. }) = result else {
        panic!("{result:?}");
    };
    assert_eq!((target, flaw), (Target::DeadLetter, Flaw::TooLarge));
    assert_eq!(suspects, Suspects::Each(vec![1]), "it is larger than a batch: nobody else fell with it");
    for number in 1..=4 {
        let next = transaction(number, vec![write(Target::DeadLetter, "fits"), write(TIER, "again")]);
        assert_eq!(rig.transact(next), TransactionResult::Committed);
    }
    assert_eq!(rig.values(TIER), ["again"; 4]);
    assert_eq!(rig.values(Target::DeadLetter), ["fits"; 4]);
}

#[test]
fn a_record_too_large_for_the_client_is_refused_and_the_next_transactions_commit() {
    let rig = Rig::new();
    let mut writes: Vec<Write> = (0..500).map(|_| write(TIER, "small")).collect();
    writes.push(write(TIER, vec![b'x'; 100_000_001]));

    let result = rig.transact(transaction(1, writes));

    let TransactionResult::Aborted(AbortCause::Refused { suspects, .. }) = result else {
        panic!("{result:?}");
    };
    assert_eq!(suspects, Suspects::Each(vec![500]), "the client names it, and no search is needed");
    for number in 1..=4 {
        let result = rig.transact(transaction(number, vec![write(TIER, "again")]));
        assert_eq!(result, TransactionResult::Committed);
    }
    assert_eq!(rig.values(TIER), ["again"; 4]);
}

#[test]
fn a_missing_topic_is_unwritable_until_it_is_there() {
    let rig = Rig::new();
    let topic = rig.topic(TIER).to_owned();
    assert_eq!(rig.transact(transaction(1, vec![write(TIER, "1")])), TransactionResult::Committed);
    rig.broker.delete(&topic);

    let both = || vec![write(Target::Output, "out"), write(TIER, "2")];
    let probed = || Transaction { probe: Some(TIER), ..transaction(2, both()) };
    for transaction in [transaction(2, both()), transaction(2, both()), probed()] {
        let result = until_named(&rig, &transaction);
        assert_eq!(unwritable(&result), Some(TIER), "{result:?}");
    }

    rig.broker.create(&topic, 3, &[]);
    let mut result = rig.transact(probed());
    // The broker may not have told everybody yet.
    for _ in 0..20 {
        if result == TransactionResult::Committed {
            break;
        }
        result = rig.transact(probed());
    }
    assert_eq!(result, TransactionResult::Committed);
    assert_eq!(rig.values(TIER), ["2"]);
    assert_eq!(rig.values(Target::Output), ["out"]);
}

#[test]
fn of_several_topics_the_missing_one_is_named() {
    let rig = Rig::new();
    let all = || vec![write(Target::Output, "out"), write(TIER, "late"), write(Target::DeadLetter, "dead")];
    // Both producers know every topic, so it is the coordinator that refuses all of them together.
    for number in 1..=2 {
        assert_eq!(rig.transact(transaction(number, all())), TransactionResult::Committed);
    }
    rig.broker.delete(rig.topic(Target::DeadLetter));

    for _ in 0..2 {
        let result = rig.transact(transaction(3, all()));
        assert_eq!(unwritable(&result), Some(Target::DeadLetter), "{result:?}");
    }
}

#[test]
fn a_missing_partition_is_unwritable() {
    let rig = Rig::new();
    rig.epochs.set(Partition(7), EPOCH);
    let beyond = Write { partition: Partition(7), ..write(TIER, "nowhere") };

    let result = rig.transact(transaction(1, vec![beyond]));

    assert_eq!(unwritable(&result), Some(TIER), "{result:?}");
    assert_eq!(rig.transact(transaction(1, vec![write(TIER, "here")])), TransactionResult::Committed);
}

#[test]
fn small_records_go_through_a_topic_that_takes_small_batches_only() {
    let rig = Rig::new();
    let topic = rig.broker.name("small");
    rig.broker.create(&topic, 3, &[("max.message.bytes", "10000")]);
    let mut pipeline = fixture::pipeline(&rig.pipeline.name);
    pipeline.dead_letter.name = crate::core::position::TopicName::new(&topic);
    let pipeline = Arc::new(pipeline);
    let (sender, answers) = channel();
    let settings = TransactorSettings {
        transactional_id: format!("{topic}.small"),
        batch_bytes: 10_000,
        ..settings_of(&rig.kafka, &pipeline)
    };
    let telemetry = telemetry(&rig.metrics, &rig.pipeline);
    let transactor = Transactor::start(
        settings,
        Arc::clone(&rig.epochs),
        telemetry,
        &mut |_| Patience::TryAgain,
        move |answer| {
            let _ = sender.send(answer);
        },
    );

    let writes = (0..1_000).map(|_| write(Target::DeadLetter, vec![b'x'; 500])).collect();
    transactor.unwrap().transact(Box::new(transaction(1, writes)), rig.group());

    assert_eq!(result(&answers), TransactionResult::Committed);
    assert_eq!(rig.broker.read(&topic).len(), 1_000);
}
