//! One worker, driven by hand: each test is one rule of the state machine.

use bytes::Bytes;

use super::*;
use crate::core::class::{Class, Reason};
use crate::core::event::{AbortCause, Delivery, Target, Transaction, TransactionResult};
use crate::core::outcome::{Cause, Failure, Outcome, Output};
use crate::core::policy::tests::policy;
use crate::core::position::{CommitMark, Offset, Sequence, TierIndex};
use crate::core::record::{Header, Record};
use crate::core::time::Timestamp;

const P: Partition = Partition(0);
const WALL: i64 = 1_000_000;

/// A worker with what it asked for, sorted by kind.
struct Worker {
    core: Processor,
    millis: u64,
    skew: i64,
    deliveries: Vec<Delivery>,
    transactions: Vec<Transaction>,
    others: Vec<Action>,
}

impl Worker {
    fn new(policy: Policy) -> Self {
        let core = Processor::new(Arc::new(policy), WriterId(7), 1);
        Self {
            core,
            millis: 0,
            skew: 0,
            deliveries: Vec::new(),
            transactions: Vec::new(),
            others: Vec::new(),
        }
    }

    /// A worker that has task 0, with everything committed up to 0.
    fn running(policy: Policy) -> Self {
        let lanes = policy.ladder.lanes().map(|_| LaneStart::Committed(Offset(0))).collect();
        let mut worker = Self::new(policy);
        worker.tell(Event::Assigned(vec![P]));
        let epoch = worker.epoch();
        worker.tell(Event::Restored { partition: P, epoch, found: Restored { mark: None, lanes } });
        worker
    }

    fn now(&self) -> Now {
        let millis = i64::try_from(self.millis).unwrap();
        let mono = Monotonic::from_start(Duration::from_millis(self.millis));
        Now { wall: Timestamp::from_millis(WALL + millis + self.skew), mono }
    }

    fn tell(&mut self, event: Event) {
        self.core.handle(event, self.now());
        while let Some(action) = self.core.poll_action() {
            match action {
                Action::Handle(delivery) => self.deliveries.push(*delivery),
                Action::Transact(transaction) => self.transactions.push(*transaction),
                other => self.others.push(other),
            }
        }
    }

    fn wait(&mut self, millis: u64) {
        self.millis += millis;
        self.tell(Event::Tick);
    }

    fn epoch(&self) -> Epoch {
        self.core.tasks[&P].epoch
    }

    fn fetch(&mut self, lane: Lane, records: Vec<Record>) {
        self.tell(Event::Fetched { partition: P, epoch: self.epoch(), lane, records });
    }

    /// Answers the oldest delivery that is not answered.
    fn answer(&mut self, outcome: Outcome) -> Delivery {
        let delivery = self.deliveries.remove(0);
        self.tell(Event::Handled { delivery: delivery.id, outcome });
        delivery
    }

    fn end(&mut self, result: TransactionResult) -> Transaction {
        let transaction = self.transactions.remove(0);
        self.tell(Event::Transacted { transaction: transaction.id, result });
        transaction
    }

    fn breaches(&self) -> Vec<&Action> {
        self.others.iter().filter(|action| matches!(action, Action::Report(Report::Broken(_)))).collect()
    }
}

fn record(offset: i64, key: &str) -> Record {
    let key = (!key.is_empty()).then(|| Bytes::copy_from_slice(key.as_bytes()));
    let timestamp = Timestamp::from_millis(WALL);
    Record {
        offset: Offset(offset),
        timestamp,
        key,
        value: Some(Bytes::from_static(b"v")),
        headers: vec![],
        unnamed_headers: 0,
    }
}

fn done() -> Outcome {
    Outcome::Done(vec![Output { key: None, value: Some(Bytes::from_static(b"out")), headers: vec![] }])
}

fn fails(class: Class) -> Outcome {
    let cause = Cause::Named { class, reason: "broken".parse().unwrap() };
    Outcome::Failed(Failure { cause, detail: "it broke".to_owned(), retry_after: None })
}

fn passing() -> TransactionResult {
    TransactionResult::Aborted(AbortCause::Passing { detail: "coordinator".to_owned() })
}

fn header(headers: &[Header], name: &str) -> Option<String> {
    let header = headers.iter().find(|header| header.name.as_str() == name)?;
    Some(String::from_utf8(header.value.clone()?.to_vec()).unwrap())
}

fn source_offset(transaction: &Transaction) -> Offset {
    transaction.tasks[0].offsets.iter().find(|(lane, _)| *lane == Lane::Source).unwrap().1
}

fn once(mut policy: Policy) -> Policy {
    policy.in_place.executions = 1;
    policy
}

#[test]
fn only_a_prefix_of_settled_records_is_committed() {
    let mut worker = Worker::running(policy(&[]));
    worker.fetch(Lane::Source, vec![record(0, "a"), record(1, "b"), record(2, "c")]);
    let first = worker.deliveries.remove(0);
    worker.answer(done());
    worker.answer(done());
    worker.wait(60);
    assert!(worker.transactions.is_empty(), "offset 0 is not settled: nothing behind it is written");
    worker.tell(Event::Handled { delivery: first.id, outcome: done() });
    let transaction = worker.end(TransactionResult::Committed);
    assert_eq!((source_offset(&transaction), transaction.writes.len()), (Offset(3), 3));
    assert!(worker.breaches().is_empty());
}

#[test]
fn a_transaction_closes_at_rest_at_once_and_under_load_after_the_commit_interval() {
    let mut worker = Worker::running(policy(&[]));
    worker.fetch(Lane::Source, vec![record(0, "a"), record(1, "b")]);
    worker.answer(done());
    assert!(worker.transactions.is_empty(), "another record is with the handler");
    assert_eq!(worker.core.poll_timeout(worker.now()), Some(Duration::from_millis(50)));
    worker.wait(50);
    assert_eq!(source_offset(&worker.end(TransactionResult::Committed)), Offset(1));
    worker.answer(done());
    assert_eq!(
        source_offset(&worker.end(TransactionResult::Committed)),
        Offset(2),
        "nothing else is in flight"
    );
}

#[test]
fn after_an_abort_the_same_results_are_tried_again_and_no_handler_runs() {
    let mut worker = Worker::running(once(policy(&[5])));
    worker.fetch(Lane::Source, vec![record(0, "a"), record(1, "b")]);
    worker.answer(done());
    worker.answer(fails(Class::Transient));
    let first = worker.end(passing());
    assert!(worker.transactions.is_empty(), "it backs off");
    worker.wait(20);
    let second = worker.end(TransactionResult::Committed);
    assert!(worker.deliveries.is_empty());
    assert_eq!(first.tasks[0].offsets, second.tasks[0].offsets);
    assert_eq!(first.writes.len(), second.writes.len());
    assert!(second.tasks[0].mark.sequence > first.tasks[0].mark.sequence);
    let due = |transaction: &Transaction| header(&transaction.writes[1].headers, "redrive-due").unwrap();
    assert_eq!(
        (due(&first), due(&second)),
        ("1005000".to_owned(), "1005020".to_owned()),
        "from the time of writing"
    );
}

#[test]
fn records_of_one_key_run_one_after_another_in_order_and_other_keys_beside_them() {
    let mut worker = Worker::running(policy(&[]));
    let records = vec![record(0, "a"), record(1, "a"), record(2, "b"), record(3, ""), record(4, "")];
    worker.fetch(Lane::Source, records);
    let offsets: Vec<i64> = worker.deliveries.iter().map(|delivery| delivery.id.offset.0).collect();
    assert_eq!(offsets, [0, 2, 3, 4]);
    worker.answer(done());
    assert_eq!(worker.deliveries.last().unwrap().id.offset, Offset(1));
}

#[test]
fn a_key_stays_taken_while_its_record_waits_for_the_next_execution() {
    let mut worker = Worker::running(policy(&[5]));
    worker.fetch(Lane::Source, vec![record(0, "a"), record(1, "a")]);
    worker.answer(fails(Class::Transient));
    assert!(worker.deliveries.is_empty());
    worker.wait(200);
    let again = worker.answer(done());
    assert_eq!((again.id.offset, again.attempt, again.execution), (Offset(0), 1, 2));
    assert_eq!(worker.deliveries.len(), 1);
}

#[test]
fn a_record_that_always_fails_has_exactly_the_attempts_and_executions_of_the_ladder() {
    let mut policy = policy(&[5, 60]);
    policy.ladder.last_tier_repeats = 2;
    let mut worker = Worker::running(policy);
    let mut offsets = [0, 0];
    worker.fetch(Lane::Source, vec![record(0, "a")]);
    let mut executions = 0;
    for attempt in 1.. {
        for execution in 1..=3 {
            executions += 1;
            let delivery = worker.answer(fails(Class::Transient));
            assert_eq!((delivery.attempt, delivery.execution), (attempt, execution));
            worker.wait(2_000);
        }
        let write = worker.end(TransactionResult::Committed).writes.remove(0);
        let Target::Tier(tier) = write.target else {
            assert_eq!(write.target, Target::DeadLetter);
            assert_eq!(header(&write.headers, "redrive-reason").unwrap(), "exhausted");
            assert_eq!(header(&write.headers, "redrive-class").unwrap(), "transient");
            assert_eq!(header(&write.headers, "redrive-attempt").unwrap(), attempt.to_string());
            assert_eq!(header(&write.headers, "redrive-executions").unwrap(), "12");
            assert_eq!(header(&write.headers, "redrive-first-attempt-at").unwrap(), WALL.to_string());
            break;
        };
        let offset = Offset(offsets[tier.index()]);
        offsets[tier.index()] += 1;
        let Write { key, value, headers, timestamp, .. } = write;
        let timestamp = timestamp.unwrap();
        worker.fetch(
            Lane::Tier(tier),
            vec![Record { offset, timestamp, key, value, headers, unnamed_headers: 0 }],
        );
        assert!(worker.deliveries.is_empty(), "never early");
        let delay = worker.core.policy.ladder.delay(tier).unwrap();
        worker.wait(u64::try_from(delay.as_millis()).unwrap());
    }
    assert_eq!(executions, 12);
    assert!(worker.breaches().is_empty());
}

use crate::core::event::Write;

/// A record as a tier holds it, written at `WALL`, due after `wait` ms.
fn waiting(offset: i64, wait: i64) -> Record {
    let mut worker = Worker::running(once(policy(&[5])));
    worker.fetch(Lane::Source, vec![record(offset, "a")]);
    worker.answer(fails(Class::Transient));
    let Write { key, value, mut headers, .. } = worker.transactions.remove(0).writes.remove(0);
    let due = headers.iter_mut().find(|header| header.name.as_str() == "redrive-due").unwrap();
    due.value = Some(Bytes::from((WALL + wait).to_string()));
    let timestamp = Timestamp::from_millis(WALL);
    Record { offset: Offset(offset), timestamp, key, value, headers, unnamed_headers: 0 }
}

#[test]
fn a_waiting_record_is_handed_on_at_its_due_time_and_not_a_millisecond_before() {
    let mut worker = Worker::running(policy(&[5]));
    worker.fetch(Lane::Tier(TierIndex(0)), vec![waiting(0, 5_000)]);
    assert_eq!(worker.core.poll_timeout(worker.now()), Some(Duration::from_secs(5)));
    worker.wait(4_999);
    assert!(worker.deliveries.is_empty());
    worker.wait(1);
    let delivery = worker.answer(done());
    assert_eq!((delivery.attempt, delivery.lateness), (2, Some(Duration::ZERO)));
}

#[test]
fn a_lane_is_not_read_on_while_its_first_record_waits() {
    let mut worker = Worker::running(policy(&[5]));
    worker.others.clear();
    worker.fetch(Lane::Tier(TierIndex(0)), vec![waiting(0, 5_000)]);
    assert!(worker.others.is_empty());
    worker.wait(5_000);
    assert!(worker.others.iter().any(|action| matches!(action, Action::Fetch { lane: Lane::Tier(_), .. })));
}

#[test]
fn a_record_that_must_wait_on_hops_without_an_attempt() {
    let mut worker = Worker::running(policy(&[5]));
    worker.fetch(Lane::Tier(TierIndex(0)), vec![waiting(0, 60_000)]);
    worker.wait(5_000);
    assert!(worker.deliveries.is_empty());
    let write = worker.end(TransactionResult::Committed).writes.remove(0);
    assert_eq!(write.target, Target::Tier(TierIndex(0)));
    assert_eq!(header(&write.headers, "redrive-attempt").unwrap(), "1");
    assert_eq!(header(&write.headers, "redrive-due").unwrap(), (WALL + 60_000).to_string());
}

#[test]
fn a_wall_clock_that_jumps_neither_releases_early_nor_stalls() {
    for skew in [-3_600_000, 3_600_000] {
        let mut worker = Worker::running(policy(&[5]));
        worker.fetch(Lane::Tier(TierIndex(0)), vec![waiting(0, 5_000)]);
        worker.skew = skew;
        worker.wait(4_999);
        assert!(worker.deliveries.is_empty(), "early after a jump of {skew} ms");
        worker.wait(1);
        assert_eq!(worker.deliveries.len(), 1, "stalled after a jump of {skew} ms");
    }
}

#[test]
fn a_reader_whose_clock_is_behind_waits_the_delay_and_does_not_hop() {
    let mut worker = Worker::running(policy(&[5]));
    worker.skew = -3_600_000;
    worker.fetch(Lane::Tier(TierIndex(0)), vec![waiting(0, 5_000)]);
    worker.wait(5_000);
    assert_eq!(worker.deliveries.len(), 1);
}

#[test]
fn broken_control_headers_are_a_dead_letter_and_the_next_record_goes_on() {
    let mut worker = Worker::running(policy(&[5]));
    let forged = Record { headers: vec![], ..waiting(0, 5_000) };
    worker.fetch(Lane::Tier(TierIndex(0)), vec![forged, waiting(1, 5_000)]);
    worker.wait(5_000);
    assert_eq!(worker.answer(done()).id.offset, Offset(1));
    let transaction = worker.end(TransactionResult::Committed);
    assert_eq!(transaction.writes[0].target, Target::DeadLetter);
    assert_eq!(header(&transaction.writes[0].headers, "redrive-reason").unwrap(), "bad-control-header");
    let origin = header(&transaction.writes[0].headers, "redrive-origin-topic").unwrap();
    assert_eq!(origin, "shop.orders.retry.5s", "leads to where it was found");
}

#[test]
fn a_header_name_that_cannot_be_carried_is_a_dead_letter_with_a_payload_reference() {
    let mut worker = Worker::running(policy(&[5]));
    worker.fetch(Lane::Source, vec![Record { unnamed_headers: 1, ..record(0, "a") }, record(1, "b")]);
    assert_eq!(worker.answer(done()).id.offset, Offset(1));
    let letter = worker.end(TransactionResult::Committed).writes.remove(0);
    assert_eq!(header(&letter.headers, "redrive-reason").unwrap(), "bad-header-name");
    assert_eq!(header(&letter.headers, "redrive-payload-ref").unwrap(), "orders/0/0");
    assert_eq!(header(&letter.headers, "redrive-attempt"), None, "no handler ever saw it");
}

#[test]
fn an_unwritable_target_blocks_the_tasks_that_need_it_and_they_go_on_by_themselves() {
    let mut worker = Worker::running(once(policy(&[5])));
    worker.fetch(Lane::Source, vec![record(0, "a")]);
    worker.answer(fails(Class::Permanent));
    let unwritable = |target| {
        TransactionResult::Aborted(AbortCause::Unwritable { target, detail: "unknown topic".to_owned() })
    };
    worker.end(unwritable(Target::DeadLetter));
    worker.fetch(Lane::Source, vec![record(1, "b")]);
    assert!(worker.deliveries.is_empty(), "a blocked task takes nothing on");
    let blocked = |action: &&Action| matches!(action, Action::Report(Report::Blocked { .. }));
    assert_eq!(worker.others.iter().filter(blocked).count(), 1);
    worker.wait(1_000);
    assert_eq!(worker.transactions[0].probe, Some(Target::DeadLetter));
    worker.end(unwritable(Target::DeadLetter));
    worker.wait(1_999);
    assert!(worker.transactions.is_empty(), "the wait doubles");
    worker.wait(1);
    assert_eq!(source_offset(&worker.end(TransactionResult::Committed)), Offset(1));
    assert_eq!(worker.deliveries.len(), 1, "it goes on");
}

#[test]
fn a_refused_record_stops_its_own_task_only() {
    let mut worker = Worker::running(once(policy(&[])));
    let other = Partition(1);
    worker.tell(Event::Assigned(vec![other]));
    let epoch = worker.core.tasks[&other].epoch;
    let found = Restored { mark: None, lanes: vec![LaneStart::Committed(Offset(0))] };
    worker.tell(Event::Restored { partition: other, epoch, found });
    worker.fetch(Lane::Source, vec![record(0, "a")]);
    worker.tell(Event::Fetched {
        partition: other,
        epoch,
        lane: Lane::Source,
        records: vec![record(0, "b")],
    });
    worker.answer(done());
    worker.answer(done());
    let cause = AbortCause::Refused { target: Target::Output, partition: P, detail: "too large".to_owned() };
    worker.end(TransactionResult::Aborted(cause));
    let next = worker.end(TransactionResult::Committed);
    assert_eq!(next.tasks.iter().map(|task| task.partition).collect::<Vec<_>>(), [other]);
}

#[test]
fn after_a_commit_without_an_answer_the_mark_decides() {
    let mark = |by, sequence| Some(CommitMark { writer: WriterId(by), sequence: Sequence(sequence) });
    let cases = [(mark(7, 1), true), (mark(7, 0), false), (mark(8, 1), false), (None, false)];
    for (found, committed) in cases {
        let mut worker = Worker::running(policy(&[]));
        worker.fetch(Lane::Source, vec![record(0, "a")]);
        worker.answer(done());
        let id = worker.end(TransactionResult::Unknown).id;
        worker.wait(60_000);
        assert!(worker.transactions.is_empty(), "no other transaction before that is known");
        worker.tell(Event::ReadBack { transaction: id, marks: vec![(P, found)] });
        assert_eq!(worker.transactions.is_empty(), committed, "{found:?}");
    }
}

#[test]
fn a_first_start_is_committed_before_anything_is_read() {
    let mut worker = Worker::new(policy(&[5]));
    worker.tell(Event::Assigned(vec![P]));
    let lanes = vec![LaneStart::Fresh(Offset(17)), LaneStart::Fresh(Offset(0))];
    let epoch = worker.epoch();
    worker.tell(Event::Restored { partition: P, epoch, found: Restored { mark: None, lanes } });
    let open = |action: &Action| matches!(action, Action::Open { .. } | Action::Fetch { .. });
    assert!(!worker.others.iter().any(open));
    let start = worker.end(TransactionResult::Committed);
    let offsets = vec![(Lane::Source, Offset(17)), (Lane::Tier(TierIndex(0)), Offset(0))];
    assert_eq!((start.records, &start.tasks[0].offsets), (0, &offsets));
    assert!(worker.others.iter().any(open));
}

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
fn three_quick_fences_within_a_minute_mean_a_twin() {
    let mut worker = Worker::running(policy(&[]));
    worker.fetch(Lane::Source, vec![record(0, "a")]);
    worker.answer(done());
    for _ in 0..3 {
        worker.wait(5_000);
        worker.end(TransactionResult::Fenced { after: Duration::from_millis(5) });
    }
    assert_eq!(worker.others.last(), Some(&Action::Stop(StopReason::TwinProcess { times: 3 })));
}

#[test]
fn a_transaction_that_the_broker_gave_up_is_not_a_twin() {
    let mut worker = Worker::running(policy(&[]));
    worker.fetch(Lane::Source, vec![record(0, "a")]);
    worker.answer(done());
    for _ in 0..5 {
        worker.wait(5_000);
        worker.end(TransactionResult::Fenced { after: Duration::from_secs(10) });
    }
    worker.wait(5_000);
    worker.end(TransactionResult::Committed);
    assert_ne!(worker.others.last(), Some(&Action::Stop(StopReason::TwinProcess { times: 5 })));
}

#[test]
fn offsets_of_idle_lanes_are_committed_again() {
    let mut worker = Worker::running(policy(&[5]));
    worker.wait(3_600_000);
    let transaction = worker.end(TransactionResult::Committed);
    assert_eq!((transaction.records, transaction.tasks[0].offsets.len()), (0, 2));
    worker.wait(3_600_000);
    assert_eq!(worker.transactions.len(), 1);
}

#[test]
fn retries_that_hang_leave_room_for_new_records_and_new_ones_for_retries() {
    let mut worker = Worker::running(policy(&[5]));
    let due = |offset| Record { key: None, ..waiting(offset, 0) };
    worker.fetch(Lane::Tier(TierIndex(0)), (0..16).map(due).collect());
    worker.wait(5_000);
    assert_eq!(worker.deliveries.len(), 12, "three quarters of the window of 16");
    worker.fetch(Lane::Source, (0..16).map(|offset| record(offset, "")).collect());
    assert_eq!(worker.deliveries.len(), 16);
}

#[test]
fn an_operation_id_that_is_configured_and_missing_is_permanent() {
    let mut policy = policy(&[5]);
    policy.identity.operation_id = Some(crate::core::record::HeaderName::new("op"));
    let mut worker = Worker::running(policy);
    worker.fetch(Lane::Source, vec![record(0, "a")]);
    let letter = worker.end(TransactionResult::Committed).writes.remove(0);
    assert_eq!(letter.target, Target::DeadLetter);
    assert_eq!(header(&letter.headers, "redrive-reason").unwrap(), Reason::NoOperationId.to_string());
}
