//! What can be wrong.

use std::collections::BTreeSet;
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
    /// A committed offset that went down, or away.
    Regression,
    /// A committed offset past the end of its partition.
    BeyondEnd,
    /// A transaction that is open after the drain, or for too long while it runs.
    OpenTransaction,
    /// Deleted by retention before it was consumed.
    Deleted,
    /// Read once with `read_committed`, and not there, or not the same, when it was read again.
    Unstable,
    /// A control header that is missing, repeated or malformed.
    BadHeader,
    /// Leads to no source record.
    Stray,
    /// Two source records with one event id.
    Ambiguous,
}

impl Kind {
    /// All of them, in the order in which they are told.
    pub const ALL: [Self; 17] = [
        Self::Lost,
        Self::Doubled,
        Self::Torn,
        Self::Early,
        Self::AttemptGap,
        Self::WrongBytes,
        Self::Misplaced,
        Self::OutOfOrder,
        Self::Lag,
        Self::Regression,
        Self::BeyondEnd,
        Self::OpenTransaction,
        Self::Deleted,
        Self::Unstable,
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
            Self::Regression => "offsets went down",
            Self::BeyondEnd => "beyond the end",
            Self::OpenTransaction => "left open",
            Self::Deleted => "deleted unread",
            Self::Unstable => "unstable",
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

/// Findings so far, each once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings(BTreeSet<Finding>);

impl Findings {
    pub(crate) fn find(&mut self, kind: Kind, place: String, what: String) {
        self.0.insert(Finding { kind, place, what });
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Finding> {
        self.0.iter()
    }

    pub(crate) fn extend(&mut self, other: &Self) {
        self.0.extend(other.iter().cloned());
    }
}
