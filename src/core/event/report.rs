//! What people are to see of a worker: tasks that stop and go on, fates, its end.

use crate::core::control::Reply;
use crate::core::event::{Part, Target};
use crate::core::position::{Lane, OffsetRange, Partition};

/// A change that people must see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// A part of tasks does not go on until `target` can be written again. Nothing of it is skipped, and the other part goes on.
    Blocked {
        /// Which part.
        part: Part,
        /// The tasks.
        partitions: Vec<Partition>,
        /// What cannot be written.
        target: Target,
        /// The client's words.
        detail: String,
    },
    /// It goes on.
    Unblocked {
        /// Which part.
        part: Part,
        /// The tasks.
        partitions: Vec<Partition>,
        /// What can be written again.
        target: Target,
    },
    /// The group's offsets are gone, and the task's last stop was not in order: nothing but its control lane is read until a
    /// person accepts that these records may be handled once more.
    Stale {
        /// The task.
        partition: Partition,
        /// What may be repeated.
        ranges: Vec<OffsetRange>,
    },
    /// It was accepted, and the task goes on.
    RepeatsAccepted {
        /// The task.
        partition: Partition,
    },
    /// A request got its answer, committed.
    Answered {
        /// The task.
        partition: Partition,
        /// What became of it.
        reply: Box<Reply>,
    },
    /// Records got their fate, committed.
    Settled(Vec<Fate>),
    /// An invariant does not hold: a defect of redrive itself.
    Broken(crate::core::invariant::Breach),
}

/// The committed fate of records that share lane, kind and reason; counted, not listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fate {
    /// The task.
    pub partition: Partition,
    /// The lane that they were read from.
    pub lane: Lane,
    /// What became of them.
    pub kind: FateKind,
    /// How many.
    pub count: u64,
}

/// What became of a consumed record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FateKind {
    /// Handled; its output, if any, is written.
    Emit,
    /// Waits in a tier after a failed attempt.
    Retry(crate::core::outcome::Verdict),
    /// Was copied to another tier without an attempt.
    Hop,
    /// Is held behind its key.
    Hold,
    /// Is a dead letter.
    DeadLetter(crate::core::outcome::Verdict),
    /// Had no effect: the guard dropped it.
    Drop(Dropped),
    /// Was an operator's request, carried out or refused.
    Obeyed,
}

/// Why the guard dropped a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dropped {
    /// The same version with the same value is applied.
    Duplicate,
    /// A newer version is applied.
    Stale,
}

impl Dropped {
    /// Every reason.
    pub const ALL: [Self; 2] = [Self::Duplicate, Self::Stale];

    /// The word in logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Duplicate => "duplicate",
            Self::Stale => "stale",
        }
    }
}

/// Why a worker ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// It was told to, and everything settled is committed.
    Drained,
    /// It was told to, and what is settled could not be committed in time. Whoever gets its tasks does that again.
    CutOff {
        /// How many records.
        records: usize,
    },
    /// Another process uses this worker's transactional id.
    TwinProcess {
        /// How often it was fenced.
        times: usize,
    },
}
