//! Takes in what is known of a run, piece by piece, and keeps as much of it as the checks need.

use std::collections::BTreeMap;

use super::control::{self, Control};
use super::kind::{Findings, Kind};
use super::life::{Call, Copy, End, Life, Spot};
use super::lives::{self, Ambiguous, Lives, Origin};
use super::print::{self, Print};
use super::report::Report;
use super::request::Requests;
use super::{Commit, Cut, Ends, OutputValue, Part, Role, Rules, Seen, Start};
use super::{chain, lanes, order};

/// The longest value of a header that is an event id, in bytes.
const LONGEST_ID: usize = 256;

/// All that is known of a run so far.
#[derive(Debug)]
pub struct Ledger {
    pub(crate) rules: Rules,
    pub(crate) lives: Lives,
    pub(crate) requests: Requests,
    pub(crate) commits: Commits,
    pub(crate) ends: BTreeMap<Part, Ends>,
    pub(crate) reasons: Reasons,
    /// What is wrong with single records.
    pub(crate) findings: Findings,
    /// Came before the source records that they lead to.
    orphans: Vec<Seen>,
    logged: bool,
    report: Report,
}

/// What became of a record that was taken in.
enum Taken {
    /// It belongs to this source record.
    By(Origin),
    /// Its source record has not been read.
    Orphan(String),
    /// Nobody can tell what it belongs to.
    Unreadable,
}

impl Ledger {
    /// With nothing in it.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            lives: Lives::default(),
            requests: Requests::default(),
            commits: Commits::default(),
            ends: BTreeMap::new(),
            reasons: Reasons::default(),
            findings: Findings::default(),
            orphans: Vec::new(),
            logged: false,
            report: Report::default(),
        }
    }

    /// Takes a record, once. It takes the least room where the source comes first.
    pub fn record(&mut self, seen: &Seen) {
        self.take(seen);
    }

    /// As [`Self::record`]: the source record to which it belongs, where that is known.
    pub(crate) fn take(&mut self, seen: &Seen) -> Option<Origin> {
        self.report.tally.entry((seen.role, seen.partition)).or_default().add(seen);
        match seen.role {
            Role::Source => {
                self.report.source += 1;
                self.source(seen);
                return Some((seen.partition, seen.offset));
            }
            Role::Control | Role::Cases => self.requests.take(&self.rules, seen, &mut self.findings),
            Role::State => {}
            Role::Output => self.report.output += 1,
            Role::Tier(_) => self.report.copies += 1,
            Role::DeadLetter => {}
        }
        match seen.role {
            Role::Tier(_) | Role::DeadLetter => {
                self.report.control_bytes = self.report.control_bytes.max(control::control_bytes(seen));
            }
            Role::Output => {}
            Role::Source | Role::Control | Role::Cases | Role::State => return None,
        }
        match self.belongs(seen) {
            Taken::By(origin) => Some(origin),
            Taken::Unreadable => None,
            Taken::Orphan(_) => {
                self.orphans.push(seen.clone());
                None
            }
        }
    }

    /// Takes a committed offset, in place of the one before.
    pub fn commit(&mut self, commit: Commit) {
        self.commits.0.insert((commit.role, commit.partition), commit.offset);
    }

    /// Takes the ends of a partition, in place of the ones before.
    pub fn ends(&mut self, ends: Ends) {
        self.ends.insert((ends.role, ends.partition), ends);
    }

    /// Takes the handler's log of its calls, after the source.
    pub fn calls<'a>(&mut self, starts: impl IntoIterator<Item = &'a Start>) {
        self.logged = true;
        for start in starts {
            self.report.starts += 1;
            let origin = self.lives.origin(&self.rules, &start.event_id);
            let Some(life) = origin.and_then(|origin| self.lives.at_mut(origin)) else {
                let place = format!("handler, event id {}", start.event_id);
                self.findings.find(Kind::Stray, place, "no source record has this event id".to_owned());
                continue;
            };
            let Start { attempt, execution, due, at, event_id: _ } = *start;
            life.call(Call { attempt, execution, due, at });
        }
    }

    /// What all of it proves.
    pub fn report(mut self) -> Report {
        self.adopt();
        for seen in std::mem::take(&mut self.orphans) {
            if let Taken::Orphan(what) = self.belongs(&seen) {
                self.stray(&seen, what);
            }
        }
        let Self { rules, lives, commits, ends, reasons, mut findings, mut report, requests, .. } = self;
        for (partition, life) in lives.iter() {
            let known = chain::Known { rules: &rules, reasons: &reasons, ends: &ends, partition, life };
            known.fate(&commits, &mut report, &mut findings);
            known.shape(&mut findings);
            if self.logged {
                known.handler(&mut report, &mut findings);
            }
        }
        requests.check(&rules, &commits, &mut report, &mut findings);
        order::check(&rules, &lives, &mut findings);
        lanes::beyond(&rules, &ends, &commits, &mut findings);
        if rules.cut == Cut::Drained {
            lanes::drained(&rules, &lives, &requests, &ends, &commits, &mut findings);
        }
        report.dead = reasons.counts();
        report.finish(&findings);
        report
    }

    /// Gives what came too soon to the source records that have come since; says which those are.
    pub(crate) fn adopt(&mut self) -> Vec<Origin> {
        let mut adopted = Vec::new();
        for seen in std::mem::take(&mut self.orphans) {
            match self.belongs(&seen) {
                Taken::By(origin) => adopted.push(origin),
                Taken::Orphan(_) => self.orphans.push(seen),
                Taken::Unreadable => {}
            }
        }
        adopted
    }

    /// Nothing can be said of the fate of a source record that was deleted after it; everything else is without origin.
    fn stray(&mut self, seen: &Seen, what: String) {
        let control = control::read(&self.rules, seen);
        let origin = match &control {
            Ok(control) => Some(control.origin),
            // An output names the origin only where that is the event id.
            Err(_) => control::required::<String>(seen, "redrive-event-id")
                .ok()
                .and_then(|id| lives::parse(&self.rules, &id)),
        };
        let deleted = origin.is_some_and(|(partition, offset)| {
            self.ends.get(&(Role::Source, partition)).is_some_and(|ends| offset < ends.start)
        });
        match seen.role {
            _ if !deleted => self.findings.find(Kind::Stray, self.rules.place_of(seen), what),
            Role::Output => self.report.unproved += 1,
            Role::DeadLetter => {
                self.report.unproved += 1;
                self.reasons.count(&control.ok().and_then(|control| control.reason).unwrap_or_default());
            }
            Role::Source | Role::Tier(_) | Role::Control | Role::Cases | Role::State => {}
        }
    }

    fn source(&mut self, seen: &Seen) {
        let id = event_id(&self.rules, seen);
        let life = Life::new(seen.offset, Print::of(seen), print::of(id.as_str()));
        if let Err(Ambiguous) = self.lives.add(&self.rules, seen, life) {
            let what = format!("another record has the event id `{id}` too: outputs cannot be told apart");
            self.findings.find(Kind::Ambiguous, self.rules.place_of(seen), what);
        }
    }

    /// Gives a record to the source record that its headers name.
    fn belongs(&mut self, seen: &Seen) -> Taken {
        let origin = match seen.role {
            Role::Output => match control::required::<String>(seen, "redrive-event-id") {
                Err(what) => return self.unreadable(seen, what),
                Ok(id) => match self.lives.origin(&self.rules, &id) {
                    Some(origin) => (origin, None),
                    None => return Taken::Orphan(format!("no source record has the event id `{id}`")),
                },
            },
            Role::Source | Role::Tier(_) | Role::DeadLetter | Role::Control | Role::Cases | Role::State => {
                match control::read(&self.rules, seen) {
                    Err(what) => return self.unreadable(seen, what),
                    Ok(control) => (control.origin, Some(control)),
                }
            }
        };
        let (origin, control) = origin;
        let Some(life) = self.lives.at_mut(origin) else {
            return Taken::Orphan(format!("the source holds no record at `{}/{}`", origin.0, origin.1));
        };
        let Seen { role, partition, offset, timestamp, .. } = *seen;
        let at = Spot { timestamp, role, partition, offset };
        let value = if role == Role::Output { self.rules.output } else { OutputValue::AsSource };
        match control {
            None => life.end(End { at, reason: None, attempt: None }),
            Some(Control { attempt, due, reason, event_id, payload_ref, .. }) => {
                if print::of(event_id.as_str()) != life.id {
                    let what = format!("event id `{event_id}` is not that of the source record");
                    self.findings.find(Kind::BadHeader, self.rules.place_of(seen), what);
                }
                let reason = reason.unwrap_or_default();
                let referred = Referred { origin, reason: &reason, payload_ref: payload_ref.as_deref() };
                referred.compare(&self.rules, life.print, seen, value, &mut self.findings);
                if role == Role::DeadLetter {
                    let reason = Some(self.reasons.count(&reason));
                    life.end(End { at, reason, attempt });
                } else {
                    // Both are there: the reader checked.
                    life.copy(Copy { at, attempt: attempt.unwrap_or(0), due: due.unwrap_or(0) });
                }
                return Taken::By(origin);
            }
        }
        Referred { origin, reason: "", payload_ref: None }.compare(
            &self.rules,
            life.print,
            seen,
            value,
            &mut self.findings,
        );
        Taken::By(origin)
    }

    fn unreadable(&mut self, seen: &Seen, what: String) -> Taken {
        self.findings.find(Kind::BadHeader, self.rules.place_of(seen), what);
        Taken::Unreadable
    }
}

/// What a record says of the place of its payload.
struct Referred<'a> {
    origin: Origin,
    reason: &'a str,
    payload_ref: Option<&'a str>,
}

impl Referred<'_> {
    /// Key, value and foreign headers are those of the source record, or stand there by reference.
    fn compare(
        &self,
        rules: &Rules,
        source: Print,
        seen: &Seen,
        value: OutputValue,
        findings: &mut Findings,
    ) {
        let origin = rules.place(Role::Source, self.origin.0, self.origin.1);
        let own = Print::of(seen);
        let referred = self.payload_ref == Some(origin.as_str());
        if let Some(reference) = self.payload_ref.filter(|_| !referred) {
            let what = format!("the payload reference `{reference}` does not lead to `{origin}`");
            findings.find(Kind::WrongBytes, rules.place_of(seen), what);
        }
        // Of such a record not even the headers can be carried.
        let unnamed = referred && self.reason == "bad-header-name";
        let by_reference = referred && seen.value.is_none();
        for (what, same) in [
            ("key", own.key == source.key),
            ("value", value == OutputValue::Any || by_reference || own.value == source.value),
            ("foreign headers", unnamed || own.foreign == source.foreign),
        ] {
            if !same {
                let what = format!("{what} not as in `{origin}`");
                findings.find(Kind::WrongBytes, rules.place_of(seen), what);
            }
        }
    }
}

/// The last header of the configured name, if it holds 1 to 256 bytes of UTF-8; else the origin.
fn event_id(rules: &Rules, source: &Seen) -> String {
    let header = rules.event_id.as_ref().and_then(|wanted| {
        let value = source.headers.iter().rev().find(|(name, _)| name == wanted)?.1.clone()?;
        String::from_utf8(value).ok().filter(|id| (1..=LONGEST_ID).contains(&id.len()))
    });
    header.unwrap_or_else(|| rules.place_of(source))
}

/// The reasons of dead letters, each once, with how often it was given.
#[derive(Debug, Default)]
pub(crate) struct Reasons(Vec<(String, usize)>);

impl Reasons {
    fn count(&mut self, reason: &str) -> u16 {
        let place = self.0.iter().position(|(known, _)| known == reason).unwrap_or_else(|| {
            self.0.push((reason.to_owned(), 0));
            self.0.len() - 1
        });
        if let Some((_, count)) = self.0.get_mut(place) {
            *count += 1;
        }
        u16::try_from(place).unwrap_or(u16::MAX)
    }

    pub(crate) fn name(&self, place: u16) -> &str {
        self.0.get(usize::from(place)).map_or("", |(name, _)| name)
    }

    fn counts(&self) -> BTreeMap<String, usize> {
        self.0.iter().cloned().collect()
    }
}

/// The committed offsets by lane.
#[derive(Clone, Debug, Default)]
pub(crate) struct Commits(BTreeMap<Part, i64>);

impl Commits {
    pub(crate) fn of(commits: &[Commit]) -> Self {
        Self(commits.iter().map(|commit| ((commit.role, commit.partition), commit.offset)).collect())
    }

    pub(crate) fn next(&self, part: Part) -> Option<i64> {
        self.0.get(&part).copied()
    }

    /// Whether the group has committed past this offset.
    pub(crate) fn cover(&self, part: Part, offset: i64) -> bool {
        self.next(part).is_some_and(|next| offset < next)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Part, i64)> {
        self.0.iter().map(|(part, next)| (*part, *next))
    }
}
