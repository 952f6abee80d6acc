//! What an audit found, with the numbers.

use std::collections::BTreeMap;
use std::fmt;

use super::kind::{Finding, Findings, Kind};
use super::print::Tally;
use super::{Part, Role, Rules};

/// How late handlers started, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lateness(Vec<i64>);

impl Lateness {
    pub(crate) fn add(&mut self, millis: i64) {
        self.0.push(millis);
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The value that `percent` of all do not pass (nearest rank); `None` where there is none.
    pub fn percentile(&self, percent: usize) -> Option<i64> {
        let rank = (self.0.len() * percent).div_ceil(100);
        self.0.get(rank.saturating_sub(1)).copied()
    }
}

/// The result of an audit.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Records in the source.
    pub source: usize,
    /// Records in the output.
    pub output: usize,
    /// Dead letters by reason.
    pub dead: BTreeMap<String, usize>,
    /// Source records with an output.
    pub emitted: usize,
    /// Source records with a dead letter.
    pub died: usize,
    /// Source records that wait in a tier.
    pub waiting: usize,
    /// Source records that are not yet consumed.
    pub unread: usize,
    /// Requests on the control lane.
    pub asked: usize,
    /// Those of them that were consumed and answered.
    pub obeyed: usize,
    /// Fates of source records that were deleted since, of which nothing more can be said.
    pub unproved: usize,
    /// Cuts at which everything was proved while it ran.
    pub cuts: u32,
    /// Records in the tiers, over the whole run.
    pub copies: usize,
    /// Calls that the handler logged.
    pub starts: usize,
    /// Those of them that it had logged before, after a crash.
    pub repeated: usize,
    /// The most bytes that redrive's own headers take in one record.
    pub control_bytes: usize,
    /// Of the deliveries that had to wait.
    pub lateness: Lateness,
    /// Of every partition, what was read of it.
    pub tally: BTreeMap<Part, Tally>,
    /// By kind, then by place.
    pub findings: Vec<Finding>,
}

impl Report {
    pub(crate) fn finish(&mut self, findings: &Findings) {
        self.findings = findings.iter().cloned().collect();
        self.lateness.0.sort_unstable();
    }

    /// Whether every record is in exactly one place: in = emitted + dead + waiting + unread, and as many outputs and dead
    /// letters as were counted by their source records.
    pub fn balances(&self) -> bool {
        self.source == self.emitted + self.died + self.waiting + self.unread
            && self.output + self.dead_letters() == self.emitted + self.died + self.unproved
    }

    /// Adds what was found while the same run was watched, and where the two readings of its topics differ: then one of
    /// them saw what was not committed, or did not see what was.
    pub fn join(&mut self, rules: &Rules, watched: &Self) {
        self.cuts += watched.cuts;
        let mut findings = Findings::default();
        let parts: Vec<Part> = self.tally.keys().chain(watched.tally.keys()).copied().collect();
        let of = |tally: &BTreeMap<Part, Tally>, part| tally.get(&part).copied().unwrap_or_default();
        for part in parts.into_iter().filter(|(role, _)| *role != Role::State) {
            let (now, then) = (of(&self.tally, part), of(&watched.tally, part));
            if now != then {
                let (then, now) = (then.records, now.records);
                let what = format!("`{then}` records were read while it ran, `{now}` at the end, or others");
                findings.find(Kind::Unstable, rules.part(part), what);
            }
        }
        self.findings.extend(findings.iter().chain(&watched.findings).cloned());
        self.findings.sort();
        self.findings.dedup();
    }

    /// How many findings there are of a kind.
    pub fn count(&self, kind: Kind) -> usize {
        self.findings.iter().filter(|finding| finding.kind == kind).count()
    }

    /// Dead letters of every reason.
    pub fn dead_letters(&self) -> usize {
        self.dead.values().sum()
    }

    /// Whether nothing was found.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  in               {:>8}", self.source)?;
        writeln!(f, "  output           {:>8}", self.output)?;
        writeln!(f, "  dead letters     {:>8}", self.dead_letters())?;
        for (reason, count) in &self.dead {
            writeln!(f, "    {reason:<15}{count:>8}")?;
        }
        if self.waiting + self.unread > 0 {
            writeln!(f, "  waiting          {:>8}\n  unread           {:>8}", self.waiting, self.unread)?;
        }
        writeln!(f, "  retry copies     {:>8}", self.copies)?;
        if self.asked > 0 {
            writeln!(f, "  requests         {:>8}\n  obeyed           {:>8}", self.asked, self.obeyed)?;
        }
        if self.cuts > 0 {
            writeln!(
                f,
                "  cuts             {:>8}  while it ran, at each of which nothing was lost",
                self.cuts
            )?;
        }
        if self.starts > 0 {
            writeln!(f, "  handler calls    {:>8}", self.starts)?;
            writeln!(
                f,
                "    after a crash  {:>8}  the same attempt again, same operation id",
                self.repeated
            )?;
        }
        let always = [Kind::Lost, Kind::Doubled, Kind::Early];
        for kind in Kind::ALL {
            let count = self.count(kind);
            if count > 0 || always.contains(&kind) {
                writeln!(f, "  {:<17}{count:>8}", kind.word())?;
            }
        }
        if let (Some(p50), Some(p99)) = (self.lateness.percentile(50), self.lateness.percentile(99)) {
            let count = self.lateness.count();
            writeln!(
                f,
                "  lateness         p50 {p50} ms, p99 {p99} ms, of {count} deliveries that had to wait"
            )?;
        }
        for finding in self.findings.iter().take(20) {
            writeln!(f, "  ! {finding}")?;
        }
        if let Some(more) = self.findings.len().checked_sub(20).filter(|more| *more > 0) {
            writeln!(f, "  ! and {more} more")?;
        }
        Ok(())
    }
}
