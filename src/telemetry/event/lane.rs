//! What happens to the topic of a lane.

use tracing::{error, info};

use crate::core::position::{Lane, Offset, Partition};
use crate::core::time::Monotonic;
use crate::telemetry::Telemetry;
use crate::telemetry::blocked::BlockedBy;
use crate::telemetry::event::Happening;

/// The topic of a lane was deleted.
#[derive(Clone, Copy, Debug)]
pub struct LaneVanished {
    /// The lane.
    pub lane: Lane,
    /// What that keeps from going on, if anything.
    pub blocks: Option<BlockedBy>,
    /// When it was seen.
    pub now: Monotonic,
}

impl Happening for LaneVanished {
    fn tell(self, t: &Telemetry) {
        t.pass(self.now);
        let (pipeline, worker, lane) = (&t.pipeline, t.worker, t.lane_label(self.lane));
        let Some(by) = self.blocks else {
            info!(pipeline, worker, lane, "the topic of a lane is gone; everything else goes on without it");
            return;
        };
        t.blocked_clock().block_whole(by);
        error!(
            pipeline,
            worker,
            lane,
            "the topic of a lane is gone, and what was unread in it; the lane goes on when it is back"
        );
    }
}

/// It is there again.
#[derive(Clone, Copy, Debug)]
pub struct LaneBack {
    /// The lane.
    pub lane: Lane,
    /// What was kept from going on, if anything.
    pub blocked: Option<BlockedBy>,
    /// When it was seen.
    pub now: Monotonic,
}

impl Happening for LaneBack {
    fn tell(self, t: &Telemetry) {
        t.pass(self.now);
        if let Some(by) = self.blocked {
            t.blocked_clock().unblock_whole(by);
        }
        info!(
            pipeline = t.pipeline,
            worker = t.worker,
            lane = t.lane_label(self.lane),
            "the topic of a lane is back"
        );
    }
}

/// A lane begins at the beginning of a topic that was made anew.
#[derive(Clone, Copy, Debug)]
pub struct LaneRemade {
    /// The task.
    pub partition: Partition,
    /// The lane.
    pub lane: Lane,
    /// Where it stood in the topic that was there before.
    pub left: Offset,
}

impl Happening for LaneRemade {
    fn tell(self, t: &Telemetry) {
        let Self { partition, lane, left } = self;
        error!(
            pipeline = t.pipeline,
            worker = t.worker,
            lane = t.lane_label(lane),
            %partition,
            %left,
            "the topic of a lane was made anew: whatever the old one held from this offset on is lost; the lane begins at \
             the beginning of the new one"
        );
    }
}
