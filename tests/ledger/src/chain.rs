//! The way of one record: its copies one after another, its one fate, and what the handler saw of it.

use std::collections::{BTreeMap, BTreeSet};

use super::kind::{Findings, Kind};
use super::ledger::{Commits, Reasons};
use super::life::{Copy, End, Life, Spot, Step};
use super::{Ends, Part, Report, Role, Rules};

/// Reasons of dead letters that were not delivered when they got them.
const UNDELIVERED: [&str; 13] = [
    "bad-control-header",
    "bad-header-name",
    "cancelled",
    "decode-failed",
    "expired",
    "lethal",
    "no-key",
    "no-operation-id",
    "no-version",
    "predecessor-dead",
    "unknown-schema",
    "version-conflict",
    "version-gap",
];
/// Reasons of what a broker would not take: after a delivery, or where a waiting record should hop.
const NOT_TAKEN: [&str; 2] = ["too-large", "refused"];

/// One source record with all that is needed to judge it.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) rules: &'a Rules,
    pub(crate) reasons: &'a Reasons,
    pub(crate) ends: &'a BTreeMap<Part, Ends>,
    pub(crate) partition: i32,
    pub(crate) life: &'a Life,
}

/// Where a record is at a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whereabouts {
    Unread,
    Waiting,
    Emitted,
    Dead,
    /// Its last step was deleted by retention before it was consumed.
    Deleted(Step),
    Lost(Step),
}

impl Known<'_> {
    pub(crate) fn whereabouts(&self, commits: &Commits) -> Whereabouts {
        let last = self.life.last_step(self.partition);
        if let Some(end) = self.life.ends.first() {
            return if end.reason.is_some() { Whereabouts::Dead } else { Whereabouts::Emitted };
        }
        if self.ends.get(&last.part).is_some_and(|ends| last.offset < ends.start) {
            Whereabouts::Deleted(last)
        } else if commits.cover(last.part, last.offset) {
            Whereabouts::Lost(last)
        } else if self.life.copies.is_empty() {
            Whereabouts::Unread
        } else {
            Whereabouts::Waiting
        }
    }

    /// Exactly one fate, or a place where it waits for one; and neither a fate nor its offset without the other.
    pub(crate) fn fate(&self, commits: &Commits, report: &mut Report, findings: &mut Findings) {
        match self.whereabouts(commits) {
            Whereabouts::Unread => report.unread += 1,
            Whereabouts::Waiting => report.waiting += 1,
            Whereabouts::Emitted => report.emitted += 1,
            Whereabouts::Dead => report.died += 1,
            Whereabouts::Lost(step) => self.lost(step, findings),
            Whereabouts::Deleted(step) => self.deleted(step, findings),
        }
        for step in self.life.steps(self.partition) {
            if step.settled && !commits.cover(step.part, step.offset) {
                let what = "what follows from it is written, its offset is not committed".to_owned();
                findings.find(Kind::Torn, self.place(step), what);
            }
        }
    }

    pub(crate) fn lost(&self, step: Step, findings: &mut Findings) {
        let place = self.place(step);
        let what = format!("`{place}` was consumed, and nothing became of it");
        findings.find(Kind::Lost, self.origin(), what);
    }

    pub(crate) fn deleted(&self, step: Step, findings: &mut Findings) {
        let what = "deleted by retention before it was consumed".to_owned();
        findings.find(Kind::Deleted, self.place(step), what);
    }

    /// What is wrong with it whatever may still come.
    pub(crate) fn shape(&self, findings: &mut Findings) {
        let dead = self.life.ends.iter().filter(|end| end.reason.is_some()).count();
        if self.life.ends.len() > 1 {
            let what = format!("`{}` outputs and `{dead}` dead letters", self.life.ends.len() - dead);
            findings.find(Kind::Doubled, self.origin(), what);
        }
        self.attempts(findings);
    }

    /// Attempts rise by one from copy to copy, hops aside, and nothing is written before what came before it was due.
    fn attempts(&self, findings: &mut Findings) {
        let most = self.rules.most_attempts;
        let mut last: Option<&Copy> = None;
        for copy in &self.life.copies {
            self.misplaced(&copy.at, findings);
            let attempt = last.map_or(0, |last| last.attempt);
            let hop = last.is_some_and(|last| copy.attempt == last.attempt);
            let twice = hop && last.is_some_and(|last| last.due <= self.lane_due(last));
            if twice {
                let what =
                    format!("attempt `{attempt}` has two copies, and the first had nothing left to wait for");
                findings.find(Kind::Doubled, self.spot(&copy.at), what);
            } else if !hop && copy.attempt != attempt + 1 {
                let what = format!("attempt `{}` follows attempt `{attempt}`", copy.attempt);
                findings.find(Kind::AttemptGap, self.spot(&copy.at), what);
            }
            if copy.attempt >= most {
                let what = format!("still waits after attempt `{}` of `{most}`", copy.attempt);
                findings.find(Kind::AttemptGap, self.spot(&copy.at), what);
            }
            if let Some(last) = last.filter(|_| !twice) {
                let due = if hop { self.lane_due(last) } else { self.lane_due(last).max(last.due) };
                self.early(&copy.at, due, findings);
            }
            last = Some(copy);
        }
        for end in &self.life.ends {
            self.ending(last, end, findings);
        }
    }

    fn ending(&self, last: Option<&Copy>, end: &End, findings: &mut Findings) {
        let due = last.map(|last| self.lane_due(last).max(last.due));
        let Some(reason) = end.reason else {
            if let Some(due) = due {
                self.early(&end.at, due, findings);
            }
            return;
        };
        self.misplaced(&end.at, findings);
        let reason = self.reasons.name(reason);
        let most = self.rules.most_attempts;
        let before = last.map_or(0, |last| last.attempt);
        let attempt = end.attempt.unwrap_or(0);
        let delivered = match () {
            () if UNDELIVERED.contains(&reason) => false,
            () if NOT_TAKEN.contains(&reason) => attempt != before,
            () => true,
        };
        if attempt != before + u32::from(delivered) || (reason == "exhausted" && attempt != most) {
            let what = format!("`{reason}` at attempt `{attempt}` of `{most}`, after `{before}`");
            findings.find(Kind::AttemptGap, self.spot(&end.at), what);
        }
        if let Some(due) = due.filter(|_| delivered) {
            self.early(&end.at, due, findings);
        }
    }

    fn early(&self, at: &Spot, due: i64, findings: &mut Findings) {
        if at.timestamp < due {
            let what = format!("written `{}` ms before it was due", due - at.timestamp);
            findings.find(Kind::Early, self.spot(at), what);
        }
    }

    fn misplaced(&self, at: &Spot, findings: &mut Findings) {
        if at.partition != self.partition {
            let what = format!("comes from partition `{}`", self.partition);
            findings.find(Kind::Misplaced, self.spot(at), what);
        }
    }

    /// The handler was called for each attempt, never early, and never again after the record had its fate.
    pub(crate) fn handler(&self, report: &mut Report, findings: &mut Findings) {
        let life = self.life;
        let mut calls = BTreeSet::new();
        for call in &life.calls {
            if !calls.insert((call.attempt, call.execution)) {
                report.repeated += 1;
            }
            let copy = life.copies.iter().rev().find(|copy| copy.attempt + 1 == call.attempt);
            let lane_due = copy.map(|copy| self.lane_due(copy));
            let due = [call.due, lane_due, copy.map(|copy| copy.due)].into_iter().flatten().max();
            if let Some(due) = due.filter(|due| call.at < *due) {
                let what =
                    format!("attempt `{}` began `{}` ms before it was due", call.attempt, due - call.at);
                findings.find(Kind::Early, self.origin(), what);
            }
            if let Some(due) = call.due.filter(|_| call.execution == 1) {
                report.lateness.add(call.at.saturating_sub(due));
            }
        }
        let seen: BTreeSet<u32> = life.calls.iter().map(|call| call.attempt).collect();
        let written = life.copies.last().map_or(0, |copy| copy.attempt);
        let (least, most) = match life.ends.first() {
            Some(End { reason: Some(_), attempt, .. }) => (attempt.unwrap_or(0), attempt.unwrap_or(0)),
            Some(End { reason: None, .. }) => (written + 1, written + 1),
            None => (written, written + 1),
        };
        let last = seen.last().copied().unwrap_or(0);
        if !seen.iter().copied().eq(1..=last) || last < least || last > most {
            let what =
                format!("the handler saw attempts {seen:?}, `{least}` to `{most}` are told by the topics");
            findings.find(Kind::AttemptGap, self.origin(), what);
        }
    }

    /// A lane is not read past a record before this.
    fn lane_due(&self, copy: &Copy) -> i64 {
        let Role::Tier(tier) = copy.at.role else { return copy.at.timestamp };
        copy.at.timestamp.saturating_add(self.rules.delays.get(tier).copied().unwrap_or(0))
    }

    fn origin(&self) -> String {
        self.rules.place(Role::Source, self.partition, self.life.offset)
    }

    fn spot(&self, at: &Spot) -> String {
        self.rules.place(at.role, at.partition, at.offset)
    }

    pub(crate) fn place(&self, step: Step) -> String {
        self.rules.place(step.part.0, step.part.1, step.offset)
    }
}
