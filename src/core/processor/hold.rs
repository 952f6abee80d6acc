//! Held records: when they are released, and how the gaps before them end.

use std::collections::VecDeque;
use std::sync::Arc;

use super::look::note_failure;
use super::order::Turn;
use super::positions::{NOTE_EVERY, may_note};
use super::{Processor, Timer};
use crate::core::class::{Class, Reason};
use crate::core::envelope::DeliveryId;
use crate::core::event::Action;
use crate::core::guard::{KeyHash, Version};
use crate::core::held::Next;
use crate::core::lane::{Disposition, Entry, Pending, Stage};
use crate::core::outcome::Verdict;
use crate::core::policy::{First, Guard};
use crate::core::position::{Epoch, Lane, Offset, Partition};
use crate::core::task::Mode;
use crate::core::time::Now;

impl Processor {
    /// Releases held records of a task whose turn it is, as far as the window has room.
    pub(super) fn release(&mut self, partition: Partition, now: Now) {
        self.close_gaps(partition, now);
        let window = self.policy.flow.window;
        loop {
            let Some(task) = self.tasks.get_mut(&partition).filter(|task| task.processes(Lane::Held)) else {
                return;
            };
            if task.room(Lane::Held, window) == 0 {
                return;
            }
            let Some(key) = task.guarded.as_mut().and_then(|guarded| guarded.held.pop_ready()) else {
                return;
            };
            self.release_of(partition, key, now);
        }
    }

    /// Releases what is next of a key, where no record of it has the turn.
    fn release_of(&mut self, partition: Partition, key: KeyHash, now: Now) {
        let policy = Arc::clone(&self.policy);
        let Some(task) = self.tasks.get_mut(&partition) else { return };
        let epoch = task.epoch;
        if task.keys.contains_key(&key) {
            // Looked at again when that one is settled.
            return;
        }
        let Some(guarded) = task.guarded.as_deref_mut() else { return };
        let counts = guarded.mode == Mode::Count;
        let newest = guarded.newest(key, (Lane::Held, Offset(i64::MAX))).0;
        let next = match (newest, &policy.order.guard) {
            (Some(newest), _) => newest.version.next(),
            (None, Guard::Contiguous(rules)) => match rules.first {
                First::At(first) => Some(first),
                First::Any => None,
            },
            (None, Guard::None | Guard::Latest(_)) => None,
        };
        let Some(next) = guarded.held.next_of(key, counts, next) else { return };
        let (Next::Turn(place) | Next::Follows(place)) = next;
        let Some((offset, record)) = guarded.held.release(key, place) else { return };
        // There may be more of it.
        guarded.held.look_at(key);
        let dead = guarded.held.get(key).and_then(|of_key| of_key.blockers.dead.clone());
        let id = DeliveryId { partition, epoch, lane: Lane::Held, offset };
        let mut pending = Pending { held: Some(place), ..Pending::new(record.envelope, Some(key)) };
        let Some(lane) = task.lane(Lane::Held) else { return };
        match next {
            Next::Turn(_) => {
                lane.window.push_back(Entry { offset, stage: Stage::Queued(pending) });
                task.keys.insert(key, VecDeque::new());
                match self.take_turn(key, id, now) {
                    Turn::Taken => self.execute(id, now),
                    Turn::Passed => self.next_of(key, id, now),
                }
            }
            Next::Follows(_) => {
                lane.window.push_back(Entry { offset, stage: Stage::Moving });
                let verdict = Verdict { class: Class::Permanent, reason: Reason::PredecessorDead };
                let origin = dead.map(|dead| format!("`{}#1`", dead.origin)).unwrap_or_default();
                let detail =
                    format!("the record of its key that it was held behind is the dead letter {origin}");
                let envelope = Arc::make_mut(&mut pending.envelope);
                note_failure(envelope, &verdict, detail, &self.word(Lane::Held), now.wall);
                self.put(id, pending, Disposition::DeadLetter(verdict), now);
            }
        }
    }

    /// Sees whether the worker may hold more, and lets tasks go on that waited for that.
    pub(super) fn see_room(&mut self) {
        if !self.policy.order.holds() {
            return;
        }
        let guarded = || self.tasks.values().filter_map(|task| task.guarded.as_deref());
        let held: usize = guarded().map(|guarded| guarded.held.bytes()).sum();
        let is_full = held >= self.policy.order.held.bytes;
        for (partition, task) in &mut self.tasks {
            if let Some(guarded) = task.guarded.as_deref_mut().filter(|guarded| guarded.is_full != is_full) {
                guarded.is_full = is_full;
                self.touched.insert(*partition);
            }
        }
    }

    /// Lets the clock of a task run, or stand.
    pub(super) fn set_clock(&mut self, partition: Partition, now: Now) {
        let Some(task) = self.tasks.get_mut(&partition) else { return };
        let (runs, may_note) = (task.processes(Lane::Held), may_note(task));
        if let Some(guarded) = task.guarded.as_deref_mut()
            && guarded.clock.set(runs, now.mono)
        {
            guarded.wakes_at = None;
            guarded.clock_due = !runs && may_note && guarded.held.first_due().is_some();
            if guarded.clock_due {
                self.pace.hinted.insert(partition);
            }
            self.time_gaps(partition, now);
        }
    }

    /// Has the next transaction note what the clock of a task shows, as long as something goes by it.
    pub(super) fn note_clock(&mut self, partition: Partition, now: Now) {
        let Some(task) = self.tasks.get_mut(&partition) else { return };
        let Some(guarded) = task.guarded.as_deref_mut() else { return };
        guarded.clock_timed = false;
        if guarded.clock.runs() && guarded.held.first_due().is_some() {
            guarded.clock_due = true;
            self.pace.hinted.insert(partition);
        }
        self.time_gaps(partition, now);
    }

    /// Sets the timer of the first gap that may be over.
    pub(super) fn time_gaps(&mut self, partition: Partition, now: Now) {
        let Some(task) = self.tasks.get_mut(&partition) else { return };
        let epoch = task.epoch;
        let Some(guarded) = task.guarded.as_deref_mut().filter(|guarded| guarded.mode == Mode::Count) else {
            return;
        };
        let Some(at) = guarded.held.first_due().and_then(|due| guarded.clock.when(due)) else { return };
        if !guarded.clock_timed {
            guarded.clock_timed = true;
            self.timers.insert((now.mono.plus(NOTE_EVERY), Timer::Clock(partition, epoch)));
        }
        if guarded.wakes_at.is_none_or(|wakes_at| at < wakes_at) {
            guarded.wakes_at = Some(at);
            self.timers.insert((at, Timer::Gap(partition, epoch)));
        }
    }

    /// The time of a gap may be over.
    pub(super) fn gap_may_be_over(&mut self, partition: Partition) {
        if let Some(guarded) = self.tasks.get_mut(&partition).and_then(|task| task.guarded.as_deref_mut()) {
            guarded.wakes_at = None;
        }
        self.touched.insert(partition);
    }

    /// The end of the source is known as it is now.
    pub(super) fn found_end(&mut self, partition: Partition, epoch: Epoch, end: Offset) {
        let Some(task) = self.tasks.get_mut(&partition).filter(|task| task.epoch == epoch) else { return };
        if let Some(guarded) = task.guarded.as_deref_mut() {
            guarded.finds_end = false;
            guarded.held.found_end(end);
            self.touched.insert(partition);
        }
    }

    /// Ends the gaps whose time is over: once nothing that could fill them waits in a tier, and the source is read as far as it
    /// was then.
    fn close_gaps(&mut self, partition: Partition, now: Now) {
        let policy = Arc::clone(&self.policy);
        let Guard::Contiguous(rules) = &policy.order.guard else { return };
        let Some(task) = self.tasks.get_mut(&partition) else { return };
        let read_to = task.lanes.get(Lane::Source.index()).map(|source| source.offset_after(source.settled));
        let epoch = task.epoch;
        let Some(guarded) = task.guarded.as_deref_mut().filter(|guarded| guarded.clock.runs()) else {
            return;
        };
        let clock = guarded.clock.at(now.mono);
        while let Some((key, place)) = guarded.held.pop_due(clock) {
            guarded.held.closes(key, place);
        }
        for (key, place) in guarded.held.close_up_to(read_to.unwrap_or(Offset(0))) {
            let newest = guarded.newest(key, (Lane::Held, Offset(i64::MAX))).0;
            let applied = newest.map(|newest| newest.version);
            let of_key = guarded.held.get(key);
            if of_key.is_some_and(|of_key| of_key.awaits(applied, Version(place))) {
                guarded.held.set_due(key, place, clock.saturating_add(rules.gap_timeout));
            } else {
                guarded.held.is_over(key, place);
            }
        }
        if guarded.held.needs_end() && !guarded.finds_end {
            guarded.finds_end = true;
            self.actions.push_back(Action::FindEnd { partition, epoch });
        }
        self.time_gaps(partition, now);
    }
}
