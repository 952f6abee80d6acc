//! Tasks whose positions may be old: what they ask a person to accept, and how they go on.

use super::Processor;
use crate::core::event::{Action, LaneStart, Report};
use crate::core::position::{Lane, OffsetRange, Partition};
use crate::core::task::Stale;
use crate::core::time::Now;

/// Why repeats were not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAccepted {
    /// The task is not here, or waits for nothing.
    #[error("task `{partition}` waits for nothing: there are no repeats to accept")]
    NothingStale {
        /// The task.
        partition: Partition,
    },
    /// Other ranges than those that may be repeated.
    #[error(
        "task `{partition}` may repeat `{expected}`, not `{found}`\nhint: redrive resume {pipeline} --accept-repeats {expected}"
    )]
    OtherRanges {
        /// The task.
        partition: Partition,
        /// Its pipeline.
        pipeline: String,
        /// What may be repeated.
        expected: String,
        /// What was accepted.
        found: String,
    },
}

impl Processor {
    /// A person accepts that these records of a task may be handled once more. They must be the ranges of the task's
    /// [`Report::Stale`], in any order; the task goes on once that is committed.
    pub fn accept_repeats(
        &mut self,
        partition: Partition,
        ranges: &[OffsetRange],
        _now: Now,
    ) -> Result<(), NotAccepted> {
        let task = self.tasks.get_mut(&partition);
        let Some((task, expected)) = task.and_then(|task| match &task.stale {
            Some(Stale::Asked(expected)) => {
                let expected = expected.clone();
                Some((task, expected))
            }
            Some(Stale::Accepted) | None => None,
        }) else {
            return Err(NotAccepted::NothingStale { partition });
        };
        if sorted(ranges) != sorted(&expected) {
            // As the task has printed it: whoever mistyped the one types the other.
            let (expected, found) = (in_words(&expected), in_words(ranges));
            let pipeline = self.policy.name.clone();
            return Err(NotAccepted::OtherRanges { partition, pipeline, expected, found });
        }
        task.stale = Some(Stale::Accepted);
        task.notes.due = true;
        self.pace.wanted.insert(partition);
        self.touched.insert(partition);
        Ok(())
    }

    /// The acceptance is committed.
    pub(super) fn go_on_from_stale(&mut self, partition: Partition, now: Now) {
        let Some(task) = self.tasks.get_mut(&partition) else { return };
        task.stale = None;
        task.notes.begun = true;
        self.touched.insert(partition);
        self.set_clock(partition, now);
        self.actions.push_back(Action::Report(Report::RepeatsAccepted { partition }));
    }

    /// What may be repeated of a task; nothing where it goes on by itself.
    pub(super) fn repeats(&self, partition: Partition, lanes: &[LaneStart]) -> Vec<OffsetRange> {
        let range = |(lane, start): (Lane, &LaneStart)| match *start {
            LaneStart::Committed(_) | LaneStart::Fresh(_) | LaneStart::Absent => None,
            LaneStart::Stale { from, to } => {
                let topic = self.policy.topic(lane).clone();
                (from < to).then_some(OffsetRange { topic, partition, from, to })
            }
        };
        self.policy.lanes().zip(lanes).filter_map(range).collect()
    }
}

fn sorted(ranges: &[OffsetRange]) -> Vec<OffsetRange> {
    let mut ranges = ranges.to_vec();
    ranges.sort();
    ranges
}

fn in_words(ranges: &[OffsetRange]) -> String {
    ranges.iter().map(OffsetRange::to_string).collect::<Vec<_>>().join(" ")
}
