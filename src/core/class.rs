//! The words of failure: class and reason, both closed, since metrics label by them.

use std::fmt;
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
    /// A control header on one of redrive's own topics is missing, repeated or malformed.
    BadControlHeader,
    /// A header name that is not UTF-8 cannot be carried by the client.
    BadHeaderName,
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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReasonName(Arc<str>);

impl ReasonName {
    /// The longest name, in bytes. It bounds what a failure can add to the headers.
    pub const LONGEST: usize = 64;

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ReasonName {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        let fits = word.len() <= Self::LONGEST
            && word.starts_with(|first: char| first.is_ascii_lowercase())
            && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        if fits {
            Ok(Self(Arc::from(word)))
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
            Self::BadControlHeader => "bad-control-header",
            Self::BadHeaderName => "bad-header-name",
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
            "bad-control-header" => Self::BadControlHeader,
            "bad-header-name" => Self::BadHeaderName,
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
