//! The committed offsets against the partitions: neither beyond their end nor before their beginning, and at the end of
//! a run nothing left and nothing open.

use std::collections::BTreeMap;

use super::kind::{Findings, Kind};
use super::ledger::Commits;
use super::lives::Lives;
use super::request::Requests;
use super::{Ends, Part, Rules};

/// What holds at any time. The ends were asked for after the offsets, and do not go down.
pub(crate) fn beyond(rules: &Rules, ends: &BTreeMap<Part, Ends>, commits: &Commits, findings: &mut Findings) {
    for (part, next) in commits.iter() {
        if let Some(ends) = ends.get(&part).filter(|ends| next > ends.end) {
            let what = format!("`{next}` is committed, the end is `{}`", ends.end);
            findings.find(Kind::BeyondEnd, rules.part(part), what);
        }
    }
}

/// What holds when nothing is left to do.
pub(crate) fn drained(
    rules: &Rules,
    lives: &Lives,
    requests: &Requests,
    ends: &BTreeMap<Part, Ends>,
    commits: &Commits,
    findings: &mut Findings,
) {
    for ends in ends.values().filter(|ends| ends.stable < ends.end) {
        let what = format!("stable up to `{}`, the end is `{}`", ends.stable, ends.end);
        findings.find(Kind::OpenTransaction, rules.part((ends.role, ends.partition)), what);
    }
    // In records; transaction markers, which take offsets too, are looked at below.
    let mut left: BTreeMap<Part, usize> = BTreeMap::new();
    let steps = lives.iter().flat_map(|(partition, life)| {
        life.steps(partition).map(|step| (step.part, step.offset)).collect::<Vec<_>>()
    });
    for (part, offset) in steps.chain(requests.places()) {
        if !commits.cover(part, offset) {
            *left.entry(part).or_default() += 1;
        }
    }
    for (part, count) in &left {
        let what = format!("`{count}` records are not committed after the drain");
        findings.find(Kind::Lag, rules.part(*part), what);
    }
    for (part, next) in commits.iter() {
        let start = ends.get(&part).map_or(0, |ends| ends.start);
        if next < start {
            let what = format!("offsets `{next}` to `{}` were deleted by retention", start - 1);
            findings.find(Kind::Deleted, rules.part(part), what);
        }
    }
    let lanes = ends.iter().filter(|((role, _), _)| role.is_lane());
    for (part, ends) in lanes.filter(|(part, ends)| !left.contains_key(part) && ends.start < ends.end) {
        let next = commits.next(*part).unwrap_or(ends.start);
        if (ends.start..ends.end).contains(&next) {
            let what = format!("`{next}` is committed, the end is `{}`: only markers follow", ends.end);
            findings.find(Kind::Lag, rules.part(*part), what);
        }
    }
}
