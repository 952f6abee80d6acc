//! What redrive tells of itself: logs and metrics, always both, from one event.
//!
//! Owns the names of metrics, log lines and their fields. Nothing is logged or counted anywhere else: whatever is
//! worth it is an event of [`event`], and [`Telemetry::emit`] does the rest. Nothing here decides anything.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::core::position::{Lane, OffsetRange, Partition};
use crate::core::time::Monotonic;
use crate::telemetry::blocked::BlockedClock;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::series::{LaneSeries, WorkerSeries};
use crate::topology::model::Pipeline;

pub mod blocked;
pub mod event;
pub mod metrics;
mod series;

/// What one worker tells: its series are looked up once, so that counting a record is one addition. Shared between
/// the worker's threads.
#[derive(Debug)]
pub struct Telemetry {
    metrics: Metrics,
    pipeline: String,
    worker: usize,
    lanes: Vec<LaneSeries>,
    series: WorkerSeries,
    blocked: Mutex<BlockedClock>,
    /// The lanes and partitions that have a series of their own.
    lost: Mutex<BTreeSet<(Partition, Lane)>>,
}

impl Telemetry {
    /// For the worker of this number of a pipeline.
    pub fn new(metrics: &Metrics, pipeline: &Pipeline, worker: usize) -> Self {
        let lanes = pipeline.policy.all_lanes().map(|lane| pipeline.lane_label(lane));
        Self {
            metrics: metrics.clone(),
            pipeline: pipeline.name.clone(),
            worker,
            lanes: lanes.map(|label| LaneSeries::new(metrics, &pipeline.name, label)).collect(),
            series: WorkerSeries::new(metrics, &pipeline.name),
            blocked: Mutex::new(BlockedClock::default()),
            lost: Mutex::new(BTreeSet::new()),
        }
    }

    /// Logs and counts what happened.
    pub fn emit(&self, event: impl event::Happening) {
        event.tell(self);
    }

    /// What a person types to accept that these records may be handled once more.
    pub fn resume_command(&self, ranges: &[OffsetRange]) -> String {
        let ranges = ranges.iter().map(OffsetRange::to_string).collect::<Vec<_>>().join(" ");
        format!("redrive resume {} --accept-repeats {ranges}", self.pipeline)
    }

    /// Counts the time in which tasks were blocked until now.
    fn pass(&self, now: Monotonic) {
        for (by, time) in self.blocked_clock().pass(now) {
            if let Some(counter) = self.series.blocked(by) {
                counter.inc_by(time.as_secs_f64());
            }
        }
    }

    fn blocked_clock(&self) -> MutexGuard<'_, BlockedClock> {
        self.blocked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The series of a lane; `None` for one that the pipeline does not have.
    fn lane(&self, lane: Lane) -> Option<&LaneSeries> {
        self.lanes.get(lane.index())
    }

    /// The word of a lane.
    fn lane_label(&self, lane: Lane) -> &str {
        self.lane(lane).map_or("none", |series| &series.label)
    }

    /// Counts records that were deleted before they were read.
    fn count_lost(&self, lane: Lane, partition: Partition, count: u64) {
        let number = partition.to_string();
        let labels = [self.pipeline.as_str(), self.lane_label(lane), &number];
        self.metrics.families().lost.with_label_values(&labels).inc_by(count);
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).insert((partition, lane));
    }

    /// Forgets the series of a partition that left, so that no number stands still here while it moves elsewhere.
    fn forget(&self, partition: Partition) {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        lost.retain(|(of, lane)| {
            if *of == partition {
                let number = partition.to_string();
                let labels = [self.pipeline.as_str(), self.lane_label(*lane), &number];
                let _ = self.metrics.families().lost.remove_label_values(&labels);
            }
            *of != partition
        });
    }
}
