//! Times as the topology spells them: `"250ms" "5s" "1m" "2h" "14d"`. Printed they have one form,
//! [`crate::core::time::in_words`].

use std::time::Duration;

/// The units in milliseconds.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// A text that is not a time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a time: a whole number with ms, s, m, h or d, like `250ms` or `5s`")]
pub struct BadDuration {
    /// The text.
    pub text: String,
}

/// Reads a time.
///
/// # Errors
/// Where the text is not one whole number and one unit, or the time is longer than 2^64 ms.
pub fn parse(text: &str) -> Result<Duration, BadDuration> {
    let bad = || BadDuration { text: text.to_owned() };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits).ok_or_else(bad)?;
    let (_, millis) = UNITS.into_iter().find(|(name, _)| *name == unit).ok_or_else(bad)?;
    let number: u64 = number.parse().map_err(|_| bad())?;
    number.checked_mul(millis).map(Duration::from_millis).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::core::time::in_words;

    #[test]
    fn every_unit_is_read() {
        let read =
            ["250ms", "5s", "1m", "2h", "14d", "0s", "007s"].map(|text| parse(text).unwrap().as_millis());
        assert_eq!(read, [250, 5_000, 60_000, 7_200_000, 1_209_600_000, 0, 7_000]);
    }

    #[test]
    fn whatever_is_not_one_number_and_one_unit_is_refused() {
        for text in
            ["", "5", "s", "5 s", " 5s", "5s ", "-5s", "+5s", "1.5s", "1h30m", "5S", "5min", "5\u{b5}s", "٣s"]
        {
            assert_eq!(parse(text), Err(BadDuration { text: text.to_owned() }));
        }
        assert!(parse("213503982335d").is_err(), "more than 2^64 ms");
    }

    #[test]
    fn times_are_spelled_in_one_way() {
        let spelled =
            ["60s", "3600s", "24h", "90m", "1500ms", "0ms"].map(|time| in_words(parse(time).unwrap()));
        assert_eq!(spelled, ["1m", "1h", "1d", "90m", "1500ms", "0ms"]);
    }

    proptest! {
        #[test]
        fn a_time_prints_as_the_same_time(number in 0u64..=u64::MAX / 86_400_000, unit in "ms|s|m|h|d") {
            let time = parse(&format!("{number}{unit}")).unwrap();
            let canonical = in_words(time);
            prop_assert_eq!(parse(&canonical), Ok(time));
            prop_assert_eq!(in_words(time), canonical);
        }

        #[test]
        fn any_text_that_is_a_time_prints_as_the_same_time(word in "[0-9]{0,22}[a-zµ ]{0,3}") {
            if let Ok(time) = parse(&word) {
                prop_assert_eq!(parse(&in_words(time)), Ok(time));
            }
        }
    }
}
