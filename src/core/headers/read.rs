//! Reading control headers back from redrive's own topics.

use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;

use super::{PREFIX, foreign, name};
use crate::core::class::{Class, Reason};
use crate::core::envelope::{Envelope, FirstFailure, Identity, LastFailure, Life};
use crate::core::guard::Version;
use crate::core::history::History;
use crate::core::position::{Offset, Origin, Partition, TopicName};
use crate::core::record::{Header, HeaderName, Record};
use crate::core::time::Timestamp;

/// No attempt number is believed above this.
const MOST_ATTEMPTS: u32 = 1_000_000;
/// The longest id believed, in bytes: an origin with the longest topic name that Kafka takes has about 280.
const LONGEST_ID: usize = 512;
/// How far a due time may lie past timestamp and deadline: the hop of a longest tier on top.
const DUE_SLACK: Duration = Duration::from_secs(24 * 60 * 60);
/// How far ahead of its origin a record may be due that was never attempted.
const LONGEST_WAIT: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// A record that waited in a tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The record as it was at its origin, and what has happened to it since.
    pub envelope: Envelope,
    /// `redrive-due`: it may not be handled before.
    pub due: Timestamp,
}

/// A control header that cannot be believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("control header `{}` {problem}", name.as_str())]
pub struct BadControlHeader {
    /// Which header.
    pub name: HeaderName,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a control header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It is required here.
    #[error("is missing")]
    Missing,
    /// It occurs more than once.
    #[error("is repeated")]
    Repeated,
    /// It is null, not UTF-8, or not of its form.
    #[error("is malformed")]
    Malformed,
    /// It is beyond its bound.
    #[error("is out of bounds")]
    OutOfBounds,
}

/// Reads a record of a tier. `longest` bounds how far after it was written it may be due, up to a slack: the topology's
/// deadline, or the tier's delay where that is longer.
///
/// # Errors
/// The first control header that cannot be believed.
pub fn read_waiting(record: &Record, longest: Duration) -> Result<Waiting, BadControlHeader> {
    let control = Control { headers: &record.headers };
    let envelope = read_held(record)?;
    let due = control.required(&name::DUE, time)?;
    let latest = match envelope.life.executions {
        0 => envelope.origin_timestamp.plus(LONGEST_WAIT),
        _ => record.timestamp.plus(longest).plus(DUE_SLACK),
    };
    if due > latest {
        return Err(BadControlHeader { name: name::DUE, problem: Problem::OutOfBounds });
    }
    Ok(Waiting { envelope, due })
}

/// Reads a record that is held: as one of a tier, but for when it is due.
///
/// # Errors
/// The first control header that cannot be believed.
pub fn read_held(record: &Record) -> Result<Envelope, BadControlHeader> {
    let control = Control { headers: &record.headers };
    let identity = Identity {
        event_id: Some(control.required(&name::EVENT_ID, id)?),
        operation_id: Some(control.required(&name::OPERATION_ID, id)?),
    };
    let origin = Origin {
        topic: control.required(&name::ORIGIN_TOPIC, topic)?,
        partition: Partition(control.required(&name::ORIGIN_PARTITION, natural)?),
        offset: Offset(control.required(&name::ORIGIN_OFFSET, natural)?),
    };
    let origin_timestamp = control.required(&name::ORIGIN_TIMESTAMP, time)?;
    let attempt = control.required(&name::ATTEMPT, natural)?;
    let executions = control.required(&name::EXECUTIONS, natural)?;
    let version = control.optional(&name::VERSION, |value| decimal(value).map(Version))?;
    let gap_due = control.optional(&name::GAP_DUE, natural)?.map(Duration::from_millis);
    let life = life(&control, attempt, executions)?;

    if attempt > MOST_ATTEMPTS || attempt > executions {
        return Err(BadControlHeader { name: name::ATTEMPT, problem: Problem::OutOfBounds });
    }
    Ok(Envelope {
        key: record.key.clone(),
        value: record.value.clone(),
        foreign: foreign(record.headers.clone()),
        identity,
        origin,
        origin_timestamp,
        version,
        gap_due,
        order_key: None,
        life,
    })
}

fn life(control: &Control<'_>, attempt: u32, executions: u32) -> Result<Life, BadControlHeader> {
    let detail = control.optional(&name::DETAIL, text)?.unwrap_or_default();
    let history: History = control.optional(&name::HISTORY, parsed)?.unwrap_or_default();
    let mut life = Life { attempt, executions, history, ..Life::default() };
    if executions == 0 {
        return Ok(life);
    }
    life.first_attempt_at = Some(control.required(&name::FIRST_ATTEMPT_AT, time)?);
    life.deadline_at = Some(control.required(&name::DEADLINE_AT, time)?);
    life.first_failure = Some(FirstFailure {
        at: control.required(&name::FIRST_FAILED_AT, time)?,
        class: control.required(&name::FIRST_CLASS, parsed)?,
        reason: control.required(&name::FIRST_REASON, parsed)?,
        lane: control.required(&name::FIRST_LANE, id)?,
    });
    let class: Class = control.required(&name::CLASS, parsed)?;
    let reason: Reason = control.required(&name::REASON, parsed)?;
    life.last_failure = Some(LastFailure { class, reason, detail });
    Ok(life)
}

/// What can be saved of a record whose control headers are broken: its identity and origin where they can be read,
/// else `here`, the place where it was found.
pub fn lenient(record: Record, here: Origin) -> Envelope {
    let control = Control { headers: &record.headers };
    let identity = Identity {
        event_id: control.required(&name::EVENT_ID, id).ok(),
        operation_id: control.required(&name::OPERATION_ID, id).ok(),
    };
    let origin = (|| {
        Ok::<_, BadControlHeader>(Origin {
            topic: control.required(&name::ORIGIN_TOPIC, topic)?,
            partition: Partition(control.required(&name::ORIGIN_PARTITION, natural)?),
            offset: Offset(control.required(&name::ORIGIN_OFFSET, natural)?),
        })
    })()
    .unwrap_or(here);
    let origin_timestamp = control.required(&name::ORIGIN_TIMESTAMP, time).unwrap_or(record.timestamp);
    let Record { key, value, headers, .. } = record;
    let foreign = foreign(headers);
    let (version, gap_due, order_key, life) = (None, None, None, Life::default());
    Envelope { key, value, foreign, identity, origin, origin_timestamp, version, gap_due, order_key, life }
}

/// The control headers among all headers of a record.
struct Control<'a> {
    headers: &'a [Header],
}

impl Control<'_> {
    fn optional<T>(
        &self,
        name: &HeaderName,
        read: fn(&Bytes) -> Option<T>,
    ) -> Result<Option<T>, BadControlHeader> {
        debug_assert!(name.as_str().starts_with(PREFIX));
        let bad = |problem| BadControlHeader { name: name.clone(), problem };
        let mut found = self.headers.iter().filter(|header| header.name == *name);
        let Some(header) = found.next() else { return Ok(None) };
        if found.next().is_some() {
            return Err(bad(Problem::Repeated));
        }
        let value = header.value.as_ref().and_then(read);
        value.map(Some).ok_or_else(|| bad(Problem::Malformed))
    }

    fn required<T>(&self, name: &HeaderName, read: fn(&Bytes) -> Option<T>) -> Result<T, BadControlHeader> {
        let found = self.optional(name, read)?;
        found.ok_or_else(|| BadControlHeader { name: name.clone(), problem: Problem::Missing })
    }
}

fn id(value: &Bytes) -> Option<Bytes> {
    Some(value.clone()).filter(|id| (1..=LONGEST_ID).contains(&id.len()) && std::str::from_utf8(id).is_ok())
}

fn text(value: &Bytes) -> Option<String> {
    std::str::from_utf8(value).ok().map(str::to_owned)
}

fn topic(value: &Bytes) -> Option<TopicName> {
    std::str::from_utf8(value).ok().filter(|name| !name.is_empty()).map(TopicName::new)
}

fn parsed<T: FromStr>(value: &Bytes) -> Option<T> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// Decimal ASCII, without the plus sign that Rust would take.
fn decimal<T: FromStr>(value: &Bytes) -> Option<T> {
    if value.first() == Some(&b'+') { None } else { parsed(value) }
}

fn natural<T: FromStr + PartialOrd + From<u8>>(value: &Bytes) -> Option<T> {
    decimal(value).filter(|number| *number >= T::from(0))
}

fn time(value: &Bytes) -> Option<Timestamp> {
    decimal(value).map(Timestamp::from_millis)
}
