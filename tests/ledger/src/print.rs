//! Fingerprints in place of bytes, where all that counts is whether two are the same.
//!
//! 64 bits each: a changed record passes unseen with a probability of 5 · 10⁻²⁰. Good within one process only.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::Seen;
use super::control::foreign;

/// What a record must keep on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Print {
    pub(crate) key: u64,
    pub(crate) value: u64,
    pub(crate) foreign: u64,
}

impl Print {
    pub(crate) fn of(record: &Seen) -> Self {
        let mut headers = DefaultHasher::new();
        foreign(record).for_each(|header| header.hash(&mut headers));
        Self { key: of(&record.key), value: of(&record.value), foreign: headers.finish() }
    }
}

/// Of one thing; that of `None` is that of no bytes.
pub(crate) fn of(thing: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    thing.hash(&mut hasher);
    hasher.finish()
}

/// What was read of a partition, whatever the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Records.
    pub records: u64,
    sum: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, record: &Seen) {
        self.records += 1;
        let print = of((record.offset, record.timestamp, &record.key, &record.value, &record.headers));
        self.sum = self.sum.wrapping_add(print);
    }
}
