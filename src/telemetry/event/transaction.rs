//! Transactions and the producers that carry them.

use std::time::Duration;

use tracing::{debug, warn};

use crate::core::event::TransactionResult;
use crate::telemetry::Telemetry;
use crate::telemetry::event::Happening;

/// A transaction came to a result.
#[derive(Clone, Copy, Debug)]
pub struct TransactionEnded<'a> {
    /// The result.
    pub result: &'a TransactionResult,
    /// The consumed records that it holds.
    pub records: usize,
    /// Since begin.
    pub took: Duration,
}

impl Happening for TransactionEnded<'_> {
    fn tell(self, t: &Telemetry) {
        let series = &t.series.transactions;
        series.seconds.observe(self.took.as_secs_f64());
        let (records, took) = (self.records, self.took);
        match self.result {
            TransactionResult::Committed => {
                series.committed.inc();
                series.records.observe(f64::from(u32::try_from(records).unwrap_or(u32::MAX)));
                debug!(pipeline = t.pipeline, worker = t.worker, records, ?took, "transaction committed");
            }
            TransactionResult::Aborted(cause) => {
                series.aborted.inc();
                let detail = cause.detail();
                warn!(
                    pipeline = t.pipeline,
                    worker = t.worker,
                    records,
                    ?took,
                    detail,
                    "transaction aborted"
                );
            }
            TransactionResult::Fenced { after, slot: _, generation: _ } => {
                series.fenced.inc();
                warn!(pipeline = t.pipeline, worker = t.worker, records, ?after, "transaction fenced");
            }
            TransactionResult::Unknown => {
                series.unknown.inc();
                warn!(
                    pipeline = t.pipeline,
                    worker = t.worker,
                    records,
                    ?took,
                    "transaction without a verdict; it is read back"
                );
            }
        }
    }
}

/// A transaction takes far longer than the broker lets it.
#[derive(Clone, Copy, Debug)]
pub struct TransactionLate {
    /// Since it was formed.
    pub age: Duration,
}

impl Happening for TransactionLate {
    fn tell(self, t: &Telemetry) {
        warn!(
            pipeline = t.pipeline,
            worker = t.worker,
            age = ?self.age,
            "a transaction has been under way for long and all tasks of the worker wait for it: the coordinator does not \
             answer, or a call of the Kafka client hangs, which /live tells in time"
        );
    }
}

/// Why a producer was made anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemakeCause {
    /// The broker refused it.
    Fenced,
    /// Its commit had no verdict.
    Unknown,
    /// An error after which it cannot be used.
    Error,
}

impl RemakeCause {
    /// The word in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fenced => "fenced",
            Self::Unknown => "unknown",
            Self::Error => "error",
        }
    }
}

/// A producer was made anew with the same transactional id.
#[derive(Clone, Copy, Debug)]
pub struct ProducerRemade<'a> {
    /// Why.
    pub cause: RemakeCause,
    /// The client's words.
    pub detail: &'a str,
}

impl Happening for ProducerRemade<'_> {
    fn tell(self, t: &Telemetry) {
        let cause = self.cause.as_str();
        t.metrics.families().producer_reinits.with_label_values(&[&t.pipeline, cause]).inc();
        warn!(pipeline = t.pipeline, worker = t.worker, cause, detail = self.detail, "producer made anew");
    }
}
