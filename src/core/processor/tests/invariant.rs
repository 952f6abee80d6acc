//! Each invariant that is checked while running is told when it is broken, and only then.

use super::*;
use crate::core::lane::{Disposition, Stage};
use crate::core::outcome::Verdict;

impl Worker {
    /// The ids of what was told so far.
    fn broken(&self) -> Vec<InvariantId> {
        let breach = |action: &Action| match action {
            Action::Report(Report::Broken(breach)) => Some(breach.id),
            _ => None,
        };
        self.others.iter().filter_map(breach).collect()
    }

    fn task(&mut self) -> &mut Task {
        self.core.tasks.get_mut(&P).unwrap()
    }

    /// With two settled records in its open transaction.
    fn in_transaction() -> Self {
        let mut worker = Self::running(policy(&[]));
        worker.fetch(Lane::Source, vec![record(0, "a"), record(1, "b")]);
        worker.answer(done());
        worker.answer(done());
        worker.wait(50);
        assert_eq!(worker.transactions[0].records, 2);
        worker
    }

    /// Forgets the first record of the open transaction.
    fn forget_a_result(&mut self) {
        let lane = &mut self.task().lanes[0];
        lane.window.pop_front();
        lane.settled -= 1;
    }
}

#[test]
fn r1_a_commit_past_a_record_that_is_not_in_it_is_told() {
    let mut worker = Worker::in_transaction();
    worker.forget_a_result();
    worker.end(TransactionResult::Committed);
    assert_eq!(worker.broken(), [InvariantId::R1]);
}

#[test]
fn r2_a_task_that_was_given_back_while_its_transaction_was_open_is_told() {
    for (result, epochs) in
        [(TransactionResult::Committed, 1), (passing(), 1), (TransactionResult::Committed, 2)]
    {
        let mut worker = Worker::in_transaction();
        worker.core.forget(P);
        if epochs == 2 {
            worker.tell(Event::Assigned(vec![P]));
        }
        worker.end(result);
        assert_eq!(worker.broken(), [InvariantId::R2]);
    }
}

#[test]
fn r2_a_task_that_the_group_took_while_its_transaction_was_open_is_no_breach() {
    for result in [TransactionResult::Committed, passing()] {
        let mut worker = Worker::in_transaction();
        worker.tell(Event::Lost(vec![P]));
        worker.tell(Event::Assigned(vec![P]));
        worker.end(result);
        assert_eq!(worker.broken(), []);
    }
}

#[test]
fn r3_a_record_that_is_handled_before_its_lane_may_hand_it_on_is_told() {
    let mut worker = Worker::running(policy(&[5]));
    worker.fetch(Lane::Tier(TierIndex(0)), vec![waiting(0, 5_000), waiting(1, 5_000)]);
    worker.wait(5_000);
    let later = worker.now().mono.plus(Duration::from_millis(1));
    let Stage::Queued(second) = &mut worker.task().lane(Lane::Tier(TierIndex(0))).unwrap().window[1].stage
    else {
        panic!("it waits for its key")
    };
    second.release = Some(later);
    worker.answer(done());
    assert_eq!(worker.deliveries.len(), 1);
    assert_eq!(worker.broken(), [InvariantId::R3]);
}

#[test]
fn r4_a_retry_after_the_last_attempt_is_told() {
    let mut worker = Worker::running(once(policy(&[5])));
    worker.fetch(Lane::Source, vec![record(0, "a")]);
    let most = worker.core.policy.ladder.most_attempts();
    let Stage::Running(pending) = &worker.task().lanes[0].window[0].stage else { panic!("it runs") };
    let mut pending = pending.clone();
    Arc::make_mut(&mut pending.envelope).life.attempt = most;
    let verdict = Verdict { class: Class::Transient, reason: Reason::Timeout };
    let fate = Disposition::Retry { tier: TierIndex(0), due: Timestamp::from_millis(WALL), verdict };
    let (id, now) = (worker.deliveries[0].id, worker.now());
    worker.core.settle(id, pending, fate, now);
    worker.wait(50);
    assert_eq!(worker.broken(), [InvariantId::R4]);
}

#[test]
fn r6_a_result_that_is_gone_after_an_abort_is_told() {
    let mut worker = Worker::in_transaction();
    worker.forget_a_result();
    worker.end(passing());
    assert_eq!(worker.broken(), [InvariantId::R6]);
}

#[test]
fn r6_a_position_that_moved_by_an_abort_is_told() {
    let mut worker = Worker::running(policy(&[]));
    worker.wait(3_600_000);
    worker.task().lanes[0].committed = Offset(1);
    worker.end(passing());
    assert_eq!(worker.broken(), [InvariantId::R6]);
}

#[test]
fn r9_a_record_that_was_handled_while_its_key_was_free_is_told() {
    let mut worker = Worker::running(policy(&[]));
    worker.fetch(Lane::Source, vec![record(0, "a")]);
    worker.task().keys.clear();
    worker.answer(done());
    assert_eq!(worker.broken(), [InvariantId::R9]);
}
