//! The life of a task, and what it reads.

use std::time::Duration;

use tracing::{error, info, warn};

use crate::core::position::{Lane, Offset, Partition};
use crate::telemetry::Telemetry;
use crate::telemetry::event::{Happening, Partitions};

/// Which way partitions went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rebalance {
    /// To this worker.
    Assigned,
    /// Asked back in order.
    Revoked,
    /// Taken without asking.
    Lost,
}

impl Rebalance {
    /// The word in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Assigned => "assigned",
            Self::Revoked => "revoked",
            Self::Lost => "lost",
        }
    }
}

/// The group gave or took partitions.
#[derive(Clone, Copy, Debug)]
pub struct RebalanceSeen<'a> {
    /// Which way.
    pub kind: Rebalance,
    /// Which.
    pub partitions: &'a [Partition],
}

impl Happening for RebalanceSeen<'_> {
    fn tell(self, t: &Telemetry) {
        t.metrics.families().rebalances.with_label_values(&[&t.pipeline, self.kind.as_str()]).inc();
        let (kind, partitions) = (self.kind.as_str(), Partitions(self.partitions));
        match self.kind {
            Rebalance::Assigned | Rebalance::Revoked => {
                info!(pipeline = t.pipeline, worker = t.worker, kind, %partitions, "rebalance");
            }
            Rebalance::Lost => warn!(
                pipeline = t.pipeline,
                worker = t.worker,
                kind,
                %partitions,
                "partitions were taken without asking; what was not committed is done again by their new owner"
            ),
        }
    }
}

/// A task was taken over and its lanes are read.
#[derive(Clone, Copy, Debug)]
pub struct TaskRestored {
    /// The task.
    pub partition: Partition,
    /// Since its assignment.
    pub took: Duration,
}

impl Happening for TaskRestored {
    fn tell(self, t: &Telemetry) {
        t.series.restore.observe(self.took.as_secs_f64());
        let Self { partition, took } = self;
        info!(pipeline = t.pipeline, worker = t.worker, %partition, ?took, "task restored");
    }
}

/// The state of a task is being read, and that takes long.
#[derive(Clone, Copy, Debug)]
pub struct TaskRestores {
    /// The task.
    pub partition: Partition,
    /// The offset of the state topic that is read next.
    pub next: Offset,
    /// The offset up to which it is read.
    pub end: Offset,
}

impl Happening for TaskRestores {
    fn tell(self, t: &Telemetry) {
        let Self { partition, next, end } = self;
        info!(pipeline = t.pipeline, worker = t.worker, %partition, %next, %end, "the state of a task is being read");
    }
}

/// The state topic of a guarded pipeline says nothing of a task that has gone on before.
#[derive(Clone, Copy, Debug)]
pub struct VersionsUnknown {
    /// The task.
    pub partition: Partition,
    /// Where its source goes on.
    pub next: Offset,
}

impl Happening for VersionsUnknown {
    fn tell(self, t: &Telemetry) {
        let Self { partition, next } = self;
        warn!(
            pipeline = t.pipeline,
            worker = t.worker,
            %partition,
            %next,
            hint = "as it must be where nothing was applied yet; where the guard was turned on just now, records that wait in \
                    tiers may follow newer ones once; else the state topic was lost",
            "the guard knows no version of any key of this task, whose source goes on behind earlier records"
        );
    }
}

/// A task has asked for long where its lanes go on, and waits.
#[derive(Clone, Copy, Debug)]
pub struct TaskWaits<'a> {
    /// The task.
    pub partition: Partition,
    /// The client's words.
    pub detail: &'a str,
}

impl Happening for TaskWaits<'_> {
    fn tell(self, t: &Telemetry) {
        let Self { partition, detail } = self;
        warn!(
            pipeline = t.pipeline,
            worker = t.worker,
            %partition,
            detail,
            "a task waits: the brokers do not tell where its lanes go on; it is asked until they do"
        );
    }
}

/// A task was given back or lost.
#[derive(Clone, Copy, Debug)]
pub struct TaskLeft {
    /// The task.
    pub partition: Partition,
}

impl Happening for TaskLeft {
    fn tell(self, t: &Telemetry) {
        t.forget(self.partition);
        t.blocked_clock().forget(self.partition);
        info!(pipeline = t.pipeline, worker = t.worker, partition = %self.partition, "task left");
    }
}

/// What a worker does with a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// It learns where to go on.
    Restoring,
    /// It reads, handles and commits.
    Running,
    /// It finishes what runs, to give the task back.
    Leaving,
}

impl TaskState {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Restoring, Self::Running, Self::Leaving];

    /// The word in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Restoring => "restoring",
            Self::Running => "running",
            Self::Leaving => "leaving",
        }
    }
}

/// How many tasks the worker has in a state now.
#[derive(Clone, Copy, Debug)]
pub struct TasksCounted {
    /// The state.
    pub state: TaskState,
    /// How many.
    pub count: usize,
}

impl Happening for TasksCounted {
    fn tell(self, t: &Telemetry) {
        t.series.tasks.set(self.state, self.count);
    }
}

/// Records were read from a lane.
#[derive(Clone, Copy, Debug)]
pub struct RecordsFetched {
    /// The lane.
    pub lane: Lane,
    /// Their keys, values and headers together.
    pub bytes: usize,
}

impl Happening for RecordsFetched {
    fn tell(self, t: &Telemetry) {
        if let Some(lane) = t.lane(self.lane) {
            lane.bytes.inc_by(u64::try_from(self.bytes).unwrap_or(u64::MAX));
        }
    }
}

/// Retention deleted records before they were read; the task goes on behind them.
#[derive(Clone, Copy, Debug)]
pub struct RecordsLost {
    /// The task.
    pub partition: Partition,
    /// The lane.
    pub lane: Lane,
    /// The first offset that is gone.
    pub from: Offset,
    /// The first that is still there.
    pub to: Offset,
}

impl Happening for RecordsLost {
    fn tell(self, t: &Telemetry) {
        let Self { partition, lane, from, to } = self;
        let count = u64::try_from(to.0.saturating_sub(from.0)).unwrap_or(0);
        t.count_lost(lane, partition, count);
        error!(
            pipeline = t.pipeline,
            worker = t.worker,
            lane = t.lane_label(lane),
            %partition,
            %from,
            %to,
            "records were deleted by retention before they were read"
        );
    }
}

/// A lane stands behind the end of its log: the topic was made anew, or has lost its end.
#[derive(Clone, Copy, Debug)]
pub struct LaneBehindEnd {
    /// The task.
    pub partition: Partition,
    /// The lane.
    pub lane: Lane,
    /// The next offset to read.
    pub next: Offset,
    /// The end of the log.
    pub end: Offset,
}

impl Happening for LaneBehindEnd {
    fn tell(self, t: &Telemetry) {
        let Self { partition, lane, next, end } = self;
        error!(
            pipeline = t.pipeline,
            worker = t.worker,
            lane = t.lane_label(lane),
            %partition,
            %next,
            %end,
            "a lane stands behind the end of its log: the topic was made anew, or has lost its end; its task waits \
             until the group's offset fits; if it does not by itself, set it right with all workers stopped"
        );
    }
}
