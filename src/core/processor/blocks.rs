//! What cannot be written, and what of a task goes on without it.
//!
//! Records and requests are blocked apart: a dead letter topic that is gone leaves operators their answers, and an audit that
//! is gone leaves the records their way.

use std::time::Duration;

use super::Processor;
use super::abort::doubled;
use crate::core::event::{Action, Part, Report, Target};
use crate::core::position::{Epoch, Lane, Partition};
use crate::core::task::{Block, Task};
use crate::core::time::{Monotonic, Now};

/// The wait before a blocked part of a task is tried again; doubled after each try in vain.
const FIRST_UNBLOCK: Duration = Duration::from_secs(1);
/// The longest wait before it is tried again.
const LONGEST_UNBLOCK: Duration = Duration::from_secs(30);

/// What the next transaction is for.
pub(super) enum Purpose {
    /// Whatever is ready.
    Everything,
    /// A blocked part of one task, to see whether its target can be written again.
    Probe(Partition, Part, Target),
    /// A part of the suspects, and what stands before them in their lanes.
    Search,
}

/// What of a task is in a transaction, beside offsets that are committed already, which expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carries {
    /// Whatever it has settled.
    Everything,
    /// This part of it: the other is blocked, or not to be tried.
    Only(Part),
    /// Nothing.
    Nothing,
}

impl Carries {
    pub(super) fn of(task: &Task, purpose: &Purpose) -> Self {
        match (purpose, task.block_of(Part::Records), task.block_of(Part::Requests)) {
            (Purpose::Probe(_, part, _), ..) => Self::Only(*part),
            // It tries no suspect of a part that is blocked, and nothing else.
            (Purpose::Search, ..) => Self::Everything,
            (Purpose::Everything, None, None) => Self::Everything,
            (Purpose::Everything, None, Some(_)) => Self::Only(Part::Records),
            (Purpose::Everything, Some(_), None) => Self::Only(Part::Requests),
            (Purpose::Everything, Some(_), Some(_)) => Self::Nothing,
        }
    }

    pub(super) fn takes(self, lane: Lane) -> bool {
        self.writes(Part::of(lane))
    }

    fn writes(self, part: Part) -> bool {
        match self {
            Self::Everything => true,
            Self::Only(one) => one == part,
            Self::Nothing => false,
        }
    }
}

impl Processor {
    /// The blocked parts of all tasks.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (Partition, Part, &Block)> {
        let tasks =
            self.blocked.iter().filter_map(|partition| Some((*partition, self.tasks.get(partition)?)));
        tasks.flat_map(|(partition, task)| {
            Part::ALL.into_iter().filter_map(move |part| Some((partition, part, task.block_of(part)?)))
        })
    }

    /// Stops a part of a task until its target can be written. Says whether the task is still that of this epoch.
    pub(super) fn block(
        &mut self,
        (partition, epoch): (Partition, Epoch),
        part: Part,
        target: Target,
        now: Now,
    ) -> bool {
        let Some(task) = self.tasks.get_mut(&partition).filter(|task| task.epoch == epoch) else {
            return false;
        };
        let failures = task.block_of(part).map_or(0, |block| block.failures).saturating_add(1);
        let retry_at = now.mono.plus(doubled(FIRST_UNBLOCK, failures, LONGEST_UNBLOCK));
        *task.block_mut(part) = Some(Block { target, retry_at, failures });
        self.blocked.insert(partition);
        self.set_clock(partition, now);
        true
    }

    /// A blocked part is being tried: whatever comes of it, the others get their turn before it is tried again.
    pub(super) fn postpone(&mut self, partition: Partition, part: Part, now: Monotonic) {
        let Some(task) = self.tasks.get_mut(&partition) else { return };
        // The state topic stops both parts by one block.
        let part = if task.block_mut(part).is_some() { part } else { Part::Records };
        if let Some(block) = task.block_mut(part) {
            block.retry_at = now.plus(doubled(FIRST_UNBLOCK, block.failures, LONGEST_UNBLOCK));
        }
    }

    /// A transaction of a task was committed: what it carried can be written. Returns the targets that could not before.
    pub(super) fn unblock(&mut self, partition: Partition, carries: Carries, now: Now) -> Vec<Target> {
        let Some(task) = self.tasks.get_mut(&partition) else { return Vec::new() };
        let mut targets = Vec::new();
        for part in Part::ALL {
            if let Some(block) = task.block_mut(part).take_if(|_| carries.writes(part)) {
                targets.push(block.target);
                let partitions = vec![partition];
                let report = Report::Unblocked { part, partitions, target: block.target };
                self.actions.push_back(Action::Report(report));
            }
        }
        if task.block.is_none() && task.mute.is_none() {
            self.blocked.remove(&partition);
        }
        self.set_clock(partition, now);
        targets
    }

    /// What one task could write the others can try now.
    pub(super) fn try_again(&mut self, targets: &[Target], now: Monotonic) {
        for task in self.tasks.values_mut() {
            for part in Part::ALL {
                let block = task.block_mut(part).as_mut();
                if let Some(block) = block.filter(|block| targets.contains(&block.target)) {
                    block.retry_at = now;
                }
            }
        }
    }
}
