//! What a worker tells people about its life: an interface, so that logs and metrics join where they are made.

use std::sync::Arc;

use crate::core::event::{Report, StopReason};
use crate::core::position::{Offset, Partition};
use crate::kafka::lookup::Loss;
use crate::kafka::reader::LaneId;

/// One thing that happened in a worker.
#[derive(Debug)]
pub(crate) enum Happening<'a> {
    /// The group gave these partitions.
    Assigned(&'a [Partition]),
    /// The group takes these back in order.
    Revoked(&'a [Partition]),
    /// The group has given these to somebody else.
    Lost(&'a [Partition]),
    /// A task is read, after its take-over.
    Opened(Partition),
    /// A task was given up.
    Closed(Partition),
    /// Retention deleted records before they were read.
    Loss(Loss),
    /// A lane stands behind the end of its log and waits for a person.
    BehindEnd {
        /// The lane.
        id: LaneId,
        /// Where it stands.
        next: Offset,
        /// The end of the log.
        end: Offset,
    },
    /// From the core.
    Core(&'a Report),
    /// The worker ended in order.
    Stopped(&'a StopReason),
}

/// Who is told.
pub(crate) trait Reports: Send + Sync + 'static {
    /// Takes one happening of a worker of `pipeline`.
    fn tell(&self, pipeline: &str, happening: &Happening<'_>);
}

/// The reports of one worker.
#[derive(Clone)]
pub(crate) struct Reporter {
    pipeline: String,
    to: Arc<dyn Reports>,
}

impl std::fmt::Debug for Reporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reporter").field("pipeline", &self.pipeline).finish_non_exhaustive()
    }
}

impl Reporter {
    pub(crate) fn new(pipeline: &str, to: Arc<dyn Reports>) -> Self {
        Self { pipeline: pipeline.to_owned(), to }
    }

    pub(crate) fn tell(&self, happening: &Happening<'_>) {
        self.to.tell(&self.pipeline, happening);
    }
}

/// Tells by log lines.
#[derive(Debug)]
pub(crate) struct Log;

impl Reports for Log {
    fn tell(&self, pipeline: &str, happening: &Happening<'_>) {
        match happening {
            Happening::Assigned(partitions) => tracing::info!(pipeline, ?partitions, "partitions assigned"),
            Happening::Revoked(partitions) => tracing::info!(pipeline, ?partitions, "partitions asked back"),
            Happening::Lost(partitions) => tracing::warn!(pipeline, ?partitions, "partitions lost"),
            Happening::Opened(partition) => tracing::info!(pipeline, %partition, "task open"),
            Happening::Closed(partition) => tracing::info!(pipeline, %partition, "task closed"),
            Happening::Loss(Loss { id, from, to }) => {
                tracing::error!(pipeline, ?id, %from, %to, "records were deleted by retention before they were read");
            }
            Happening::BehindEnd { id, next, end } => tracing::error!(
                pipeline, ?id, %next, %end,
                "the lane stands behind the end of its log: the topic was made anew or has lost its end"
            ),
            Happening::Core(report @ (Report::Blocked { .. } | Report::Broken(_))) => {
                tracing::error!(pipeline, ?report, "the core reports");
            }
            Happening::Core(report @ Report::Unblocked { .. }) => {
                tracing::info!(pipeline, ?report, "the core reports")
            }
            Happening::Core(report @ Report::Settled(_)) => {
                tracing::debug!(pipeline, ?report, "the core reports")
            }
            Happening::Stopped(reason) => tracing::info!(pipeline, ?reason, "worker stopped"),
        }
    }
}
