//! The request: one record of the control lane, whose key is its id and whose value is JSON.
//!
//! `{"version": 1, "by": "ada", "at": 1700000000000, "ticket": "OPS-1", "command": "accept-repeats", "arguments": {…}}`

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::shown;
use crate::core::guard::Version;
use crate::core::position::{OffsetRange, Partition};
use crate::core::record::Record;
use crate::core::time::Timestamp;

/// The newest form of a request that this version reads, and the one that it writes.
const VERSION: u64 = 1;
/// The longest id: a few numbers in words of hexadecimal.
const LONGEST_ID: usize = 64;
/// The longest value: a thousand ranges of topics with long names.
const LONGEST_VALUE: usize = 256 << 10;
/// The longest name of a person or a ticket, in bytes; of a longer one the beginning is kept.
pub const LONGEST_NAME: usize = 256;
/// So much of a command is told in answer and audit.
const LONGEST_COMMAND: usize = 1024;

/// The id of a request: 1 to 64 lower-case letters, digits and hyphens. Whoever asks draws it, and never twice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(Arc<str>);

impl RequestId {
    /// An id that says which task was asked, and when: `<partition>-<ms since 1970>-<a random number>`, the last two in
    /// hexadecimal.
    pub fn draw(partition: Partition, at: Timestamp, random: u64) -> Self {
        let at = at.as_millis().max(0);
        Self(Arc::from(format!("{}-{at:x}-{random:016x}", partition.0.max(0))))
    }

    /// Which task was asked, and when, where the id says it.
    pub fn asked(&self) -> Option<(Partition, Timestamp)> {
        let (partition, rest) = self.0.split_once('-')?;
        let (at, _) = rest.split_once('-')?;
        let partition = partition.parse().ok().filter(|partition| *partition >= 0)?;
        Some((Partition(partition), Timestamp::from_millis(i64::from_str_radix(at, 16).ok()?)))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Text that is no id of a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no id of a request: 1 to {LONGEST_ID} lower-case letters, digits and hyphens")]
pub struct BadRequestId {
    /// The text, cut.
    pub text: String,
}

impl FromStr for RequestId {
    type Err = BadRequestId;

    fn from_str(text: &str) -> Result<Self, BadRequestId> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if (1..=LONGEST_ID).contains(&text.len()) && text.bytes().all(plain) {
            Ok(Self(Arc::from(text)))
        } else {
            Err(BadRequestId { text: shown(text, LONGEST_ID) })
        }
    }
}

/// What an operator can ask of the owner of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// To go on though these records may be handled once more.
    AcceptRepeats(Vec<OffsetRange>),
    /// That the versions of a key up to this one count as applied.
    SkipVersions {
        /// The order key.
        key: Bytes,
        /// The last version that is skipped.
        to: Version,
    },
}

impl Command {
    /// Its word in requests, answers and audits.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::AcceptRepeats(_) => "accept-repeats",
            Self::SkipVersions { .. } => "skip-versions",
        }
    }

    fn arguments(&self) -> Value {
        match self {
            Self::AcceptRepeats(ranges) => {
                json!({ "ranges": ranges.iter().map(OffsetRange::to_string).collect::<Vec<_>>() })
            }
            Self::SkipVersions { key, to } => json!({ "key": STANDARD.encode(key), "to": to.0 }),
        }
    }

    fn read(word: &str, arguments: &Value) -> Result<Self, Refusal> {
        let bad = |why: String| Refusal::BadArguments { command: word.to_owned(), why };
        match word {
            "accept-repeats" => {
                let ranges = arguments.get("ranges").and_then(Value::as_array);
                let ranges = ranges.filter(|ranges| !ranges.is_empty());
                let ranges = ranges.ok_or_else(|| bad("it names no `ranges`".to_owned()))?;
                let range = |range: &Value| {
                    let text = range.as_str().ok_or_else(|| bad("a range is no text".to_owned()))?;
                    text.parse::<OffsetRange>().map_err(|error| bad(shown(&error.to_string(), LONGEST_NAME)))
                };
                Ok(Self::AcceptRepeats(ranges.iter().map(range).collect::<Result<_, _>>()?))
            }
            "skip-versions" => {
                let key = arguments.get("key").and_then(Value::as_str);
                let key = key.and_then(|key| STANDARD.decode(key).ok());
                let key = key.ok_or_else(|| bad("it names no `key` in base64".to_owned()))?;
                let to = arguments.get("to").and_then(Value::as_i64);
                let to = to.ok_or_else(|| bad("it says no version `to`".to_owned()))?;
                Ok(Self::SkipVersions { key: Bytes::from(key), to: Version(to) })
            }
            _ => Err(Refusal::UnknownCommand { command: shown(word, LONGEST_NAME) }),
        }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())?;
        match self {
            Self::AcceptRepeats(ranges) => ranges.iter().try_for_each(|range| write!(f, " {range}")),
            Self::SkipVersions { key, to } => write!(f, " `{}` to {to}", key.escape_ascii()),
        }
    }
}

/// One request, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its id.
    pub id: RequestId,
    /// Who asks.
    pub by: String,
    /// When it was asked, by the clock of whoever asks.
    pub at: Timestamp,
    /// The ticket that it is done for.
    pub ticket: Option<String>,
    /// What is asked.
    pub command: Command,
}

impl Request {
    /// The key of its record.
    pub fn key(&self) -> Bytes {
        Bytes::copy_from_slice(self.id.as_str().as_bytes())
    }

    /// The value of its record.
    pub fn value(&self) -> Bytes {
        let value = json!({
            "version": VERSION,
            "by": self.by,
            "at": self.at.as_millis(),
            "ticket": self.ticket,
            "command": self.command.word(),
            "arguments": self.command.arguments(),
        });
        Bytes::from(value.to_string())
    }
}

/// Who asked what, as far as it can be read: also where the request is refused for what cannot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Its id; `None` where the record has none, and so nobody waits for an answer.
    pub id: Option<RequestId>,
    /// Who asked.
    pub by: Option<String>,
    /// When, by the clock of whoever asked.
    pub at: Option<Timestamp>,
    /// The ticket.
    pub ticket: Option<String>,
    /// What was asked, in words.
    pub command: Option<String>,
}

/// Why a request is not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A record on the control lane that is none.
    #[error("not a request: {why}")]
    NotARequest {
        /// What is missing or wrong.
        why: String,
    },
    /// It is of a form that this version does not know.
    #[error(
        "the request is of version `{version}` and this worker reads up to `{VERSION}`: the worker is older than whoever asks"
    )]
    Newer {
        /// Its version.
        version: u64,
    },
    /// It asks for what this version does not know.
    #[error(
        "this worker does not know the command `{command}`: the worker is older than whoever asks, or the word is misspelled"
    )]
    UnknownCommand {
        /// The word of the command.
        command: String,
    },
    /// Its arguments cannot be read.
    #[error("`{command}` cannot be read: {why}")]
    BadArguments {
        /// The word of the command.
        command: String,
        /// What is missing or wrong.
        why: String,
    },
    /// It could be read, and cannot be done.
    #[error("{why}")]
    Declined {
        /// Why.
        why: String,
    },
}

/// Reads a record of the control lane. Any bytes may stand there.
pub fn read(record: &Record) -> (Head, Result<Command, Refusal>) {
    let mut head = Head { id: id_of(record), ..Head::default() };
    let object = match object_of(record) {
        Ok(object) => object,
        Err(why) => return (head, Err(Refusal::NotARequest { why: why.to_owned() })),
    };
    let text = |name: &str| object.get(name).and_then(Value::as_str);
    let name = |name: &str| text(name).filter(|text| !text.is_empty()).map(|text| shown(text, LONGEST_NAME));
    head.by = name("by");
    head.ticket = name("ticket");
    head.at = object.get("at").and_then(Value::as_i64).map(Timestamp::from_millis);
    head.command = name("command");
    let command = command_of(&head, &object);
    if let Ok(command) = &command {
        head.command = Some(shown(&command.to_string(), LONGEST_COMMAND));
    }
    (head, command)
}

fn command_of(head: &Head, object: &Map<String, Value>) -> Result<Command, Refusal> {
    let not = |why: &str| Err(Refusal::NotARequest { why: why.to_owned() });
    match object.get("version").and_then(Value::as_u64) {
        Some(version) if version > VERSION => return Err(Refusal::Newer { version }),
        Some(0) | None => return not("it has no `version`"),
        Some(_) => {}
    }
    if head.id.is_none() {
        return not("its key is no id");
    }
    if head.by.is_none() {
        return not("it does not say `by` whom");
    }
    let Some(word) = object.get("command").and_then(Value::as_str) else { return not("it has no `command`") };
    Command::read(word, object.get("arguments").unwrap_or(&Value::Null))
}

fn id_of(record: &Record) -> Option<RequestId> {
    str::from_utf8(record.key.as_ref()?).ok()?.parse().ok()
}

fn object_of(record: &Record) -> Result<Map<String, Value>, &'static str> {
    let value = record.value.as_ref().ok_or("it has no value")?;
    if value.len() > LONGEST_VALUE {
        return Err("its value is too long");
    }
    match serde_json::from_slice(value) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) | Err(_) => {
            Err("its value is no JSON object")
        }
    }
}
