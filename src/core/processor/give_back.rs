//! The end of a task on this worker: given back in order, or lost.

use std::time::Duration;

use super::positions::owes_a_note;
use super::{Mode, Processor, Timer};
use crate::core::event::{Action, StopReason};
use crate::core::lane::LaneState;
use crate::core::position::{Epoch, Partition};
use crate::core::task::{Phase, Task};
use crate::core::time::Now;

impl Processor {
    /// Kafka takes tasks back: what runs may end and what is settled is committed first, within a bound.
    pub(super) fn revoked(&mut self, partitions: Vec<Partition>, now: Now) {
        let revoke = self.policy.flow.revoke;
        for partition in partitions {
            if self.tasks.contains_key(&partition) {
                self.begin_to_give_back(partition, revoke, now);
            } else {
                // Given back before, while draining, or never taken: the group waits for this answer all the same.
                self.actions.push_back(Action::GiveBack { partition, epoch: self.last_epoch });
            }
        }
    }

    pub(super) fn drain(&mut self, now: Now) {
        if self.mode != Mode::Working {
            return;
        }
        self.mode = Mode::Draining;
        self.pace.twin.leaves();
        let drain = self.policy.flow.drain;
        self.cut_off_at = Some(now.mono.plus(drain.saturating_add(self.policy.flow.transaction_timeout)));
        for partition in self.tasks.keys().copied().collect::<Vec<_>>() {
            self.begin_to_give_back(partition, drain, now);
        }
    }

    fn begin_to_give_back(&mut self, partition: Partition, within: Duration, now: Now) {
        let Some(task) = self.tasks.get_mut(&partition) else { return };
        let mut until = now.mono.plus(within);
        if let Phase::GivingBack { until: earlier } = task.phase {
            until = until.min(earlier);
        }
        task.phase = Phase::GivingBack { until };
        self.leaving.insert(partition);
        task.lanes.iter_mut().for_each(LaneState::drop_unread);
        self.pace.wanted.remove(&partition);
        self.pace.hinted.remove(&partition);
        self.timers.insert((until, Timer::GiveBack(partition, task.epoch)));
        self.set_clock(partition, now);
    }

    /// Kafka has given tasks to somebody else already: nothing of them is ours any more.
    pub(super) fn lost(&mut self, partitions: &[Partition]) {
        for partition in partitions {
            if let (Some(open), Some(task)) = (self.open.as_mut(), self.tasks.get(partition)) {
                open.lose(*partition, task.epoch);
            }
            self.forget(*partition);
        }
    }

    /// Whether a task is being given back that nothing but its commit keeps.
    pub(super) fn giving_back(&self) -> bool {
        let waits = |task: &super::Task| task.running == 0 && task.ready() > 0;
        self.leaving.iter().filter_map(|partition| self.tasks.get(partition)).any(waits)
    }

    pub(super) fn give_back_what_is_done(&mut self, now: Now) {
        if self.mode == Mode::Stopped {
            return;
        }
        let done: Vec<(Partition, Epoch)> = self
            .leaving
            .iter()
            .filter_map(|partition| self.tasks.get(partition).map(|task| (partition, task)))
            .filter(|(partition, task)| {
                let Phase::GivingBack { until } = task.phase else { return false };
                let in_transaction =
                    self.open.as_ref().is_some_and(|open| open.holds(**partition, task.epoch));
                // What is blocked cannot be committed: the next owner settles it again.
                let finished = task.running == 0 && task.ready() == 0 && !owes_a_note(task);
                !in_transaction && (finished || until <= now.mono)
            })
            .map(|(partition, task)| (*partition, task.epoch))
            .collect();
        for (partition, epoch) in done {
            if self.mode == Mode::Draining {
                let left = self.tasks.get(&partition).map_or(0, Task::settled);
                self.cut_off = self.cut_off.saturating_add(left);
            }
            self.forget(partition);
            self.actions.push_back(Action::GiveBack { partition, epoch });
        }
        if self.mode == Mode::Draining && self.tasks.is_empty() && self.open.is_none() {
            self.stop(match self.cut_off {
                0 => StopReason::Drained,
                records => StopReason::CutOff { records },
            });
        } else if self.cut_off_at.is_some_and(|at| at <= now.mono) {
            // Nobody knows yet how the open transaction ends; who comes next ends it before it reads where to go on.
            let settled = |lane: &LaneState| lane.settled;
            let open: usize = self.tasks.values().flat_map(|task| task.lanes.iter().map(settled)).sum();
            self.stop(StopReason::CutOff { records: self.cut_off.saturating_add(open) });
        }
    }

    pub(super) fn forget(&mut self, partition: Partition) {
        if let Some(task) = self.tasks.remove(&partition) {
            self.running = self.running.saturating_sub(task.running);
            self.pace.wanted.remove(&partition);
            self.search.forget(partition);
            self.pace.hinted.remove(&partition);
            self.touched.remove(&partition);
            self.leaving.remove(&partition);
            self.blocked.remove(&partition);
            self.timers.retain(|(_, timer)| timer.task() != (partition, task.epoch));
            self.recount();
        }
    }
}
