//! What a codec read out of the value of a record, and what may be made of it.
//!
//! A codec says what stands at the places that a pipeline names; what that is good for is decided here. A tombstone has no value,
//! so nothing is read out of it.

use std::fmt;

use bytes::Bytes;

use crate::core::guard::Version;

/// What became of the value of a record: `None` where nothing was read out of it, since it has none, or since the pipeline goes
/// by nothing in it. One pointer, so that bytes which nobody reads cost nothing.
pub type Decoding = Option<Box<Result<Decoded, Undecodable>>>;

/// What stands at the places of a value that a pipeline names; `None` where there is nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    /// Where the event id should stand.
    pub event_id: Option<Found>,
    /// Where the operation id should stand.
    pub operation_id: Option<Found>,
    /// The first place of `order.version` that has anything, by its number in that list.
    pub version: Option<(usize, Found)>,
    /// Where the key of its order should stand.
    pub order_key: Option<Found>,
}

/// The value is not of the format that the pipeline says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undecodable {
    /// What is wrong, and where, for people. Nothing of the value itself.
    pub detail: String,
}

/// What stands at a place of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A text, in UTF-8.
    Text(Bytes),
    /// A whole number of any size: decimal digits, behind a `-` where it is below zero; zero and the others in one way only.
    Whole(Bytes),
    /// Anything else, as people would read it.
    Other(Bytes),
}

/// So much of what stands at a place is shown, in characters.
const LONGEST_SHOWN: usize = 40;

impl Found {
    /// What names something: a text, or the digits of a whole number. A text of digits is the same name as the number, since one
    /// thing must not have two.
    pub const fn name(&self) -> Option<&Bytes> {
        match self {
            Self::Text(name) | Self::Whole(name) => Some(name),
            Self::Other(_) => None,
        }
    }

    /// The version that it is, by the rules of a header: a number of 64 bits, or a time.
    pub fn version(&self) -> Option<Version> {
        Version::from_header(self.name()?)
    }
}

/// For people, cut.
impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Text(found) | Self::Whole(found) | Self::Other(found)) = self;
        let kind = match (self, found.first()) {
            (Self::Other(_), Some(b'{')) => return f.write_str("an object"),
            (Self::Other(_), Some(b'[')) => return f.write_str("a list"),
            (Self::Text(_), _) => "the text ",
            (Self::Whole(_) | Self::Other(_), _) => "",
        };
        let shown: String = String::from_utf8_lossy(found).chars().take(LONGEST_SHOWN).collect();
        write!(f, "{kind}`{}`", shown.escape_debug())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Found {
        Found::Text(Bytes::copy_from_slice(text.as_bytes()))
    }

    fn whole(digits: &'static str) -> Found {
        Found::Whole(Bytes::from_static(digits.as_bytes()))
    }

    fn other(written: &'static str) -> Found {
        Found::Other(Bytes::from_static(written.as_bytes()))
    }

    #[test]
    fn whole_numbers_of_64_bits_and_texts_that_would_do_in_a_header_are_versions() {
        for (found, version) in [
            (whole("0"), 0),
            (whole("-7"), -7),
            (whole("9223372036854775807"), i64::MAX),
            (whole("-9223372036854775808"), i64::MIN),
            (text("42"), 42),
            (text("2024-02-29T12:00:00.5+01:30"), 1_709_202_600_500),
        ] {
            assert_eq!(found.version(), Some(Version(version)), "{found}");
        }
        for found in [
            whole("9223372036854775808"),
            whole("-9223372036854775809"),
            text(""),
            text("ten"),
            text(" 7"),
            text("2024-02-29"),
            other("1.0"),
            other("1e3"),
            other("null"),
            other("true"),
            other("[1]"),
        ] {
            assert_eq!(found.version(), None, "{found}");
        }
    }

    #[test]
    fn one_thing_has_one_name() {
        assert_eq!(text("7").name(), whole("7").name());
        assert_ne!(text("07").name(), whole("7").name());
        assert_eq!(text("").name(), Some(&Bytes::new()));
        for found in ["7.0", "true", "null", "{}", "[]"].map(other) {
            assert_eq!(found.name(), None, "{found}");
        }
    }

    #[test]
    fn what_stands_there_is_shown_cut_and_in_one_line() {
        assert_eq!(other("{\"secret\":1}").to_string(), "an object");
        assert_eq!(other("[1]").to_string(), "a list");
        assert_eq!(other("null").to_string(), "`null`");
        assert_eq!(whole("7").to_string(), "`7`");
        assert_eq!(text("a\nb").to_string(), "the text `a\\nb`");
        assert_eq!(text(&"é".repeat(500)).to_string(), format!("the text `{}`", "é".repeat(40)));
    }

    #[test]
    fn a_record_whose_value_nobody_reads_carries_one_pointer_more() {
        assert_eq!(size_of::<Decoding>(), size_of::<usize>());
    }
}
