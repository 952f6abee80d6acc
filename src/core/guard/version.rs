//! The version of a record: which state of its key it holds.

use std::fmt;

use crate::core::time::Timestamp;

/// Which of the states of a key a record holds: a later state has a greater version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub i64);

impl Version {
    /// Reads the value of a header: a decimal number, with or without a sign, or an RFC 3339 time, which counts in
    /// milliseconds since the epoch ([`Timestamp::from_rfc3339`]). `None` where it is neither, or the number has no place in 64 bits.
    pub fn from_header(value: &[u8]) -> Option<Self> {
        let number = str::from_utf8(value).ok()?.parse().ok();
        number.or_else(|| Timestamp::from_rfc3339(value).map(Timestamp::as_millis)).map(Self)
    }

    /// As the tag of an [entry](crate::core::guard::Entry): its bits.
    pub(crate) const fn as_tag(self) -> u64 {
        u64::from_ne_bytes(self.0.to_ne_bytes())
    }

    /// The version that a tag holds.
    pub(crate) const fn from_tag(tag: u64) -> Self {
        Self(i64::from_ne_bytes(tag.to_ne_bytes()))
    }

    /// The version behind this one; `None` behind the largest.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        self.0.checked_add(1).map(Self)
    }

    /// The version before this one; `None` before the smallest.
    #[must_use]
    pub fn before(self) -> Option<Self> {
        self.0.checked_sub(1).map(Self)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str) -> Option<i64> {
        Version::from_header(value.as_bytes()).map(|version| version.0)
    }

    #[test]
    fn decimal_numbers_of_64_bits_are_versions() {
        for (value, expected) in [
            ("0", 0),
            ("-0", 0),
            ("-5", -5),
            ("+7", 7),
            ("0042", 42),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
            ("00000000000000000000000000000000000000000001", 1),
        ] {
            assert_eq!(read(value), Some(expected), "{value}");
        }
    }

    #[test]
    fn times_are_versions_in_milliseconds() {
        assert_eq!(read("2024-02-29T12:00:00.5+01:30"), Some(1_709_202_600_500));
        assert_eq!(read("1969-12-31T23:59:59Z"), Some(-1_000));
    }

    #[test]
    fn everything_else_is_none() {
        for value in [
            "",
            "-",
            "+",
            "--5",
            "+-5",
            "ten",
            "1e3",
            "12.5",
            "12,5",
            "1_000",
            "0x10",
            " 7",
            "7 ",
            "7\n",
            "7\0",
            "٧",
            "9223372036854775808",
            "-9223372036854775809",
            "99999999999999999999999999",
            "NaN",
            "2024-02-29",
            "null",
        ] {
            assert_eq!(read(value), None, "{value:?}");
        }
        assert_eq!(Version::from_header(b"\xff"), None);
        assert_eq!(Version::from_header(b"7\xff"), None);
    }

    #[test]
    fn every_version_has_a_next_but_the_largest() {
        assert_eq!(Version(-1).next(), Some(Version(0)));
        assert_eq!(Version(i64::MIN).next(), Some(Version(i64::MIN + 1)));
        assert_eq!(Version(i64::MAX - 1).next(), Some(Version(i64::MAX)));
        assert_eq!(Version(i64::MAX).next(), None);
    }

    #[test]
    fn a_version_is_shown_as_it_is_read() {
        for version in [i64::MIN, -1, 0, 12, i64::MAX].map(Version) {
            assert_eq!(Version::from_header(version.to_string().as_bytes()), Some(version));
        }
    }
}
