//! The end of a task on this worker.

use super::*;

#[test]
fn a_revoked_task_commits_what_is_settled_before_it_is_given_back() {
    let mut worker = Worker::running(policy(&[]));
    worker.fetch(Lane::Source, vec![record(0, "a"), record(1, "a")]);
    worker.tell(Event::Revoked(vec![P]));
    worker.answer(done());
    assert!(worker.deliveries.is_empty(), "nothing new begins");
    let given = |action: &Action| matches!(action, Action::GiveBack { .. });
    assert!(!worker.others.iter().any(given));
    assert_eq!(source_offset(&worker.end(TransactionResult::Committed)), Offset(1));
    assert!(worker.others.iter().any(given));
}

#[test]
fn a_revoked_task_waits_for_a_running_handler_no_longer_than_its_bound() {
    let mut worker = Worker::running(policy(&[]));
    worker.fetch(Lane::Source, vec![record(0, "a")]);
    worker.tell(Event::Revoked(vec![P]));
    worker.wait(4_999);
    assert!(!worker.others.iter().any(|action| matches!(action, Action::GiveBack { .. })));
    worker.wait(1);
    assert!(worker.others.iter().any(|action| matches!(action, Action::GiveBack { .. })));
    worker.answer(done());
    assert!(worker.transactions.is_empty(), "the answer came too late");
}

#[test]
fn answers_for_an_older_epoch_are_dropped() {
    let mut worker = Worker::running(policy(&[]));
    worker.fetch(Lane::Source, vec![record(0, "a")]);
    worker.tell(Event::Lost(vec![P]));
    worker.tell(Event::Assigned(vec![P]));
    worker.answer(done());
    worker.wait(1_000);
    assert!(worker.transactions.is_empty());
    assert!(worker.breaches().is_empty());
}

#[test]
fn draining_ends_with_everything_settled_committed_and_given_back() {
    let mut worker = Worker::running(policy(&[]));
    worker.fetch(Lane::Source, vec![record(0, "a"), record(1, "b")]);
    worker.tell(Event::Drain);
    worker.answer(done());
    worker.answer(done());
    assert_eq!(source_offset(&worker.end(TransactionResult::Committed)), Offset(2));
    assert_eq!(worker.others.last(), Some(&Action::Stop(StopReason::Drained)));
}

#[test]
fn draining_says_how_much_could_not_be_committed() {
    let mut worker = Worker::running(policy(&[]));
    worker.fetch(Lane::Source, vec![record(0, "a"), record(1, "b")]);
    worker.answer(done());
    worker.answer(done());
    worker.tell(Event::Drain);
    while worker.millis < 19_000 {
        worker.end(passing());
        worker.wait(2_000);
    }
    worker.end(passing());
    worker.wait(1_000);
    assert_eq!(worker.others.last(), Some(&Action::Stop(StopReason::CutOff { records: 2 })));
}

#[test]
fn draining_waits_for_an_open_transaction_no_longer_than_its_timeout() {
    let mut worker = Worker::running(policy(&[]));
    worker.fetch(Lane::Source, vec![record(0, "a")]);
    worker.answer(done());
    worker.tell(Event::Drain);
    worker.end(TransactionResult::Unknown);
    let timeout = worker.core.policy.flow.transaction_timeout;
    let bound = u64::try_from((worker.core.policy.flow.drain + timeout).as_millis()).unwrap();
    worker.wait(bound - 1);
    assert!(!worker.others.iter().any(|action| matches!(action, Action::Stop(_))));
    assert_eq!(worker.core.poll_timeout(worker.now()), Some(Duration::from_millis(1)));
    worker.wait(1);
    assert_eq!(worker.others.last(), Some(&Action::Stop(StopReason::CutOff { records: 1 })));
}

#[test]
fn draining_says_what_a_topic_that_cannot_be_written_keeps_from_its_commit() {
    let mut worker = Worker::running(policy(&[]));
    worker.fetch(Lane::Source, vec![record(0, "a")]);
    worker.answer(done());
    let (target, detail) = (Target::Output, "unknown topic".to_owned());
    worker.end(TransactionResult::Aborted(AbortCause::Unwritable { target, detail }));
    worker.tell(Event::Drain);
    let note = worker.end(TransactionResult::Committed);
    assert_eq!(note.records, 0, "where it stands is noted");
    assert_eq!(worker.others.last(), Some(&Action::Stop(StopReason::CutOff { records: 1 })));
}
