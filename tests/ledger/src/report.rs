//! What an audit found, with the numbers.

use std::collections::BTreeMap;
use std::fmt;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Consumed, and nothing became of it.
    Lost,
    /// More than one fate, or a fate and still waiting.
    Doubled,
    /// A fate without the offset that belongs to it.
    Torn,
    /// Handled or moved on before it was due.
    Early,
    /// Attempts that do not rise by one, or pass the limit.
    AttemptGap,
    /// Key, value or foreign headers differ from those of the source record.
    WrongBytes,
    /// In another partition than its source record.
    Misplaced,
    /// Of a key, after a record that came later.
    OutOfOrder,
    /// Left after the drain.
    Lag,
    /// A control header that is missing, repeated or malformed.
    BadHeader,
    /// Leads to no source record.
    Stray,
    /// Two source records with one event id.
    Ambiguous,
}

impl Kind {
    /// All of them, in the order in which they are told.
    pub const ALL: [Self; 12] = [
        Self::Lost,
        Self::Doubled,
        Self::Torn,
        Self::Early,
        Self::AttemptGap,
        Self::WrongBytes,
        Self::Misplaced,
        Self::OutOfOrder,
        Self::Lag,
        Self::BadHeader,
        Self::Stray,
        Self::Ambiguous,
    ];

    /// What people read.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Doubled => "doubled",
            Self::Torn => "torn",
            Self::Early => "early",
            Self::AttemptGap => "attempt gaps",
            Self::WrongBytes => "wrong bytes",
            Self::Misplaced => "misplaced",
            Self::OutOfOrder => "out of order",
            Self::Lag => "lag",
            Self::BadHeader => "bad headers",
            Self::Stray => "stray",
            Self::Ambiguous => "ambiguous ids",
        }
    }
}

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// What is wrong.
    pub kind: Kind,
    /// Where: a record, a partition, or what the handler saw.
    pub place: String,
    /// With the numbers.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.kind.word(), self.place, self.what)
    }
}

/// How late handlers started, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lateness(Vec<i64>);

impl Lateness {
    pub(super) fn add(&mut self, millis: i64) {
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
    /// Source records that wait in a tier.
    pub waiting: usize,
    /// Source records that are not yet consumed.
    pub unread: usize,
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
    /// By kind, then by place.
    pub findings: Vec<Finding>,
}

impl Report {
    pub(super) fn find(&mut self, kind: Kind, place: String, what: String) {
        self.findings.push(Finding { kind, place, what });
    }

    pub(super) fn finish(&mut self) {
        self.findings.sort();
        self.lateness.0.sort_unstable();
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
