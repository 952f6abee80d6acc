//! Times in the text form of RFC 3339 (<https://www.rfc-editor.org/rfc/rfc3339#section-5.6>).

use crate::core::time::Timestamp;

/// As [`Timestamp::from_rfc3339`] says.
pub(super) fn parse(text: &[u8]) -> Option<Timestamp> {
    let (date, text) = text.split_first_chunk::<10>()?;
    let [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = *date else { return None };
    let (year, month, day) = (number([y0, y1, y2, y3])?, number([m0, m1])?, number([d0, d1])?);
    if day == 0 || day > days_of_month(year, month)? {
        return None;
    }
    let (time, text) = text.split_first_chunk::<9>()?;
    let [b'T' | b't' | b' ', h0, h1, b':', m0, m1, b':', s0, s1] = *time else { return None };
    let (hour, minute, second) = (number([h0, h1])?, number([m0, m1])?, number([s0, s1])?);
    let (millis, offset) = fraction(text)?;
    let offset = minutes_east(offset)?;
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let minutes = (days_from_civil(year, month, day) * 24 + hour) * 60 + minute - offset;
    // Leap seconds come at the end of a day of UTC only.
    if second == 60 && minutes.rem_euclid(MINUTES_OF_DAY) != MINUTES_OF_DAY - 1 {
        return None;
    }
    Some(Timestamp::from_millis((minutes * 60 + second) * 1_000 + millis))
}

const MINUTES_OF_DAY: i64 = 24 * 60;

/// Days from 1970-01-01 in the Gregorian calendar, for a month and a day that exist
/// (<https://howardhinnant.github.io/date_algorithms.html#days_from_civil>).
pub(crate) fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// As [`Timestamp::to_rfc3339`] says.
pub(super) fn write(time: Timestamp) -> String {
    let millis = time.as_millis();
    let (days, of_day) = (millis.div_euclid(MILLIS_OF_DAY), millis.rem_euclid(MILLIS_OF_DAY));
    let (year, month, day) = civil_from_days(days);
    if !(0..=9_999).contains(&year) {
        return format!("{millis} ms");
    }
    let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (second, milli) = (of_day / 1_000 % 60, of_day % 1_000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

const MILLIS_OF_DAY: i64 = MINUTES_OF_DAY * 60_000;

/// The inverse of [`days_from_civil`]
/// (<https://howardhinnant.github.io/date_algorithms.html#civil_from_days>).
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days.saturating_add(719_468);
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let leap_days = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months from March on.
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

fn days_of_month(year: i64, month: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    Some(match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return None,
    })
}

/// The milliseconds of a fraction of a second, if there is one, and the text behind it.
fn fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    let Some(text) = text.strip_prefix(b".") else { return Some((0, text)) };
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at_checked(digits).filter(|(digits, _)| !digits.is_empty())?;
    let mut three = [b'0'; 3];
    three.iter_mut().zip(digits).for_each(|(place, digit)| *place = *digit);
    Some((number(three)?, rest))
}

/// How far a place is ahead of UTC.
fn minutes_east(offset: &[u8]) -> Option<i64> {
    let (sign, [h0, h1, b':', m0, m1]) = (match offset {
        [b'Z' | b'z'] => return Some(0),
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ => return None,
    }) else {
        return None;
    };
    let (hours, minutes) = (number([*h0, *h1])?, number([*m0, *m1])?);
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 60 + minutes))
}

fn number<const N: usize>(digits: [u8; N]) -> Option<i64> {
    digits
        .into_iter()
        .try_fold(0, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + i64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    fn millis(text: &str) -> Option<i64> {
        parse(text.as_bytes()).map(Timestamp::as_millis)
    }

    #[test]
    fn a_time_is_written_as_it_is_read() {
        for text in [
            "1970-01-01T00:00:00.000Z",
            "1969-12-31T23:59:59.999Z",
            "2024-02-29T12:00:00.500Z",
            "2023-12-31T23:59:59.001Z",
            "0000-01-01T00:00:00.000Z",
            "9999-12-31T23:59:59.999Z",
        ] {
            assert_eq!(write(Timestamp::from_millis(millis(text).unwrap())), text);
        }
        // Every day of 800 years, two whole cycles of the calendar.
        for day in -146_097..146_097 {
            let (year, month, of_month) = civil_from_days(day);
            assert_eq!(days_from_civil(year, month, of_month), day);
            assert!(of_month >= 1 && of_month <= days_of_month(year, month).unwrap());
        }
        for far in [i64::MIN, i64::MAX, 253_402_300_800_000] {
            assert_eq!(write(Timestamp::from_millis(far)), format!("{far} ms"));
        }
    }

    #[test]
    fn known_times_are_right() {
        // Each by `date -u -d TEXT +%s`.
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2024-02-29T12:00:00Z", 1_709_208_000_000),
            ("2024-02-29T12:00:00.5+01:30", 1_709_202_600_500),
            ("1969-12-31T23:59:59Z", -1_000),
            ("1969-12-31T23:59:59.001Z", -999),
            ("2000-03-01T00:00:00-00:00", 951_868_800_000),
            ("2000-02-29t23:59:59z", 951_868_799_000),
            ("2026-11-30 08:30:43Z", 1_796_027_443_000),
            ("1985-04-12T23:20:50.52Z", 482_196_050_520),
            ("1996-12-19T16:39:57-08:00", 851_042_397_000),
            ("1937-01-01T12:00:27.87+00:20", -1_041_337_172_130),
            ("0000-01-01T00:00:00Z", -62_167_219_200_000),
            ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
            ("0000-01-01T00:00:00+23:59", -62_167_305_540_000),
            ("9999-12-31T23:59:59-23:59", 253_402_387_139_000),
        ] {
            assert_eq!(millis(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn every_day_is_one_day_behind_the_one_before_and_there_is_no_other() {
        // The calendar repeats itself every 400 years.
        for years in [0..801, 9_599..10_000] {
            every_day_of(years);
        }
    }

    fn every_day_of(years: Range<u32>) {
        let mut expected = millis(&format!("{:04}-01-01T00:00:00Z", years.start)).unwrap();
        let last = format!("{:04}-12-31T23:59:59Z", years.end - 1);
        for year in years {
            for month in 0..15 {
                for day in 0..34 {
                    let read = millis(&format!("{year:04}-{month:02}-{day:02}T00:00:00Z"));
                    let exists = (1..=12).contains(&month) && (1..=days_of(year, month)).contains(&day);
                    assert_eq!(read, exists.then_some(expected), "{year}-{month}-{day}");
                    expected += if exists { 86_400_000 } else { 0 };
                }
            }
        }
        assert_eq!(expected, millis(&last).unwrap() + 1_000);
    }

    /// By the rhyme, not by the code's table.
    fn days_of(year: u32, month: u32) -> u32 {
        match month {
            2 if year.is_multiple_of(400) || (year.is_multiple_of(4) && !year.is_multiple_of(100)) => 29,
            2 => 28,
            month => 30 + (month + month / 8) % 2,
        }
    }

    #[test]
    fn every_second_of_a_day_is_read_and_no_other() {
        let mut expected = 0;
        for (hour, minute, second) in (0..100).flat_map(|hour| {
            (0..100).flat_map(move |minute| (0..100).map(move |second| (hour, minute, second)))
        }) {
            let read = millis(&format!("1970-01-01T{hour:02}:{minute:02}:{second:02}Z"));
            let leap = (hour, minute, second) == (23, 59, 60);
            let exists = (hour < 24 && minute < 60 && second < 60) || leap;
            assert_eq!(read, exists.then_some(expected), "{hour}:{minute}:{second}");
            expected += if exists { 1_000 } else { 0 };
        }
        assert_eq!(expected, 86_401_000);
    }

    #[test]
    fn every_offset_shifts_by_itself_and_no_other_is_read() {
        for (hours, minutes) in (0..100).flat_map(|hours| (0..100).map(move |minutes| (hours, minutes))) {
            let shift = (hours < 24 && minutes < 60).then_some((hours * 60 + minutes) * 60_000);
            assert_eq!(millis(&format!("1970-01-01T00:00:00-{hours:02}:{minutes:02}")), shift);
            assert_eq!(millis(&format!("1970-01-01T00:00:00+{hours:02}:{minutes:02}")), shift.map(|by| -by));
        }
    }

    #[test]
    fn leap_seconds_are_at_the_end_of_a_day_of_utc() {
        let next = millis("2017-01-01T00:00:00Z");
        assert_eq!(millis("2016-12-31T23:59:60Z"), next);
        assert_eq!(millis("2016-12-31T15:59:60-08:00"), next);
        assert_eq!(millis("2017-01-01T05:29:60+05:30"), next);
        assert_eq!(millis("2016-12-31T23:59:60+01:00"), None);
        assert_eq!(millis("2016-12-31T22:59:60Z"), None);
    }

    #[test]
    fn fractions_of_any_length_are_cut_to_milliseconds_towards_the_past() {
        for (fraction, expected) in [
            (".1", 100),
            (".12", 120),
            (".123", 123),
            (".1239", 123),
            (".000999999999", 0),
            (".99999999999999999999", 999),
        ] {
            assert_eq!(millis(&format!("1970-01-01T00:00:00{fraction}Z")), Some(expected));
            assert_eq!(millis(&format!("1969-12-31T23:59:59{fraction}Z")), Some(expected - 1_000));
        }
    }

    #[test]
    fn whatever_is_cut_changed_or_added_is_no_time() {
        let whole = "2024-02-29T12:00:00.5+01:30";
        for end in 0..whole.len() {
            assert_eq!(millis(&whole[..end]), None, "{}", &whole[..end]);
        }
        for (place, byte) in (0..whole.len()).flat_map(|place| b"x:+ \0\xff".map(|byte| (place, byte))) {
            let mut changed = whole.as_bytes().to_vec();
            changed[place] = byte;
            let same_kind =
                (place == 10 && byte == b' ') || (place == 21 && byte == b'+') || changed == whole.as_bytes();
            assert_eq!(parse(&changed).is_some(), same_kind, "{}", changed.escape_ascii());
        }
        for text in [
            "2024-02-29T12:00:00",
            "2024-02-29",
            "2024-02-29T12:00Z",
            "2024-02-29T12:00:00.Z",
            "2024-02-29T12:00:00,5Z",
            "2024-02-29T12:00:00+0130",
            "2024-02-29T12:00:00+01",
            "2024-02-29T12:00:00Z ",
            " 2024-02-29T12:00:00Z",
            "2024-02-29T12:00:00ZZ",
            "+2024-02-29T12:00:00Z",
            "12024-02-29T12:00:00Z",
            "2023-02-29T12:00:00Z",
            "1900-02-29T12:00:00Z",
            "20240229T120000Z",
            "2024-W09-4T12:00:00Z",
        ] {
            assert_eq!(millis(text), None, "{text}");
        }
    }
}
