//! Tasks whose partition the source has and redrive's own topics do not have yet.

use tracing::{error, info};

use crate::core::event::Part;
use crate::core::position::Partition;
use crate::core::time::Monotonic;
use crate::telemetry::Telemetry;
use crate::telemetry::blocked::BlockedBy;
use crate::telemetry::event::Happening;

/// What a person types so that redrive's own topics follow their source.
pub const APPLY: &str = "redrive topics apply";

/// The source has grown, and topics of redrive's own have not followed: the task waits.
#[derive(Clone, Copy, Debug)]
pub struct TooFewPartitions<'a> {
    /// The task.
    pub partition: Partition,
    /// Which topics, with the partitions that they have.
    pub detail: &'a str,
    /// When it was seen.
    pub now: Monotonic,
}

impl Happening for TooFewPartitions<'_> {
    fn tell(self, t: &Telemetry) {
        let Self { partition, detail, now } = self;
        t.pass(now);
        t.blocked_clock().block(Part::Records, BlockedBy::Partitions, &[partition]);
        error!(
            pipeline = t.pipeline,
            worker = t.worker,
            %partition,
            detail,
            hint = APPLY,
            "the source has more partitions than topics of redrive's own: the task waits until they have as many; all \
             others go on"
        );
    }
}

/// They have as many: the task goes on.
#[derive(Clone, Copy, Debug)]
pub struct PartitionsFollowed {
    /// The task.
    pub partition: Partition,
    /// When it was seen.
    pub now: Monotonic,
}

impl Happening for PartitionsFollowed {
    fn tell(self, t: &Telemetry) {
        t.pass(self.now);
        t.blocked_clock().unblock(Part::Records, BlockedBy::Partitions, &[self.partition]);
        let (pipeline, worker, partition) = (&t.pipeline, t.worker, self.partition);
        info!(pipeline, worker, %partition, "redrive's own topics have as many partitions as the source: the task goes on");
    }
}
