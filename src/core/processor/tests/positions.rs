//! When positions are noted in the state topic, and lanes that gave nothing more.

use super::*;

fn source(offset: i64, standing: Standing) -> (String, Offset, Standing) {
    ("source".to_owned(), Offset(offset), standing)
}

fn control(offset: i64) -> (String, Offset, Standing) {
    ("control".to_owned(), Offset(offset), Standing::Exact)
}

/// One record is read, handled and committed.
fn move_on(worker: &mut Worker, offset: i64) -> Transaction {
    worker.fetch(Lane::Source, vec![record(offset, "a")]);
    worker.answer(done());
    worker.end(TransactionResult::Committed)
}

fn noted(worker: &mut Worker) -> Vec<(String, Offset, Standing)> {
    std::mem::take(&mut worker.notes)
}

fn pass(worker: &mut Worker, lane: Lane, next: i64) {
    let epoch = worker.epoch();
    worker.tell(Event::Passed { partition: P, epoch, lane, next: Offset(next) });
}

#[test]
fn the_first_transaction_that_moves_a_lane_notes_that_it_may_go_on() {
    let mut worker = Worker::running(policy(&[]));
    move_on(&mut worker, 0);
    assert_eq!(noted(&mut worker), [source(1, Standing::AtLeast)]);
    move_on(&mut worker, 1);
    assert_eq!(noted(&mut worker), [], "it may be a minute old");
}

#[test]
fn a_minute_later_a_resting_lane_is_noted_exactly_and_its_next_record_takes_that_back() {
    let mut worker = Worker::running(policy(&[]));
    worker.notes_by_themselves = Answers::Committed;
    move_on(&mut worker, 0);
    move_on(&mut worker, 1);
    noted(&mut worker);
    worker.wait(60_000);
    assert_eq!(noted(&mut worker), [source(2, Standing::Exact), control(0)]);
    worker.wait(600_000);
    assert_eq!(noted(&mut worker), [], "nothing has changed");
    move_on(&mut worker, 2);
    assert_eq!(noted(&mut worker), [source(3, Standing::AtLeast)]);
}

#[test]
fn a_lane_with_records_in_flight_is_noted_where_it_is_at_least() {
    let mut worker = Worker::running(policy(&[]));
    worker.notes_by_themselves = Answers::Committed;
    move_on(&mut worker, 0);
    move_on(&mut worker, 1);
    worker.fetch(Lane::Source, vec![record(2, "a")]);
    noted(&mut worker);
    worker.wait(60_000);
    assert_eq!(noted(&mut worker), [source(2, Standing::AtLeast), control(0)]);
}

#[test]
fn a_task_that_goes_back_notes_exactly_where_it_stands_with_the_last_that_it_commits() {
    let mut worker = Worker::running(policy(&[]));
    worker.fetch(Lane::Source, vec![record(0, "a")]);
    worker.tell(Event::Drain);
    worker.answer(done());
    assert_eq!(noted(&mut worker), [source(1, Standing::Exact), control(0)]);
    worker.end(TransactionResult::Committed);
    assert_eq!(worker.others.last(), Some(&Action::Stop(StopReason::Drained)));
}

#[test]
fn a_task_without_anything_to_commit_notes_where_it_stands_before_it_goes_back() {
    let mut worker = Worker::running(policy(&[]));
    worker.tell(Event::Revoked(vec![P]));
    let given =
        |worker: &Worker| worker.others.iter().any(|action| matches!(action, Action::GiveBack { .. }));
    assert_eq!(noted(&mut worker), [source(0, Standing::Exact), control(0)]);
    worker.end(passing());
    assert!(!given(&worker), "it is tried again");
    worker.wait(20);
    worker.end(TransactionResult::Committed);
    assert!(given(&worker));
}

#[test]
fn a_task_that_cannot_note_where_it_stands_goes_back_all_the_same() {
    let mut worker = Worker::running(policy(&[]));
    worker.tell(Event::Revoked(vec![P]));
    let detail = "no such topic".to_owned();
    worker.end(TransactionResult::Aborted(AbortCause::Unwritable { target: Target::State, detail }));
    assert!(worker.others.iter().any(|action| matches!(action, Action::GiveBack { .. })));
}

#[test]
fn a_task_whose_output_cannot_be_written_notes_what_is_committed() {
    let mut worker = Worker::running(policy(&[]));
    worker.notes_by_themselves = Answers::Committed;
    move_on(&mut worker, 0);
    worker.fetch(Lane::Source, vec![record(1, "a")]);
    worker.answer(done());
    let detail = "no such topic".to_owned();
    worker.end(TransactionResult::Aborted(AbortCause::Unwritable { target: Target::Output, detail }));
    noted(&mut worker);
    worker.tell(Event::Drain);
    assert_eq!(noted(&mut worker), [source(1, Standing::Exact), control(0)]);
    assert!(matches!(worker.others.last(), Some(Action::Stop(_))));
}

#[test]
fn an_unwritable_state_topic_blocks_its_tasks_and_a_probe_notes_again() {
    let mut worker = Worker::running(policy(&[]));
    worker.fetch(Lane::Source, vec![record(0, "a")]);
    worker.answer(done());
    let detail = "no such topic".to_owned();
    worker.end(TransactionResult::Aborted(AbortCause::Unwritable { target: Target::State, detail }));
    noted(&mut worker);
    worker.wait(1_000);
    assert_eq!(worker.transactions[0].probe, Some(Target::State));
    assert_eq!(noted(&mut worker), [source(1, Standing::Exact), control(0)]);
    worker.end(TransactionResult::Committed);
    let partitions = vec![P];
    let unblocked =
        Action::Report(Report::Unblocked { part: Part::Records, partitions, target: Target::State });
    assert!(worker.others.contains(&unblocked));
}

#[test]
fn an_idle_lane_is_committed_past_what_is_no_record_once() {
    let mut worker = Worker::running(policy(&[]));
    move_on(&mut worker, 0);
    noted(&mut worker);
    pass(&mut worker, Lane::Source, 2);
    assert_eq!(source_offset(&worker.end(TransactionResult::Committed)), Offset(2));
    assert_eq!(noted(&mut worker), [], "nothing is repeated from the older note");
    pass(&mut worker, Lane::Source, 2);
    assert!(worker.transactions.is_empty(), "it is committed");
}

#[test]
fn a_lane_that_has_records_in_hand_passes_what_is_behind_them_with_them() {
    let mut worker = Worker::running(policy(&[]));
    worker.fetch(Lane::Source, vec![record(0, "a")]);
    pass(&mut worker, Lane::Source, 2);
    assert!(worker.transactions.is_empty());
    worker.answer(done());
    assert_eq!(source_offset(&worker.end(TransactionResult::Committed)), Offset(2), "with the record");
    worker.fetch(Lane::Source, vec![record(2, "a")]);
    worker.tell(Event::Revoked(vec![P]));
    pass(&mut worker, Lane::Source, 4);
    worker.answer(done());
    assert_eq!(source_offset(&worker.end(TransactionResult::Committed)), Offset(3), "it is going back");
}

#[test]
fn what_a_lane_passes_while_its_last_records_are_in_a_transaction_is_committed_after_it() {
    let mut worker = Worker::running(policy(&[]));
    worker.fetch(Lane::Source, vec![record(0, "a")]);
    worker.answer(done());
    pass(&mut worker, Lane::Source, 2);
    assert_eq!(source_offset(&worker.end(TransactionResult::Committed)), Offset(1), "formed before that");
    assert_eq!(source_offset(&worker.end(TransactionResult::Committed)), Offset(2));
}

#[test]
fn a_task_that_goes_back_has_not_passed_what_it_drops() {
    let mut worker = Worker::running(once(policy(&[5])));
    let tier = Lane::Tier(TierIndex(0));
    let of_tier = |transaction: Transaction| {
        transaction.tasks[0].offsets.iter().find(|(lane, _)| *lane == tier).map(|(_, offset)| *offset)
    };
    worker.fetch(tier, vec![waiting(3, 5_000)]);
    pass(&mut worker, tier, 5);
    assert_eq!(
        of_tier(worker.end(TransactionResult::Committed)),
        Some(Offset(3)),
        "the next waits for its time"
    );
    worker.tell(Event::Drain);
    assert_eq!(of_tier(worker.end(TransactionResult::Committed)), None);
}

#[test]
fn what_a_lane_has_passed_is_committed_after_an_abort() {
    let mut worker = Worker::running(policy(&[]));
    pass(&mut worker, Lane::Source, 2);
    worker.end(passing());
    worker.wait(20);
    assert_eq!(source_offset(&worker.end(TransactionResult::Committed)), Offset(2));
}
