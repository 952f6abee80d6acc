//! What becomes of a record that is refused as it is.

use super::*;

/// Refuses the first write of the open transaction, for sure.
fn refuse(worker: &mut Worker, flaw: Flaw) -> Write {
    let write = worker.transactions[0].writes[0].clone();
    let cause = AbortCause::Refused {
        target: write.target,
        partition: write.partition,
        flaw,
        suspects: Suspects::Each(vec![0]),
        detail: "no".to_owned(),
    };
    worker.end(TransactionResult::Aborted(cause));
    write
}

fn next(worker: &Worker) -> Write {
    worker.transactions[0].writes[0].clone()
}

#[test]
fn a_dead_letter_loses_its_texts_then_its_value_and_then_stops_its_task() {
    let mut worker = Worker::running(once(policy(&[])));
    worker.fetch(Lane::Source, vec![record(0, "a")]);
    worker.answer(fails(Class::Unknown));

    let whole = refuse(&mut worker, Flaw::TooLarge);
    assert_eq!(header(&whole.headers, "redrive-detail").as_deref(), Some("it broke"));
    let bare = refuse(&mut worker, Flaw::TooLarge);
    assert_eq!(header(&bare.headers, "redrive-detail"), None);
    assert_eq!(header(&bare.headers, "redrive-history"), None);
    assert_eq!((&bare.value, header(&bare.headers, "redrive-payload-ref")), (&whole.value, None));
    let reference = refuse(&mut worker, Flaw::TooLarge);
    assert_eq!((&reference.key, &reference.value), (&whole.key, &None));
    assert_eq!(header(&reference.headers, "redrive-payload-ref").as_deref(), Some("orders/0/0"));
    // Why it ended stays: a person must still verify its outcome.
    assert_eq!(header(&reference.headers, "redrive-class").as_deref(), Some("unknown"));
    assert_eq!(header(&reference.headers, "redrive-reason").as_deref(), Some("broken"));

    assert!(worker.transactions.is_empty());
    assert!(worker.core.blocked.contains(&P));
    worker.wait(1_000);
    assert_eq!(next(&worker).headers, reference.headers);
    worker.end(TransactionResult::Committed);
    assert!(worker.core.blocked.is_empty() && worker.core.search.is_empty());
}

#[test]
fn a_tier_copy_loses_its_texts_and_then_is_a_dead_letter_that_says_so() {
    let mut worker = Worker::running(once(policy(&[5])));
    worker.fetch(Lane::Source, vec![record(0, "a")]);
    worker.answer(fails(Class::Transient));

    refuse(&mut worker, Flaw::TooLarge);
    let bare = refuse(&mut worker, Flaw::TooLarge);
    assert_eq!(header(&bare.headers, "redrive-detail"), None);
    let dead = next(&worker);
    assert_eq!((dead.target, &dead.value), (Target::DeadLetter, &bare.value));
    assert_eq!(header(&dead.headers, "redrive-reason").as_deref(), Some("too-large"));
    assert_eq!(header(&dead.headers, "redrive-class").as_deref(), Some("transient"));
    assert_eq!(header(&dead.headers, "redrive-attempt").as_deref(), Some("1"));
    let detail = header(&dead.headers, "redrive-detail").unwrap();
    assert_eq!(detail, "`retry.5s` refuses it: no (2 bytes of key and value); before that: it broke");
}

#[test]
fn a_record_whose_output_is_invalid_is_a_dead_letter_refused_and_is_not_handled_again() {
    let mut worker = Worker::running(once(policy(&[5])));
    worker.fetch(Lane::Source, vec![record(0, "a")]);
    worker.answer(done());

    refuse(&mut worker, Flaw::Invalid);
    let dead = next(&worker);
    assert_eq!((dead.target, dead.value), (Target::DeadLetter, Some(Bytes::from_static(b"v"))));
    assert_eq!(header(&dead.headers, "redrive-reason").as_deref(), Some("refused"));
    assert_eq!(header(&dead.headers, "redrive-class").as_deref(), Some("permanent"));
    // The handler did its work once.
    assert_eq!(header(&dead.headers, "redrive-attempt").as_deref(), Some("1"));
    assert_eq!(header(&dead.headers, "redrive-executions").as_deref(), Some("1"));
    assert!(worker.deliveries.is_empty());
}

#[test]
fn a_hop_that_is_refused_is_a_dead_letter_of_the_class_it_had() {
    let mut worker = Worker::running(once(policy(&[5, 60])));
    worker.fetch(Lane::Tier(TierIndex(0)), vec![waiting(0, 100_000)]);
    worker.wait(6_000);
    assert_eq!(next(&worker).target, Target::Tier(TierIndex(1)));
    refuse(&mut worker, Flaw::Invalid);
    refuse(&mut worker, Flaw::Invalid);
    let dead = next(&worker);
    assert_eq!(dead.target, Target::DeadLetter);
    assert_eq!(header(&dead.headers, "redrive-class").as_deref(), Some("transient"));
    assert_eq!(header(&dead.headers, "redrive-attempt").as_deref(), Some("1"));
}

#[test]
fn what_stands_before_a_record_that_stops_its_task_is_written() {
    let mut worker = Worker::running(once(policy(&[])));
    worker.fetch(Lane::Source, vec![record(0, "a"), record(1, "b"), record(2, "c")]);
    (0..3).for_each(|_| {
        worker.answer(fails(Class::Permanent));
    });
    let cause = AbortCause::Refused {
        target: Target::DeadLetter,
        partition: P,
        flaw: Flaw::TooLarge,
        suspects: Suspects::Each(vec![1]),
        detail: "no".to_owned(),
    };
    worker.end(TransactionResult::Aborted(cause));
    worker.end(TransactionResult::Committed);
    for _ in 0..2 {
        assert_eq!(worker.transactions[0].records, 1);
        refuse(&mut worker, Flaw::TooLarge);
    }
    assert_eq!(worker.core.tasks[&P].lanes[0].committed, Offset(1));
    assert!(worker.core.blocked.contains(&P));
}
