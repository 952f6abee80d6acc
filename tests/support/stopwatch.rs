//! How long something took, for bounds far above what is expected and for figures that are printed.

use std::time::Instant;

/// Runs from the moment it is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

#[allow(clippy::disallowed_methods, reason = "figures of a test, never its synchronisation")]
impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn seconds(self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}
