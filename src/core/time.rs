//! Wall time, monotonic time, and the pair of both that enters the core with every event.

use std::fmt;
use std::time::Duration;

mod rfc3339;

pub(crate) use rfc3339::days_from_civil;

/// Milliseconds since the Unix epoch, as Kafka stamps records. May be negative or far away: it comes from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The time `millis` milliseconds after the Unix epoch.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// The time that an RFC 3339 text spells, such as `2024-05-01T00:00:00.25+02:00`; `None` where it is no such text.
    /// What is finer than a millisecond is cut off, towards the past. A leap second counts as the second behind it.
    pub fn from_rfc3339(text: &[u8]) -> Option<Self> {
        rfc3339::parse(text)
    }

    /// As RFC 3339 text in UTC, with milliseconds; outside of the years 0 to 9999, which that cannot spell, in milliseconds.
    pub fn to_rfc3339(self) -> String {
        rfc3339::write(self)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// This time plus `wait`, at the end of time where that is too far.
    #[must_use]
    pub fn plus(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)))
    }

    /// How long after `earlier` this is; zero where it is not later.
    pub fn since(self, earlier: Self) -> Duration {
        let millis = self.0.saturating_sub(earlier.0);
        Duration::from_millis(u64::try_from(millis).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Time that only goes forward, counted from an arbitrary start of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Monotonic(Duration);

impl Monotonic {
    /// The moment `elapsed` after the process's own start of time.
    pub const fn from_start(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// This moment plus `wait`.
    #[must_use]
    pub fn plus(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(wait))
    }

    /// How long after `earlier` this is; zero where it is not later.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Both clocks, read together. Wall time decides what outlives the process, monotonic time every wait inside it, so
/// a jump of the wall clock neither releases a waiting record early nor stalls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// What the calendar says.
    pub wall: Timestamp,
    /// What the stopwatch says.
    pub mono: Monotonic,
}

/// A duration in the largest unit that holds it whole: `250ms`, `5s`, `1m`, `2h`, `14d`. Lanes are named by it.
pub fn in_words(duration: Duration) -> String {
    let millis = duration.as_millis();
    let units = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)];
    let whole = units.into_iter().find(|(_, unit)| millis >= *unit && millis.is_multiple_of(*unit));
    match whole {
        Some((name, unit)) => format!("{}{name}", millis / unit),
        None => format!("{millis}ms"),
    }
}
