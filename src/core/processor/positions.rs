//! Positions of lanes in the state topic: when they are noted, and what a note says; and lanes that gave nothing more.
//!
//! A note is an entry per lane. What [`Standing::Exact`] says is a promise: whatever moves the lane notes that in the same
//! transaction. So an owner that finds an exact note behind expired offsets repeats nothing and misses nothing:
//!
//! 1. a lane is noted exactly at 100, and its owner goes on to 200 without a note,
//! 2. it is killed, and the group's offsets expire,
//! 3. the next owner would begin at 100 again, without a word.

use std::time::Duration;

use super::commit::{Accepts, accepts};
use super::write::entry;
use super::{Processor, Timer};
use crate::core::event::{Target, Write};
use crate::core::lane::{LaneState, Noted, Presence};
use crate::core::position::{CommitMark, Epoch, Going, Lane, Offset, Partition};
use crate::core::state::{LanePosition, Standing, position_key};
use crate::core::task::{Phase, Stale, Task};
use crate::core::time::{Monotonic, Now};

/// How old a note may be while the lane goes on (design, "Tasks and lanes").
pub(super) const NOTE_EVERY: Duration = Duration::from_secs(60);

/// What a transaction notes of one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) lane: Lane,
    pub(super) standing: Standing,
}

impl Processor {
    /// A lane gave nothing more before `next`.
    pub(super) fn passed(&mut self, (partition, epoch, lane): (Partition, Epoch, Lane), next: Offset) {
        let task = self.tasks.get_mut(&partition).filter(|task| task.epoch == epoch);
        // What a task that goes back has read and not begun is dropped: its lanes have not passed that.
        let Some(task) = task.filter(|task| task.phase == Phase::Running) else { return };
        let Some(state) = task.lane(lane) else { return };
        state.pass(next);
        if task.has_passed() {
            self.pace.hinted.insert(partition);
        }
    }

    /// What the next commit of a task says of it.
    pub(super) fn mark_of(&self, task: &Task, accepts: Accepts) -> CommitMark {
        CommitMark {
            sequence: task.sequence,
            writer: self.writer,
            founding: task.founding,
            topic: task.topics.get(Lane::Source.index()).copied().flatten(),
            going: match (&task.stale, accepts) {
                (Some(Stale::Asked(_) | Stale::Accepted), Accepts::Nothing) => Going::Stale,
                (Some(_), Accepts::Repeats) | (None, _) => Going::On,
            },
        }
    }

    /// Adds what the open transaction is to note of a task, as records of the state topic.
    pub(super) fn write_notes(
        &self,
        partition: Partition,
        notes: &[Note],
        counts: &[usize],
        now: Now,
        writes: &mut Vec<Write>,
    ) {
        let Some(task) = self.tasks.get(&partition) else { return };
        for Note { lane, standing } in notes {
            let (Some(state), Some(count)) = (task.lanes.get(lane.index()), counts.get(lane.index())) else {
                continue;
            };
            let position = LanePosition {
                offset: state.offset_after(*count),
                standing: *standing,
                at: now.wall,
                founding: task.founding,
                topic: self.policy.topic(*lane).clone(),
                id: task.topics.get(lane.index()).copied().flatten(),
            };
            let key = position_key(&self.policy.word(*lane));
            writes.push(entry(Target::State, partition, Some(key), position.to_bytes(), now.wall));
        }
    }

    /// Has tasks that are given back note where they stand, with the last of what they commit.
    pub(super) fn note_before_giving_back(&mut self) {
        for partition in &self.leaving {
            let Some(task) = self.tasks.get_mut(partition) else { continue };
            if task.running == 0 && owes_a_note(task) {
                task.notes.due = true;
                let in_open = self.open.as_ref().is_some_and(|open| open.holds(*partition, task.epoch));
                if !in_open {
                    self.pace.hinted.insert(*partition);
                }
            }
        }
    }

    /// A note may be due by its age.
    pub(super) fn note_by_time(&mut self, partition: Partition, now: Monotonic) {
        let Some(task) = self.tasks.get_mut(&partition) else { return };
        task.notes.timed = false;
        if owes_a_note(task) {
            task.notes.due = true;
            self.pace.hinted.insert(partition);
        }
        self.time_the_next_note(partition, now);
    }

    /// Sets the timer of a task whose notes are not exact.
    pub(super) fn time_the_next_note(&mut self, partition: Partition, now: Monotonic) {
        let Some(task) = self.tasks.get_mut(&partition) else { return };
        if task.notes.begun && !task.notes.timed && !all_exact(task) {
            task.notes.timed = true;
            self.timers.insert((now.plus(NOTE_EVERY), Timer::Note(partition, task.epoch)));
        }
    }
}

/// Whether a task has something to note, and can.
pub(super) fn owes_a_note(task: &Task) -> bool {
    let clock_due = task.guarded.as_deref().is_some_and(|guarded| guarded.clock_due);
    task.notes.begun && may_note(task) && (clock_due || !all_exact(task))
}

fn all_exact(task: &Task) -> bool {
    let exact = |state: &LaneState| state.noted == Noted::Exact || state.presence == Presence::Absent;
    task.lanes().all(|(lane, state)| lane == Lane::Held || exact(state))
}

/// A task that waits for a person keeps the notes that say for what.
pub(super) fn may_note(task: &Task) -> bool {
    let blocked = task.block.as_ref().is_some_and(|block| block.target == Target::State);
    !blocked && !matches!(task.stale, Some(Stale::Asked(_)))
}

/// What a transaction that takes `counts` records of the lanes notes.
pub(super) fn notes_of(task: &Task, counts: &[usize], probe: Option<Target>, now: Monotonic) -> Vec<Note> {
    let probes = probe == Some(Target::State);
    let waits = task.stale.is_some() && accepts(task, counts) == Accepts::Nothing;
    if waits || (!probes && !may_note(task)) {
        return Vec::new();
    }
    // What was held stands in the state topic itself.
    let lanes = || task.lanes().zip(counts.iter().copied()).filter(|((lane, _), _)| *lane != Lane::Held);
    let breaks_a_promise =
        lanes().any(|((_, state), count)| count > 0 && matches!(state.noted, Noted::Unknown | Noted::Exact));
    let due = probes || task.notes.due;
    if !due && !breaks_a_promise {
        return Vec::new();
    }
    let takes_all = task.block.is_some() || task.ready() == counts.iter().sum::<usize>();
    let is_last = matches!(task.phase, Phase::GivingBack { .. }) && task.running == 0 && takes_all;
    lanes()
        .filter(|((_, state), _)| state.presence == Presence::There)
        .filter_map(|((lane, state), count)| {
            let rests = due && (is_last || state.rests_after(count, now));
            let standing = if rests { Standing::Exact } else { Standing::AtLeast };
            let tells = match (state.noted, standing) {
                (Noted::Unknown, _) => due || count > 0,
                (Noted::Exact, _) | (Noted::AtLeast, Standing::AtLeast) => count > 0,
                (Noted::AtLeast, Standing::Exact) | (Noted::Behind, _) => true,
            };
            tells.then_some(Note { lane, standing })
        })
        .collect()
}

/// What the state topic says of the lanes of a task, after a transaction that took `counts` and noted `notes`.
pub(super) fn noted(task: &mut Task, counts: &[usize], notes: &[Note]) {
    for (index, (lane, count)) in task.lanes.iter_mut().zip(counts).enumerate() {
        let note = notes.iter().find(|note| note.lane.index() == index);
        lane.noted = match (note.map(|note| note.standing), lane.noted) {
            (Some(Standing::Exact), _) => Noted::Exact,
            (Some(Standing::AtLeast), _) => Noted::AtLeast,
            (None, Noted::AtLeast) if *count > 0 => Noted::Behind,
            (None, known) => known,
        };
    }
}
