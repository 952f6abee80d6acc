//! Everything that belongs to one source record, brought together from all topics.

use std::collections::BTreeMap;

use super::control::{self, Control};
use super::{History, Kind, Report, Role, Rules, Seen, Start};

/// One source record and what became of it.
#[derive(Debug)]
pub(super) struct Life<'a> {
    pub(super) source: &'a Seen,
    pub(super) event_id: String,
    /// In the order of their attempts, then of their writing.
    pub(super) copies: Vec<Copy<'a>>,
    pub(super) outputs: Vec<&'a Seen>,
    pub(super) dead: Vec<(&'a Seen, Control)>,
    /// In the order of the handler's log.
    pub(super) starts: Vec<&'a Start>,
}

/// A record in a tier.
#[derive(Debug)]
pub(super) struct Copy<'a> {
    pub(super) record: &'a Seen,
    pub(super) attempt: u32,
    /// Its lane is not read past it before this.
    pub(super) lane_due: i64,
    /// It is not handled before this.
    pub(super) due: i64,
}

/// By partition and offset of the source record.
pub(super) type Lives<'a> = BTreeMap<(i32, i64), Life<'a>>;

pub(super) fn gather<'a>(rules: &Rules, history: &'a History, report: &mut Report) -> Lives<'a> {
    let mut lives = Lives::new();
    let mut by_id: BTreeMap<String, (i32, i64)> = BTreeMap::new();
    for source in history.records.iter().filter(|record| record.role == Role::Source) {
        report.source += 1;
        let event_id = event_id(rules, source);
        let origin = (source.partition, source.offset);
        if by_id.insert(event_id.clone(), origin).is_some() {
            let what =
                format!("another record has the event id `{event_id}` too: outputs cannot be told apart");
            report.find(Kind::Ambiguous, rules.place(source), what);
        }
        let life = Life { source, event_id, copies: vec![], outputs: vec![], dead: vec![], starts: vec![] };
        lives.insert(origin, life);
    }
    for record in &history.records {
        match record.role {
            Role::Source => {}
            Role::Tier(tier) => {
                report.copies += 1;
                let delay = rules.delays.get(tier).copied().unwrap_or(0);
                own(rules, record, &mut lives, report, |life, control| {
                    // Both are there: the reader checked.
                    let (attempt, due) = (control.attempt.unwrap_or(0), control.due.unwrap_or(0));
                    let lane_due = record.timestamp.saturating_add(delay);
                    life.copies.push(Copy { record, attempt, lane_due, due });
                });
            }
            Role::DeadLetter => {
                let reason = |control: &Control| control.reason.clone().unwrap_or_default();
                if let Some(control) = own(rules, record, &mut lives, report, |life, control| {
                    life.dead.push((record, control.clone()));
                }) {
                    *report.dead.entry(reason(&control)).or_default() += 1;
                }
            }
            Role::Output => {
                report.output += 1;
                match control::required::<String>(record, "redrive-event-id") {
                    Err(what) => report.find(Kind::BadHeader, rules.place(record), what),
                    Ok(id) => match by_id.get(&id).and_then(|origin| lives.get_mut(origin)) {
                        Some(life) => life.outputs.push(record),
                        None => report.find(
                            Kind::Stray,
                            rules.place(record),
                            format!("no source record has the event id `{id}`"),
                        ),
                    },
                }
            }
        }
    }
    for start in history.starts.iter().flatten() {
        report.starts += 1;
        match by_id.get(&start.event_id).and_then(|origin| lives.get_mut(origin)) {
            Some(life) => life.starts.push(start),
            None => {
                let place = format!("handler, event id {}", start.event_id);
                report.find(Kind::Stray, place, "no source record has this event id".to_owned());
            }
        }
    }
    for life in lives.values_mut() {
        life.copies
            .sort_by_key(|copy| (copy.attempt, copy.record.timestamp, copy.record.role, copy.record.offset));
    }
    lives
}

/// Gives a record of one of redrive's own topics to the source record that its headers name.
fn own<'a>(
    rules: &Rules,
    record: &Seen,
    lives: &mut Lives<'a>,
    report: &mut Report,
    give: impl FnOnce(&mut Life<'a>, &Control),
) -> Option<Control> {
    report.control_bytes = report.control_bytes.max(control::control_bytes(record));
    let control = control::read(rules, record, report)?;
    let Some(life) = lives.get_mut(&control.origin) else {
        let what = format!("the source holds no record at `{}/{}`", control.origin.0, control.origin.1);
        report.find(Kind::Stray, rules.place(record), what);
        return None;
    };
    if control.event_id != life.event_id {
        let what = format!("event id `{}` instead of `{}`", control.event_id, life.event_id);
        report.find(Kind::BadHeader, rules.place(record), what);
    }
    give(life, &control);
    Some(control)
}

/// The longest value of a header that is an event id, in bytes.
const LONGEST_ID: usize = 256;

/// The last header of the configured name, if it holds 1 to 256 bytes of UTF-8; else the origin.
fn event_id(rules: &Rules, source: &Seen) -> String {
    let header = rules.event_id.as_ref().and_then(|wanted| {
        let value = source.headers.iter().rev().find(|(name, _)| name == wanted)?.1.clone()?;
        String::from_utf8(value).ok().filter(|id| (1..=LONGEST_ID).contains(&id.len()))
    });
    header.unwrap_or_else(|| rules.place(source))
}
