//! The series of one worker, looked up once.

use std::sync::atomic::{AtomicI64, Ordering};

use prometheus::{Counter, Histogram, IntCounter, IntGauge};

use crate::core::class::Class;
use crate::core::event::Dropped;
use crate::core::invariant::InvariantId;
use crate::core::outcome::{Cause, Outcome};
use crate::telemetry::blocked::BlockedBy;
use crate::telemetry::event::TaskState;
use crate::telemetry::metrics::Metrics;

/// The series of one lane.
#[derive(Debug)]
pub(super) struct LaneSeries {
    pub(super) label: String,
    pub(super) emitted: IntCounter,
    pub(super) retried: IntCounter,
    pub(super) hopped: IntCounter,
    pub(super) held: IntCounter,
    pub(super) obeyed: IntCounter,
    pub(super) dead: IntCounter,
    dropped: [IntCounter; Dropped::ALL.len()],
    pub(super) bytes: IntCounter,
    pub(super) lateness: Histogram,
    succeeded: IntCounter,
    failed: [IntCounter; Class::ALL.len()],
}

impl LaneSeries {
    pub(super) fn new(metrics: &Metrics, pipeline: &str, lane: &str) -> Self {
        let families = metrics.families();
        let fate = |fate| families.records.with_label_values(&[pipeline, lane, fate]);
        let attempts = |class| families.attempts.with_label_values(&[pipeline, lane, class]);
        Self {
            label: lane.to_owned(),
            emitted: fate("emit"),
            retried: fate("retry"),
            hopped: fate("hop"),
            held: fate("hold"),
            obeyed: fate("obeyed"),
            dead: fate("dead-letter"),
            dropped: Dropped::ALL.map(|why| fate(why.as_str())),
            bytes: families.record_bytes.with_label_values(&[pipeline, lane]),
            lateness: families.lateness.with_label_values(&[pipeline, lane]),
            succeeded: attempts("success"),
            failed: Class::ALL.map(|class| attempts(class.as_str())),
        }
    }

    /// Deliveries that ended well.
    pub(super) const fn succeeded(&self) -> &IntCounter {
        &self.succeeded
    }

    /// Records that the guard dropped.
    pub(super) const fn dropped(&self, why: Dropped) -> &IntCounter {
        let [duplicate, stale] = &self.dropped;
        match why {
            Dropped::Duplicate => duplicate,
            Dropped::Stale => stale,
        }
    }

    /// Deliveries that ended with a failure of this class.
    pub(super) const fn failed(&self, class: Class) -> &IntCounter {
        let [permanent, transient, throttled, unknown, poison] = &self.failed;
        match class {
            Class::Permanent => permanent,
            Class::Transient => transient,
            Class::Throttled => throttled,
            Class::Unknown => unknown,
            Class::Poison => poison,
        }
    }
}

/// The series of a worker that belong to no lane.
#[derive(Debug)]
pub(super) struct WorkerSeries {
    pub(super) executions: Executions,
    pub(super) transactions: Transactions,
    pub(super) tasks: TaskGauges,
    pub(super) restore: Histogram,
    blocked: [Counter; BlockedBy::ALL.len()],
}

impl WorkerSeries {
    pub(super) fn new(metrics: &Metrics, pipeline: &str) -> Self {
        let families = metrics.families();
        // There from the start with 0, so that the first breach is a rise that an alert sees.
        for id in [
            InvariantId::R1,
            InvariantId::R2,
            InvariantId::R3,
            InvariantId::R4,
            InvariantId::R5,
            InvariantId::R6,
            InvariantId::R7,
            InvariantId::R8,
            InvariantId::R9,
            InvariantId::R10,
        ] {
            families.breaches.with_label_values(&[pipeline, &id.to_string()]);
        }
        Self {
            executions: Executions::new(metrics, pipeline),
            transactions: Transactions::new(metrics, pipeline),
            tasks: TaskGauges::new(metrics, pipeline),
            restore: families.restore.with_label_values(&[pipeline]),
            blocked: BlockedBy::ALL.map(|by| families.blocked.with_label_values(&[pipeline, by.as_str()])),
        }
    }

    /// Seconds in which tasks could not go on because of this.
    pub(super) fn blocked(&self, by: BlockedBy) -> Option<&Counter> {
        self.blocked.get(by.index())
    }
}

/// Executions by result.
#[derive(Debug)]
pub(super) struct Executions {
    done: Histogram,
    failed: Histogram,
    not_sent: Histogram,
    timed_out: Histogram,
    cut: Histogram,
    status: Histogram,
}

impl Executions {
    fn new(metrics: &Metrics, pipeline: &str) -> Self {
        let result = |result| metrics.families().executions.with_label_values(&[pipeline, result]);
        Self {
            done: result("done"),
            failed: result("failed"),
            not_sent: result("not-sent"),
            timed_out: result("timed-out"),
            cut: result("cut"),
            status: result("status"),
        }
    }

    /// The times of executions that ended like this one.
    pub(super) const fn of(&self, outcome: &Outcome) -> &Histogram {
        match outcome {
            Outcome::Done(_) => &self.done,
            Outcome::Failed(failure) => match failure.cause {
                Cause::Named { .. } => &self.failed,
                Cause::NotSent => &self.not_sent,
                Cause::TimedOut => &self.timed_out,
                Cause::Cut => &self.cut,
                Cause::Status { .. } => &self.status,
            },
        }
    }
}

/// Transactions by result.
#[derive(Debug)]
pub(super) struct Transactions {
    pub(super) committed: IntCounter,
    pub(super) aborted: IntCounter,
    pub(super) fenced: IntCounter,
    pub(super) unknown: IntCounter,
    pub(super) seconds: Histogram,
    pub(super) records: Histogram,
}

impl Transactions {
    fn new(metrics: &Metrics, pipeline: &str) -> Self {
        let families = metrics.families();
        let result = |result| families.transactions.with_label_values(&[pipeline, result]);
        Self {
            committed: result("committed"),
            aborted: result("aborted"),
            fenced: result("fenced"),
            unknown: result("unknown"),
            seconds: families.transaction_seconds.with_label_values(&[pipeline]),
            records: families.transaction_records.with_label_values(&[pipeline]),
        }
    }
}

/// How many tasks a worker has in each state. The workers of a pipeline share the gauges, so each adds what changed
/// and, when it ends, takes away what it added.
#[derive(Debug)]
pub(super) struct TaskGauges([(IntGauge, AtomicI64); TaskState::ALL.len()]);

impl TaskGauges {
    fn new(metrics: &Metrics, pipeline: &str) -> Self {
        let gauge =
            |state: TaskState| metrics.families().tasks.with_label_values(&[pipeline, state.as_str()]);
        Self(TaskState::ALL.map(|state| (gauge(state), AtomicI64::new(0))))
    }

    /// This worker now has so many tasks in a state.
    pub(super) fn set(&self, state: TaskState, count: usize) {
        let [restoring, running, leaving] = &self.0;
        let (gauge, mine) = match state {
            TaskState::Restoring => restoring,
            TaskState::Running => running,
            TaskState::Leaving => leaving,
        };
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        gauge.add(count.saturating_sub(mine.swap(count, Ordering::Relaxed)));
    }
}

impl Drop for TaskGauges {
    fn drop(&mut self) {
        for state in TaskState::ALL {
            self.set(state, 0);
        }
    }
}
