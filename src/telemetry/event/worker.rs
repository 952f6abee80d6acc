//! The life of a worker, and whether brokers answer it.

use std::time::Duration;

use tracing::{error, info, warn};

use crate::core::event::StopReason;
use crate::core::time::{Monotonic, in_words};
use crate::telemetry::Telemetry;
use crate::telemetry::blocked::BlockedBy;
use crate::telemetry::event::Happening;

/// A worker began.
#[derive(Clone, Copy, Debug)]
pub struct WorkerStarted<'a> {
    /// The transactional ids of its producers.
    pub transactional_ids: &'a [String],
}

impl Happening for WorkerStarted<'_> {
    fn tell(self, t: &Telemetry) {
        let ids = self.transactional_ids.join(", ");
        info!(pipeline = t.pipeline, worker = t.worker, transactional_ids = ids, "worker started");
    }
}

/// A worker ended as the core said.
#[derive(Clone, Copy, Debug)]
pub struct WorkerStopped<'a> {
    /// Why.
    pub reason: &'a StopReason,
}

impl Happening for WorkerStopped<'_> {
    fn tell(self, t: &Telemetry) {
        match self.reason {
            StopReason::Drained => {
                info!(pipeline = t.pipeline, worker = t.worker, "worker drained and stopped")
            }
            StopReason::CutOff { records } => warn!(
                pipeline = t.pipeline,
                worker = t.worker,
                records,
                "worker stopped before what was settled could be committed; whoever gets its tasks does it again"
            ),
            StopReason::TwinProcess { times } => error!(
                pipeline = t.pipeline,
                worker = t.worker,
                times,
                "worker stopped: another process uses its transactional ids; give each process its own --instance"
            ),
        }
    }
}

/// A client error that ends the process.
#[derive(Clone, Copy, Debug)]
pub struct FatalError<'a> {
    /// The client's words.
    pub detail: &'a str,
}

impl Happening for FatalError<'_> {
    fn tell(self, t: &Telemetry) {
        error!(
            pipeline = t.pipeline,
            worker = t.worker,
            detail = self.detail,
            "fatal error of the Kafka client"
        );
    }
}

/// The brokers do not let the worker read a topic, or be in its group. It tries again by itself.
#[derive(Clone, Copy, Debug)]
pub struct AccessRefused<'a> {
    /// The client's words.
    pub detail: &'a str,
}

impl Happening for AccessRefused<'_> {
    fn tell(self, t: &Telemetry) {
        error!(
            pipeline = t.pipeline,
            worker = t.worker,
            detail = self.detail,
            "the brokers refuse access: READ is needed on the pipeline's topics and its group; tasks wait until it is granted"
        );
    }
}

/// The group does not take the worker in under its name yet.
#[derive(Clone, Copy, Debug)]
pub struct MemberNameTaken<'a> {
    /// The name.
    pub name: &'a str,
    /// For how long it is asked for.
    pub within: Duration,
    /// The client's words.
    pub detail: &'a str,
    /// When.
    pub now: Monotonic,
}

impl Happening for MemberNameTaken<'_> {
    fn tell(self, t: &Telemetry) {
        t.pass(self.now);
        t.blocked_clock().block_whole(BlockedBy::MemberName);
        warn!(
            pipeline = t.pipeline,
            worker = t.worker,
            name = self.name,
            within = in_words(self.within),
            detail = self.detail,
            "the group has a member of this name: the process before this one was killed and its session is not over, or another \
             process has its instance; asked again until then, and given up after it"
        );
    }
}

/// It has taken it in.
#[derive(Clone, Copy, Debug)]
pub struct MemberNameGiven {
    /// When.
    pub now: Monotonic,
}

impl Happening for MemberNameGiven {
    fn tell(self, t: &Telemetry) {
        t.pass(self.now);
        t.blocked_clock().unblock_whole(BlockedBy::MemberName);
        info!(pipeline = t.pipeline, worker = t.worker, "the group has taken the member in");
    }
}

/// No broker answers.
#[derive(Clone, Copy, Debug)]
pub struct BrokerLost<'a> {
    /// The client's words.
    pub detail: &'a str,
    /// When.
    pub now: Monotonic,
}

impl Happening for BrokerLost<'_> {
    fn tell(self, t: &Telemetry) {
        t.pass(self.now);
        t.blocked_clock().block_whole(BlockedBy::Broker);
        error!(
            pipeline = t.pipeline,
            worker = t.worker,
            detail = self.detail,
            "no broker answers; nothing is lost, and work goes on when one does"
        );
    }
}

/// A broker answers again.
#[derive(Clone, Copy, Debug)]
pub struct BrokerFound {
    /// When.
    pub now: Monotonic,
}

impl Happening for BrokerFound {
    fn tell(self, t: &Telemetry) {
        t.pass(self.now);
        t.blocked_clock().unblock_whole(BlockedBy::Broker);
        info!(pipeline = t.pipeline, worker = t.worker, "a broker answers again");
    }
}

/// Time passed; told about once a second, so that time blocked is counted while it passes.
#[derive(Clone, Copy, Debug)]
pub struct TimePassed {
    /// Until now.
    pub now: Monotonic,
}

impl Happening for TimePassed {
    fn tell(self, t: &Telemetry) {
        t.pass(self.now);
    }
}
