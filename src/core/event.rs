//! What the shell tells the core, and what the core asks of the shell.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::core::envelope::{DeliveryId, Envelope};
use crate::core::outcome::Outcome;
use crate::core::position::{CommitMark, Epoch, Founding, Lane, Offset, Partition, TierIndex, TopicId};
use crate::core::record::{Header, Record};
use crate::core::state::Keys;
use crate::core::time::Timestamp;

pub use report::{Dropped, Fate, FateKind, Report, StopReason};

mod report;

/// What happened outside. All events of a worker arrive one after another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The group gave these source partitions to this worker.
    Assigned(Vec<Partition>),
    /// Answer to [`Action::Restore`].
    Restored {
        /// The task.
        partition: Partition,
        /// The epoch of the action.
        epoch: Epoch,
        /// What Kafka knows of the task.
        found: Restored,
    },
    /// The group takes these partitions back and waits for [`Action::GiveBack`] of each.
    Revoked(Vec<Partition>),
    /// The group has already given these partitions to somebody else. The shell must have made their epochs
    /// invalid for the transactor before it tells.
    Lost(Vec<Partition>),
    /// Answer to [`Action::Fetch`]: at least one record, rising offsets, at most as many as asked for.
    Fetched {
        /// The task.
        partition: Partition,
        /// The epoch of the action.
        epoch: Epoch,
        /// The lane.
        lane: Lane,
        /// The records.
        records: Vec<Record>,
    },
    /// A lane whose records are asked for gives none: everything before `next` was handed over, was deleted, or is no record
    /// that is read, such as the end of a transaction. Comes behind every [`Event::Fetched`] of the lane.
    Passed {
        /// The task.
        partition: Partition,
        /// The epoch of the action.
        epoch: Epoch,
        /// The lane.
        lane: Lane,
        /// The offset that the lane will read next.
        next: Offset,
    },
    /// The topic of a lane is gone: no offset of it can be committed.
    Absent {
        /// The lane, of all tasks.
        lane: Lane,
    },
    /// It is there again.
    Present {
        /// The lane, of all tasks.
        lane: Lane,
    },
    /// Answer to [`Action::FindEnd`].
    End {
        /// The task.
        partition: Partition,
        /// The epoch of the action.
        epoch: Epoch,
        /// The end of its partition of the source, records of open transactions included.
        end: Offset,
    },
    /// Answer to [`Action::Handle`].
    Handled {
        /// Which delivery.
        delivery: DeliveryId,
        /// What the handler said.
        outcome: Outcome,
    },
    /// Answer to [`Action::Transact`].
    Transacted {
        /// Which transaction.
        transaction: TransactionId,
        /// How it ended.
        result: TransactionResult,
    },
    /// Answer to [`Action::ReadBack`].
    ReadBack {
        /// Which transaction was in doubt.
        transaction: TransactionId,
        /// The mark of each of its tasks as committed now; `None` where nothing is committed.
        marks: Vec<(Partition, Option<CommitMark>)>,
    },
    /// Nothing, but time has passed.
    Tick,
    /// The process was told to stop: finish what runs, commit, give everything back.
    Drain,
}

/// What Kafka knows of a task when it is taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The mark at the source partition's committed offset.
    pub mark: Option<CommitMark>,
    /// What the group was founded on; handed on with every commit.
    pub founding: Founding,
    /// Where each lane that is read goes on, in the order of [`crate::core::policy::Policy::lanes`].
    pub lanes: Vec<LaneStart>,
    /// The id of each lane's topic, in the same order, where the broker told one.
    pub topics: Vec<Option<TopicId>>,
    /// What is known of its keys, where the pipeline has a guard or parks.
    pub keys: Option<Box<Keys>>,
}

/// Where a lane goes on after a take-over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneStart {
    /// At the group's committed offset.
    Committed(Offset),
    /// The group has none: at this offset, resolved by the shell from `start` (source), the log start (tiers) or the state
    /// topic, which says that the lane stood exactly there. Or it has one before the log start, which this is. It is
    /// committed before anything is read.
    Fresh(Offset),
    /// The group has none, and the state topic says that the lane stood at `from` or further on: what lies before `to` may
    /// have been handled already. Nothing of the task but its control lane is read until a person accepts that.
    Stale {
        /// Where it stood when it was last noted.
        from: Offset,
        /// The end of the log now.
        to: Offset,
    },
    /// Its topic is gone, and the task goes on without it. The shell takes the task over anew when the topic is back.
    Absent,
}

impl LaneStart {
    /// The offset of the next record to read.
    pub const fn offset(self) -> Offset {
        match self {
            Self::Committed(offset) | Self::Fresh(offset) | Self::Stale { from: offset, .. } => offset,
            Self::Absent => Offset(0),
        }
    }
}

/// The number of a transaction of this worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(pub u64);

/// How a transaction ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionResult {
    /// The broker said committed.
    Committed,
    /// The commit was never sent, or the broker said aborted. The producer is usable or has been made anew.
    Aborted(AbortCause),
    /// As `Aborted`, because another producer took over the transactional id, or the broker gave the transaction up.
    /// The producer is made anew before the next transaction begins, and not if none does.
    Fenced {
        /// Which producer.
        slot: Slot,
        /// From begin to the refusal.
        after: Duration,
        /// The group's when the transaction was formed.
        generation: Generation,
    },
    /// The commit was sent and no verdict came.
    Unknown,
}

/// Counts the changes of a group as one member sees them (its epoch with KIP-848): it rises whenever a member comes or goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation(pub i32);

/// Which of a worker's two producers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// The one that begins.
    First,
    /// The other one.
    Second,
}

/// Why a transaction was aborted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AbortCause {
    /// Nothing that names a record or a topic: group, coordinator, timeout, sequence, a task that was lost meanwhile.
    Passing {
        /// The client's words.
        detail: String,
    },
    /// This destination cannot be written: it is missing, not authorised, or has no leader.
    Unwritable {
        /// The destination.
        target: Target,
        /// The client's words.
        detail: String,
    },
    /// The broker or the client refuses a record as it is.
    Refused {
        /// Its destination.
        target: Target,
        /// The task that writes it.
        partition: Partition,
        /// What is wrong with it.
        flaw: Flaw,
        /// Which writes it can be.
        suspects: Suspects,
        /// The client's words.
        detail: String,
    },
}

/// What is wrong with a record that is refused as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It, or the batch that it was sent in, is larger than the topic or the client takes.
    TooLarge,
    /// The broker says that it is invalid.
    Invalid,
}

/// The writes that an error names, by their places in [`Transaction::writes`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Suspects {
    /// Each of these is refused.
    Each(Vec<usize>),
    /// At least one of these is; the others were sent in the same batch and fell with it.
    OneOf(Vec<usize>),
}

impl AbortCause {
    /// The client's words.
    pub fn detail(&self) -> &str {
        match self {
            Self::Passing { detail } | Self::Unwritable { detail, .. } | Self::Refused { detail, .. } => {
                detail
            }
        }
    }
}

/// A topic that the core writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// The pipeline's output.
    Output,
    /// One of its further outputs, by its place in [`crate::core::policy::Outputs::named`].
    Named(u16),
    /// Where records go that the guard dropped as stale.
    StaleOutput,
    /// A retry topic.
    Tier(TierIndex),
    /// The dead letter topic.
    DeadLetter,
    /// The state topic: written by the task's owner only.
    State,
    /// What happened to dead letters, and the answers to operators.
    Cases,
    /// What operators did, of all pipelines.
    Audit,
}

/// What the shell is to do next. Actions are carried out in the order in which they are polled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Fetch what Kafka knows of a task, waiting for pending transactions; runs beside the worker's loop.
    Restore {
        /// The task.
        partition: Partition,
        /// Its new epoch, valid for the transactor from now on.
        epoch: Epoch,
    },
    /// Begin to read the lanes of a task at these offsets.
    Open {
        /// The task.
        partition: Partition,
        /// Its epoch.
        epoch: Epoch,
        /// Where each lane begins.
        lanes: Vec<(Lane, Offset)>,
    },
    /// Find out where a task's partition of the source ends now.
    FindEnd {
        /// The task.
        partition: Partition,
        /// Its epoch.
        epoch: Epoch,
    },
    /// Hand over up to `most` records of a lane, once there are any. At most one is open per lane.
    Fetch {
        /// The task.
        partition: Partition,
        /// Its epoch.
        epoch: Epoch,
        /// The lane.
        lane: Lane,
        /// The most records to hand over.
        most: usize,
    },
    /// Run the handler once.
    Handle(Box<Delivery>),
    /// Carry out one transaction, whole. At most one is open per worker.
    Transact(Box<Transaction>),
    /// A commit was sent and no verdict came: make a new producer with the same id, **then** fetch the stable
    /// committed marks of these tasks. The next [`Action::Transact`] comes only after the answer.
    ReadBack {
        /// Which transaction is in doubt.
        transaction: TransactionId,
        /// Its tasks.
        partitions: Vec<Partition>,
    },
    /// Stop reading the lanes of a task, make its epoch invalid, and, once that is so for all partitions that the
    /// group takes back, let the group have them.
    GiveBack {
        /// The task.
        partition: Partition,
        /// Its epoch.
        epoch: Epoch,
    },
    /// A task stopped or goes on; for people: log, metrics, readiness.
    Report(Report),
    /// End the worker. Nothing follows.
    Stop(StopReason),
}

/// One execution of the handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Which delivery; comes back with the outcome.
    pub id: DeliveryId,
    /// The record.
    pub envelope: Arc<Envelope>,
    /// The number of this delivery in the record's life, from 1.
    pub attempt: u32,
    /// The number of this execution in the delivery, from 1.
    pub execution: u32,
    /// The time before which the record had to wait; `None` on the source lane.
    pub due: Option<Timestamp>,
    /// How late the handler starts after `due`; `None` from the second execution on and on the source lane.
    pub lateness: Option<Duration>,
}

/// One transaction, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// Its number.
    pub id: TransactionId,
    /// The tasks whose offsets it moves; all epochs must still be valid before the offsets are sent.
    pub tasks: Vec<TaskCommit>,
    /// The records it writes, in order.
    pub writes: Vec<Write>,
    /// How many consumed records get their fate by it.
    pub records: usize,
    /// What was wrong with the last try; the shell checks that first and answers quickly where it still is.
    pub probe: Option<Target>,
}

/// What a transaction commits for one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskCommit {
    /// The task.
    pub partition: Partition,
    /// The epoch for which it was formed.
    pub epoch: Epoch,
    /// The next offset of each lane; always holds the source lane.
    pub offsets: Vec<(Lane, Offset)>,
    /// The mark for the source lane's metadata.
    pub mark: CommitMark,
    /// The id of each lane's topic, in the order of [`Lane::index`]; for the metadata of the other lanes.
    pub topics: Vec<Option<TopicId>>,
}

/// One record to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Where to.
    pub target: Target,
    /// The task that writes it; retry copies and dead letters go to this partition.
    pub partition: Partition,
    /// The time it carries; `None`: the client's time of writing.
    pub timestamp: Option<Timestamp>,
    /// The key.
    pub key: Option<Bytes>,
    /// The value.
    pub value: Option<Bytes>,
    /// All headers, in order.
    pub headers: Vec<Header>,
}

/// The parts of a task that go on without each other where a topic cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// What the source and the tiers hold.
    Records,
    /// What operators ask.
    Requests,
}

impl Part {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Records, Self::Requests];

    /// The part that a lane belongs to.
    pub const fn of(lane: Lane) -> Self {
        match lane {
            Lane::Control => Self::Requests,
            Lane::Source | Lane::Held | Lane::Tier(_) => Self::Records,
        }
    }
}
