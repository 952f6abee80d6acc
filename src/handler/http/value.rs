//! Text and time as header values.

use bytes::Bytes;
use reqwest::header::HeaderValue;

use crate::core::time::Timestamp;

/// Any bytes as a header value, as the CloudEvents HTTP binding (1.0, 3.1.3.2) says: spaces, `"`, `%` and everything
/// outside printable ASCII are percent-encoded. Different bytes stay different, so two operation ids never become
/// one; ordinary ids stay as they are and are not copied.
#[expect(clippy::expect_used, reason = "printable ASCII only, which every header value may hold")]
pub(super) fn text(bytes: &Bytes) -> HeaderValue {
    let value = if bytes.iter().all(|byte| is_plain(*byte)) {
        HeaderValue::from_maybe_shared(bytes.clone())
    } else {
        let mut encoded = Vec::with_capacity(bytes.len().saturating_mul(3));
        for byte in bytes {
            if is_plain(*byte) {
                encoded.push(*byte);
            } else {
                encoded.extend([b'%', hex(byte >> 4), hex(byte & 15)]);
            }
        }
        HeaderValue::from_maybe_shared(Bytes::from(encoded))
    };
    value.expect("printable ASCII")
}

const fn is_plain(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7e) && byte != b'"' && byte != b'%'
}

const fn hex(digit: u8) -> u8 {
    match digit {
        0..=9 => b'0'.saturating_add(digit),
        _ => b'A'.saturating_add(digit.saturating_sub(10)),
    }
}

/// A time as RFC 3339 with milliseconds, in UTC. `None` where the record carries none (Kafka's −1) or the year has
/// more than four digits.
pub(super) fn rfc3339(time: Timestamp) -> Option<HeaderValue> {
    const DAY: u64 = 86_400_000;
    let millis = u64::try_from(time.as_millis()).ok()?;
    let (days, rest) = (millis / DAY, millis % DAY);
    // Days to a date of the proleptic Gregorian calendar, counted from 1 March 0000, when leap days come last.
    let days = days.checked_add(719_468)?;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, new_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year_of_era + new_year;
    if year > 9999 {
        return None;
    }
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    let (second, milli) = (rest / 1000 % 60, rest % 1000);
    let text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z");
    HeaderValue::try_from(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_ids_stay_as_they_are() {
        let id = Bytes::from_static(b"orders/3/42~a!#$&'()*+,-.:;<=>?@[\\]^_`{|}");
        assert_eq!(text(&id).as_bytes(), id);
        assert_eq!(text(&id).as_bytes().as_ptr(), id.as_ptr(), "shared, not copied");
    }

    #[test]
    fn ids_that_differ_stay_different() {
        let ids: [&[u8]; 7] = [b"a b", b"a%20b", b"a\nb", b"a\"b", b"a\xffb", "aüb".as_bytes(), b"\0"];
        let values = ids.map(|id| text(&Bytes::from_static(id)));
        let texts = values.each_ref().map(|value| value.to_str().unwrap());
        assert_eq!(texts, ["a%20b", "a%2520b", "a%0Ab", "a%22b", "a%FFb", "a%C3%BCb", "%00"]);
    }

    #[test]
    fn times_are_rfc_3339_in_utc() {
        let shown = |millis| rfc3339(Timestamp::from_millis(millis)).map(|v| v.to_str().unwrap().to_owned());
        assert_eq!(shown(0).as_deref(), Some("1970-01-01T00:00:00.000Z"));
        assert_eq!(shown(951_782_400_123).as_deref(), Some("2000-02-29T00:00:00.123Z"));
        assert_eq!(shown(1_709_251_199_999).as_deref(), Some("2024-02-29T23:59:59.999Z"));
        assert_eq!(shown(4_107_542_400_000).as_deref(), Some("2100-03-01T00:00:00.000Z"));
        assert_eq!(shown(253_402_300_799_999).as_deref(), Some("9999-12-31T23:59:59.999Z"));
        assert_eq!(shown(253_402_300_800_000), None);
        assert_eq!(shown(i64::MAX), None);
        assert_eq!(shown(-1), None);
    }
}
