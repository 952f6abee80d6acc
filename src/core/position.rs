//! Where a record is: topic, partition, offset, lane; and who may speak for a task: epoch, sequence.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;
use std::sync::Arc;

/// The number of a partition; also the number of the task that owns it in every lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition(pub i32);

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The offset of a record, or of the next record to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(pub i64);

impl Offset {
    /// The offset behind this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The name of a Kafka topic, shared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicName(Arc<str>);

impl TopicName {
    /// A name as it is spelled in Kafka. The topology compiler checks names that users write.
    pub fn new(name: &str) -> Self {
        Self(Arc::from(name))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which tier of the ladder, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TierIndex(pub u16);

impl TierIndex {
    /// The tier at a place of the list. The topology bounds its length far below the largest index.
    pub fn at(place: usize) -> Self {
        Self(u16::try_from(place).unwrap_or(u16::MAX))
    }

    /// The place in the list of tiers.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Where a task takes its records from, by its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// The topic that the users write.
    Source,
    /// Requests of operators to the owner of the task.
    Control,
    /// Records that were held behind their key, released. No topic: its offsets count what a task has released since it
    /// began, and mean nothing outside of it.
    Held,
    /// One retry topic with one delay.
    Tier(TierIndex),
}

impl Lane {
    /// How many lanes come before the tiers.
    const BEFORE_TIERS: usize = 3;

    /// The place of this lane in a task: the source, the control lane, what was held, then the tiers in the ladder's order.
    pub fn index(self) -> usize {
        match self {
            Self::Source => 0,
            Self::Control => 1,
            Self::Held => 2,
            Self::Tier(tier) => tier.index().saturating_add(Self::BEFORE_TIERS),
        }
    }

    /// The lane at a place of [`Lane::index`].
    pub fn at(index: usize) -> Self {
        match index.checked_sub(Self::BEFORE_TIERS) {
            None if index == 0 => Self::Source,
            None if index == 1 => Self::Control,
            None => Self::Held,
            Some(tier) => Self::Tier(TierIndex::at(tier)),
        }
    }
}

/// The source record that everything about it leads back to. Text form: `topic/partition/offset`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// The source topic.
    pub topic: TopicName,
    /// Its partition.
    pub partition: Partition,
    /// The record's offset there.
    pub offset: Offset,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.topic, self.partition, self.offset)
    }
}

/// redrive's own number for one assignment of a task, never reused within a worker. Kafka's is the generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The epoch of the next assignment.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// Counts the transactions of a task; travels in the metadata of the source partition's committed offset and tells,
/// after a commit without an answer, whether it took place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);

impl Sequence {
    /// The number of the task's next transaction.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// Says which worker, of all that ever lived, wrote a commit: drawn at random when the worker starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WriterId(pub u64);

/// How many partitions the source had when the pipeline first started. Every mark of the group hands it on, so that a
/// partition without an offset is either part of that start, where `start` counts, or has appeared later and is new as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Founding(pub u32);

impl Founding {
    /// Whether a partition was there when the pipeline first started.
    pub fn includes(self, partition: Partition) -> bool {
        u32::try_from(partition.0).is_ok_and(|number| number < self.0)
    }
}

/// The broker's own id of a topic: another one each time a topic of that name is made. Text form: hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId(pub [u8; 16]);

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl FromStr for TopicId {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        u128::from_str_radix(text, 16).map(|id| Self(id.to_be_bytes()))
    }
}

/// What the metadata of a task's committed source offset says. Text form: `1 seq=17 by=00000000000000ab of=6`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitMark {
    /// The number of the transaction that wrote it.
    pub sequence: Sequence,
    /// The worker that wrote it.
    pub writer: WriterId,
    /// What the group was founded on.
    pub founding: Founding,
    /// The id of the source topic that the offset is of, where the broker told one.
    pub topic: Option<TopicId>,
    /// Whether the task goes on from there.
    pub going: Going,
}

/// Whether a task goes on from its committed offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Going {
    /// It does.
    #[default]
    On,
    /// Its positions may be old: it goes on only when a person has accepted what may be repeated.
    Stale,
}

impl fmt::Display for CommitMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1 seq={} by={:016x} of={}", self.sequence.0, self.writer.0, self.founding.0)?;
        if let Some(id) = self.topic {
            write!(f, " id={id}")?;
        }
        match self.going {
            Going::On => Ok(()),
            Going::Stale => f.write_str(" stale"),
        }
    }
}

/// What the metadata of a committed offset says of a lane other than the source: the id of its topic. Text form: `1 id=…`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneMark(pub TopicId);

impl fmt::Display for LaneMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1 id={}", self.0)
    }
}

impl FromStr for LaneMark {
    type Err = BadCommitMark;

    /// Reads the text form; further words are passed over.
    fn from_str(text: &str) -> Result<Self, BadCommitMark> {
        let mut words = text.split(' ');
        let known = words.next() == Some("1");
        let id = words.find_map(|word| word.strip_prefix("id=")?.parse().ok()).filter(|_| known);
        id.map(Self).ok_or_else(|| BadCommitMark { text: text.to_owned() })
    }
}

/// Offsets of one partition, from the first up to the last, which is not among them. Text form: `topic/partition/from-to`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OffsetRange {
    /// The topic.
    pub topic: TopicName,
    /// The partition.
    pub partition: Partition,
    /// The first offset.
    pub from: Offset,
    /// Behind the last.
    pub to: Offset,
}

impl fmt::Display for OffsetRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topic, partition, from, to } = self;
        write!(f, "{topic}/{partition}/{from}-{to}")
    }
}

/// Text that names no range of offsets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no range `topic/partition/from-to`")]
pub struct BadOffsetRange {
    /// The text as found.
    pub text: String,
}

impl FromStr for OffsetRange {
    type Err = BadOffsetRange;

    fn from_str(text: &str) -> Result<Self, BadOffsetRange> {
        let parse = || {
            let (rest, range) = text.rsplit_once('/')?;
            let (topic, partition) = rest.rsplit_once('/')?;
            let (from, to) = range.split_once('-')?;
            let number = |digits: &str| {
                let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
                plain.then(|| digits.parse().ok()).flatten()
            };
            let range = Self {
                topic: TopicName::new(topic),
                partition: Partition(i32::try_from(number(partition)?).ok()?),
                from: Offset(number(from)?),
                to: Offset(number(to)?),
            };
            (!topic.is_empty() && range.from < range.to).then_some(range)
        };
        parse().ok_or_else(|| BadOffsetRange { text: text.to_owned() })
    }
}

/// Commit metadata that is not redrive's, or of a format that this version does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("commit metadata `{text}` is not a mark of redrive")]
pub struct BadCommitMark {
    /// The metadata as found.
    pub text: String,
}

impl FromStr for CommitMark {
    type Err = BadCommitMark;

    /// Reads the text form; further words, which later versions may add, are passed over.
    fn from_str(text: &str) -> Result<Self, BadCommitMark> {
        let bad = || BadCommitMark { text: text.to_owned() };
        let mut words = text.split(' ');
        if words.next() != Some("1") {
            return Err(bad());
        }
        let (mut sequence, mut writer, mut founding) = (None, None, None);
        let (mut topic, mut going) = (None, Going::On);
        for word in words {
            if let Some(number) = word.strip_prefix("seq=") {
                sequence = number.parse().ok().map(Sequence);
            } else if let Some(id) = word.strip_prefix("by=") {
                writer = u64::from_str_radix(id, 16).ok().map(WriterId);
            } else if let Some(partitions) = word.strip_prefix("of=") {
                founding = partitions.parse().ok().map(Founding);
            } else if let Some(id) = word.strip_prefix("id=") {
                topic = id.parse().ok();
            } else if word == "stale" {
                going = Going::Stale;
            }
        }
        match (sequence, writer, founding) {
            (Some(sequence), Some(writer), Some(founding)) => {
                Ok(Self { sequence, writer, founding, topic, going })
            }
            (None, ..) | (_, None, _) | (.., None) => Err(bad()),
        }
    }
}
