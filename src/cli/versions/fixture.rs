//! Entries of a state topic, as tests write them.

use std::time::Duration;

use bytes::Bytes;

use crate::core::envelope::Envelope;
use crate::core::guard::Version;
use crate::core::headers;
use crate::core::policy::{Contiguous, First, Guard, OrderPolicy};
use crate::core::position::{Offset, Origin, Partition, TopicName};
use crate::core::record::{Header, Record};
use crate::core::state::{
    Applied, Blocker, Blockers, DeadPredecessor, Held, TaskClock, applied_key, blockers_key, clock_key,
    held_key,
};
use crate::core::time::Timestamp;
use crate::kafka::state_log::Logged;

/// 2023-11-14T22:13:20Z.
pub(super) const AT: i64 = 1_700_000_000_000;

pub(super) fn counting(first: First) -> OrderPolicy {
    let gap_timeout = Duration::from_secs(60);
    let rules = Contiguous { version: Vec::new(), gap_timeout, first, stale_output: None };
    OrderPolicy { guard: Guard::Contiguous(rules), ..OrderPolicy::default() }
}

pub(super) fn origin(offset: i64) -> Origin {
    Origin { topic: TopicName::new("orders"), partition: Partition(3), offset: Offset(offset) }
}

/// A state topic. Entries are stamped a second apart.
#[derive(Default)]
pub(super) struct Log(Vec<Entry>);

struct Entry {
    partition: i32,
    key: Option<Bytes>,
    value: Option<Bytes>,
    headers: Vec<Header>,
}

impl Log {
    pub(super) fn raw(mut self, partition: i32, key: impl Into<Bytes>, value: Option<Bytes>) -> Self {
        self.0.push(Entry { partition, key: Some(key.into()), value, headers: Vec::new() });
        self
    }

    pub(super) fn applied(self, partition: i32, key: &str, version: i64, first: i64) -> Self {
        let applied = Applied {
            version: Version(version),
            first: Some(Version(first)),
            fingerprint: 0,
            at: Timestamp::from_millis(AT),
            topic: "orders",
            partition: Partition(partition),
            offset: Offset(version),
        };
        self.raw(partition, applied_key(key.as_bytes()), Some(applied.to_bytes()))
    }

    pub(super) fn held(mut self, partition: i32, key: &str, place: i64, due_seconds: u64) -> Self {
        let record = Record {
            offset: Offset(0),
            timestamp: Timestamp::from_millis(AT),
            key: Some(Bytes::copy_from_slice(key.as_bytes())),
            value: None,
            headers: Vec::new(),
            unnamed_headers: 0,
            decoded: None,
        };
        let envelope: Envelope = headers::lenient(record, origin(place));
        let held = Held::of(&envelope, Duration::from_secs(due_seconds));
        self.0.push(Entry {
            partition,
            key: Some(held_key(key.as_bytes(), place)),
            value: Some(held.to_bytes()),
            headers: headers::of_held(&envelope),
        });
        self
    }

    pub(super) fn released(self, partition: i32, key: &str, place: i64) -> Self {
        self.raw(partition, held_key(key.as_bytes(), place), None)
    }

    pub(super) fn blocked(self, partition: i32, key: &str, waiting: &[i64], dead: Option<i64>) -> Self {
        let waits = |version: &i64| Blocker { origin: origin(*version), version: Some(Version(*version)) };
        let dead = dead.map(|version| DeadPredecessor {
            origin: origin(version),
            version: Some(Version(version)),
            followed_to: None,
        });
        let blockers = Blockers { waiting: waiting.iter().map(waits).collect(), dead };
        self.raw(partition, blockers_key(key.as_bytes()), Some(blockers.to_bytes()))
    }

    pub(super) fn clock(self, partition: i32, seconds: u64) -> Self {
        self.raw(partition, clock_key(), Some(TaskClock(Duration::from_secs(seconds)).to_bytes()))
    }

    /// Hands everything over, as it would be read.
    pub(super) fn read(&self, mut each: impl FnMut(&Logged<'_>)) {
        for (offset, Entry { partition, key, value, headers }) in (0i64..).zip(&self.0) {
            each(&Logged {
                partition: Partition(*partition),
                offset: Offset(offset),
                at: Timestamp::from_millis(AT + offset * 1_000),
                key: key.as_deref(),
                value: value.as_deref(),
                headers: &|| headers.clone(),
            });
        }
    }
}
