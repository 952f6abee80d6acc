//! What is applied of every key, in memory.
//!
//! Owns how many bytes a key takes, since there are millions: it holds hashes, the keys are in Kafka. A single table that
//! grows holds itself twice for a moment; this one is many [small ones](shard), of which one grows at a time, by a quarter.
//! So a key takes at most 56 bytes, also while the table grows, from [`VersionTable::BOUND_FROM`] keys on.

use std::fmt;

use crate::core::guard::hash::{KeyHash, KeyHasher};
use crate::core::guard::version::Version;
use shard::Shard;

mod shard;

/// What is remembered of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The newest version that is applied.
    pub version: Version,
    /// By the guard's mode: the fingerprint of the applied value, or the version with which the count starts.
    pub tag: u64,
}

impl Entry {
    /// Of a count of which nothing is applied yet; `None` where no version is before its first.
    pub(crate) fn begun_with(first: Version) -> Option<Self> {
        Some(Self { version: first.before()?, tag: first.as_tag() })
    }

    /// The first version of the count, where the guard counts.
    pub(crate) const fn first(self) -> Version {
        Version::from_tag(self.tag)
    }
}

/// What is applied of every key of a task.
#[derive(Clone, PartialEq, Eq)]
pub struct VersionTable {
    hasher: KeyHasher,
    shards: Box<[Shard]>,
    len: usize,
}

/// A shard is chosen by so many bits. With 1,024 shards the one that grows counts for a thousandth of the whole, and an
/// empty table takes 24 KiB.
const SHARD_BITS: u32 = 10;

impl VersionTable {
    /// From so many keys on each takes at most 56 bytes; below, the shards themselves count.
    pub const BOUND_FROM: usize = 100_000;

    /// A table of nothing.
    pub fn new(hasher: KeyHasher) -> Self {
        Self { hasher, shards: vec![Shard::default(); 1 << SHARD_BITS].into_boxed_slice(), len: 0 }
    }

    /// The hash under which this table holds a key.
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        self.hasher.hash(key)
    }

    /// What is remembered of a key.
    pub fn get(&self, key: KeyHash) -> Option<Entry> {
        self.shards.get(key.first_bits(SHARD_BITS))?.get(key)
    }

    /// Remembers `entry` of a key; what was remembered of it before.
    pub fn set(&mut self, key: KeyHash, entry: Entry) -> Option<Entry> {
        let before = self.shards.get_mut(key.first_bits(SHARD_BITS))?.set(key, entry);
        self.len = self.len.saturating_add(usize::from(before.is_none()));
        before
    }

    /// Forgets a key; what was remembered of it.
    pub fn remove(&mut self, key: KeyHash) -> Option<Entry> {
        let removed = self.shards.get_mut(key.first_bits(SHARD_BITS))?.remove(key)?;
        self.len = self.len.saturating_sub(1);
        Some(removed)
    }

    /// How many keys are remembered.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many bytes of the heap it takes.
    pub fn memory(&self) -> usize {
        let slots: usize = self.shards.iter().map(Shard::memory).sum();
        slots.saturating_add(size_of_val(&*self.shards))
    }
}

impl fmt::Debug for VersionTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VersionTable").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
