//! What is known of a run: records, committed offsets, ends of partitions, and the handler's own log.

/// The part that a topic plays in a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Where the records come from.
    Source,
    /// Where they wait; by its place in the ladder, from 0.
    Tier(usize),
    /// Where operators' requests come from.
    Control,
    /// Where the results go.
    Output,
    /// Where the dead letters go.
    DeadLetter,
    /// Where the requests are answered.
    Cases,
    /// What the tasks keep for themselves. Only its ends are looked at.
    State,
}

impl Role {
    /// Whether the pipeline consumes this topic, so that its group has offsets in it.
    pub const fn is_lane(self) -> bool {
        match self {
            Self::Source | Self::Tier(_) | Self::Control => true,
            Self::Output | Self::DeadLetter | Self::Cases | Self::State => false,
        }
    }
}

/// A partition by the part that its topic plays.
pub type Part = (Role, i32);

/// A record as it was read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The part of its topic.
    pub role: Role,
    /// Its partition.
    pub partition: i32,
    /// Its offset.
    pub offset: i64,
    /// Milliseconds since the epoch.
    pub timestamp: i64,
    /// Its key; a null one is not an empty one.
    pub key: Option<Vec<u8>>,
    /// Its value; a null one is not an empty one.
    pub value: Option<Vec<u8>>,
    /// In order; a null value is not an empty one.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

/// A committed offset of the pipeline's group: the next record to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The part of the topic.
    pub role: Role,
    /// The partition.
    pub partition: i32,
    /// The next offset to read.
    pub offset: i64,
}

/// Where a partition begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The part of the topic.
    pub role: Role,
    /// The partition.
    pub partition: i32,
    /// Its first offset: what lay before it was deleted.
    pub start: i64,
    /// The last stable offset: the first one that a reader with `read_committed` does not get.
    pub stable: i64,
    /// The high watermark: one past the last offset, markers of transactions included.
    pub end: i64,
}

/// One call as the handler itself logged it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// The event id that came with the call.
    pub event_id: String,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The execution within the attempt, from 1.
    pub execution: u32,
    /// Milliseconds since the epoch; `None` where the record did not have to wait.
    pub due: Option<i64>,
    /// When the call came, by the handler's clock.
    pub at: i64,
}

/// All that is known of a run.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// As read with `read_committed`.
    pub records: Vec<Seen>,
    /// The group's offsets, read after the records.
    pub commits: Vec<Commit>,
    /// Read after the offsets. Partitions that are not named here are not checked against their ends.
    pub ends: Vec<Ends>,
    /// `None`: the handler kept no log, and what only it can tell is not checked.
    pub starts: Option<Vec<Start>>,
}
