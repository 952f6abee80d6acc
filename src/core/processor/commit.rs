//! When a transaction is formed, what it holds, and what its end means.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::check::{self, Ended};
use super::pace::{Budget, MOST_BYTES, MOST_RECORDS};
use super::positions::{Note, noted, notes_of};
use super::suspect::{Found, Writers};
use super::write::write_of;
use super::{Mode, Processor};
use crate::core::envelope::DeliveryId;
use crate::core::event::{
    AbortCause, Action, Fate, FateKind, Report, StopReason, Target, TaskCommit, Transaction, TransactionId,
    TransactionResult,
};
use crate::core::invariant::InvariantId;
use crate::core::lane::{Disposition, Settled, Stage};
use crate::core::position::{CommitMark, Epoch, Lane, Offset, Partition, Sequence};
use crate::core::task::{Block, Phase, Stale, Task};
use crate::core::time::{Monotonic, Now};

/// The wait after the first abort; doubled after each further one.
const FIRST_BACKOFF: Duration = Duration::from_millis(20);
/// The longest wait after an abort that names nothing.
const LONGEST_BACKOFF: Duration = Duration::from_secs(2);
/// The wait before a blocked task is tried again; doubled after each try in vain.
const FIRST_UNBLOCK: Duration = Duration::from_secs(1);
/// The longest wait before a blocked task is tried again.
const LONGEST_UNBLOCK: Duration = Duration::from_secs(30);

/// The transaction that is under way.
#[derive(Debug)]
pub(super) struct Open {
    id: TransactionId,
    tasks: Vec<OpenTask>,
    /// Which tasks wrote to which target.
    targets: BTreeSet<(Target, Partition)>,
    writers: Writers,
    /// The suspects of a search that it tries.
    tried: BTreeSet<DeliveryId>,
}

#[derive(Debug)]
pub(super) struct OpenTask {
    pub(super) partition: Partition,
    epoch: Epoch,
    sequence: Sequence,
    pub(super) offsets: Vec<(Lane, Offset)>,
    /// How many records of each lane are in it, by [`Lane::index`].
    pub(super) counts: Vec<usize>,
    carries: Carries,
    /// Whether the group has taken the task since.
    pub(super) lost: bool,
    notes: Vec<Note>,
    /// Whether it commits that a person has accepted repeats.
    accepts: Accepts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Accepts {
    Repeats,
    Nothing,
}

/// What of a task is in a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carries {
    /// What it has settled.
    Settled,
    /// The offsets that are committed already, once more: what it has settled cannot be written, and offsets expire.
    Offsets,
}

impl Carries {
    fn of(task: &Task, purpose: &Purpose) -> Self {
        match (purpose, &task.block) {
            (Purpose::Everything, Some(_)) => Self::Offsets,
            (Purpose::Everything, None) | (Purpose::Search | Purpose::Probe(..), _) => Self::Settled,
        }
    }
}

impl Open {
    /// What an abort may need to know of it: where its tasks wrote, which record made which write, what was tried.
    fn evidence(&mut self) -> (BTreeSet<(Target, Partition)>, Writers, BTreeSet<DeliveryId>) {
        (self.targets.clone(), std::mem::take(&mut self.writers), std::mem::take(&mut self.tried))
    }

    /// Whether a task is part of it.
    pub(super) fn holds(&self, partition: Partition, epoch: Epoch) -> bool {
        self.tasks.iter().any(|task| task.partition == partition && task.epoch == epoch)
    }

    /// The group has taken a task.
    pub(super) fn lose(&mut self, partition: Partition, epoch: Epoch) {
        let of = |task: &&mut OpenTask| task.partition == partition && task.epoch == epoch;
        self.tasks.iter_mut().filter(of).for_each(|task| task.lost = true);
    }
}

/// What the next transaction is for.
pub(super) enum Purpose {
    /// Whatever is ready.
    Everything,
    /// One blocked task, to see whether its target can be written again.
    Probe(Partition, Target),
    /// A part of the suspects, and what stands before them in their lanes.
    Search,
}

impl Processor {
    pub(super) fn transact_if_time(&mut self, now: Now) {
        if self.open.is_some() || self.mode == Mode::Stopped || now.mono < self.pace.not_before {
            return;
        }
        if let Some(purpose) = self.purpose(now.mono) {
            self.transact(&purpose, now);
        }
    }

    fn purpose(&self, now: Monotonic) -> Option<Purpose> {
        let block_of = |partition| Some((partition, self.tasks.get(partition)?.block.as_ref()?));
        let mut blocked = self.blocked.iter().filter_map(block_of);
        if let Some((partition, block)) = blocked.find(|(_, block)| block.retry_at <= now) {
            return Some(Purpose::Probe(*partition, block.target));
        }
        let pace = &self.pace;
        let searches = self.searches();
        let everything = !(pace.wanted.is_empty() && pace.hinted.is_empty())
            || pace.ready >= MOST_RECORDS
            || (pace.ready > 0
                && (self.running == 0 || searches || self.giving_back() || self.oldest_is_due(now)));
        if searches && (self.search.is_next() || !everything) {
            return Some(Purpose::Search);
        }
        everything.then_some(Purpose::Everything)
    }

    fn transact(&mut self, purpose: &Purpose, now: Now) {
        let tried = match purpose {
            Purpose::Everything => BTreeSet::new(),
            Purpose::Probe(partition, _) => self.stopped_at(*partition),
            Purpose::Search => self.sought(),
        };
        let partitions = self.partitions_for(purpose, &tried);
        let id = self.next_transaction;
        let mut commits = Vec::with_capacity(partitions.len());
        let tasks = Vec::with_capacity(partitions.len());
        let mut open = Open { id, tasks, targets: BTreeSet::new(), writers: Writers::default(), tried };
        let mut taken: Vec<&Settled> = Vec::new();
        let stale = self.policy.flow.recommit / 2;
        let mut budget = Budget::of(&self.pace);
        let probe = match purpose {
            Purpose::Everything | Purpose::Search => None,
            Purpose::Probe(_, target) => Some(*target),
        };
        for partition in &partitions {
            let Some(task) = self.tasks.get_mut(partition) else { continue };
            task.sequence = task.sequence.next();
        }
        for partition in partitions {
            let Some(task) = self.tasks.get(&partition) else { continue };
            let carries = Carries::of(task, purpose);
            let mut offsets = Vec::with_capacity(task.lanes.len());
            let mut counts = Vec::with_capacity(task.lanes.len());
            for (lane, state) in task.lanes() {
                let before = taken.len();
                match carries {
                    Carries::Settled => {
                        let reach = self.reach(purpose, &open.tried, (partition, task.epoch, lane));
                        let ready = state.ready_records().take_while(|settled| {
                            reach.is_none_or(|reach| settled.id.offset < reach) && budget.takes(settled)
                        });
                        taken.extend(ready);
                    }
                    Carries::Offsets => {}
                }
                let count = taken.len().saturating_sub(before);
                let idle = state.committed_at.is_none_or(|at| now.mono.since(at) >= stale);
                let after = state.offset_after(count);
                if after > state.committed || lane == Lane::Source || idle {
                    offsets.push((lane, after));
                }
                counts.push(count);
            }
            let notes = notes_of(task, &counts, probe, now.mono);
            let hinted = self.pace.hinted.remove(&partition) && !self.pace.wanted.contains(&partition);
            if hinted
                && probe.is_none()
                && counts.iter().all(|count| *count == 0)
                && notes.is_empty()
                && !task.has_passed()
            {
                continue;
            }
            let mark = self.mark_of(task);
            let topics = task.topics.clone();
            commits.push(TaskCommit { partition, epoch: task.epoch, offsets: offsets.clone(), mark, topics });
            let (epoch, sequence) = (task.epoch, task.sequence);
            let accepts = match task.stale {
                Some(Stale::Accepted) => Accepts::Repeats,
                Some(Stale::Asked(_)) | None => Accepts::Nothing,
            };
            open.tasks.push(OpenTask {
                partition,
                epoch,
                sequence,
                offsets,
                counts,
                carries,
                notes,
                accepts,
                lost: false,
            });
        }
        if commits.is_empty() {
            self.pace.wanted.clear();
            return;
        }
        // Writes leave in the order in which they were settled, whatever lane or task they are from.
        taken.sort_by_key(|settled| settled.order);
        let records = taken.len();
        let mut writes = Vec::with_capacity(records);
        for settled in taken {
            write_of(settled, &self.policy, now.wall, &mut writes);
            open.writers.add(settled.id, writes.len());
        }
        for OpenTask { partition, notes, counts, .. } in &open.tasks {
            self.write_notes(*partition, notes, counts, now, &mut writes);
        }
        open.targets.extend(writes.iter().map(|write| (write.target, write.partition)));
        for OpenTask { partition, counts, .. } in &open.tasks {
            self.pace.wanted.remove(partition);
            let Some(task) = self.tasks.get_mut(partition) else { continue };
            task.lanes.iter_mut().zip(counts).for_each(|(lane, count)| lane.in_transaction = *count);
        }
        self.touched.extend(open.tasks.iter().map(|task| task.partition));
        match purpose {
            Purpose::Everything => self.search.takes_turn(),
            Purpose::Search => self.search.gives_way(),
            Purpose::Probe(..) => {}
        }
        self.next_transaction = TransactionId(id.0.saturating_add(1));
        self.open = Some(open);
        self.recount();
        let transaction = Transaction { id, tasks: commits, writes, records, probe };
        self.actions.push_back(Action::Transact(Box::new(transaction)));
    }

    /// The tasks that the next transaction holds.
    fn partitions_for(&mut self, purpose: &Purpose, tried: &BTreeSet<DeliveryId>) -> Vec<Partition> {
        match purpose {
            Purpose::Probe(partition, _) => return vec![*partition],
            Purpose::Search => {
                let tasks: BTreeSet<Partition> = tried.iter().map(|id| id.partition).collect();
                return tasks.into_iter().collect();
            }
            Purpose::Everything => {}
        }
        let after = self.pace.rotor.unwrap_or(Partition(i32::MIN));
        let (behind, ahead): (Vec<_>, Vec<_>) =
            self.tasks.iter().partition(|(partition, _)| **partition <= after);
        let mut records = 0usize;
        let mut chosen = Vec::new();
        for (partition, task) in ahead.into_iter().chain(behind) {
            let ready = if task.block.is_none() { self.free(*partition, task) } else { 0 };
            let wanted = self.pace.wanted.contains(partition) || self.pace.hinted.contains(partition);
            if task.phase != Phase::Restoring && (ready > 0 || wanted) {
                if records > 0 && records.saturating_add(ready) > MOST_RECORDS {
                    break;
                }
                records = records.saturating_add(ready);
                chosen.push(*partition);
            }
        }
        self.pace.rotor = chosen.last().copied();
        chosen
    }

    /// Counts anew what the next transaction can take.
    pub(super) fn recount(&mut self) {
        let unblocked = || self.tasks.iter().filter(|(_, task)| task.block.is_none());
        self.pace.ready = unblocked().map(|(partition, task)| self.free(*partition, task)).sum();
        let first = |(partition, task): (&Partition, &Task)| {
            let (partition, epoch) = (*partition, task.epoch);
            let free = task.lanes().filter(|lane| self.search.free(partition, epoch, *lane) > 0);
            free.filter_map(|(_, state)| state.ready_records().next()).map(|settled| settled.at).min()
        };
        self.pace.oldest = unblocked().filter_map(first).min();
    }

    pub(super) fn transacted(&mut self, id: TransactionId, result: TransactionResult, now: Now) {
        if self.open.as_ref().is_none_or(|open| open.id != id) {
            self.broken(InvariantId::R8, format!("an answer for transaction {}, which is not open", id.0));
            return;
        }
        match result {
            TransactionResult::Committed => {
                self.pace.most_bytes = self.pace.most_bytes.saturating_mul(2).min(MOST_BYTES);
                self.pace.twin.committed();
                self.resolve(|_| true, now);
            }
            TransactionResult::Aborted(cause) => self.aborted(&cause, now),
            TransactionResult::Fenced { slot, after } => {
                // One that was too old the broker gave up by itself.
                if after < self.policy.flow.transaction_timeout
                    && let Some(times) = self.pace.twin.fenced(slot, self.policy.flow.twins)
                {
                    self.stop(StopReason::TwinProcess { times });
                }
                self.aborted(&AbortCause::Passing { detail: "fenced".to_owned() }, now);
            }
            TransactionResult::Unknown => {
                let partitions =
                    self.open.iter().flat_map(|open| &open.tasks).map(|task| task.partition).collect();
                self.actions.push_back(Action::ReadBack { transaction: id, partitions });
            }
        }
    }

    pub(super) fn read_back(
        &mut self,
        id: TransactionId,
        marks: &[(Partition, Option<CommitMark>)],
        now: Now,
    ) {
        let Some(open) = self.open.as_ref().filter(|open| open.id == id) else {
            self.broken(InvariantId::R8, format!("marks for transaction {}, which is not open", id.0));
            return;
        };
        let ours = |task: &OpenTask| {
            let mark =
                marks.iter().find(|(partition, _)| *partition == task.partition).and_then(|(_, mark)| *mark);
            mark.is_some_and(|mark| mark.writer == self.writer && mark.sequence >= task.sequence)
        };
        let committed: BTreeSet<Partition> =
            open.tasks.iter().filter(|task| ours(task)).map(|task| task.partition).collect();
        self.resolve(|partition| committed.contains(&partition), now);
    }

    /// Ends the open transaction: committed for some of its tasks, aborted for the rest.
    fn resolve(&mut self, committed: impl Fn(Partition) -> bool, now: Now) {
        let Some(open) = self.open.take() else { return };
        let mut fates: BTreeMap<(Partition, Lane, FateKind), u64> = BTreeMap::new();
        let mut unblocked: Option<Target> = None;
        let (mut begun, mut breaches) = (Vec::new(), Vec::new());
        let mut accepted = Vec::new();
        let mut written = false;
        for of_task in open.tasks {
            let (partition, epoch) = (of_task.partition, of_task.epoch);
            let ended = if committed(partition) { Ended::Committed } else { Ended::Aborted };
            let Some(task) = self.tasks.get_mut(&partition).filter(|task| task.epoch == epoch) else {
                breaches.extend(check::ownership(&of_task));
                continue;
            };
            breaches.extend(check::prefix(task, &of_task, ended));
            let OpenTask { offsets, counts, carries, notes, accepts, .. } = of_task;
            self.touched.insert(partition);
            if ended == Ended::Aborted {
                task.lanes.iter_mut().for_each(|lane| lane.in_transaction = 0);
                if task.phase == Phase::Starting || accepts == Accepts::Repeats {
                    self.pace.wanted.insert(partition);
                } else if task.notes.due || task.has_passed() {
                    self.pace.hinted.insert(partition);
                }
                continue;
            }
            written = true;
            noted(task, &counts, &notes);
            task.notes.due &= notes.is_empty();
            for (lane, offset) in offsets {
                self.search.committed(partition, lane, offset);
                let Some(state) = task.lane(lane) else { continue };
                for entry in state.commit(offset, now.mono) {
                    if let Stage::Settled(settled) = entry.stage {
                        let count = fates.entry((partition, lane, kind_of(settled.fate))).or_default();
                        *count = count.saturating_add(1);
                    }
                }
            }
            if let Some(block) = task.block.take_if(|_| carries == Carries::Settled) {
                unblocked = Some(block.target);
                self.blocked.remove(&partition);
                self.actions.push_back(Action::Report(Report::Unblocked {
                    partitions: vec![partition],
                    target: block.target,
                }));
            }
            if task.phase == Phase::Starting {
                begun.push(partition);
            }
            if accepts == Accepts::Repeats {
                accepted.push(partition);
            }
            self.time_the_next_note(partition, now.mono);
        }
        if written && !open.tried.is_empty() {
            self.search.narrowed(&open.tried);
        }
        breaches.into_iter().for_each(|(id, detail)| self.broken(id, detail));
        begun.into_iter().for_each(|partition| self.begin(partition, now));
        accepted.into_iter().for_each(|partition| self.go_on_from_stale(partition));
        if !fates.is_empty() {
            let fate = |((partition, lane, kind), count)| Fate { partition, lane, kind, count };
            self.actions.push_back(Action::Report(Report::Settled(fates.into_iter().map(fate).collect())));
        }
        self.pace.aborts = 0;
        self.pace.not_before = now.mono;
        if let Some(target) = unblocked {
            // What one task could write the others can try now.
            self.tasks.values_mut().filter_map(|task| task.block.as_mut()).for_each(|block| {
                if block.target == target {
                    block.retry_at = now.mono;
                }
            });
        }
        self.recount();
    }

    fn aborted(&mut self, cause: &AbortCause, now: Now) {
        let (targets, writers, tried) = self.open.as_mut().map(Open::evidence).unwrap_or_default();
        let tasks = self.open.iter().flat_map(|open| &open.tasks);
        let epochs: BTreeMap<Partition, Epoch> = tasks.map(|task| (task.partition, task.epoch)).collect();
        let aborts = self.pace.aborts.saturating_add(1);
        self.resolve(|_| false, now);
        self.pace.aborts = aborts;
        match cause {
            AbortCause::Passing { .. } | AbortCause::Unwritable { .. } => {
                self.pace.most_bytes = (self.pace.most_bytes / 2).max(1);
            }
            // Not since it was too much at a time.
            AbortCause::Refused { .. } => {}
        }
        let (target, detail, named): (_, _, Vec<Partition>) = match cause {
            AbortCause::Passing { .. } => {
                self.pace.not_before = now.mono.plus(doubled(FIRST_BACKOFF, aborts, LONGEST_BACKOFF));
                return;
            }
            AbortCause::Unwritable { target, detail } => {
                let named = targets.iter().filter(|(written, _)| written == target);
                (*target, detail, named.map(|(_, partition)| *partition).collect())
            }
            AbortCause::Refused { target, partition, flaw, suspects, detail } => {
                match self.accuse((&writers, &tried), suspects, (*target, *flaw, detail), now) {
                    Found::GoesOn => {
                        self.pace.aborts = 0;
                        self.recount();
                        return;
                    }
                    Found::NoOtherForm(tasks) => (*target, detail, tasks.into_iter().collect()),
                    Found::NoRecord => (*target, detail, vec![*partition]),
                }
            }
        };
        let stopped = |partition: &Partition| {
            epochs.get(partition).is_some_and(|epoch| self.block(*partition, *epoch, target, now.mono))
        };
        let blocked: Vec<Partition> = named.into_iter().filter(stopped).collect();
        if blocked.is_empty() {
            // Nothing of it is ours any more: like an abort that names nothing.
            self.pace.not_before = now.mono.plus(doubled(FIRST_BACKOFF, aborts, LONGEST_BACKOFF));
            return;
        }
        self.pace.aborts = 0;
        let detail = detail.clone();
        self.actions.push_back(Action::Report(Report::Blocked { partitions: blocked, target, detail }));
        self.recount();
    }

    /// Stops a task until its target can be written. Says whether the task is still that of this epoch.
    fn block(&mut self, partition: Partition, epoch: Epoch, target: Target, now: Monotonic) -> bool {
        let Some(task) = self.tasks.get_mut(&partition).filter(|task| task.epoch == epoch) else {
            return false;
        };
        let failures = task.block.as_ref().map_or(0, |block| block.failures).saturating_add(1);
        let retry_at = now.plus(doubled(FIRST_UNBLOCK, failures, LONGEST_UNBLOCK));
        task.block = Some(Block { target, retry_at, failures });
        self.blocked.insert(partition);
        true
    }
}

/// `first`, doubled `times - 1` times, at most `longest`.
fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    let factor = 1u32.checked_shl(times.saturating_sub(1)).unwrap_or(u32::MAX);
    first.checked_mul(factor).unwrap_or(longest).min(longest)
}

fn kind_of(fate: Disposition) -> FateKind {
    match fate {
        Disposition::Emit(_) => FateKind::Emit,
        Disposition::Retry { verdict, .. } => FateKind::Retry(verdict),
        Disposition::Hop { .. } => FateKind::Hop,
        Disposition::DeadLetter(verdict) => FateKind::DeadLetter(verdict),
        Disposition::Obeyed => FateKind::Obeyed,
    }
}
