//! Calls of the handler.

use std::time::Duration;

use tracing::debug;

use crate::core::event::Delivery;
use crate::core::outcome::Outcome;
use crate::telemetry::Telemetry;
use crate::telemetry::event::Happening;

/// The handler is called for a delivery.
#[derive(Clone, Copy, Debug)]
pub struct ExecutionStarted<'a> {
    /// The delivery.
    pub delivery: &'a Delivery,
}

impl Happening for ExecutionStarted<'_> {
    fn tell(self, t: &Telemetry) {
        if let (Some(late), Some(lane)) = (self.delivery.lateness, t.lane(self.delivery.id.lane)) {
            lane.lateness.observe(late.as_secs_f64());
        }
    }
}

/// The handler answered.
#[derive(Clone, Copy, Debug)]
pub struct ExecutionEnded<'a> {
    /// The delivery.
    pub delivery: &'a Delivery,
    /// The answer.
    pub outcome: &'a Outcome,
    /// Since the call.
    pub took: Duration,
}

impl Happening for ExecutionEnded<'_> {
    fn tell(self, t: &Telemetry) {
        t.series.executions.of(self.outcome).observe(self.took.as_secs_f64());
        let Outcome::Failed(failure) = self.outcome else {
            return;
        };
        debug!(
            pipeline = t.pipeline,
            worker = t.worker,
            origin = %self.delivery.envelope.origin,
            attempt = self.delivery.attempt,
            execution = self.delivery.execution,
            took = ?self.took,
            cause = ?failure.cause,
            detail = failure.detail,
            "execution failed"
        );
    }
}
