//! The entry of what holds the records of a key up: those of it that wait in tiers, and one that is dead.

use bytes::{BufMut, Bytes, BytesMut};

use super::{Rest, put_part};
use crate::core::guard::Version;
use crate::core::position::{Offset, Origin, Partition, TopicName};

/// The kind of what holds a key up.
pub(super) const BLOCKERS: &[u8] = b"b";
/// The only format of it so far.
const BLOCKERS_FORMAT: u8 = 1;

/// What holds the records of a key up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blockers {
    /// Its records that wait in tiers after an attempt, in the order in which they were first attempted.
    pub waiting: Vec<Blocker>,
    /// The last of its records that ended as a dead letter while others were held behind it, as long as that matters to those.
    pub dead: Option<DeadPredecessor>,
}

/// A record that waits in a tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// The source record.
    pub origin: Origin,
    /// Its version, where the pipeline has a guard.
    pub version: Option<Version>,
}

/// A record that others are held behind, and that is dead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadPredecessor {
    /// The source record.
    pub origin: Origin,
    /// Its version, where the pipeline has a guard.
    pub version: Option<Version>,
    /// Those held up to this place follow it; `None` where they go on.
    pub followed_to: Option<i64>,
}

/// The key of the entry of an order key.
pub fn blockers_key(order_key: &[u8]) -> Bytes {
    let mut key = BytesMut::with_capacity(order_key.len().saturating_add(9));
    put_part(&mut key, BLOCKERS);
    put_part(&mut key, order_key);
    key.freeze()
}

impl Blockers {
    /// Whether nothing holds the key up.
    pub const fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.dead.is_none()
    }

    /// The value of its entry.
    pub fn to_bytes(&self) -> Bytes {
        let mut to = BytesMut::new();
        to.put_u8(BLOCKERS_FORMAT);
        to.put_u32(u32::try_from(self.waiting.len()).unwrap_or(u32::MAX));
        for Blocker { origin, version } in &self.waiting {
            put_origin(&mut to, origin);
            put_number(&mut to, version.map(|version| version.0));
        }
        to.put_u8(u8::from(self.dead.is_some()));
        if let Some(DeadPredecessor { origin, version, followed_to }) = &self.dead {
            put_origin(&mut to, origin);
            put_number(&mut to, version.map(|version| version.0));
            put_number(&mut to, *followed_to);
        }
        to.freeze()
    }

    pub(super) fn read(value: &[u8]) -> Option<Self> {
        let mut rest = Rest(value);
        let [BLOCKERS_FORMAT] = rest.array()? else { return None };
        let count = u32::from_be_bytes(rest.array()?);
        let mut waiting = Vec::new();
        for _ in 0..count {
            let (origin, version) = (read_origin(&mut rest)?, number(&mut rest)?.map(Version));
            waiting.push(Blocker { origin, version });
        }
        let dead = match rest.array()? {
            [0] => None,
            [1] => Some(DeadPredecessor {
                origin: read_origin(&mut rest)?,
                version: number(&mut rest)?.map(Version),
                followed_to: number(&mut rest)?,
            }),
            [_] => return None,
        };
        rest.0.is_empty().then_some(Self { waiting, dead })
    }
}

fn put_origin(to: &mut BytesMut, origin: &Origin) {
    put_part(to, origin.topic.as_str().as_bytes());
    to.put_i32(origin.partition.0);
    to.put_i64(origin.offset.0);
}

fn read_origin(rest: &mut Rest<'_>) -> Option<Origin> {
    Some(Origin {
        topic: TopicName::new(str::from_utf8(rest.part()?).ok()?),
        partition: Partition(i32::from_be_bytes(rest.array()?)),
        offset: Offset(i64::from_be_bytes(rest.array()?)),
    })
}

fn put_number(to: &mut BytesMut, number: Option<i64>) {
    to.put_u8(u8::from(number.is_some()));
    if let Some(number) = number {
        to.put_i64(number);
    }
}

fn number(rest: &mut Rest<'_>) -> Option<Option<i64>> {
    match rest.array()? {
        [0] => Some(None),
        [1] => Some(Some(i64::from_be_bytes(rest.array()?))),
        [_] => None,
    }
}
