//! The answer: one record among the cases of the task, which whoever asked finds by the request's id.
//!
//! The key is a list of parts, each with its length before it: `a` and the id. The value is the number of its format, then JSON.

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Value, json};

use super::{Refusal, RequestId, shown};
use crate::core::position::WriterId;
use crate::core::time::Timestamp;

/// The kind of an answer among the cases.
const KIND: &[u8] = b"a";
/// The only format so far.
const FORMAT: u8 = 1;
/// The longest words of an answer.
const LONGEST_WORDS: usize = 2 << 10;

/// Whether a request was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compliance {
    /// It was.
    Obeyed,
    /// It was not, and nothing was changed.
    Refused,
}

impl Compliance {
    /// The word in answers, audits and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Obeyed => "obeyed",
            Self::Refused => "refused",
        }
    }
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether it was carried out.
    pub compliance: Compliance,
    /// What was done, or why it was not.
    pub words: String,
    /// When that was decided.
    pub at: Timestamp,
    /// The worker that decided it.
    pub writer: WriterId,
}

/// An answer that this version cannot read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer to `{id}` is of format `{format}`, or cut: whoever asks is older than the worker")]
pub struct BadAnswer {
    /// The request.
    pub id: RequestId,
    /// The number of its format.
    pub format: u8,
}

impl Answer {
    /// The answer to a request that was carried out, with what was done, or refused.
    pub fn new(result: Result<String, Refusal>, at: Timestamp, writer: WriterId) -> Self {
        let (compliance, words) = match result {
            Ok(words) => (Compliance::Obeyed, words),
            Err(refusal) => (Compliance::Refused, refusal.to_string()),
        };
        Self { compliance, words: shown(&words, LONGEST_WORDS), at, writer }
    }

    /// The key of the answer to a request.
    pub fn key(id: &RequestId) -> Bytes {
        let mut key = BytesMut::new();
        for part in [KIND, id.as_str().as_bytes()] {
            key.put_u32(u32::try_from(part.len()).unwrap_or(u32::MAX));
            key.extend_from_slice(part);
        }
        key.freeze()
    }

    /// The value of its record.
    pub fn to_bytes(&self) -> Bytes {
        let value = json!({
            "result": self.compliance.as_str(),
            "words": self.words,
            "at": self.at.as_millis(),
            "writer": format!("{:016x}", self.writer.0),
        });
        let text = value.to_string();
        let mut bytes = BytesMut::with_capacity(text.len().saturating_add(1));
        bytes.put_u8(FORMAT);
        bytes.extend_from_slice(text.as_bytes());
        bytes.freeze()
    }

    /// Reads one record of the cases; `None` where it is no answer, or one that was deleted.
    pub fn read(key: &[u8], value: Option<&[u8]>) -> Option<(RequestId, Result<Self, BadAnswer>)> {
        let rest = part(key).filter(|(kind, _)| *kind == KIND)?.1;
        let id: RequestId =
            str::from_utf8(part(rest).filter(|(_, rest)| rest.is_empty())?.0).ok()?.parse().ok()?;
        let value = value?;
        let format = value.first().copied().unwrap_or_default();
        let bad = BadAnswer { id: id.clone(), format };
        Some((id, Self::parse(value).ok_or(bad)))
    }

    fn parse(value: &[u8]) -> Option<Self> {
        let text = value.strip_prefix(&[FORMAT])?;
        let value: Value = serde_json::from_slice(text).ok()?;
        let compliance = match value.get("result")?.as_str()? {
            "obeyed" => Compliance::Obeyed,
            "refused" => Compliance::Refused,
            _ => return None,
        };
        Some(Self {
            compliance,
            words: value.get("words")?.as_str()?.to_owned(),
            at: Timestamp::from_millis(value.get("at")?.as_i64()?),
            writer: WriterId(u64::from_str_radix(value.get("writer")?.as_str()?, 16).ok()?),
        })
    }
}

/// The first part of a key, and the rest.
fn part(key: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = key.split_first_chunk()?;
    rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)
}
