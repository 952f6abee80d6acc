//! The entry of a key under a guard: what of it is applied.

use bytes::{BufMut, Bytes, BytesMut};

use super::{Rest, put_part};
use crate::core::guard::Version;
use crate::core::position::{Offset, Origin, Partition, TopicName};
use crate::core::time::Timestamp;

/// The kind of what is applied of a key.
pub(super) const APPLIED: &[u8] = b"v";
/// The only format of it so far.
const APPLIED_FORMAT: u8 = 1;

/// What of a key is applied. Borrows from the entry: a restore reads millions and keeps little of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied<'a> {
    /// The newest version whose effect is committed; where a count has started and nothing is applied, the one before
    /// [`first`](Self::first).
    pub version: Version,
    /// With which version the count started; `None` where the guard does not count.
    pub first: Option<Version>,
    /// The [fingerprint](crate::core::guard::fingerprint) of the applied value.
    pub fingerprint: u64,
    /// When it was applied.
    pub at: Timestamp,
    /// The topic of the record that was applied, whole.
    pub topic: &'a str,
    /// The partition of that record.
    pub partition: Partition,
    /// Its offset there.
    pub offset: Offset,
}

/// The key of the entry of an order key.
pub fn applied_key(order_key: &[u8]) -> Bytes {
    let parts = APPLIED.len().saturating_add(order_key.len());
    let mut key = BytesMut::with_capacity(parts.saturating_add(2 * size_of::<u32>()));
    put_part(&mut key, APPLIED);
    put_part(&mut key, order_key);
    key.freeze()
}

impl<'a> Applied<'a> {
    /// The record that was applied.
    pub fn origin(&self) -> Origin {
        Origin { topic: TopicName::new(self.topic), partition: self.partition, offset: self.offset }
    }

    /// The value of its entry.
    pub fn to_bytes(&self) -> Bytes {
        /// Everything but the name of the topic.
        const FIXED: usize = 50;
        let mut value = BytesMut::with_capacity(self.topic.len().saturating_add(FIXED));
        value.put_u8(APPLIED_FORMAT);
        value.put_i64(self.version.0);
        match self.first {
            None => value.put_u8(0),
            Some(first) => {
                value.put_u8(1);
                value.put_i64(first.0);
            }
        }
        value.put_u64(self.fingerprint);
        value.put_i64(self.at.as_millis());
        put_part(&mut value, self.topic.as_bytes());
        value.put_i32(self.partition.0);
        value.put_i64(self.offset.0);
        value.freeze()
    }

    pub(super) fn read(value: &'a [u8]) -> Option<Self> {
        let mut rest = Rest(value);
        let [APPLIED_FORMAT] = rest.array()? else { return None };
        let version = Version(i64::from_be_bytes(rest.array()?));
        let first = match rest.array()? {
            [0] => None,
            [1] => Some(Version(i64::from_be_bytes(rest.array()?))),
            [_] => return None,
        };
        let fingerprint = u64::from_be_bytes(rest.array()?);
        let at = Timestamp::from_millis(i64::from_be_bytes(rest.array()?));
        let topic = str::from_utf8(rest.part()?).ok()?;
        let partition = Partition(i32::from_be_bytes(rest.array()?));
        let offset = Offset(i64::from_be_bytes(rest.array()?));
        rest.0.is_empty().then_some(Self { version, first, fingerprint, at, topic, partition, offset })
    }
}
