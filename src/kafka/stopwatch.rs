//! How long a call to Kafka takes: bounds for waits and the age of a transaction, never a decision about records.

use std::time::{Duration, Instant};

/// Runs from the moment it is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts one.
    #[expect(
        clippy::disallowed_methods,
        reason = "bounds the wait for a broker; no record's fate is decided by it"
    )]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// How long it has been running.
    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    /// What is left of `bound`; `None` when it has passed.
    pub(crate) fn left_of(self, bound: Duration) -> Option<Duration> {
        bound.checked_sub(self.elapsed()).filter(|left| !left.is_zero())
    }
}
