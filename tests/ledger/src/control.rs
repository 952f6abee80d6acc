//! The control headers of a record on one of redrive's own topics, read without redrive's own reader.

use std::str::FromStr;

use super::{Role, Rules, Seen};

/// What the headers of a retry copy or a dead letter say.
#[derive(Debug)]
pub(crate) struct Control {
    /// Partition and offset of the source record.
    pub(crate) origin: (i32, i64),
    pub(crate) event_id: String,
    pub(crate) attempt: Option<u32>,
    pub(crate) due: Option<i64>,
    pub(crate) reason: Option<String>,
    pub(crate) payload_ref: Option<String>,
}

/// Whether a header is redrive's own.
pub(crate) fn is_control(name: &str) -> bool {
    name.starts_with("redrive-")
}

/// The headers that are not redrive's own, in order.
pub(crate) fn foreign(record: &Seen) -> impl Iterator<Item = &(String, Option<Vec<u8>>)> {
    record.headers.iter().filter(|(name, _)| !is_control(name))
}

/// The bytes that redrive's own headers take.
pub(crate) fn control_bytes(record: &Seen) -> usize {
    let own = record.headers.iter().filter(|(name, _)| is_control(name));
    own.map(|(name, value)| name.len() + value.as_ref().map_or(0, Vec::len)).sum()
}

/// Reads the control headers; the error says what is missing, repeated or malformed.
pub(crate) fn read(rules: &Rules, record: &Seen) -> Result<Control, String> {
    let topic: String = required(record, "redrive-origin-topic")?;
    if topic != rules.source {
        return Err(format!("`redrive-origin-topic` is `{topic}`, not `{}`", rules.source));
    }
    let control = Control {
        origin: (required(record, "redrive-origin-partition")?, required(record, "redrive-origin-offset")?),
        event_id: required(record, "redrive-event-id")?,
        attempt: optional(record, "redrive-attempt")?,
        due: optional(record, "redrive-due")?,
        reason: optional(record, "redrive-reason")?,
        payload_ref: optional(record, "redrive-payload-ref")?,
    };
    let missing = match record.role {
        Role::Tier(_) if control.attempt.is_none() => Some("redrive-attempt"),
        Role::Tier(_) if control.due.is_none() => Some("redrive-due"),
        Role::Tier(_) | Role::DeadLetter if control.reason.is_none() => Some("redrive-reason"),
        Role::Tier(_)
        | Role::DeadLetter
        | Role::Source
        | Role::Output
        | Role::Control
        | Role::Cases
        | Role::State => None,
    };
    missing.map_or(Ok(control), |name| Err(format!("`{name}` is missing")))
}

/// A header that must be there once.
pub(crate) fn required<T: FromStr>(record: &Seen, name: &str) -> Result<T, String> {
    optional(record, name)?.ok_or_else(|| format!("`{name}` is missing"))
}

fn optional<T: FromStr>(record: &Seen, name: &str) -> Result<Option<T>, String> {
    let mut values = record.headers.iter().filter(|(found, _)| found == name).map(|(_, value)| value);
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(format!("`{name}` stands there twice"));
    }
    let text = value.as_deref().and_then(|bytes| std::str::from_utf8(bytes).ok());
    let read = text.and_then(|text| text.parse().ok());
    read.map(Some).ok_or_else(|| format!("`{name}` is malformed"))
}
