//! The entry of a record that is held behind its key, and that of the clock by which gaps end.
//!
//! A held record stands there complete: key and value in the entry's value, since a tombstone would else delete it; its headers
//! are those of the entry, with the control headers that a copy in a tier has.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};

use super::{Rest, put_part};
use crate::core::envelope::Envelope;
use crate::core::headers::{self, BadControlHeader};
use crate::core::position::Offset;
use crate::core::record::{Header, Record};
use crate::core::time::Timestamp;

/// The kind of a held record.
pub(super) const HELD: &[u8] = b"h";
/// The only format of it so far.
const HELD_FORMAT: u8 = 1;
/// The kind of a task's clock.
pub(super) const CLOCK: &[u8] = b"c";
/// The only format of it so far.
const CLOCK_FORMAT: u8 = 1;

/// A held record, but for its headers. Borrows from the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held<'a> {
    /// When its gap is over at the earliest, by the [clock](TaskClock) of its task.
    pub due: Duration,
    /// The key of the record; `None` is Kafka's null.
    pub record_key: Option<&'a [u8]>,
    /// Its value; `None` is a tombstone.
    pub value: Option<&'a [u8]>,
}

/// How long a task has processed since its pipeline began: neither stops nor standstills count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskClock(pub Duration);

/// The key of the entry of a held record: the order key, then its place among the records that are held behind it, which is
/// its version where the guard counts.
pub fn held_key(order_key: &[u8], place: i64) -> Bytes {
    let mut key = BytesMut::with_capacity(order_key.len().saturating_add(21));
    put_part(&mut key, HELD);
    put_part(&mut key, order_key);
    put_part(&mut key, &place.to_be_bytes());
    key.freeze()
}

/// The key of the entry of a task's clock.
pub fn clock_key() -> Bytes {
    let mut key = BytesMut::new();
    put_part(&mut key, CLOCK);
    key.freeze()
}

impl<'a> Held<'a> {
    /// Of a record that is to be held.
    pub fn of(envelope: &'a Envelope, due: Duration) -> Self {
        Self { due, record_key: envelope.key.as_deref(), value: envelope.value.as_deref() }
    }

    /// The value of its entry.
    pub fn to_bytes(&self) -> Bytes {
        /// Everything but key and value.
        const FIXED: usize = 19;
        let length = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
        let payload = length(self.record_key).saturating_add(length(self.value));
        let mut to = BytesMut::with_capacity(payload.saturating_add(FIXED));
        to.put_u8(HELD_FORMAT);
        put_millis(&mut to, self.due);
        for part in [self.record_key, self.value] {
            to.put_u8(u8::from(part.is_some()));
            put_part(&mut to, part.unwrap_or_default());
        }
        to.freeze()
    }

    pub(super) fn read(value: &'a [u8]) -> Option<Self> {
        let mut rest = Rest(value);
        let [HELD_FORMAT] = rest.array()? else { return None };
        let due = millis(&mut rest)?;
        let record_key = optional(&mut rest)?;
        let value = optional(&mut rest)?;
        rest.0.is_empty().then_some(Self { due, record_key, value })
    }

    /// The record, with the headers of its entry.
    ///
    /// # Errors
    /// The first control header that cannot be believed.
    pub fn envelope(&self, headers: Vec<Header>) -> Result<Envelope, BadControlHeader> {
        headers::read_held(&Record {
            offset: Offset(0),
            timestamp: Timestamp::from_millis(0),
            key: self.record_key.map(Bytes::copy_from_slice),
            value: self.value.map(Bytes::copy_from_slice),
            headers,
            unnamed_headers: 0,
            decoded: None,
        })
    }
}

impl TaskClock {
    /// The value of its entry.
    pub fn to_bytes(self) -> Bytes {
        let mut to = BytesMut::with_capacity(9);
        to.put_u8(CLOCK_FORMAT);
        put_millis(&mut to, self.0);
        to.freeze()
    }

    pub(super) fn read(value: &[u8]) -> Option<Self> {
        let mut rest = Rest(value);
        let [CLOCK_FORMAT] = rest.array()? else { return None };
        let clock = Self(millis(&mut rest)?);
        rest.0.is_empty().then_some(clock)
    }
}

fn put_millis(to: &mut BytesMut, time: Duration) {
    to.put_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
}

fn millis(rest: &mut Rest<'_>) -> Option<Duration> {
    Some(Duration::from_millis(u64::from_be_bytes(rest.array()?)))
}

/// Whether the bytes are there at all, then the bytes.
fn optional<'a>(rest: &mut Rest<'a>) -> Option<Option<&'a [u8]>> {
    match (rest.array()?, rest.part()?) {
        ([0], []) => Some(None),
        ([1], part) => Some(Some(part)),
        ([_], _) => None,
    }
}
