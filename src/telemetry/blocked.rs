//! What keeps tasks from going on, and for how long.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::core::event::{Part, Target};
use crate::core::policy::Policy;
use crate::core::position::{Lane, Partition};
use crate::core::time::Monotonic;

/// What keeps tasks from going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlockedBy {
    /// The output cannot be written.
    Output,
    /// A retry topic cannot be written.
    Tier,
    /// The dead letter topic cannot be written.
    DeadLetter,
    /// The state topic cannot be written.
    State,
    /// The topic of cases and answers cannot be written.
    Cases,
    /// The topic that tells what operators did cannot be written.
    Audit,
    /// The source cannot be read: it has vanished, or was made anew.
    Source,
    /// The group's offsets are gone, and the positions in the state topic may be old: a person decides.
    PositionsStale,
    /// The source has more partitions than topics of redrive's own.
    Partitions,
    /// No broker answers.
    Broker,
    /// The group does not let the worker have its name yet.
    MemberName,
    /// The topic of stale records cannot be written.
    StaleOutput,
}

impl BlockedBy {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Output,
        Self::Tier,
        Self::DeadLetter,
        Self::State,
        Self::Cases,
        Self::Audit,
        Self::Source,
        Self::PositionsStale,
        Self::Partitions,
        Self::Broker,
        Self::MemberName,
        Self::StaleOutput,
    ];

    /// Its place in [`BlockedBy::ALL`].
    pub const fn index(self) -> usize {
        match self {
            Self::Output => 0,
            Self::Tier => 1,
            Self::DeadLetter => 2,
            Self::State => 3,
            Self::Cases => 4,
            Self::Audit => 5,
            Self::Source => 6,
            Self::PositionsStale => 7,
            Self::Partitions => 8,
            Self::Broker => 9,
            Self::MemberName => 10,
            Self::StaleOutput => 11,
        }
    }

    /// The word in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Output => "output",
            Self::Tier => "tier",
            Self::DeadLetter => "dlq",
            Self::State => "state",
            Self::Cases => "cases",
            Self::Audit => "audit",
            Self::Source => "source",
            Self::PositionsStale => "positions-stale",
            Self::Partitions => "partitions",
            Self::Broker => "broker",
            Self::MemberName => "member-name",
            Self::StaleOutput => "stale-output",
        }
    }
}

/// What keeps tasks from going on while the topic of a lane is gone. Without their control lane they go on, and without a
/// tier that is only drained: its topic may be deleted.
pub fn unread(policy: &Policy, lane: Lane) -> Option<BlockedBy> {
    match lane {
        Lane::Source => Some(BlockedBy::Source),
        Lane::Tier(_) => policy.needs(lane).then_some(BlockedBy::Tier),
        Lane::Control | Lane::Held => None,
    }
}

impl From<Target> for BlockedBy {
    fn from(target: Target) -> Self {
        match target {
            Target::Output | Target::Named(_) => Self::Output,
            Target::StaleOutput => Self::StaleOutput,
            Target::Tier(_) => Self::Tier,
            Target::DeadLetter => Self::DeadLetter,
            Target::State => Self::State,
            Target::Cases => Self::Cases,
            Target::Audit => Self::Audit,
        }
    }
}

/// Measures how long tasks are blocked, by what. Whoever asks for the time gets what has passed since the last time.
#[derive(Debug, Default)]
pub(super) struct BlockedClock {
    tasks: BTreeMap<(Part, BlockedBy), BTreeSet<Partition>>,
    whole: BTreeSet<BlockedBy>,
    at: Monotonic,
}

impl BlockedClock {
    /// What was blocked since the last call, and for how long. A change comes after this call at the same moment.
    pub(super) fn pass(&mut self, now: Monotonic) -> impl Iterator<Item = (BlockedBy, Duration)> {
        let passed = now.since(self.at);
        self.at = self.at.max(now);
        let by_tasks = self.tasks.iter().filter(|(_, tasks)| !tasks.is_empty()).map(|((_, by), _)| *by);
        let all: BTreeSet<BlockedBy> = by_tasks.chain(self.whole.iter().copied()).collect();
        all.into_iter().map(move |by| (by, passed))
    }

    /// This part of these tasks does not go on, whatever stopped it before.
    pub(super) fn block(&mut self, part: Part, by: BlockedBy, tasks: &[Partition]) {
        for ((stopped, _), others) in &mut self.tasks {
            if *stopped == part {
                others.retain(|task| !tasks.contains(task));
            }
        }
        self.tasks.entry((part, by)).or_default().extend(tasks);
    }

    /// It goes on.
    pub(super) fn unblock(&mut self, part: Part, by: BlockedBy, tasks: &[Partition]) {
        if let Some(stopped) = self.tasks.get_mut(&(part, by)) {
            stopped.retain(|task| !tasks.contains(task));
        }
    }

    /// Nothing of the worker goes on.
    pub(super) fn block_whole(&mut self, by: BlockedBy) {
        self.whole.insert(by);
    }

    /// The worker goes on.
    pub(super) fn unblock_whole(&mut self, by: BlockedBy) {
        self.whole.remove(&by);
    }

    /// This task is somebody else's now.
    pub(super) fn forget(&mut self, task: Partition) {
        for stopped in self.tasks.values_mut() {
            stopped.remove(&task);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Monotonic {
        Monotonic::from_start(Duration::from_secs(seconds))
    }

    fn passed(clock: &mut BlockedClock, seconds: u64) -> Vec<(BlockedBy, u64)> {
        clock.pass(at(seconds)).map(|(by, time)| (by, time.as_secs())).collect()
    }

    #[test]
    fn time_counts_once_per_cause_while_any_task_is_blocked() {
        let mut clock = BlockedClock::default();
        assert_eq!(passed(&mut clock, 10), []);
        clock.block(Part::Records, BlockedBy::Tier, &[Partition(1), Partition(2)]);
        clock.block_whole(BlockedBy::Broker);
        assert_eq!(passed(&mut clock, 13), [(BlockedBy::Tier, 3), (BlockedBy::Broker, 3)]);
        clock.unblock(Part::Records, BlockedBy::Tier, &[Partition(1)]);
        clock.unblock_whole(BlockedBy::Broker);
        assert_eq!(passed(&mut clock, 14), [(BlockedBy::Tier, 1)]);
        clock.unblock(Part::Records, BlockedBy::Tier, &[Partition(2)]);
        assert_eq!(passed(&mut clock, 20), []);
    }

    #[test]
    fn a_task_is_blocked_by_what_stopped_it_last() {
        let mut clock = BlockedClock::default();
        clock.block(Part::Records, BlockedBy::Tier, &[Partition(1)]);
        clock.block(Part::Records, BlockedBy::DeadLetter, &[Partition(1)]);
        assert_eq!(passed(&mut clock, 3), [(BlockedBy::DeadLetter, 3)]);
        clock.unblock(Part::Records, BlockedBy::DeadLetter, &[Partition(1)]);
        assert_eq!(passed(&mut clock, 5), []);
    }

    #[test]
    fn requests_without_an_answer_count_apart_from_records_that_wait() {
        let mut clock = BlockedClock::default();
        clock.block(Part::Records, BlockedBy::DeadLetter, &[Partition(1)]);
        clock.block(Part::Requests, BlockedBy::Audit, &[Partition(1)]);
        assert_eq!(passed(&mut clock, 3), [(BlockedBy::DeadLetter, 3), (BlockedBy::Audit, 3)]);
        clock.block(Part::Requests, BlockedBy::Cases, &[Partition(1)]);
        clock.unblock(Part::Records, BlockedBy::DeadLetter, &[Partition(1)]);
        assert_eq!(passed(&mut clock, 5), [(BlockedBy::Cases, 2)]);
        clock.unblock(Part::Requests, BlockedBy::Cases, &[Partition(1)]);
        assert_eq!(passed(&mut clock, 9), []);
    }

    #[test]
    fn a_task_that_left_blocks_nothing_here() {
        let mut clock = BlockedClock::default();
        clock.block(Part::Records, BlockedBy::DeadLetter, &[Partition(7)]);
        clock.forget(Partition(7));
        assert_eq!(passed(&mut clock, 5), []);
    }

    #[test]
    fn time_that_seems_to_go_back_counts_nothing_twice() {
        let mut clock = BlockedClock::default();
        clock.block_whole(BlockedBy::Broker);
        assert_eq!(passed(&mut clock, 5), [(BlockedBy::Broker, 5)]);
        assert_eq!(passed(&mut clock, 4), [(BlockedBy::Broker, 0)]);
        assert_eq!(passed(&mut clock, 6), [(BlockedBy::Broker, 1)]);
    }
}
