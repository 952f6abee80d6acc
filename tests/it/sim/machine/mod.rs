//! The core of one worker as the simulated shell sees it: the real `Processor`, and the bugs that can be planted
//! between it and the shell.

mod deaf;
pub(crate) mod describe;
mod followers;
mod refused;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redrive::core::event::{
    Action, Delivery, Event, Target, TaskCommit, Transaction, TransactionId, TransactionResult, Write,
};
use redrive::core::policy::Policy;
use redrive::core::position::{Epoch, Lane, Offset, Partition, Sequence, WriterId};
use redrive::core::processor::Processor;
use redrive::core::record::Record;
use redrive::core::state::{Standing, StateEntry};
use redrive::core::time::{Now, Timestamp};

use self::deaf::Deaf;
use self::followers::Followers;
use super::lineage::{self, Root};
use super::planted::Bug;
use refused::{accuse, forgets, leave_behind};

/// The number of a transaction that no core has begun.
const IDLE: TransactionId = TransactionId(u64::MAX);

/// One worker's core.
pub(crate) struct Machine {
    processor: Processor,
    bug: Option<Bug>,
    policy: Arc<Policy>,
    /// What a planted bug adds to the core's actions.
    added: VecDeque<Action>,
    /// The deliveries since the last commit.
    deliveries: Vec<Delivery>,
    /// The newest attempt of each record that was handled here.
    attempts: BTreeMap<Root, u32>,
    epochs: BTreeMap<Partition, Epoch>,
    /// Tasks that were given back behind the core's back.
    gone: Vec<(Partition, Epoch)>,
    open: Option<Box<Transaction>>,
    /// Answers of a transaction that was aborted.
    answers: Vec<Write>,
    deaf: Deaf,
    followers: Followers,
    /// A transaction that nobody needs.
    idle: Option<Box<Transaction>>,
    /// Whether the last transaction was aborted.
    aborted: bool,
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Machine")
    }
}

impl Machine {
    pub(crate) fn new(seed: u64, policy: Arc<Policy>, writer: WriterId, bug: Option<Bug>) -> Self {
        Self {
            processor: Processor::new(Arc::clone(&policy), writer, writer.0),
            bug,
            policy,
            added: VecDeque::new(),
            deliveries: Vec::new(),
            attempts: BTreeMap::new(),
            epochs: BTreeMap::new(),
            gone: Vec::new(),
            open: None,
            answers: Vec::new(),
            deaf: Deaf::default(),
            followers: Followers::new(seed),
            aborted: false,
            idle: None,
        }
    }

    pub(crate) fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    pub(crate) fn handle(&mut self, mut event: Event, now: Now) {
        if let Some(bug) = self.bug {
            self.spoil_event(bug, &mut event);
            if matches!(&event, Event::Transacted { transaction, .. } if *transaction == IDLE) {
                return;
            }
        }
        if self.bug == Some(Bug::DeafWhileBlocked) {
            for heard in self.deaf.take(event) {
                self.processor.handle(heard, now);
            }
            return;
        }
        self.processor.handle(event, now);
    }

    pub(crate) fn poll_action(&mut self) -> Option<Action> {
        loop {
            if let Some(action) = self.added.pop_front() {
                return Some(action);
            }
            let Some(mut action) = self.processor.poll_action() else {
                let idle = self.idle.take().filter(|_| self.open.is_none())?;
                self.open = Some(idle.clone());
                return Some(Action::Transact(idle));
            };
            let Some(bug) = self.bug else { return Some(action) };
            if matches!(&action, Action::GiveBack { partition, epoch } if self.gone.contains(&(*partition, *epoch)))
            {
                continue;
            }
            self.deaf.watch(&action);
            self.spoil_action(bug, &mut action);
            return Some(action);
        }
    }

    pub(crate) fn poll_timeout(&self, now: Now) -> Option<Duration> {
        self.processor.poll_timeout(now)
    }

    fn spoil_event(&mut self, bug: Bug, event: &mut Event) {
        self.followers.hear(event);
        match event {
            Event::Fetched { lane, records, .. } if bug == Bug::DueFromWrongTier => {
                self.bring_forward(*lane, records);
            }
            Event::Revoked(partitions) if bug == Bug::GiveBackTooEarly => {
                let held = self.open.iter().flat_map(|open| &open.tasks);
                let held: Vec<(Partition, Epoch)> = held
                    .map(|task| (task.partition, task.epoch))
                    .filter(|(partition, _)| partitions.contains(partition))
                    .collect();
                for (partition, epoch) in held {
                    self.gone.push((partition, epoch));
                    self.added.push_back(Action::GiveBack { partition, epoch });
                }
            }
            Event::Transacted { result, .. } => {
                let open = self.open.take();
                self.aborted = matches!(result, TransactionResult::Aborted(_));
                if let Some(open) = &open {
                    accuse(bug, result, open);
                }
                match result {
                    TransactionResult::Committed => {
                        self.deliveries.clear();
                        let begun = open.filter(|open| bug == Bug::IdleTransaction && open.id != IDLE);
                        self.idle = begun.map(|open| Box::new(again(&open)));
                    }
                    TransactionResult::Aborted(_) if bug == Bug::AnsweredTwice => {
                        let writes = open.into_iter().flat_map(|open| open.writes);
                        self.answers.extend(writes.filter(|write| write.target == Target::Cases));
                    }
                    TransactionResult::Aborted(cause) if forgets(bug, cause) => {
                        if let Some(delivery) = open.and_then(|open| self.delivered_in(&open)) {
                            self.added.push_back(Action::Handle(Box::new(delivery)));
                        }
                    }
                    TransactionResult::Aborted(_)
                    | TransactionResult::Fenced { .. }
                    | TransactionResult::Unknown => {}
                }
            }
            Event::Assigned(_)
            | Event::Restored { .. }
            | Event::Revoked(_)
            | Event::Lost(_)
            | Event::Fetched { .. }
            | Event::Passed { .. }
            | Event::End { .. }
            | Event::Handled { .. }
            | Event::ReadBack { .. }
            | Event::Absent { .. }
            | Event::Present { .. }
            | Event::Tick
            | Event::Drain => {}
        }
    }

    /// Makes every tier's records look as due as the first tier's.
    fn bring_forward(&self, lane: Lane, records: &mut [Record]) {
        let Lane::Tier(_) = lane else { return };
        let delay = self.policy.lane_delay(lane).unwrap_or_default();
        let less = delay.saturating_sub(self.policy.ladder.delays[0]).as_millis() as i64;
        for record in records {
            let due = lineage::number(&record.headers, "redrive-due");
            if due != Some(record.timestamp.plus(delay).as_millis()) {
                continue;
            }
            record.timestamp = Timestamp::from_millis(record.timestamp.as_millis() - less);
            add_to(&mut record.headers, "redrive-due", -less);
        }
    }

    fn delivered_in(&self, open: &Transaction) -> Option<Delivery> {
        let is_in = |task: &TaskCommit, delivery: &Delivery| {
            task.partition == delivery.id.partition
                && task.epoch == delivery.id.epoch
                && task.offsets.iter().any(|(lane, to)| *lane == delivery.id.lane && delivery.id.offset < *to)
        };
        let mut found =
            self.deliveries.iter().filter(|delivery| open.tasks.iter().any(|task| is_in(task, delivery)));
        found.next().cloned()
    }

    fn spoil_action(&mut self, bug: Bug, action: &mut Action) {
        match action {
            Action::Restore { partition, epoch } => {
                self.epochs.insert(*partition, *epoch);
            }
            Action::Handle(delivery) => {
                let origin = &delivery.envelope.origin;
                self.attempts.insert(Root::source(origin.partition.0, origin.offset.0), delivery.attempt);
                self.deliveries.push((**delivery).clone());
                self.followers.handed(delivery);
            }
            Action::Transact(transaction) => {
                self.spoil_transaction(bug, transaction);
                self.open = Some(transaction.clone());
            }
            Action::Open { partition, epoch, lanes } => {
                self.followers.opened(*partition, *epoch, lanes);
            }
            Action::FindEnd { .. }
            | Action::Fetch { .. }
            | Action::ReadBack { .. }
            | Action::GiveBack { .. }
            | Action::Report(_)
            | Action::Stop(_) => {}
        }
    }

    fn spoil_transaction(&mut self, bug: Bug, transaction: &mut Transaction) {
        match bug {
            Bug::HoldLostOnAbort if self.aborted => {
                transaction.writes.retain(|write| write.target != Target::State || !holds(write));
            }
            Bug::OffsetTooHigh => {
                for (_, offset) in transaction.tasks.iter_mut().flat_map(|task| &mut task.offsets) {
                    *offset = offset.next();
                }
            }
            Bug::FollowerFirst => self.followers.spoil(transaction),
            Bug::OffsetTooLow => {
                for (lane, offset) in transaction.tasks.iter_mut().flat_map(|task| &mut task.offsets) {
                    if *lane != Lane::Source && offset.0 > 0 {
                        *offset = Offset(offset.0 - 1);
                    }
                }
            }
            Bug::ValueLeftBehind => {
                let dead = transaction.writes.iter_mut().filter(|write| write.target == Target::DeadLetter);
                dead.filter(|write| write.value.is_some()).for_each(leave_behind);
            }
            Bug::WriteDropped => {
                let fates = transaction.writes.iter().filter(|write| write.target != Target::State);
                let last = fates.count();
                if last > 0 {
                    transaction.writes.remove(last - 1);
                }
            }
            Bug::NoteKept | Bug::NoteTooHigh => {
                transaction
                    .writes
                    .retain_mut(|write| write.target != Target::State || spoil_note(bug, write));
            }
            Bug::WriteDoubled => {
                let first = transaction.writes.first().cloned();
                transaction.writes.extend(first);
            }
            Bug::AnsweredTwice => transaction.writes.append(&mut self.answers),
            Bug::SequenceNotRaised => {
                for task in &mut transaction.tasks {
                    task.mark.sequence = Sequence(task.mark.sequence.0.saturating_sub(1));
                }
            }
            Bug::HopCountsAsAttempt | Bug::AttemptNotCounted | Bug::OriginChanged | Bug::DeadlineMoved => {
                for write in &mut transaction.writes {
                    self.spoil_copy(bug, write);
                }
            }
            _ => {}
        }
    }

    fn spoil_copy(&self, bug: Bug, write: &mut Write) {
        if !matches!(write.target, Target::Tier(_)) {
            return;
        }
        let number = |name| lineage::number(&write.headers, name).unwrap_or(0);
        let source = Root::source(number("redrive-origin-partition") as i32, number("redrive-origin-offset"));
        let attempt = u32::try_from(number("redrive-attempt")).ok();
        let is_retry = self.attempts.get(&source).copied() == attempt;
        match bug {
            Bug::HopCountsAsAttempt if !is_retry => add_to(&mut write.headers, "redrive-attempt", 1),
            Bug::AttemptNotCounted if is_retry => add_to(&mut write.headers, "redrive-attempt", -1),
            Bug::OriginChanged => add_to(&mut write.headers, "redrive-origin-offset", 1),
            Bug::DeadlineMoved => add_to(&mut write.headers, "redrive-deadline-at", 1_000),
            _ => {}
        }
    }
}

/// Spoils a note; false where it is left out.
fn spoil_note(bug: Bug, write: &mut Write) -> bool {
    let read = StateEntry::read(write.key.as_deref(), write.value.as_deref());
    let Ok(StateEntry::Position { position: Some(mut position), .. }) = read else { return true };
    if bug == Bug::NoteTooHigh {
        position.offset = position.offset.next();
        write.value = Some(position.to_bytes());
    }
    bug != Bug::NoteKept || position.standing == Standing::Exact
}

/// The same tasks once more, without any write.
fn again(open: &Transaction) -> Transaction {
    Transaction { id: IDLE, tasks: open.tasks.clone(), writes: Vec::new(), records: 0, probe: None }
}

fn add_to(headers: &mut [redrive::core::record::Header], name: &str, more: i64) {
    let Some(number) = lineage::number(headers, name) else { return };
    for header in headers.iter_mut().filter(|header| header.name.as_str() == name) {
        header.value = Some(Bytes::from((number + more).to_string()));
    }
}

/// Whether a write holds a record.
fn holds(write: &Write) -> bool {
    let read = StateEntry::read(write.key.as_deref(), write.value.as_deref());
    matches!(read, Ok(StateEntry::Held { held: Some(_), .. }))
}
