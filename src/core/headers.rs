//! The control headers: how redrive writes them, and how far it believes them.
//!
//! On the source topic every `redrive-*` header is foreign talk: ignored, and not written on. On redrive's own topics
//! a missing, repeated or malformed one is poison, never a guess.

use std::fmt;

use bytes::Bytes;

use crate::core::decoded::{Decoded, Found};
use crate::core::envelope::{Envelope, FirstFailure, Identity, LastFailure, Life};
use crate::core::outcome::Verdict;
use crate::core::policy::{IdentityPolicy, Source};
use crate::core::position::Origin;
use crate::core::record::{Header, HeaderName, Record};
use crate::core::time::Timestamp;

mod read;
pub use read::{BadControlHeader, Waiting, lenient, read_held, read_waiting};

/// What every control header begins with.
pub const PREFIX: &str = "redrive-";
/// The longest `redrive-detail`, in bytes.
pub const LONGEST_DETAIL: usize = 1024;
/// The longest event id or operation id taken from a source record, in bytes; longer ones count as absent.
pub const LONGEST_ID: usize = 256;

/// The names of the control headers.
pub mod name {
    use crate::core::record::HeaderName;

    macro_rules! names {
        ($($constant:ident = $text:literal;)*) => {
            $(#[doc = concat!("`", $text, "`")] pub const $constant: HeaderName = HeaderName::from_static($text);)*
        };
    }

    names! {
        EVENT_ID = "redrive-event-id";
        OPERATION_ID = "redrive-operation-id";
        ORIGIN_TOPIC = "redrive-origin-topic";
        ORIGIN_PARTITION = "redrive-origin-partition";
        ORIGIN_OFFSET = "redrive-origin-offset";
        ORIGIN_TIMESTAMP = "redrive-origin-timestamp";
        FIRST_ATTEMPT_AT = "redrive-first-attempt-at";
        FIRST_FAILED_AT = "redrive-first-failed-at";
        FIRST_CLASS = "redrive-first-class";
        FIRST_REASON = "redrive-first-reason";
        FIRST_LANE = "redrive-first-lane";
        DEADLINE_AT = "redrive-deadline-at";
        ATTEMPT = "redrive-attempt";
        EXECUTIONS = "redrive-executions";
        DUE = "redrive-due";
        CLASS = "redrive-class";
        REASON = "redrive-reason";
        DETAIL = "redrive-detail";
        HISTORY = "redrive-history";
        CASE = "redrive-case";
        PAYLOAD_REF = "redrive-payload-ref";
        VERSION = "redrive-version";
        GAP_DUE = "redrive-gap-due";
    }
}

/// A source record as an envelope: foreign headers without redrive's, the identity from where it is configured to stand.
/// Beside it, whether an operation id is configured that the record does not have.
pub fn from_source(
    record: Record,
    decoded: Option<&Decoded>,
    origin: Origin,
    policy: &IdentityPolicy,
) -> (Envelope, Result<(), NoOperationId>) {
    let (in_event_place, in_operation_place) =
        decoded.map(|found| (found.event_id.as_ref(), found.operation_id.as_ref())).unwrap_or_default();
    let event_id = policy.event_id.as_ref().and_then(|source| id(&record.headers, in_event_place, source));
    let operation_id =
        policy.operation_id.as_ref().and_then(|source| id(&record.headers, in_operation_place, source));
    let found = match (&policy.operation_id, &operation_id) {
        (Some(source), None) => Err(NoOperationId { source: source.clone() }),
        (Some(_), Some(_)) | (None, _) => Ok(()),
    };
    let envelope = Envelope {
        key: record.key,
        value: record.value,
        foreign: foreign(record.headers),
        identity: Identity { event_id, operation_id },
        origin,
        origin_timestamp: record.timestamp,
        version: None,
        gap_due: None,
        order_key: None,
        life: Life::default(),
    };
    (envelope, found)
}

/// Where the operation id should stand is nothing, a null, nothing that could be one, or one that is empty or too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoOperationId {
    /// Where it should stand.
    pub source: Source,
}

/// For people.
impl fmt::Display for NoOperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.source {
            Source::Header(_) => "UTF-8",
            Source::Json(_) => "text or digits",
        };
        write!(f, "{} holds no operation id of 1 to {LONGEST_ID} bytes of {kind}", self.source)
    }
}

/// What stands there, if it can serve as an id: of several headers of one name in the last, as Kafka's own clients read them.
fn id(headers: &[Header], in_value: Option<&Found>, source: &Source) -> Option<Bytes> {
    let fits = |id: &&Bytes| (1..=LONGEST_ID).contains(&id.len());
    match source {
        Source::Header(name) => {
            let header = headers.iter().rev().find(|header| header.name == *name)?;
            header.value.as_ref().filter(fits).filter(|id| std::str::from_utf8(id).is_ok()).cloned()
        }
        Source::Json(_) => in_value.and_then(Found::name).filter(fits).cloned(),
    }
}

/// The headers that are not redrive's, in order.
pub fn foreign(mut headers: Vec<Header>) -> Vec<Header> {
    headers.retain(|header| !header.name.as_str().starts_with(PREFIX));
    headers
}

/// The headers of an output record: the handler's, then the identity.
pub fn of_output(given: &[Header], envelope: &Envelope) -> Vec<Header> {
    let mut headers = Headers::after(given);
    let event_id = envelope.event_id();
    let operation_id = envelope.identity.operation_id.clone().unwrap_or_else(|| event_id.clone());
    headers.add(name::EVENT_ID, event_id);
    headers.add(name::OPERATION_ID, operation_id);
    headers.list
}

/// The headers of a record that is stale: its own, identity, origin, version, and what has happened to it.
pub fn of_stale(envelope: &Envelope) -> Vec<Header> {
    Headers::of(envelope).list
}

fn version(envelope: &Envelope) -> Option<Header> {
    let version = envelope.version?.to_string();
    Some(Header { name: name::VERSION, value: Some(Bytes::from(version)) })
}

/// The headers of a copy in a tier that is due at `due`.
pub fn of_waiting(envelope: &Envelope, due: Timestamp) -> Vec<Header> {
    let mut headers = of_held(envelope);
    headers.push(Header { name: name::DUE, value: Some(Bytes::from(due.as_millis().to_string())) });
    headers
}

/// The headers of a record that is held: as of a copy in a tier, but for when it is due.
pub fn of_held(envelope: &Envelope) -> Vec<Header> {
    let mut headers = Headers::of(envelope);
    let life = &envelope.life;
    headers.number(name::ATTEMPT, i64::from(life.attempt));
    headers.number(name::EXECUTIONS, i64::from(life.executions));
    if let Some(failure) = &life.last_failure {
        headers.verdict(&Verdict { class: failure.class, reason: failure.reason.clone() });
    }
    headers.list
}

/// The headers of a dead letter that ends with `verdict`.
pub fn of_dead_letter(envelope: &Envelope, verdict: &Verdict, payload: Payload) -> Vec<Header> {
    let mut headers = Headers::of(envelope);
    let life = &envelope.life;
    if life.executions > 0 {
        headers.number(name::ATTEMPT, i64::from(life.attempt));
        headers.number(name::EXECUTIONS, i64::from(life.executions));
    }
    headers.verdict(verdict);
    headers.text(name::CASE, format!("{}#1", envelope.origin));
    match payload {
        Payload::Carried => {}
        Payload::AtOrigin => headers.text(name::PAYLOAD_REF, envelope.origin.to_string()),
    }
    headers.list
}

/// Leaves out what a copy can do without: the texts that tell people of its failures.
pub fn strip(headers: &mut Vec<Header>) {
    headers.retain(|header| header.name != name::DETAIL && header.name != name::HISTORY);
}

/// Whether a dead letter holds everything of its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// All of it.
    Carried,
    /// A part could not be carried: the origin is named as the place of the whole.
    AtOrigin,
}

/// Cuts a text for `redrive-detail` to [`LONGEST_DETAIL`] bytes, on a character border.
pub fn cut_detail(mut detail: String) -> String {
    if detail.len() > LONGEST_DETAIL {
        detail.truncate(detail.floor_char_boundary(LONGEST_DETAIL));
    }
    detail
}

/// Headers in the making: foreign ones first.
struct Headers {
    list: Vec<Header>,
}

impl Headers {
    fn after(given: &[Header]) -> Self {
        let mut list = Vec::with_capacity(given.len().saturating_add(20));
        list.extend(given.iter().filter(|header| !header.name.as_str().starts_with(PREFIX)).cloned());
        Self { list }
    }

    /// Foreign headers, identity, origin, first and last failure, as tiers and the dead letter topic share them.
    fn of(envelope: &Envelope) -> Self {
        let mut headers = Self::after(&envelope.foreign);
        headers.add(name::EVENT_ID, envelope.event_id());
        headers.add(name::OPERATION_ID, envelope.operation_id());
        let origin = &envelope.origin;
        headers.text(name::ORIGIN_TOPIC, origin.topic.to_string());
        headers.number(name::ORIGIN_PARTITION, i64::from(origin.partition.0));
        headers.number(name::ORIGIN_OFFSET, origin.offset.0);
        headers.number(name::ORIGIN_TIMESTAMP, envelope.origin_timestamp.as_millis());
        headers.list.extend(version(envelope));
        if let Some(due) = envelope.gap_due {
            headers.text(name::GAP_DUE, due.as_millis().to_string());
        }
        let life = &envelope.life;
        if let Some(at) = life.first_attempt_at {
            headers.number(name::FIRST_ATTEMPT_AT, at.as_millis());
        }
        if let Some(FirstFailure { at, class, reason, lane }) = &life.first_failure {
            headers.number(name::FIRST_FAILED_AT, at.as_millis());
            headers.add(name::FIRST_CLASS, Bytes::from_static(class.as_str().as_bytes()));
            headers.text(name::FIRST_REASON, reason.to_string());
            headers.add(name::FIRST_LANE, lane.clone());
        }
        if let Some(at) = life.deadline_at {
            headers.number(name::DEADLINE_AT, at.as_millis());
        }
        if let Some(LastFailure { detail, .. }) = &life.last_failure
            && !detail.is_empty()
        {
            headers.text(name::DETAIL, cut_detail(detail.clone()));
        }
        if !life.history.is_empty() {
            headers.text(name::HISTORY, life.history.to_string());
        }
        headers
    }

    fn add(&mut self, name: HeaderName, value: Bytes) {
        self.list.push(Header { name, value: Some(value) });
    }

    fn text(&mut self, name: HeaderName, value: String) {
        self.add(name, Bytes::from(value));
    }

    fn number(&mut self, name: HeaderName, value: i64) {
        self.text(name, value.to_string());
    }

    fn verdict(&mut self, Verdict { class, reason }: &Verdict) {
        self.add(name::CLASS, Bytes::from_static(class.as_str().as_bytes()));
        self.text(name::REASON, reason.to_string());
    }
}

#[cfg(test)]
mod tests;
