//! How long a task has processed: the clock by which gaps end. It stands while the task is stopped, blocked, or waits for a
//! person, and goes on where it stood in its next owner.

use std::time::Duration;

use crate::core::time::Monotonic;

/// The clock of a task.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    ran: Duration,
    /// Since when it runs.
    since: Option<Monotonic>,
}

impl Clock {
    /// One that stands at `ran`.
    pub(crate) const fn standing_at(ran: Duration) -> Self {
        Self { ran, since: None }
    }

    /// What it shows.
    pub(crate) fn at(&self, now: Monotonic) -> Duration {
        self.ran.saturating_add(self.since.map(|since| now.since(since)).unwrap_or_default())
    }

    /// Lets it run, or stand. Says whether that is a change.
    pub(crate) fn set(&mut self, runs: bool, now: Monotonic) -> bool {
        if self.since.is_some() == runs {
            return false;
        }
        *self = Self { ran: self.at(now), since: runs.then_some(now) };
        true
    }

    /// When it will show `due`; `None` while it stands.
    pub(crate) fn when(&self, due: Duration) -> Option<Monotonic> {
        Some(self.since?.plus(due.saturating_sub(self.ran)))
    }

    /// Whether it runs.
    pub(crate) const fn runs(&self) -> bool {
        self.since.is_some()
    }
}
