//! The only place that reads the clocks.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::core::time::{Monotonic, Now, Timestamp};

/// Both clocks of the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock whose monotonic time begins now.
    #[expect(clippy::disallowed_methods, reason = "time enters here")]
    pub(crate) fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// Wall and monotonic time, read together.
    #[expect(clippy::disallowed_methods, reason = "time enters here")]
    pub(crate) fn now(self) -> Now {
        let wall = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |millis| -millis),
        };
        Now { wall: Timestamp::from_millis(wall), mono: Monotonic::from_start(self.start.elapsed()) }
    }
}
