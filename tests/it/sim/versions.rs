//! Pipelines with a guard: which plans have one, what versions their source has, and what a worker finds of them.

use bytes::Bytes;
use redrive::core::guard::KeyHasher;
use redrive::core::policy::{Equal, Guard, Latest, OrderKey, OrderPolicy, Source, TombstoneVersion};
use redrive::core::record::{Header, HeaderName, Record};
use redrive::core::state::{Applied, Keys, StateEntry};
use redrive::core::time::Timestamp;

use super::cluster::log::Isolation;
use super::cluster::{Place, Topic};
use super::lineage;
use super::planted::Bug;
use super::random::{Random, mix};
use super::world::World;

/// The header with the version.
pub(crate) const VERSION: &str = "rev";

/// The order of a seed's pipeline. Drawn apart, so that whatever else a seed decides stays.
pub(crate) fn order(seed: u64) -> OrderPolicy {
    let mut random = Random::new(mix(seed ^ 0x7e57));
    if !random.chance(40) {
        return OrderPolicy::default();
    }
    let guard = Guard::Latest(Latest {
        version: vec![Source::Header(HeaderName::from_static(VERSION))],
        equal: *random.pick(&[Equal::Conflict, Equal::Conflict, Equal::Apply, Equal::Drop]),
        tombstone: *random.pick(&[TombstoneVersion::DeadLetter, TombstoneVersion::Next]),
        stale_output: None,
    });
    OrderPolicy { key: OrderKey::Record, guard, ..OrderPolicy::default() }
}

/// The rules of a guarded pipeline.
pub(crate) fn rules(order: &OrderPolicy) -> Option<&Latest> {
    match &order.guard {
        Guard::Latest(rules) => Some(rules),
        Guard::None | Guard::Contiguous(_) => None,
    }
}

/// Gives a source record a version: rising, but some come late, some twice, with the same value or another, some have none.
pub(crate) fn add(record: &mut Record, random: &mut Random, now: Timestamp) {
    let version = now.as_millis() / 400 + random.below(6) as i64;
    if random.chance(30) && record.value.is_some() {
        record.value = Some(Bytes::from(format!("v{version}")));
    }
    let value = match random.below(25) {
        0 => return,
        1 => Bytes::from_static(b"newest"),
        _ => Bytes::from(version.to_string()),
    };
    record.headers.push(Header { name: HeaderName::from_static(VERSION), value: Some(value) });
}

/// The version that a source record says it has.
pub(crate) fn version_of(record: &Record) -> Option<i64> {
    let header = record.headers.iter().rev().find(|header| header.name.as_str() == VERSION)?;
    std::str::from_utf8(header.value.as_ref()?).ok()?.parse().ok()
}

/// The version of a copy: what was settled when it was admitted, else what it says itself.
pub(crate) fn version_of_copy(record: &Record) -> Option<i64> {
    lineage::number(&record.headers, "redrive-version").or_else(|| version_of(record))
}

/// What a record of the state topic says of a key.
pub(crate) fn applied_in(record: &Record) -> Option<(Vec<u8>, Option<Applied<'_>>)> {
    match StateEntry::read(record.key.as_deref(), record.value.as_deref()) {
        Ok(StateEntry::Applied { key, applied }) => Some((key.to_vec(), applied)),
        Ok(_) => None,
        Err(error) => panic!("{record:?}: {error}"),
    }
}

impl World {
    /// Whether the state of a task can be read to its end now.
    pub(crate) fn state_is_stable(&self, partition: i32) -> bool {
        let log = self.cluster.log(Place { topic: Topic::State, partition });
        log.last_stable() == log.end() || self.bug == Some(Bug::StateReadToLastStable)
    }

    /// What a task's new owner reads of its keys.
    pub(crate) fn keys(&mut self, slot: usize, partition: i32) -> Option<Box<Keys>> {
        let order = &self.plan.policy.order;
        if !order.keeps_state() {
            return None;
        }
        if self.bug == Some(Bug::VersionsKept)
            && let Some(kept) = self.slots[slot].kept.get(&partition)
        {
            return Some(kept.clone());
        }
        let isolation = match self.bug {
            Some(Bug::UncommittedVersions) => Isolation::Uncommitted,
            Some(_) | None => Isolation::Committed,
        };
        let mut keys = Keys::new(KeyHasher::new(self.plan.seed), order);
        for record in self.cluster.read(Place { topic: Topic::State, partition }, 0, usize::MAX, isolation) {
            let taken = keys.take(record.key.as_deref(), record.value.as_deref(), || record.headers.clone());
            assert!(taken.is_ok() && keys.unreadable().is_none(), "{record:?}");
        }
        let keys = Box::new(keys);
        self.slots[slot].kept.insert(partition, keys.clone());
        Some(keys)
    }
}
