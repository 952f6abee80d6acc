//! The words of failure: class and reason, both closed, since metrics label by them.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

/// What kind of failure it was; decides what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Repeating cannot help: dead letter at once.
    Permanent,
    /// May heal, and no side effect is possible: in place, then the tiers.
    Transient,
    /// The dependency asks for less: never in place, a tier that waits long enough.
    Throttled,
    /// The request went out and no verdict came back.
    Unknown,
    /// The record cannot be decoded, or its control headers are broken: dead letter at once, bytes unchanged.
    Poison,
}

impl Class {
    /// Every class, in the order of the documentation.
    pub const ALL: [Self; 5] =
        [Self::Permanent, Self::Transient, Self::Throttled, Self::Unknown, Self::Poison];

    /// The word that stands in headers, metrics and the topology file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Permanent => "permanent",
            Self::Transient => "transient",
            Self::Throttled => "throttled",
            Self::Unknown => "unknown",
            Self::Poison => "poison",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that is not in the list it should come from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` is not a {kind}")]
pub struct UnknownWord {
    /// What kind of word was expected.
    pub kind: &'static str,
    /// The word found.
    pub word: String,
}

impl FromStr for Class {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        let known = Self::ALL.into_iter().find(|class| class.as_str() == word);
        known.ok_or_else(|| UnknownWord { kind: "failure class", word: word.to_owned() })
    }
}

/// Why a delivery failed, or why a record ended as a dead letter. Text form: lower-case words with dashes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The ladder has no further step.
    Exhausted,
    /// The next step would end past the deadline.
    Deadline,
    /// `identity.operation-id` is configured and the record has none.
    NoOperationId,
    /// The order of a guarded pipeline goes by the key, and the record has none.
    NoKey,
    /// The pipeline has a guard, and the record has no version that can be used.
    NoVersion,
    /// The version is applied, or held, with another value.
    VersionConflict,
    /// The versions before it did not come in time.
    VersionGap,
    /// The record of its key that it was held behind is a dead letter, and it follows that one.
    PredecessorDead,
    /// The value is not of the format that the topology says.
    DecodeFailed,
    /// A control header on one of redrive's own topics is missing, repeated or malformed.
    BadControlHeader,
    /// A header name that is not UTF-8 cannot be carried by the client.
    BadHeaderName,
    /// The copy or the output of a record is larger than its topic takes.
    TooLarge,
    /// The broker refuses the copy or the output of a record as invalid.
    Refused,
    /// No connection to the handler.
    Connect,
    /// The connection ended before the answer was whole.
    Cut,
    /// The handler did not answer in time.
    Timeout,
    /// The handler answered with this HTTP status.
    Http(u16),
    /// A name that the handler or the topology gave.
    Named(ReasonName),
}

/// A reason of the user's own: 1 to 64 characters of `a-z`, `0-9` and `-`, first a letter.
#[derive(Clone, Debug)]
pub struct ReasonName(Name);

#[derive(Clone, Debug)]
enum Name {
    Static(&'static str),
    Shared(Arc<str>),
}

impl ReasonName {
    /// The longest name, in bytes. It bounds what a failure can add to the headers.
    pub const LONGEST: usize = 64;

    /// A name that is known when the program is built; costs nothing to clone. Make it a constant, so that a name
    /// that is none is refused by the compiler.
    ///
    /// # Panics
    ///
    /// Where `name` is no reason name and the call is not in a constant.
    pub const fn from_static(name: &'static str) -> Self {
        assert!(fits(name.as_bytes()), "a reason is 1 to 64 characters of a-z, 0-9 and -, first a letter");
        Self(Name::Static(name))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Name::Static(name) => name,
            Name::Shared(name) => name,
        }
    }
}

/// Whether these bytes are a reason name.
const fn fits(mut name: &[u8]) -> bool {
    if name.len() > ReasonName::LONGEST || !matches!(name.first(), Some(b'a'..=b'z')) {
        return false;
    }
    while let Some((first, rest)) = name.split_first() {
        if !matches!(first, b'a'..=b'z' | b'0'..=b'9' | b'-') {
            return false;
        }
        name = rest;
    }
    true
}

// Equal and ordered by text: how a name is kept says nothing about it.
impl PartialEq for ReasonName {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for ReasonName {}

impl PartialOrd for ReasonName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ReasonName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl Hash for ReasonName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl FromStr for ReasonName {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        if fits(word.as_bytes()) {
            Ok(Self(Name::Shared(Arc::from(word))))
        } else {
            let shown = word.chars().take(Self::LONGEST).collect();
            Err(UnknownWord { kind: "reason (a-z, 0-9 and -, at most 64)", word: shown })
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self {
            Self::Exhausted => "exhausted",
            Self::Deadline => "deadline",
            Self::NoOperationId => "no-operation-id",
            Self::NoKey => "no-key",
            Self::NoVersion => "no-version",
            Self::VersionConflict => "version-conflict",
            Self::VersionGap => "version-gap",
            Self::PredecessorDead => "predecessor-dead",
            Self::DecodeFailed => "decode-failed",
            Self::BadControlHeader => "bad-control-header",
            Self::BadHeaderName => "bad-header-name",
            Self::TooLarge => "too-large",
            Self::Refused => "refused",
            Self::Connect => "connect",
            Self::Cut => "cut",
            Self::Timeout => "timeout",
            Self::Http(status) => return write!(f, "http-{status}"),
            Self::Named(name) => name.as_str(),
        };
        f.write_str(word)
    }
}

impl FromStr for Reason {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        let reason = match word {
            "exhausted" => Self::Exhausted,
            "deadline" => Self::Deadline,
            "no-operation-id" => Self::NoOperationId,
            "no-key" => Self::NoKey,
            "no-version" => Self::NoVersion,
            "version-conflict" => Self::VersionConflict,
            "version-gap" => Self::VersionGap,
            "predecessor-dead" => Self::PredecessorDead,
            "decode-failed" => Self::DecodeFailed,
            "bad-control-header" => Self::BadControlHeader,
            "bad-header-name" => Self::BadHeaderName,
            "too-large" => Self::TooLarge,
            "refused" => Self::Refused,
            "connect" => Self::Connect,
            "cut" => Self::Cut,
            "timeout" => Self::Timeout,
            _ => match word.strip_prefix("http-").and_then(|status| status.parse().ok()) {
                Some(status @ 100..=599) => Self::Http(status),
                Some(_) | None => Self::Named(word.parse()?),
            },
        };
        Ok(reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_names_are_equal_however_they_are_kept() {
        const LIMIT: ReasonName = ReasonName::from_static("limit-2");
        assert_eq!("limit-2".parse(), Ok(LIMIT));
    }

    #[test]
    fn a_reason_name_is_short_lower_case_and_begins_with_a_letter() {
        let longest = "a".repeat(ReasonName::LONGEST);
        let long = "a".repeat(ReasonName::LONGEST + 1);
        for good in ["a", "no-stock", "e42", &longest] {
            assert!(good.parse::<ReasonName>().is_ok(), "{good}");
        }
        for bad in ["", "-a", "4e", "No-stock", "no_stock", "no stock", "stück", &long] {
            assert!(bad.parse::<ReasonName>().is_err(), "{bad}");
        }
    }
}
