//! The entries of the state topic, from bytes and to bytes.
//!
//! Owns the format. A key is a list of parts, each with its length before it, since parts are binary: the kind first, then
//! what the kind needs. A value begins with the number of its format. Kinds that this version does not know are passed
//! over; what is written once stays readable for ever, which the fixtures in the tests hold to.

use bytes::{BufMut, Bytes, BytesMut};

pub use applied::{Applied, applied_key};
pub use blockers::{Blocker, Blockers, DeadPredecessor, blockers_key};
pub use held::{Held, TaskClock, clock_key, held_key};
pub use keys::{HeldRecord, Keys};

mod applied;
mod blockers;
mod held;
mod keys;

use crate::core::position::{Founding, Offset, TopicId, TopicName};
use crate::core::time::Timestamp;
use applied::APPLIED;
use blockers::BLOCKERS;
use held::{CLOCK, HELD};

/// The kind of a lane's position.
const POSITION: &[u8] = b"p";
/// The only format of a position so far.
const POSITION_FORMAT: u8 = 1;

/// One record of the state topic, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateEntry<'a> {
    /// Where a lane stood.
    Position {
        /// The word of the lane: `source`, `control`, `retry.5s`.
        lane: String,
        /// Its position; `None` where the entry was deleted.
        position: Option<LanePosition>,
    },
    /// What of a key is applied.
    Applied {
        /// The order key.
        key: &'a [u8],
        /// What of it is applied; `None` where the entry was deleted.
        applied: Option<Applied<'a>>,
    },
    /// A record that is held behind its key.
    Held {
        /// The order key.
        key: &'a [u8],
        /// Its place among those held behind the key.
        place: i64,
        /// The record; `None` where the entry was deleted.
        held: Option<Held<'a>>,
    },
    /// What holds the records of a key up.
    Blockers {
        /// The order key.
        key: &'a [u8],
        /// What holds it up; `None` where the entry was deleted.
        blockers: Option<Blockers>,
    },
    /// The clock of the task.
    Clock(Option<TaskClock>),
    /// Of a kind that this version does not know.
    Unknown,
}

/// Where a lane stood when it was noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LanePosition {
    /// The offset of the next record.
    pub offset: Offset,
    /// Whether the lane may have gone on since.
    pub standing: Standing,
    /// The time of writing.
    pub at: Timestamp,
    /// What the group was founded on.
    pub founding: Founding,
    /// The topic of the lane.
    pub topic: TopicName,
    /// Its id, where the broker told one: it differs where the topic was made anew.
    pub id: Option<TopicId>,
}

/// What a noted position says of the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It stands exactly there: whatever moves the lane notes it in the same transaction.
    Exact,
    /// It stands there or, without another note, further on.
    AtLeast,
}

/// Bytes of the state topic that no version of redrive writes, or of a format that this version does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadStateEntry {
    /// The key.
    #[error("the key is no list of parts")]
    Key,
    /// The value of a position.
    #[error("the position of lane `{lane}` cannot be read: format `{format}`, `{length}` bytes")]
    Position {
        /// The word of the lane.
        lane: String,
        /// The number of its format.
        format: u8,
        /// The length of the value.
        length: usize,
    },
    /// The value of what is applied of a key.
    #[error(
        "what is applied of the key `{}` cannot be read: format `{format}`, `{length}` bytes", key.escape_ascii()
    )]
    Applied {
        /// The order key.
        key: Vec<u8>,
        /// The number of its format.
        format: u8,
        /// The length of the value.
        length: usize,
    },
    /// The value, or a header, of a held record.
    #[error("the record held at `{place}` behind the key `{}` cannot be read: {problem}", key.escape_ascii())]
    Held {
        /// The order key.
        key: Vec<u8>,
        /// Its place among those held behind the key.
        place: i64,
        /// What is wrong with it.
        problem: String,
    },
    /// The value of what holds a key up.
    #[error(
        "what holds the key `{}` up cannot be read: format `{format}`, `{length}` bytes", key.escape_ascii()
    )]
    Blockers {
        /// The order key.
        key: Vec<u8>,
        /// The number of its format.
        format: u8,
        /// The length of the value.
        length: usize,
    },
    /// The value of the clock.
    #[error("the clock of the task cannot be read: format `{format}`, `{length}` bytes")]
    Clock {
        /// The number of its format.
        format: u8,
        /// The length of the value.
        length: usize,
    },
}

impl<'a> StateEntry<'a> {
    /// Reads one record of the state topic.
    pub fn read(key: Option<&'a [u8]>, value: Option<&'a [u8]>) -> Result<Self, BadStateEntry> {
        let mut rest = Rest(key.unwrap_or_default());
        match rest.part().ok_or(BadStateEntry::Key)? {
            POSITION => {
                let lane = rest.part().filter(|_| rest.0.is_empty()).ok_or(BadStateEntry::Key)?;
                let lane = str::from_utf8(lane).map_err(|_| BadStateEntry::Key)?.to_owned();
                let bad = |format, length| BadStateEntry::Position { lane: lane.clone(), format, length };
                let position = present(value, LanePosition::read, bad)?;
                Ok(Self::Position { lane, position })
            }
            APPLIED => {
                let key = rest.part().filter(|_| rest.0.is_empty()).ok_or(BadStateEntry::Key)?;
                let bad = |format, length| BadStateEntry::Applied { key: key.to_vec(), format, length };
                let applied = present(value, Applied::read, bad)?;
                Ok(Self::Applied { key, applied })
            }
            HELD => {
                let key = rest.part().ok_or(BadStateEntry::Key)?;
                let place = rest.part().and_then(|place| place.try_into().ok()).filter(|_| rest.0.is_empty());
                let place = place.map(i64::from_be_bytes).ok_or(BadStateEntry::Key)?;
                let bad = |format, length| {
                    let problem = format!("format `{format}`, `{length}` bytes");
                    BadStateEntry::Held { key: key.to_vec(), place, problem }
                };
                let held = present(value, Held::read, bad)?;
                Ok(Self::Held { key, place, held })
            }
            BLOCKERS => {
                let key = rest.part().filter(|_| rest.0.is_empty()).ok_or(BadStateEntry::Key)?;
                let bad = |format, length| BadStateEntry::Blockers { key: key.to_vec(), format, length };
                let blockers = present(value, Blockers::read, bad)?;
                Ok(Self::Blockers { key, blockers })
            }
            CLOCK if rest.0.is_empty() => {
                let bad = |format, length| BadStateEntry::Clock { format, length };
                Ok(Self::Clock(present(value, TaskClock::read, bad)?))
            }
            CLOCK => Err(BadStateEntry::Key),
            _ => Ok(Self::Unknown),
        }
    }
}

/// What a value holds; `None` where the entry was deleted. What cannot be read is told by its format and its length.
fn present<'a, T>(
    value: Option<&'a [u8]>,
    read: impl FnOnce(&'a [u8]) -> Option<T>,
    bad: impl FnOnce(u8, usize) -> BadStateEntry,
) -> Result<Option<T>, BadStateEntry> {
    let Some(value) = value else { return Ok(None) };
    let format = value.first().copied().unwrap_or_default();
    read(value).map(Some).ok_or_else(|| bad(format, value.len()))
}

/// The key of a lane's position.
pub fn position_key(lane: &str) -> Bytes {
    let mut key = BytesMut::new();
    put_part(&mut key, POSITION);
    put_part(&mut key, lane.as_bytes());
    key.freeze()
}

impl LanePosition {
    /// The value of its entry.
    pub fn to_bytes(&self) -> Bytes {
        let mut value = BytesMut::new();
        value.put_u8(POSITION_FORMAT);
        value.put_u8(match self.standing {
            Standing::Exact => 1,
            Standing::AtLeast => 0,
        });
        value.put_i64(self.offset.0);
        value.put_i64(self.at.as_millis());
        value.put_u32(self.founding.0);
        put_part(&mut value, self.topic.as_str().as_bytes());
        put_part(&mut value, self.id.as_ref().map_or(&[], |id| &id.0));
        value.freeze()
    }

    fn read(value: &[u8]) -> Option<Self> {
        let mut rest = Rest(value);
        let [POSITION_FORMAT] = rest.array()? else { return None };
        let standing = match rest.array()? {
            [0] => Standing::AtLeast,
            [1] => Standing::Exact,
            [_] => return None,
        };
        let offset = Offset(i64::from_be_bytes(rest.array()?));
        let at = Timestamp::from_millis(i64::from_be_bytes(rest.array()?));
        let founding = Founding(u32::from_be_bytes(rest.array()?));
        let topic = TopicName::new(str::from_utf8(rest.part()?).ok()?);
        let id = match rest.part()? {
            [] => None,
            id => Some(TopicId(id.try_into().ok()?)),
        };
        rest.0.is_empty().then_some(Self { offset, standing, at, founding, topic, id })
    }
}

fn put_part(to: &mut BytesMut, part: &[u8]) {
    // The client carries no record that long.
    to.put_u32(u32::try_from(part.len()).unwrap_or(u32::MAX));
    to.extend_from_slice(part);
}

/// What is not read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn part(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(u32::from_be_bytes(self.array()?)).ok()?;
        let (part, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(part)
    }
}

#[cfg(test)]
mod tests;
