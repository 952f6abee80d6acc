//! From a record that was read to its fate: the gate, the key, the handler, the route.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::hash_map::Entry as KeyEntry;

use super::look::{Look, note_failure};
use super::order::Turn;
use super::{Processor, Timer};
use crate::core::class::{Class, ReasonName};
use crate::core::classify::classify;
use crate::core::envelope::DeliveryId;
use crate::core::event::{Action, Delivery, Part};
use crate::core::guard::KeyHash;
use crate::core::invariant::InvariantId;
use crate::core::lane::{Disposition, Entry, Form, Pending, Presence, Settled, Stage, Unread};
use crate::core::outcome::{Failure, Outcome, Output, OutputName, Verdict};
use crate::core::position::{Epoch, Lane, Partition};
use crate::core::record::Record;
use crate::core::route::{self, Next, Step};
use crate::core::time::{Monotonic, Now};

/// The reason of a dead letter whose handler wrote to an output that the topology does not have.
const NO_OUTPUT: ReasonName = ReasonName::from_static("no-such-output");

impl Processor {
    pub(super) fn fetched(&mut self, at: (Partition, Epoch, Lane), records: Vec<Record>, now: Now) {
        let (partition, epoch, lane) = at;
        let delay = self.policy.lane_delay(lane);
        let Some(task) = self.tasks.get_mut(&partition).filter(|task| task.epoch == epoch) else { return };
        if !task.executes() {
            return;
        }
        let Some(state) = task.lane(lane) else { return };
        state.fetching = false;
        let mut repeated = None;
        for record in records {
            if record.offset < state.next_read {
                repeated = Some((record.offset, state.next_read));
                continue;
            }
            state.next_read = record.offset.next();
            // A writer's clock may be ahead: nothing waits longer than the delay from when it was first seen.
            let wait = |delay| record.timestamp.plus(delay).since(now.wall).min(delay);
            let release = delay.map(|delay| now.mono.plus(wait(delay)));
            state.unread.push_back(Unread { record, release });
        }
        self.touched.insert(partition);
        if let Some((offset, expected)) = repeated {
            let detail =
                format!("{lane:?} of task {partition}: offset {offset} was read again below {expected}");
            self.broken(InvariantId::R1, detail);
        }
    }

    /// Takes records of a task into the window as far as its lanes have any that are due, and asks for more.
    pub(super) fn admit(&mut self, partition: Partition, now: Now) {
        self.see_room();
        // What operators want comes first, then the tiers: their records have waited.
        let order = Lane::Control.index();
        for lane in self.policy.all_lanes().skip(order).chain([Lane::Source]) {
            if lane == Lane::Held {
                self.release(partition, now);
                continue;
            }
            while let Some((Unread { record, release }, epoch)) = self.next_due(partition, lane, now) {
                let id = DeliveryId { partition, epoch, lane, offset: record.offset };
                let look = self.look(id, record, now);
                self.enter(id, look, release, now);
            }
            self.ask_for_more(partition, lane, now);
        }
    }

    /// The record at the front of a lane, if it is due and there is room for it.
    fn next_due(&mut self, partition: Partition, lane: Lane, now: Now) -> Option<(Unread, Epoch)> {
        let window = self.policy.flow.window;
        let task = self.tasks.get_mut(&partition).filter(|task| task.processes(lane))?;
        if task.room(lane, window) == 0 {
            return None;
        }
        let epoch = task.epoch;
        let state = task.lane(lane)?;
        if let Some(release) = state.held_until(now.mono) {
            if state.wakes_at != Some(release) {
                state.wakes_at = Some(release);
                self.timers.insert((release, Timer::Release(partition, epoch, lane)));
            }
            return None;
        }
        state.unread.pop_front().map(|unread| (unread, epoch))
    }

    fn ask_for_more(&mut self, partition: Partition, lane: Lane, now: Now) {
        let window = self.policy.flow.window;
        let most = (window / 2).max(1);
        let Some(task) = self.tasks.get_mut(&partition).filter(|task| task.processes(lane)) else { return };
        let room = task.room(lane, window);
        let epoch = task.epoch;
        let Some(state) = task.lane(lane) else { return };
        let held = state.held_until(now.mono).is_some();
        if state.presence == Presence::Absent
            || state.fetching
            || held
            || room == 0
            || state.unread.len() >= most
        {
            return;
        }
        state.fetching = true;
        self.actions.push_back(Action::Fetch { partition, epoch, lane, most });
    }

    /// Puts a record into the window: settled, with the handler, or behind the record of its key.
    fn enter(&mut self, id: DeliveryId, look: Look, release: Option<Monotonic>, now: Now) {
        let Some(task) = self.tasks.get_mut(&id.partition) else { return };
        let (envelope, due) = match look {
            Look::Deliver { envelope, due } => (envelope, due),
            Look::Wait { record, remaining } => {
                let Some(lane) = task.lane(id.lane) else { return };
                let release = Some(now.mono.plus(remaining));
                lane.unread.push_front(Unread { record, release });
                return;
            }
            Look::Decided { envelope, fate } => {
                // It may be what others of its key are held behind.
                let holds = task.guarded.as_ref().is_some_and(|guarded| guarded.mode.holds());
                let key = self.policy.order.key_of(&envelope).filter(|_| holds && id.lane != Lane::Control);
                let key = key.map(|key| task.hash(key));
                let Some(lane) = task.lane(id.lane) else { return };
                lane.window.push_back(Entry { offset: id.offset, stage: Stage::Moving });
                self.put(id, Pending::new(Arc::new(envelope), key), fate, now);
                return;
            }
            Look::Skips { envelope, reply } => {
                // It waits for nobody's turn: whatever of its key runs is judged anew when it ends.
                let key = self.policy.order.key_of(&envelope).map(|key| task.hash(key));
                let Some(lane) = task.lane(id.lane) else { return };
                lane.window.push_back(Entry { offset: id.offset, stage: Stage::Moving });
                let pending = Pending { admitted: true, ..Pending::new(Arc::new(envelope), key) };
                self.put(id, pending, Disposition::Obeyed(reply), now);
                return;
            }
        };
        let key = self.policy.order.key_of(&envelope).map(|key| task.hash(key));
        let has_turn = match key.map(|key| task.keys.entry(key)) {
            Some(KeyEntry::Occupied(mut waiting)) => {
                waiting.get_mut().push_back((id.lane, id.offset));
                false
            }
            Some(KeyEntry::Vacant(free)) => {
                free.insert(VecDeque::new());
                true
            }
            None => true,
        };
        let pending = Pending { due, release, ..Pending::new(Arc::new(envelope), key) };
        let Some(lane) = task.lane(id.lane) else { return };
        lane.window.push_back(Entry { offset: id.offset, stage: Stage::Queued(pending) });
        match key {
            _ if !has_turn => {}
            Some(key) if self.take_turn(key, id, now) == Turn::Passed => self.next_of(key, id, now),
            Some(_) | None => self.execute(id, now),
        }
    }

    /// Begins the next execution of a record that is not with the handler.
    pub(super) fn execute(&mut self, id: DeliveryId, now: Now) {
        let Some(task) = self.tasks.get_mut(&id.partition).filter(|task| task.executes()) else { return };
        let Some(entry) = task.lane(id.lane).and_then(|lane| lane.entry(id.offset)) else { return };
        let mut pending = match std::mem::replace(&mut entry.stage, Stage::Moving) {
            Stage::Queued(pending) | Stage::Pausing(pending) => pending,
            other @ (Stage::Running(_) | Stage::Settled(_) | Stage::Moving) => {
                entry.stage = other;
                return;
            }
        };
        if pending.envelope.life.first_attempt_at.is_none() {
            let life = &mut Arc::make_mut(&mut pending.envelope).life;
            life.first_attempt_at = Some(now.wall);
            life.deadline_at = Some(now.wall.plus(self.policy.deadline));
        }
        pending.began.get_or_insert(now.mono);
        pending.executions = pending.executions.saturating_add(1);
        let first = pending.executions == 1;
        let delivery = Delivery {
            id,
            envelope: Arc::clone(&pending.envelope),
            attempt: pending.envelope.life.attempt.saturating_add(1),
            execution: pending.executions,
            due: pending.due,
            lateness: pending.due.filter(|_| first).map(|due| now.wall.since(due)),
        };
        let release = pending.release.filter(|_| first);
        entry.stage = Stage::Running(pending);
        task.running = task.running.saturating_add(1);
        self.running = self.running.saturating_add(1);
        self.check_due(id, release, now);
        self.actions.push_back(Action::Handle(Box::new(delivery)));
    }

    pub(super) fn handled(&mut self, id: DeliveryId, outcome: Outcome, now: Now) {
        let Some(task) = self.tasks.get_mut(&id.partition).filter(|task| task.epoch == id.epoch) else {
            return;
        };
        let Some(entry) = task.lane(id.lane).and_then(|lane| lane.entry(id.offset)) else { return };
        let pending = match std::mem::replace(&mut entry.stage, Stage::Moving) {
            Stage::Running(pending) => pending,
            other @ (Stage::Queued(_) | Stage::Pausing(_) | Stage::Settled(_) | Stage::Moving) => {
                entry.stage = other;
                let detail =
                    format!("a second answer for {:?} of task {} at {}", id.lane, id.partition, id.offset);
                self.broken(InvariantId::R1, detail);
                return;
            }
        };
        task.running = task.running.saturating_sub(1);
        self.running = self.running.saturating_sub(1);
        self.touched.insert(id.partition);
        match self.checked(outcome) {
            Outcome::Done(outputs) => {
                self.settle(id, pending, Disposition::Emit(outputs), now);
            }
            Outcome::Failed(failure) => self.failed(id, pending, failure, now),
        }
    }

    /// A handler's output to nowhere would be lost: its record is a dead letter instead.
    fn checked(&self, outcome: Outcome) -> Outcome {
        let Outcome::Done(outputs) = &outcome else { return outcome };
        let nowhere = |output: &&Output| self.policy.outputs.target(&output.to).is_none();
        match outputs.iter().find(nowhere).map(|output| &output.to) {
            None => outcome,
            Some(OutputName::Main) => {
                Outcome::failed(Class::Permanent, NO_OUTPUT, "the topology names no `output`")
            }
            Some(OutputName::Named(name)) => {
                let detail = format!("the topology names no `{name}` under `outputs`");
                Outcome::failed(Class::Permanent, NO_OUTPUT, detail)
            }
        }
    }

    fn failed(&mut self, id: DeliveryId, mut pending: Pending, failure: Failure, now: Now) {
        let verdict = classify(&failure);
        let lane = self.word(id.lane);
        let envelope = Arc::make_mut(&mut pending.envelope);
        envelope.life.executions = envelope.life.executions.saturating_add(1);
        note_failure(envelope, &verdict, failure.detail, &lane, now.wall);
        let deadline_at = envelope.life.deadline_at;

        if let Next::InPlace { at_most } =
            route::after_execution(&self.policy, verdict.class, pending.executions)
        {
            let wait = self.random.up_to(at_most);
            let spent = pending.began.map(|began| now.mono.since(began)).unwrap_or_default();
            if route::fits_in_place(&self.policy.in_place, spent, wait, now.wall, deadline_at) {
                self.pause(id, pending, wait, now);
                return;
            }
        }
        let envelope = Arc::make_mut(&mut pending.envelope);
        envelope.life.attempt = envelope.life.attempt.saturating_add(1);
        let attempt = envelope.life.attempt;
        let asked = failure.retry_after;
        let fate = match route::after_attempt(&self.policy, &verdict, asked, attempt, now.wall, deadline_at) {
            Step::Tier { tier, wait } => Disposition::Retry { tier, due: now.wall.plus(wait), verdict },
            Step::DeadLetter(reason) => Disposition::DeadLetter(Verdict { class: verdict.class, reason }),
        };
        self.settle(id, pending, fate, now);
    }

    /// Lets a delivery wait for its next execution. It keeps its key.
    fn pause(&mut self, id: DeliveryId, pending: Pending, wait: Duration, now: Now) {
        let lane = self.tasks.get_mut(&id.partition).and_then(|task| task.lane(id.lane));
        if let Some(entry) = lane.and_then(|lane| lane.entry(id.offset)) {
            entry.stage = Stage::Pausing(pending);
            self.timers.insert((now.mono.plus(wait), Timer::Execution(id)));
        }
    }

    /// Decides the fate of a record that had the turn of its key, and lets the next one have it.
    pub(super) fn settle(&mut self, id: DeliveryId, pending: Pending, fate: Disposition, now: Now) {
        let key = pending.key;
        if let Some(key) = key
            && matches!(fate, Disposition::Emit(_))
            && self.is_late(key, id, &pending)
        {
            // What it was let through by has got another fate since.
            let entry =
                self.tasks.get_mut(&id.partition).and_then(|task| task.lane(id.lane)?.entry(id.offset));
            if let Some(entry) = entry {
                let again = Pending { began: None, executions: 0, admitted: false, ..pending };
                entry.stage = Stage::Queued(again);
            }
            return match self.take_turn(key, id, now) {
                Turn::Taken => self.execute(id, now),
                Turn::Passed => self.next_of(key, id, now),
            };
        }
        self.put(id, pending, fate, now);
        if let Some(key) = key {
            self.next_of(key, id, now);
        }
    }

    /// The next record of a key that waits for its turn has it, if there is one. `id` is any record of the task.
    pub(super) fn next_of(&mut self, key: KeyHash, id: DeliveryId, now: Now) {
        loop {
            let Some(task) = self.tasks.get_mut(&id.partition) else { return };
            let Some(waiting) = task.keys.get_mut(&key) else {
                self.key_was_free(id);
                return;
            };
            let Some((lane, offset)) = waiting.pop_front() else {
                task.keys.remove(&key);
                if let Some(guarded) = task.guarded.as_deref_mut().filter(|guarded| guarded.mode.holds()) {
                    guarded.held.look_at(key);
                    self.touched.insert(id.partition);
                }
                return;
            };
            let next = DeliveryId { lane, offset, ..id };
            match self.take_turn(key, next, now) {
                Turn::Taken => return self.execute(next, now),
                Turn::Passed => {}
            }
        }
    }

    /// Puts the fate of a record into the window.
    pub(super) fn put(&mut self, id: DeliveryId, pending: Pending, fate: Disposition, now: Now) {
        self.settled = self.settled.saturating_add(1);
        self.check_attempts(id, &pending.envelope, &fate);
        let Some(task) = self.tasks.get(&id.partition) else { return };
        let place = (id.lane, id.offset);
        let effect = self.effect_of(task, &pending, &fate, place);
        let dead =
            self.dead_of(task, (pending.key, pending.held, pending.admitted), &pending.envelope, &fate);
        let Pending { envelope, key, follows, due, judged, held, admitted, .. } = pending;
        let follows = match (task.guarded.as_deref().filter(|guarded| guarded.mode.holds()), key) {
            // One after another, whatever becomes of them.
            (Some(guarded), Some(key)) => guarded.newest(key, place).1,
            // A failure goes by nothing but itself.
            (None, _) | (_, None) => {
                follows.filter(|_| judged.is_some() || matches!(fate, Disposition::Emit(_)))
            }
        };
        let (form, order, at) = (Form::Whole, self.settled, now.mono);
        let settled = Settled {
            id,
            envelope,
            fate,
            form,
            key,
            follows,
            due,
            judged,
            held,
            admitted,
            effect,
            dead,
            order,
            at,
        };
        let Some(task) = self.tasks.get_mut(&id.partition) else { return };
        if let Some(guarded) = &mut task.guarded {
            guarded.settled(&settled);
        }
        let crosses = task.crosses();
        let Some(lane) = task.lane(id.lane) else { return };
        if let Some(entry) = lane.entry(id.offset) {
            entry.stage = Stage::Settled(settled);
        }
        let grown = lane.extend_settled();
        let there = lane.presence == Presence::There;
        if grown > 0 && there && task.block_of(Part::of(id.lane)).is_none() {
            if self.search.is_empty() && !crosses {
                self.pace.grew(grown, now.mono);
            } else {
                // They may stand behind a suspect, where only the search takes them, or follow what is not settled.
                self.pace.uncounted = true;
            }
        }
    }
}
