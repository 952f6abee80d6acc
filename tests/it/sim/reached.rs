//! Which situations the seeds have led to, so that a test can tell what they never tried.

use std::collections::BTreeSet;

use redrive::core::class::Reason;
use redrive::core::event::{AbortCause, Dropped, FateKind, Part, Report, Suspects, TransactionResult};

use super::plan::{LostVerdict, Micro, Strike};

/// A situation that an ordinary run must lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Situation {
    Struck(Micro, &'static str),
    Ended(&'static str),
    ReadBackCommitted,
    ReadBackAborted,
    Twin,
    Blocked,
    Unblocked,
    Unanswered,
    Answering,
    Answered,
    Retried,
    Hopped,
    Held,
    Dead(&'static str),
    Dropped(Dropped),
    GivenBackWhileRunning,
}

/// All that were reached.
pub(crate) type Reached = BTreeSet<Situation>;

/// The word of a strike.
pub(crate) const fn word(strike: Strike) -> &'static str {
    match strike {
        Strike::Crash(_) => "crash",
        Strike::Pause(_) => "pause",
        Strike::Delay(_) => "delay",
        Strike::Expel(_) => "expel",
        Strike::SelfLoss(_) => "self-loss",
        Strike::Twin => "twin",
        Strike::Verdict(LostVerdict::RequestLost) => "request-lost",
        Strike::Verdict(LostVerdict::ReplyLost) => "reply-lost",
        Strike::Verdict(LostVerdict::RequestLate(_)) => "request-late",
        Strike::Verdict(LostVerdict::Repeated(_)) => "repeated",
        Strike::Passing => "passing",
    }
}

/// The situations behind a report.
pub(crate) fn of_report(report: &Report) -> Vec<Situation> {
    match report {
        Report::Blocked { part: Part::Records, .. } => vec![Situation::Blocked],
        Report::Unblocked { part: Part::Records, .. } => vec![Situation::Unblocked],
        Report::Blocked { part: Part::Requests, .. } => vec![Situation::Unanswered],
        Report::Unblocked { part: Part::Requests, .. } => vec![Situation::Answering],
        Report::Answered { .. } => vec![Situation::Answered],
        Report::Settled(fates) => fates
            .iter()
            .filter_map(|fate| match &fate.kind {
                FateKind::Emit | FateKind::Obeyed => None,
                FateKind::Retry(_) => Some(Situation::Retried),
                FateKind::Hop => Some(Situation::Hopped),
                FateKind::Hold => Some(Situation::Held),
                FateKind::Drop(why) => Some(Situation::Dropped(*why)),
                FateKind::DeadLetter(verdict) => Some(Situation::Dead(match verdict.reason {
                    Reason::Exhausted => "exhausted",
                    Reason::Deadline => "deadline",
                    Reason::NoOperationId => "no-operation-id",
                    Reason::NoKey => "no-key",
                    Reason::NoVersion => "no-version",
                    Reason::VersionConflict => "version-conflict",
                    Reason::VersionGap => "version-gap",
                    Reason::PredecessorDead => "predecessor-dead",
                    Reason::DecodeFailed => "decode-failed",
                    Reason::BadControlHeader => "bad-control-header",
                    Reason::BadHeaderName => "bad-header-name",
                    Reason::TooLarge => "too-large",
                    Reason::Refused => "refused",
                    Reason::Connect | Reason::Cut | Reason::Timeout => "unknown",
                    Reason::Http(_) | Reason::Named(_) => "permanent",
                })),
            })
            .collect(),
        Report::Stale { .. } | Report::RepeatsAccepted { .. } | Report::Broken(_) => Vec::new(),
    }
}

/// How a transaction ended.
pub(crate) const fn of_result(result: &TransactionResult) -> Situation {
    Situation::Ended(match result {
        TransactionResult::Committed => "committed",
        TransactionResult::Aborted(AbortCause::Refused { suspects: Suspects::Each(_), .. }) => "refused",
        TransactionResult::Aborted(AbortCause::Refused { .. }) => "batch refused",
        TransactionResult::Aborted(_) => "aborted",
        TransactionResult::Fenced { .. } => "fenced",
        TransactionResult::Unknown => "unknown",
    })
}

/// What must be among them after an ordinary run.
pub(crate) fn expected() -> Reached {
    let strikes = ["crash", "pause", "expel", "self-loss", "twin", "delay"];
    let mut expected: Reached = Micro::TRANSACT
        .into_iter()
        .flat_map(|micro| strikes.map(|strike| Situation::Struck(micro, strike)))
        .collect();
    let outside = [Micro::Abort, Micro::Renew, Micro::ReadBack, Micro::Restore, Micro::Action, Micro::Event];
    expected.extend(outside.map(|micro| Situation::Struck(micro, "crash")));
    expected.extend(
        ["committed", "aborted", "fenced", "unknown", "refused", "batch refused"].map(Situation::Ended),
    );
    let reasons = [
        "exhausted",
        "deadline",
        "no-operation-id",
        "bad-control-header",
        "bad-header-name",
        "no-key",
        "no-version",
        "version-conflict",
        "version-gap",
        "predecessor-dead",
        "too-large",
        "refused",
        "unknown",
        "permanent",
    ];
    expected.extend(reasons.map(Situation::Dead));
    expected.extend([
        Situation::ReadBackCommitted,
        Situation::ReadBackAborted,
        Situation::Twin,
        Situation::Blocked,
        Situation::Unblocked,
        Situation::Unanswered,
        Situation::Answering,
        Situation::Answered,
        Situation::Retried,
        Situation::Hopped,
        Situation::Held,
        Situation::Dropped(Dropped::Stale),
        Situation::Dropped(Dropped::Duplicate),
        Situation::GivenBackWhileRunning,
    ]);
    expected
}
