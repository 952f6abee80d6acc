//! Lanes whose topics are gone.

use super::*;

const TIER: Lane = Lane::Tier(TierIndex(0));

fn lanes(transaction: &Transaction) -> Vec<Lane> {
    transaction.tasks[0].offsets.iter().map(|(lane, _)| *lane).collect()
}

fn soon_idle() -> Policy {
    let mut policy = once(policy(&[5]));
    policy.flow.recommit = Duration::from_millis(1_000);
    policy
}

/// The transaction that keeps offsets from expiring.
fn recommit(worker: &mut Worker) -> Transaction {
    worker.wait(1_000);
    worker.end(TransactionResult::Committed)
}

#[test]
fn the_offset_of_a_lane_is_kept_from_expiring_while_its_topic_is_there_only() {
    let mut worker = Worker::running(soon_idle());
    assert_eq!(lanes(&recommit(&mut worker)), [Lane::Source, Lane::Control, TIER]);
    worker.tell(Event::Absent { lane: TIER });
    assert_eq!(lanes(&recommit(&mut worker)), [Lane::Source, Lane::Control]);
    worker.tell(Event::Present { lane: TIER });
    assert_eq!(lanes(&recommit(&mut worker)), [Lane::Source, Lane::Control, TIER]);
    assert!(worker.breaches().is_empty());
}

#[test]
fn what_was_read_of_a_lane_is_written_only_with_its_offset() {
    let mut worker = Worker::running(once(policy(&[5])));
    worker.fetch(TIER, vec![waiting(0, 5_000)]);
    worker.wait(5_000);
    worker.tell(Event::Absent { lane: TIER });
    worker.answer(done());
    assert!(worker.transactions.is_empty());
    assert!(worker.core.poll_timeout(worker.now()) > Some(Duration::ZERO), "it rests");
    worker.tell(Event::Present { lane: TIER });
    let transaction = worker.end(TransactionResult::Committed);
    assert_eq!(transaction.tasks[0].offsets.last(), Some(&(TIER, Offset(1))));
    assert_eq!(transaction.writes.len(), 1);
    assert!(worker.breaches().is_empty());
}

#[test]
fn without_its_source_a_task_commits_nothing_that_does_not_say_where_it_stands() {
    let mut worker = Worker::running(soon_idle());
    worker.tell(Event::Absent { lane: Lane::Source });
    assert!(lanes(&recommit(&mut worker)).contains(&Lane::Source));
}

#[test]
fn a_task_taken_over_without_the_topic_of_a_lane_begins_at_once_and_reads_the_others() {
    let mut worker = Worker::new(soon_idle());
    worker.tell(Event::Assigned(vec![P]));
    let epoch = worker.epoch();
    let committed = LaneStart::Committed(Offset(0));
    let lanes_found = vec![committed, LaneStart::Absent, LaneStart::Absent];
    let found =
        Restored { mark: None, founding: Founding(1), lanes: lanes_found, topics: vec![None; 3], keys: None };
    worker.tell(Event::Restored { partition: P, epoch, found });
    let fetched = |action: &Action| match action {
        Action::Fetch { lane, .. } => Some(*lane),
        _ => None,
    };
    assert_eq!(worker.others.iter().filter_map(fetched).collect::<Vec<_>>(), [Lane::Source]);
    assert_eq!(lanes(&recommit(&mut worker)), [Lane::Source]);
    worker.tell(Event::Revoked(vec![P]));
    if !worker.transactions.is_empty() {
        assert_eq!(lanes(&worker.end(TransactionResult::Committed)), [Lane::Source]);
    }
    assert!(worker.notes.iter().all(|(lane, ..)| lane == "source"), "{:?}", worker.notes);
    assert!(worker.others.iter().any(|action| matches!(action, Action::GiveBack { .. })));
    assert!(worker.breaches().is_empty());
}
