//! What happens, as events that log and count together.
//!
//! ERROR: data at risk, or a person must act. WARN: unexpected, recovered. INFO: life cycle. Nothing per record above
//! DEBUG. Field names are fixed: `pipeline`, `worker`, `partition`, `partitions`, `lane`, `target`, `detail`, ….

use std::fmt;

use crate::core::position::Partition;
use crate::telemetry::Telemetry;

mod delivery;
mod lane;
mod partitions;
mod report;
mod task;
mod transaction;
mod worker;

pub use delivery::{ExecutionEnded, ExecutionStarted};
pub use lane::{LaneBack, LaneRemade, LaneVanished};
pub use partitions::{APPLY, PartitionsFollowed, TooFewPartitions};
pub use report::Reported;
pub use task::{
    LaneBehindEnd, Rebalance, RebalanceSeen, RecordsFetched, RecordsLost, TaskLeft, TaskRestored,
    TaskRestores, TaskState, TaskWaits, TasksCounted, VersionsUnknown,
};
pub use transaction::{ProducerRemade, RemakeCause, TransactionEnded, TransactionLate};
pub use worker::{
    AccessRefused, BrokerFound, BrokerLost, FatalError, MemberNameGiven, MemberNameTaken, TimePassed,
    WorkerStarted, WorkerStopped,
};

/// Something that is logged and counted by [`Telemetry::emit`].
pub trait Happening {
    /// Logs and counts it.
    fn tell(self, telemetry: &Telemetry);
}

/// Partitions in a log line: `3, 7`.
struct Partitions<'a>(&'a [Partition]);

impl fmt::Display for Partitions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, partition) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{partition}")?;
        }
        Ok(())
    }
}
