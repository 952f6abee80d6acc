//! What the core reports: fates, stops, breaches.

use tracing::{debug, error, info};

use crate::core::class::Reason;
use crate::core::control::{Reply, RequestId};
use crate::core::event::{Fate, FateKind, Part, Report, Target};
use crate::core::outcome::Verdict;
use crate::core::position::Partition;
use crate::core::time::Monotonic;
use crate::telemetry::Telemetry;
use crate::telemetry::blocked::BlockedBy;
use crate::telemetry::event::{Happening, Partitions};

/// A report of the core.
#[derive(Clone, Copy, Debug)]
pub struct Reported<'a> {
    /// The report.
    pub report: &'a Report,
    /// When.
    pub now: Monotonic,
}

impl Happening for Reported<'_> {
    fn tell(self, t: &Telemetry) {
        match self.report {
            Report::Blocked { part, partitions, target, detail } => {
                t.pass(self.now);
                t.blocked_clock().block(*part, (*target).into(), partitions);
                let what = match part {
                    Part::Records => {
                        "tasks stopped: a topic cannot be written; nothing is skipped, and they go on when it can"
                    }
                    Part::Requests => {
                        "requests wait: a topic cannot be written; records go on, and no request is skipped"
                    }
                };
                error!(
                    pipeline = t.pipeline,
                    worker = t.worker,
                    partitions = %Partitions(partitions),
                    target = target_word(t, *target),
                    detail,
                    "{what}"
                );
            }
            Report::Unblocked { part, partitions, target } => {
                t.pass(self.now);
                t.blocked_clock().unblock(*part, (*target).into(), partitions);
                let what = match part {
                    Part::Records => "tasks go on",
                    Part::Requests => "requests are answered again",
                };
                info!(
                    pipeline = t.pipeline,
                    worker = t.worker,
                    partitions = %Partitions(partitions),
                    target = target_word(t, *target),
                    "{what}"
                );
            }
            Report::Stale { partition, ranges } => {
                t.pass(self.now);
                t.blocked_clock().block(Part::Records, BlockedBy::PositionsStale, &[*partition]);
                error!(
                    pipeline = t.pipeline,
                    worker = t.worker,
                    %partition,
                    hint = t.resume_command(ranges),
                    "positions-stale: the group's offsets are gone and the last stop was not in order: these records may \
                     be handled once more; the task waits until that is accepted"
                );
            }
            Report::RepeatsAccepted { partition } => {
                t.pass(self.now);
                t.blocked_clock().unblock(Part::Records, BlockedBy::PositionsStale, &[*partition]);
                info!(pipeline = t.pipeline, worker = t.worker, %partition, "repeats accepted: the task goes on");
            }
            Report::Answered { partition, reply } => answered(t, *partition, reply),
            Report::Settled(fates) => {
                for fate in fates {
                    settled(t, fate);
                }
            }
            Report::Broken(breach) => {
                let id = breach.id.to_string();
                t.metrics.families().breaches.with_label_values(&[&t.pipeline, &id]).inc();
                let detail = breach.detail.as_str();
                error!(pipeline = t.pipeline, worker = t.worker, id, detail, "an invariant is broken");
            }
        }
    }
}

/// The word of a topic that is written: `output`, `retry.5s`, `dlq`.
fn target_word(t: &Telemetry, target: Target) -> &str {
    match target {
        Target::Output | Target::Named(_) => "output",
        Target::Tier(tier) => t.lane_label(crate::core::position::Lane::Tier(tier)),
        Target::StaleOutput => "stale-output",
        Target::DeadLetter => "dlq",
        Target::State => "state",
        Target::Cases => "cases",
        Target::Audit => "audit",
    }
}

fn answered(t: &Telemetry, partition: Partition, reply: &Reply) {
    let Reply { head, place, answer } = reply;
    info!(
        pipeline = t.pipeline,
        worker = t.worker,
        %partition,
        request = head.id.as_ref().map_or("", RequestId::as_str),
        by = head.by.as_deref().unwrap_or_default(),
        ticket = head.ticket.as_deref().unwrap_or_default(),
        command = head.command.as_deref().unwrap_or_default(),
        place = %place,
        result = answer.compliance.as_str(),
        detail = answer.words,
        "a request was answered"
    );
}

fn settled(t: &Telemetry, fate: &Fate) {
    let Some(lane) = t.lane(fate.lane) else {
        return;
    };
    match &fate.kind {
        FateKind::Emit => {
            lane.emitted.inc_by(fate.count);
            lane.succeeded().inc_by(fate.count);
        }
        FateKind::Retry(verdict) => {
            lane.retried.inc_by(fate.count);
            lane.failed(verdict.class).inc_by(fate.count);
        }
        FateKind::Hop => lane.hopped.inc_by(fate.count),
        FateKind::Hold => lane.held.inc_by(fate.count),
        FateKind::Obeyed => lane.obeyed.inc_by(fate.count),
        FateKind::Drop(why) => lane.dropped(*why).inc_by(fate.count),
        FateKind::DeadLetter(verdict) => {
            lane.dead.inc_by(fate.count);
            if was_attempted(&verdict.reason) {
                lane.failed(verdict.class).inc_by(fate.count);
            }
            dead_letters(t, fate, verdict);
        }
    }
}

fn dead_letters(t: &Telemetry, fate: &Fate, verdict: &Verdict) {
    let reason = t.metrics.reason_label(&verdict.reason);
    let labels = [t.pipeline.as_str(), verdict.class.as_str(), reason.as_str()];
    t.metrics.families().dead_letters.with_label_values(&labels).inc_by(fate.count);
    debug!(
        pipeline = t.pipeline,
        worker = t.worker,
        partition = %fate.partition,
        lane = t.lane_label(fate.lane),
        class = verdict.class.as_str(),
        reason = %verdict.reason,
        count = fate.count,
        "dead letters written"
    );
}

/// Whether a dead letter of this reason was handed to the handler.
fn was_attempted(reason: &Reason) -> bool {
    match reason {
        Reason::NoOperationId
        | Reason::NoKey
        | Reason::NoVersion
        | Reason::VersionConflict
        | Reason::VersionGap
        | Reason::PredecessorDead
        | Reason::DecodeFailed
        | Reason::BadControlHeader
        | Reason::BadHeaderName => false,
        Reason::Exhausted
        | Reason::Deadline
        | Reason::TooLarge
        | Reason::Refused
        | Reason::Connect
        | Reason::Cut
        | Reason::Timeout
        | Reason::Http(_)
        | Reason::Named(_) => true,
    }
}
