//! One worker, driven by hand: each test is one rule of the state machine.
#![expect(clippy::wildcard_enum_match_arm, reason = "what a test does not look at is kept aside")]

use bytes::Bytes;

use super::*;
use crate::core::class::{Class, Reason};
use crate::core::event::{
    AbortCause, Delivery, Flaw, Generation, Part, Slot, Suspects, Target, Transaction, TransactionResult,
    Write,
};
use crate::core::outcome::{Cause, Failure, Outcome, Output, OutputName};
use crate::core::policy::tests::policy;
use crate::core::policy::{Flow, Twins};
use crate::core::position::{CommitMark, Founding, Going, Offset, Sequence, TierIndex};
use crate::core::record::{Header, Record};
use crate::core::state::{LanePosition, Standing, StateEntry};
use crate::core::time::Timestamp;

mod absent;
mod commit;
mod count;
mod decoded;
mod deliver;
mod give_back;
mod guard;
mod guarding;
mod invariant;
mod obey;
mod park;
mod positions;
mod refused;
mod skip;
mod stale;
mod suspect;

const P: Partition = Partition(0);
const WALL: i64 = 1_000_000;

/// A worker with what it asked for, sorted by kind.
struct Worker {
    core: Processor,
    millis: u64,
    skew: i64,
    deliveries: Vec<Delivery>,
    transactions: Vec<Transaction>,
    /// The positions that transactions note in the state topic, kept apart.
    notes: Vec<(String, Offset, Standing)>,
    /// What becomes of transactions that hold nothing else.
    notes_by_themselves: Answers,
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
            notes: Vec::new(),
            notes_by_themselves: Answers::ByTheTest,
            others: Vec::new(),
        }
    }

    /// A worker that has task 0, with everything committed up to 0.
    fn running(policy: Policy) -> Self {
        let lanes = policy.lanes().map(|_| LaneStart::Committed(Offset(0))).collect();
        let mut worker = Self::new(policy);
        worker.tell(Event::Assigned(vec![P]));
        let epoch = worker.epoch();
        worker.tell(Event::Restored {
            partition: P,
            epoch,
            found: Restored { mark: None, founding: Founding(1), lanes, topics: Vec::new(), keys: None },
        });
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
                Action::Transact(mut transaction) => {
                    let notes = transaction.writes.extract_if(.., |write| is_note(write));
                    let notes: Vec<Write> = notes.collect();
                    let only_notes = transaction.records == 0 && !notes.is_empty();
                    self.notes.extend(notes.iter().map(position_in));
                    if only_notes && self.notes_by_themselves == Answers::Committed {
                        let transaction = transaction.id;
                        let result = TransactionResult::Committed;
                        self.core.handle(Event::Transacted { transaction, result }, self.now());
                    } else {
                        self.transactions.push(*transaction);
                    }
                }
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

/// Whether a test answers a transaction itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answers {
    Committed,
    ByTheTest,
}

fn is_note(write: &Write) -> bool {
    let read = StateEntry::read(write.key.as_deref(), write.value.as_deref());
    write.target == Target::State && matches!(read, Ok(StateEntry::Position { .. }))
}

fn position_in(write: &Write) -> (String, Offset, Standing) {
    match StateEntry::read(write.key.as_deref(), write.value.as_deref()) {
        Ok(StateEntry::Position { lane, position: Some(LanePosition { offset, standing, .. }) }) => {
            (lane, offset, standing)
        }
        other => panic!("{other:?}"),
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
        decoded: None,
    }
}

fn done() -> Outcome {
    Outcome::Done(vec![Output {
        to: OutputName::Main,
        key: None,
        value: Some(Bytes::from_static(b"out")),
        headers: vec![],
    }])
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

/// A record as a tier holds it, written at `WALL`, due after `wait` ms.
fn waiting(offset: i64, wait: i64) -> Record {
    let mut worker = Worker::running(once(policy(&[5])));
    worker.fetch(Lane::Source, vec![record(offset, "a")]);
    worker.answer(fails(Class::Transient));
    let Write { key, value, mut headers, .. } = worker.transactions.remove(0).writes.remove(0);
    let due = headers.iter_mut().find(|header| header.name.as_str() == "redrive-due").unwrap();
    due.value = Some(Bytes::from((WALL + wait).to_string()));
    let timestamp = Timestamp::from_millis(WALL);
    Record { offset: Offset(offset), timestamp, key, value, headers, unnamed_headers: 0, decoded: None }
}
