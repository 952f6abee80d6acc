//! The only place that reads the clocks.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::core::time::{Monotonic, Now, Timestamp};

/// Both clocks of the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
    /// How far the calendar is put forward, in milliseconds.
    skew: i64,
}

impl Clock {
    /// A clock whose monotonic time begins now.
    #[expect(clippy::disallowed_methods, reason = "time enters here")]
    pub(crate) fn start() -> Self {
        Self { start: Instant::now(), skew: skew() }
    }

    /// Wall and monotonic time, read together.
    #[expect(clippy::disallowed_methods, reason = "time enters here")]
    pub(crate) fn now(self) -> Now {
        let wall = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |millis| -millis),
        };
        let wall = wall.saturating_add(self.skew);
        Now { wall: Timestamp::from_millis(wall), mono: Monotonic::from_start(self.start.elapsed()) }
    }
}

#[cfg(not(feature = "broker-tests"))]
const fn skew() -> i64 {
    0
}

/// What a test says that the calendar of this process is off by.
#[cfg(feature = "broker-tests")]
#[expect(clippy::disallowed_methods, reason = "it is for the tests alone, and no release has it")]
fn skew() -> i64 {
    std::env::var("REDRIVE_CLOCK_SKEW_MS").ok().and_then(|skew| skew.parse().ok()).unwrap_or(0)
}
