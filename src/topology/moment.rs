//! Points in time as the topology spells them: RFC 3339 with an offset.

use toml::value::{Datetime, Offset};

use crate::core::time::{Timestamp, days_from_civil};

/// The time in milliseconds since the epoch; `None` without a date, a time or an offset.
pub(crate) fn timestamp(moment: &Datetime) -> Option<Timestamp> {
    let (date, time, offset) = (moment.date?, moment.time?, moment.offset?);
    let minutes = match offset {
        Offset::Z => 0,
        Offset::Custom { minutes } => i64::from(minutes),
    };
    let days = days_from_civil(i64::from(date.year), i64::from(date.month), i64::from(date.day));
    let hours = days * 24 + i64::from(time.hour);
    let seconds = (hours * 60 + i64::from(time.minute) - minutes) * 60 + i64::from(time.second.unwrap_or(0));
    Some(Timestamp::from_millis(seconds * 1_000 + i64::from(time.nanosecond.unwrap_or(0) / 1_000_000)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(text: &str) -> Option<i64> {
        timestamp(&text.parse().unwrap()).map(Timestamp::as_millis)
    }

    #[test]
    fn known_moments_are_right() {
        assert_eq!(millis("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(millis("2024-02-29T12:00:00Z"), Some(1_709_208_000_000));
        assert_eq!(millis("2024-02-29T12:00:00.5+01:30"), Some(1_709_202_600_500));
        assert_eq!(millis("1969-12-31T23:59:59Z"), Some(-1_000));
        assert_eq!(millis("2000-03-01T00:00:00-00:00"), Some(951_868_800_000));
    }

    #[test]
    fn a_moment_without_an_offset_is_none() {
        assert_eq!(millis("2024-02-29T12:00:00"), None);
        assert_eq!(millis("2024-02-29"), None);
    }
}
