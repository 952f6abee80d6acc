//! A record with its identity, its origin, and what has happened to it so far.

use std::time::Duration;

use bytes::Bytes;

use crate::core::class::{Class, Reason};
use crate::core::guard::Version;
use crate::core::history::History;
use crate::core::position::{Lane, Origin};
use crate::core::record::Header;
use crate::core::time::Timestamp;

/// A record on its way through a pipeline. Key, value and foreign headers are those of the source record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The key; `None` is Kafka's null.
    pub key: Option<Bytes>,
    /// The value; `None` is a tombstone.
    pub value: Option<Bytes>,
    /// All headers not named `redrive-*`, in order.
    pub foreign: Vec<Header>,
    /// Which record and which operation it is.
    pub identity: Identity,
    /// The source record.
    pub origin: Origin,
    /// The time the source record carries.
    pub origin_timestamp: Timestamp,
    /// Its place among the versions of its key, where the pipeline has a guard and the record a version.
    pub version: Option<Version>,
    /// When the gap before it is over at the earliest, by the clock of its task: where there was no room to hold it.
    pub gap_due: Option<Duration>,
    /// The key of its order, where that stands in the value.
    pub order_key: Option<Bytes>,
    /// What has happened to it so far.
    pub life: Life,
}

/// The two names of a record. `None` stands for the default, which is only spelled out where it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// From where it is configured to stand; else the origin.
    pub event_id: Option<Bytes>,
    /// From where it is configured to stand; else the event id.
    pub operation_id: Option<Bytes>,
}

impl Envelope {
    /// The event id: as configured, else the origin.
    pub fn event_id(&self) -> Bytes {
        self.identity.event_id.clone().unwrap_or_else(|| Bytes::from(self.origin.to_string()))
    }

    /// The operation id, the same on every attempt: as configured, else the event id.
    pub fn operation_id(&self) -> Bytes {
        self.identity.operation_id.clone().unwrap_or_else(|| self.event_id())
    }
}

/// What has happened to a record since it was read from the source, or since its last replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Life {
    /// Deliveries that have ended in an attempt.
    pub attempt: u32,
    /// Handler executions that have ended.
    pub executions: u32,
    /// Start of the first attempt.
    pub first_attempt_at: Option<Timestamp>,
    /// Fixed at the first attempt.
    pub deadline_at: Option<Timestamp>,
    /// The first failure, kept.
    pub first_failure: Option<FirstFailure>,
    /// The last failure.
    pub last_failure: Option<LastFailure>,
    /// All failures, compressed.
    pub history: History,
}

/// The first failure of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstFailure {
    /// When it was seen.
    pub at: Timestamp,
    /// Its class.
    pub class: Class,
    /// Its reason.
    pub reason: Reason,
    /// The lane's word: `source`, `retry.5s`.
    pub lane: Bytes,
}

/// The last failure of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastFailure {
    /// Its class.
    pub class: Class,
    /// Its reason.
    pub reason: Reason,
    /// A text for people, cut; empty where there is none.
    pub detail: String,
}

/// One delivery in progress: which record, where it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryId {
    /// The task.
    pub partition: crate::core::position::Partition,
    /// Its assignment; an answer from an older one is dropped.
    pub epoch: crate::core::position::Epoch,
    /// The lane that the record was read from.
    pub lane: Lane,
    /// Its offset there.
    pub offset: crate::core::position::Offset,
}
