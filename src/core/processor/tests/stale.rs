//! Tasks whose positions may be old.

use super::*;
use crate::core::position::{OffsetRange, TopicName};

fn ranges() -> Vec<OffsetRange> {
    let range = |topic: &str, from, to| OffsetRange {
        topic: TopicName::new(topic),
        partition: P,
        from: Offset(from),
        to: Offset(to),
    };
    vec![range("orders", 100, 200), range("shop.orders.retry.5s", 3, 4)]
}

/// A worker whose task 0 has old positions.
fn stale() -> Worker {
    let mut worker = Worker::new(policy(&[5]));
    worker.tell(Event::Assigned(vec![P]));
    let lanes = vec![
        LaneStart::Stale { from: Offset(100), to: Offset(200) },
        LaneStart::Committed(Offset(7)),
        LaneStart::Stale { from: Offset(3), to: Offset(4) },
    ];
    let epoch = worker.epoch();
    let found = Restored { mark: None, founding: Founding(1), lanes, topics: Vec::new(), keys: None };
    worker.tell(Event::Restored { partition: P, epoch, found });
    worker
}

fn accept(worker: &mut Worker, ranges: &[OffsetRange]) -> Result<(), NotAccepted> {
    let accepted = worker.core.accept_repeats(P, ranges, worker.now());
    worker.tell(Event::Tick);
    accepted
}

fn asked(worker: &Worker) -> Vec<Lane> {
    let lane = |action: &Action| match action {
        Action::Fetch { lane, .. } => Some(*lane),
        _ => None,
    };
    worker.others.iter().filter_map(lane).collect()
}

#[test]
fn a_task_with_old_positions_reads_its_control_lane_only_and_says_what_may_be_repeated() {
    let mut worker = stale();
    assert_eq!(asked(&worker), [Lane::Control]);
    assert!(worker.others.contains(&Action::Report(Report::Stale { partition: P, ranges: ranges() })));
    worker.wait(600_000);
    assert!(worker.transactions.is_empty() && worker.notes.is_empty(), "the notes stay as they are");
}

#[test]
fn what_is_obeyed_while_a_task_waits_is_committed_with_a_mark_that_says_so() {
    let mut worker = stale();
    worker.fetch(Lane::Control, vec![record(7, "")]);
    let transaction = worker.end(TransactionResult::Committed);
    assert_eq!(transaction.tasks[0].mark.going, Going::Stale);
    assert!(transaction.tasks[0].offsets.contains(&(Lane::Control, Offset(8))));
    assert_eq!(source_offset(&transaction), Offset(100));
    assert!(worker.notes.is_empty());
}

#[test]
fn only_exactly_what_may_be_repeated_is_accepted() {
    let mut worker = stale();
    let others = [&ranges()[..1], &[], &[ranges(), ranges()].concat()];
    for other in others {
        let refused = accept(&mut worker, other).expect_err("it is refused").to_string();
        assert!(refused.contains("orders/0/100-200 shop.orders.retry.5s/0/3-4"), "{refused}");
    }
    assert_eq!(asked(&worker), [Lane::Control]);
    let mut running = Worker::running(policy(&[5]));
    assert_eq!(accept(&mut running, &ranges()), Err(NotAccepted::NothingStale { partition: P }));
}

#[test]
fn an_accepted_task_commits_its_start_and_then_reads_all_lanes() {
    let mut worker = stale();
    worker.others.clear();
    let mut turned = ranges();
    turned.reverse();
    accept(&mut worker, &turned).expect("it is accepted");
    assert_eq!(asked(&worker), [], "not before it is committed");
    let aborted = worker.end(passing());
    worker.wait(20);
    let transaction = worker.end(TransactionResult::Committed);
    assert_eq!(transaction.tasks[0].mark.going, Going::On);
    assert_eq!(transaction.tasks[0].offsets, aborted.tasks[0].offsets);
    let standing = |lane: &str, offset| (lane.to_owned(), Offset(offset), Standing::Exact);
    assert!(worker.notes.contains(&standing("source", 100)), "{:?}", worker.notes);
    assert!(worker.notes.contains(&standing("retry.5s", 3)));
    assert!(worker.others.contains(&Action::Report(Report::RepeatsAccepted { partition: P })));
    assert_eq!(asked(&worker), [Lane::Tier(TierIndex(0)), Lane::Source]);
    assert!(!worker.others.iter().any(|action| matches!(action, Action::Open { .. })), "they are open");
}

#[test]
fn a_task_that_nobody_has_accepted_goes_back_without_a_note() {
    let mut worker = stale();
    worker.tell(Event::Drain);
    assert!(worker.transactions.is_empty() && worker.notes.is_empty());
    assert_eq!(worker.others.last(), Some(&Action::Stop(StopReason::Drained)));
}

#[test]
fn old_positions_without_anything_behind_them_are_no_question() {
    let mut worker = Worker::new(policy(&[]));
    worker.tell(Event::Assigned(vec![P]));
    let lanes = vec![LaneStart::Stale { from: Offset(5), to: Offset(5) }, LaneStart::Fresh(Offset(0))];
    let epoch = worker.epoch();
    let found = Restored { mark: None, founding: Founding(1), lanes, topics: Vec::new(), keys: None };
    worker.tell(Event::Restored { partition: P, epoch, found });
    worker.end(TransactionResult::Committed);
    assert_eq!(asked(&worker), [Lane::Control, Lane::Source]);
}
