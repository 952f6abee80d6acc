//! When a transaction is formed, what it holds, and what its end means.

use std::collections::{BTreeMap, BTreeSet};

use super::abort::{FIRST_BACKOFF, LONGEST_BACKOFF, doubled};
use super::blocks::{Carries, Purpose};
use super::check::{self, Ended};
use super::effects::{NewestEffects, apply, commit_keys, effect_write, notes_clock, release_write};
use super::pace::{Budget, MOST_BYTES, MOST_RECORDS};
use super::positions::{Note, noted, notes_of};
use super::suspect::Writers;
use super::take_back::Alone;
use super::twin::Fence;
use super::write::write_of;
use super::{Mode, Processor};
use crate::core::envelope::DeliveryId;
use crate::core::event::{
    AbortCause, Action, Fate, FateKind, Part, Report, StopReason, Target, TaskCommit, Transaction,
    TransactionId, TransactionResult,
};
use crate::core::invariant::InvariantId;
use crate::core::lane::{Disposition, Presence, Settled, Stage};
use crate::core::position::{CommitMark, Epoch, Lane, Offset, Partition, Sequence};
use crate::core::task::{Phase, Stale, Task};
use crate::core::time::{Monotonic, Now};

/// The transaction that is under way.
#[derive(Debug)]
pub(super) struct Open {
    id: TransactionId,
    pub(super) tasks: Vec<OpenTask>,
    /// Which part of which task wrote to which target.
    targets: BTreeSet<(Target, Partition, Part)>,
    writers: Writers,
    /// The suspects of a search that it tries.
    tried: BTreeSet<DeliveryId>,
}

#[derive(Debug)]
pub(super) struct OpenTask {
    pub(super) partition: Partition,
    pub(super) epoch: Epoch,
    sequence: Sequence,
    pub(super) offsets: Vec<(Lane, Offset)>,
    /// How many records of each lane are in it, by [`Lane::index`].
    pub(super) counts: Vec<usize>,
    carries: Carries,
    /// Whether the group has taken the task since.
    pub(super) lost: bool,
    notes: Vec<Note>,
    /// Whether it notes the clock.
    clock: bool,
    /// Whether it commits that a person has accepted repeats.
    accepts: Accepts,
}

/// Whether a transaction commits that repeats were accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accepts {
    Repeats,
    Nothing,
}

impl Open {
    /// What an abort may need to know of it: where its tasks wrote, which record made which write, what was tried.
    pub(super) fn evidence(
        &mut self,
    ) -> (BTreeSet<(Target, Partition, Part)>, Writers, BTreeSet<DeliveryId>) {
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

impl Processor {
    pub(super) fn transact_if_time(&mut self, now: Now) {
        if self.pace.uncounted {
            self.recount();
        }
        if self.open.is_some() || self.mode == Mode::Stopped || now.mono < self.pace.not_before {
            return;
        }
        if let Some(purpose) = self.purpose(now.mono) {
            self.transact(&purpose, now);
        }
    }

    fn purpose(&self, now: Monotonic) -> Option<Purpose> {
        let due = self.blocks().find(|(_, _, block)| block.retry_at <= now);
        if let Some((partition, part, block)) = due {
            return Some(Purpose::Probe(partition, part, block.target));
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
            Purpose::Probe(partition, part, _) => self.stopped_at(*partition, *part),
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
            Purpose::Probe(.., target) => Some(*target),
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
                let mut count = 0usize;
                if state.presence == Presence::There && carries.takes(lane) {
                    let reach = self.reach(purpose, &open.tried, (partition, task.epoch, lane));
                    let ready = state.ready_records().take_while(|settled| {
                        reach.is_none_or(|reach| settled.id.offset < reach) && budget.takes(settled)
                    });
                    count = ready.count();
                }
                counts.push(count);
            }
            if task.crosses() {
                let alone = if taken.is_empty() { Alone::Yes } else { Alone::No };
                self.make_whole((partition, task), purpose, carries, &mut counts, &mut open.tried, alone);
            }
            for ((lane, state), count) in task.lanes().zip(counts.iter().copied()) {
                let there = state.presence == Presence::There;
                taken.extend(state.ready_records().take(count));
                let idle = state.committed_at.is_none_or(|at| now.mono.since(at) >= stale);
                let idle = idle && lane != Lane::Held;
                let after = state.offset_after(count);
                if there && (after > state.committed || lane == Lane::Source || idle) {
                    offsets.push((lane, after));
                }
            }
            let notes = notes_of(task, &counts, probe, now.mono);
            let takes = counts.iter().any(|count| *count > 0);
            let clock = task.guarded.as_deref().is_some_and(|guarded| notes_clock(guarded, takes));
            let hinted = self.pace.hinted.remove(&partition) && !self.pace.wanted.contains(&partition);
            if hinted && !clock && probe.is_none() && !takes && notes.is_empty() && !task.has_passed() {
                continue;
            }
            let accepts = accepts(task, &counts);
            let mark = self.mark_of(task, accepts);
            let topics = task.topics.clone();
            // Those of what was held are no offsets of a topic.
            let of_topics = offsets.iter().copied().filter(|(lane, _)| *lane != Lane::Held).collect();
            commits.push(TaskCommit { partition, epoch: task.epoch, offsets: of_topics, mark, topics });
            let (epoch, sequence) = (task.epoch, task.sequence);
            open.tasks.push(OpenTask {
                partition,
                epoch,
                sequence,
                offsets,
                counts,
                carries,
                notes,
                clock,
                accepts,
                lost: false,
            });
        }
        if commits.is_empty() {
            self.pace.wanted.clear();
            // What is left may stand behind a suspect.
            self.search.takes_turn();
            return;
        }
        // Whoever has had no room is the first of the next one.
        let served = open.tasks.iter().rev().find(|task| task.counts.iter().any(|count| *count > 0));
        self.pace.rotor = served.map(|task| task.partition).or(self.pace.rotor);
        // Writes leave in the order in which they were settled, whatever lane or task they are from.
        taken.sort_by_key(|settled| settled.order);
        let records = taken.len();
        let newest = NewestEffects::of(&taken);
        let mut writes = Vec::with_capacity(records);
        for settled in taken.iter().copied() {
            let before = writes.len();
            write_of(settled, &self.policy, now.wall, &mut writes);
            if let Some(effect) = newest.effect(settled) {
                writes.push(effect_write(settled, effect, &self.policy.order, now.wall));
            }
            writes.extend(release_write(settled, &self.policy.order, now.wall));
            open.writers.add(settled.id, writes.len());
            let (partition, part) = (settled.id.partition, Part::of(settled.id.lane));
            let written = writes.iter().skip(before);
            open.targets.extend(written.map(|write| (write.target, partition, part)));
        }
        let before = writes.len();
        self.write_blockers(&taken, now, &mut writes);
        for OpenTask { partition, notes, clock, counts, .. } in &open.tasks {
            writes.extend(clock.then(|| self.clock_write(*partition, now)).flatten());
            self.write_notes(*partition, notes, counts, now, &mut writes);
        }
        let written = writes.iter().skip(before);
        open.targets.extend(written.map(|write| (write.target, write.partition, Part::Records)));
        for OpenTask { partition, counts, .. } in &open.tasks {
            self.pace.wanted.remove(partition);
            let Some(task) = self.tasks.get_mut(partition) else { continue };
            task.lanes.iter_mut().zip(counts).for_each(|(lane, count)| lane.in_transaction = *count);
        }
        self.touched.extend(open.tasks.iter().map(|task| task.partition));
        match purpose {
            Purpose::Everything => self.search.takes_turn(),
            Purpose::Search => self.search.gives_way(),
            Purpose::Probe(partition, part, _) => self.postpone(*partition, *part, now.mono),
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
            Purpose::Probe(partition, ..) => return vec![*partition],
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
            let ready = self.free(*partition, task);
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
        self.pace.uncounted = false;
        self.pace.ready = self.tasks.iter().map(|(partition, task)| self.free(*partition, task)).sum();
        let first = |(partition, task): (&Partition, &Task)| {
            let free = self.takes(*partition, task).filter(|(_, count)| *count > 0);
            free.filter_map(|(state, _)| state.ready_records().next()).map(|settled| settled.at).min()
        };
        self.pace.oldest = self.tasks.iter().filter_map(first).min();
    }

    pub(super) fn transacted(&mut self, id: TransactionId, result: TransactionResult, now: Now) {
        if self.open.as_ref().is_none_or(|open| open.id != id) {
            self.broken(InvariantId::R8, format!("an answer for transaction {}, which is not open", id.0));
            return;
        }
        match result {
            TransactionResult::Committed => {
                self.pace.most_bytes = self.pace.most_bytes.saturating_mul(2).min(MOST_BYTES);
                self.pace.twin.committed(now.mono);
                self.resolve(|_| true, now);
            }
            TransactionResult::Aborted(cause) => self.aborted(&cause, now),
            TransactionResult::Fenced { slot, after, generation } => {
                let fence = Fence { slot, generation, at: now.mono };
                // One that was too old the broker gave up by itself.
                if after < self.policy.flow.transaction_timeout
                    && let Some(times) = self.pace.twin.fenced(fence, self.policy.flow.twins)
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
        let aborts = self.pace.aborts.saturating_add(1);
        self.resolve(|partition| committed.contains(&partition), now);
        if committed.is_empty() {
            self.pace.aborts = aborts;
            self.pace.not_before = now.mono.plus(doubled(FIRST_BACKOFF, aborts, LONGEST_BACKOFF));
        }
    }

    /// Ends the open transaction: committed for some of its tasks, aborted for the rest.
    pub(super) fn resolve(&mut self, committed: impl Fn(Partition) -> bool, now: Now) {
        let Some(open) = self.open.take() else { return };
        let mut fates: BTreeMap<(Partition, Lane, FateKind), u64> = BTreeMap::new();
        let mut unblocked: Vec<Target> = Vec::new();
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
            let OpenTask { offsets, counts, carries, notes, clock, accepts, .. } = of_task;
            self.touched.insert(partition);
            if ended == Ended::Aborted {
                task.lanes.iter_mut().for_each(|lane| lane.in_transaction = 0);
                if task.phase == Phase::Starting || accepts == Accepts::Repeats {
                    self.pace.wanted.insert(partition);
                } else if task.notes.due || clock || task.has_passed() {
                    self.pace.hinted.insert(partition);
                }
                continue;
            }
            written = true;
            noted(task, &counts, &notes);
            task.notes.due &= notes.is_empty();
            let (mut effects, mut of_keys) = (Vec::new(), Vec::new());
            let holds = task.guarded.as_ref().is_some_and(|guarded| guarded.mode.holds());
            for (lane, offset) in offsets {
                self.search.committed(partition, lane, offset);
                let Some(state) = task.lanes.get_mut(lane.index()) else { continue };
                for entry in state.commit(offset, now.mono) {
                    if let Stage::Settled(settled) = entry.stage {
                        task.guarded.iter_mut().for_each(|guarded| guarded.leaves(&settled));
                        effects
                            .extend(settled.effect.map(|done| (settled.order, (lane, entry.offset), done)));
                        if let Disposition::Obeyed(reply) = &settled.fate {
                            let reply = reply.clone();
                            self.actions.push_back(Action::Report(Report::Answered { partition, reply }));
                        }
                        let kind = FateKind::from(&settled.fate);
                        let count = fates.entry((partition, lane, kind)).or_default();
                        *count = count.saturating_add(1);
                        if holds {
                            of_keys.push(settled);
                        }
                    }
                }
            }
            if let Some(guarded) = &mut task.guarded {
                guarded.clock_due &= !clock;
                breaches.extend(apply(guarded, partition, effects));
                commit_keys(guarded, of_keys);
            }
            // Meanwhile a lane may have passed what stood behind its records.
            if task.has_passed() {
                self.pace.hinted.insert(partition);
            }
            if task.phase == Phase::Starting {
                begun.push(partition);
            }
            if accepts == Accepts::Repeats {
                accepted.push(partition);
            }
            self.time_the_next_note(partition, now.mono);
            unblocked.extend(self.unblock(partition, carries, now));
        }
        if written && !open.tried.is_empty() {
            self.search.narrowed(&open.tried);
        }
        breaches.into_iter().for_each(|(id, detail)| self.broken(id, detail));
        begun.into_iter().for_each(|partition| self.begin(partition, now));
        accepted.into_iter().for_each(|partition| self.go_on_from_stale(partition, now));
        if !fates.is_empty() {
            let fate = |((partition, lane, kind), count)| Fate { partition, lane, kind, count };
            self.actions.push_back(Action::Report(Report::Settled(fates.into_iter().map(fate).collect())));
        }
        self.pace.aborts = 0;
        self.pace.not_before = now.mono;
        self.try_again(&unblocked, now.mono);
        self.recount();
    }
}

/// Whether a transaction that takes `counts` records of the lanes of a task commits that repeats were accepted: only together
/// with the answer to whoever accepted them.
pub(super) fn accepts(task: &Task, counts: &[usize]) -> Accepts {
    let taken = counts.get(Lane::Control.index()).copied().unwrap_or_default();
    let answered = task.lanes.get(Lane::Control.index()).is_none_or(|lane| lane.ready() == taken);
    match &task.stale {
        Some(Stale::Accepted) if answered => Accepts::Repeats,
        Some(Stale::Accepted | Stale::Asked(_)) | None => Accepts::Nothing,
    }
}
