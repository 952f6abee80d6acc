//! The way of one record: its copies one after another, its one fate, and what the handler saw of it.

use std::collections::BTreeSet;

use super::control::{self, Control};
use super::life::{Copy, Life};
use super::{Commits, Kind, OutputValue, Report, Rules, Seen};

/// Reasons of dead letters that were not delivered when they got them.
const UNDELIVERED: [&str; 6] =
    ["bad-control-header", "bad-header-name", "no-operation-id", "expired", "lethal", "cancelled"];

pub(super) fn check(rules: &Rules, commits: &Commits, life: &Life<'_>, logged: bool, report: &mut Report) {
    fate(rules, commits, life, report);
    torn(rules, commits, life, report);
    attempts(rules, life, report);
    bytes(rules, life, report);
    if logged {
        handler(rules, life, report);
    }
}

fn at(rules: &Rules, life: &Life<'_>) -> String {
    rules.place(life.source)
}

/// Exactly one fate, or a place where it waits for one.
fn fate(rules: &Rules, commits: &Commits, life: &Life<'_>, report: &mut Report) {
    let waiting = life.copies.last().is_some_and(|copy| !commits.cover(copy.record));
    let unread = !commits.cover(life.source);
    let (outputs, dead) = (life.outputs.len(), life.dead.len());
    match outputs + dead {
        0 if waiting => report.waiting += 1,
        0 if unread => report.unread += 1,
        0 => report.find(Kind::Lost, at(rules, life), "consumed, and nothing became of it".to_owned()),
        1 => {}
        _ => report.find(
            Kind::Doubled,
            at(rules, life),
            format!("`{outputs}` outputs and `{dead}` dead letters"),
        ),
    }
}

/// What follows from a record and the offset past it are one transaction: neither is there without the other.
fn torn(rules: &Rules, commits: &Commits, life: &Life<'_>, report: &mut Report) {
    let settled = !life.outputs.is_empty() || !life.dead.is_empty();
    let copies = life.copies.iter().map(|copy| copy.record);
    let way: Vec<&Seen> = std::iter::once(life.source).chain(copies).collect();
    for (index, record) in way.iter().enumerate().filter(|(_, record)| !commits.cover(record)) {
        if settled || index + 1 < way.len() {
            let what = "what follows from it is written, its offset is not committed".to_owned();
            report.find(Kind::Torn, rules.place(record), what);
        }
    }
}

/// Attempts rise by one from copy to copy, hops aside, and nothing is written before what came before it was due.
fn attempts(rules: &Rules, life: &Life<'_>, report: &mut Report) {
    let mut last: Option<&Copy<'_>> = None;
    for copy in &life.copies {
        misplaced(rules, life, copy.record, report);
        let attempt = last.map_or(0, |last| last.attempt);
        let hop = last.is_some_and(|last| copy.attempt == last.attempt);
        let twice = hop && last.is_some_and(|last| last.due <= last.lane_due);
        if twice {
            let what =
                format!("attempt `{attempt}` has two copies, and the first had nothing left to wait for");
            report.find(Kind::Doubled, rules.place(copy.record), what);
        } else if !hop && copy.attempt != attempt + 1 {
            let what = format!("attempt `{}` follows attempt `{attempt}`", copy.attempt);
            report.find(Kind::AttemptGap, rules.place(copy.record), what);
        }
        if copy.attempt >= rules.most_attempts {
            let what = format!("still waits after attempt `{}` of `{}`", copy.attempt, rules.most_attempts);
            report.find(Kind::AttemptGap, rules.place(copy.record), what);
        }
        if let Some(last) = last.filter(|_| !twice) {
            let due = if hop { last.lane_due } else { last.lane_due.max(last.due) };
            early(rules, copy.record, due, report);
        }
        last = Some(copy);
    }
    for (record, control) in &life.dead {
        misplaced(rules, life, record, report);
        dead_letter(rules, last, record, control, report);
    }
}

fn dead_letter(
    rules: &Rules,
    last: Option<&Copy<'_>>,
    record: &Seen,
    control: &Control,
    report: &mut Report,
) {
    let reason = control.reason.as_deref().unwrap_or_default();
    let delivered = !UNDELIVERED.contains(&reason);
    let before = last.map_or(0, |last| last.attempt);
    let expected = before + u32::from(delivered);
    let attempt = control.attempt.unwrap_or(0);
    if attempt != expected || (reason == "exhausted" && attempt != rules.most_attempts) {
        let what =
            format!("`{reason}` at attempt `{attempt}` of `{}`, after `{before}`", rules.most_attempts);
        report.find(Kind::AttemptGap, rules.place(record), what);
    }
    if let Some(last) = last.filter(|_| delivered) {
        early(rules, record, last.lane_due.max(last.due), report);
    }
}

fn early(rules: &Rules, record: &Seen, due: i64, report: &mut Report) {
    if record.timestamp < due {
        let what = format!("written `{}` ms before it was due", due - record.timestamp);
        report.find(Kind::Early, rules.place(record), what);
    }
}

fn misplaced(rules: &Rules, life: &Life<'_>, record: &Seen, report: &mut Report) {
    if record.partition != life.source.partition {
        let what = format!("comes from partition `{}`", life.source.partition);
        report.find(Kind::Misplaced, rules.place(record), what);
    }
}

/// Key, value and foreign headers are those of the source record.
fn bytes(rules: &Rules, life: &Life<'_>, report: &mut Report) {
    for copy in &life.copies {
        compare(rules, life.source, copy.record, OutputValue::AsSource, report);
    }
    for record in &life.outputs {
        compare(rules, life.source, record, rules.output, report);
    }
    let origin = rules.place(life.source);
    for (record, control) in &life.dead {
        match &control.payload_ref {
            None => compare(rules, life.source, record, OutputValue::AsSource, report),
            // The client could not carry it: the reference leads to it instead.
            Some(reference) if *reference == origin => {}
            Some(reference) => {
                let what = format!("the payload reference `{reference}` does not lead to `{origin}`");
                report.find(Kind::WrongBytes, rules.place(record), what);
            }
        }
    }
}

fn compare(rules: &Rules, source: &Seen, record: &Seen, value: OutputValue, report: &mut Report) {
    for (what, same) in [
        ("key", record.key == source.key),
        ("value", value == OutputValue::Any || record.value == source.value),
        ("foreign headers", control::foreign(record).eq(control::foreign(source))),
    ] {
        if !same {
            let what = format!("{what} not as in `{}`", rules.place(source));
            report.find(Kind::WrongBytes, rules.place(record), what);
        }
    }
}

/// The handler was called for each attempt, never early, and never again after the record had its fate.
fn handler(rules: &Rules, life: &Life<'_>, report: &mut Report) {
    let mut calls = BTreeSet::new();
    for start in &life.starts {
        if !calls.insert((start.attempt, start.execution)) {
            report.repeated += 1;
        }
        let copy = life.copies.iter().rev().find(|copy| copy.attempt + 1 == start.attempt);
        let due = [start.due, copy.map(|copy| copy.lane_due), copy.map(|copy| copy.due)]
            .into_iter()
            .flatten()
            .max();
        if let Some(due) = due.filter(|due| start.at < *due) {
            let what = format!("attempt `{}` began `{}` ms before it was due", start.attempt, due - start.at);
            report.find(Kind::Early, at(rules, life), what);
        }
        if let Some(due) = start.due.filter(|_| start.execution == 1) {
            report.lateness.add(start.at.saturating_sub(due));
        }
    }
    let seen: BTreeSet<u32> = life.starts.iter().map(|start| start.attempt).collect();
    let written = life.copies.last().map_or(0, |copy| copy.attempt);
    let (least, most) = match life.dead.first() {
        Some((_, control)) => (control.attempt.unwrap_or(0), control.attempt.unwrap_or(0)),
        None if !life.outputs.is_empty() => (written + 1, written + 1),
        None => (written, written + 1),
    };
    let last = seen.last().copied().unwrap_or(0);
    if !seen.iter().copied().eq(1..=last) || last < least || last > most {
        let what = format!("the handler saw attempts {seen:?}, `{least}` to `{most}` are told by the topics");
        report.find(Kind::AttemptGap, at(rules, life), what);
    }
}
