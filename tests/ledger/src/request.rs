//! Requests on the control lane and their answers: each that was consumed has exactly one.
//!
//! The key of a request is its id; the key of its answer is `a/` and this id, in the same partition of the cases. Other
//! keys of the cases are no answers.

use std::collections::BTreeMap;

use super::kind::{Findings, Kind};
use super::ledger::Commits;
use super::{Part, Report, Role, Rules, Seen};

/// Begins the key of an answer.
const ANSWER: &[u8] = b"a/";

/// Requests by their ids.
#[derive(Debug, Default)]
pub(crate) struct Requests(BTreeMap<Vec<u8>, Request>);

#[derive(Debug, Default)]
struct Request {
    asked: Option<(i32, i64)>,
    answers: Vec<(i32, i64)>,
}

impl Requests {
    pub(crate) fn take(&mut self, rules: &Rules, seen: &Seen, findings: &mut Findings) {
        let place = (seen.partition, seen.offset);
        let key = seen.key.as_deref().unwrap_or_default();
        match seen.role {
            Role::Control => {
                let request = self.0.entry(key.to_vec()).or_default();
                if request.asked.replace(place).is_some() {
                    let what = "another request has the same id: answers cannot be told apart".to_owned();
                    findings.find(Kind::Ambiguous, rules.place_of(seen), what);
                }
            }
            Role::Cases => {
                // A tombstone is the end of an answer's time.
                if let Some(id) = key.strip_prefix(ANSWER).filter(|_| seen.value.is_some()) {
                    self.0.entry(id.to_vec()).or_default().answers.push(place);
                }
            }
            Role::Source | Role::Tier(_) | Role::Output | Role::DeadLetter | Role::State => {}
        }
    }

    pub(crate) fn check(
        &self,
        rules: &Rules,
        commits: &Commits,
        report: &mut Report,
        findings: &mut Findings,
    ) {
        self.unanswered(rules, commits, findings);
        for request in self.0.values() {
            let Some((partition, offset)) = request.asked else {
                for (partition, offset) in &request.answers {
                    let place = rules.place(Role::Cases, *partition, *offset);
                    findings.find(Kind::Stray, place, "answers a request that is not there".to_owned());
                }
                continue;
            };
            let place = rules.place(Role::Control, partition, offset);
            let consumed = commits.cover((Role::Control, partition), offset);
            report.asked += 1;
            match (consumed, request.answers.len()) {
                (_, 0) => {}
                (true, 1) => report.obeyed += 1,
                (false, 1) => {
                    findings.find(Kind::Torn, place, "answered, its offset is not committed".to_owned());
                }
                (_, count) => findings.find(Kind::Doubled, place, format!("`{count}` answers")),
            }
            for (other, offset) in request.answers.iter().filter(|(other, _)| *other != partition) {
                let what = format!("comes from partition `{partition}`");
                findings.find(Kind::Misplaced, rules.place(Role::Cases, *other, *offset), what);
            }
        }
    }

    /// Finds what was consumed and has no answer.
    pub(crate) fn unanswered(&self, rules: &Rules, commits: &Commits, findings: &mut Findings) {
        for request in self.0.values().filter(|request| request.answers.is_empty()) {
            let Some((partition, offset)) = request.asked else { continue };
            if commits.cover((Role::Control, partition), offset) {
                let place = rules.place(Role::Control, partition, offset);
                findings.find(Kind::Lost, place, "consumed, and it was never answered".to_owned());
            }
        }
    }

    /// Everything that was asked.
    pub(crate) fn places(&self) -> impl Iterator<Item = (Part, i64)> {
        self.0.values().filter_map(|request| {
            request.asked.map(|(partition, offset)| ((Role::Control, partition), offset))
        })
    }
}
