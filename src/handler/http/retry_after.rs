//! How long an answer asks to be left alone.

use std::time::{Duration, SystemTime};

use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

/// The wait that `Retry-After` asks for, in seconds or as a date. A date is counted from the answer's own `Date`, so
/// a clock that differs from the endpoint's does no harm; this machine's clock serves where there is none. A date
/// that has passed is no wait; what cannot be read is no request.
pub(super) fn read(headers: &HeaderMap) -> Option<Duration> {
    let asked = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !asked.is_empty() && asked.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(u64::from(asked.parse().unwrap_or(u32::MAX))));
    }
    let until = httpdate::parse_http_date(asked).ok()?;
    let date = headers.get(DATE).and_then(|date| httpdate::parse_http_date(date.to_str().ok()?).ok());
    Some(until.duration_since(date.unwrap_or_else(now)).unwrap_or_default())
}

#[expect(
    clippy::disallowed_methods,
    reason = "a date of the endpoint's counts from the calendar; no decision here"
)]
fn now() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(pairs: &[(&'static str, &str)]) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, value.parse().unwrap());
        }
        read(&headers)
    }

    #[test]
    fn seconds_are_read_and_bounded() {
        assert_eq!(asked(&[("retry-after", "120")]), Some(Duration::from_secs(120)));
        assert_eq!(asked(&[("retry-after", "0")]), Some(Duration::ZERO));
        let longest = Some(Duration::from_secs(u64::from(u32::MAX)));
        assert_eq!(asked(&[("retry-after", "99999999999999999999999")]), longest);
    }

    #[test]
    fn a_date_counts_from_the_answers_own_date() {
        let until = ("retry-after", "Wed, 21 Oct 2015 07:30:00 GMT");
        assert_eq!(
            asked(&[until, ("date", "Wed, 21 Oct 2015 07:28:00 GMT")]),
            Some(Duration::from_secs(120))
        );
        assert_eq!(asked(&[until, ("date", "Wed, 21 Oct 2015 07:31:00 GMT")]), Some(Duration::ZERO));
        assert_eq!(asked(&[until]), Some(Duration::ZERO), "long past by this machine's clock");
    }

    #[test]
    fn what_cannot_be_read_is_no_request() {
        for unreadable in ["", "soon", "-1", "1.5", "Wed, 21 Oct"] {
            assert_eq!(asked(&[("retry-after", unreadable)]), None, "{unreadable}");
        }
        assert_eq!(asked(&[]), None);
    }
}
