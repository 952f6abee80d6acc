//! Pipelines with a guard: which plans have one, what versions their source has, and what a worker finds of them.

use std::time::Duration;

use bytes::Bytes;
use redrive::core::event::Target;
use redrive::core::guard::{Entry, KeyHasher, Version, VersionTable, fingerprint};
use redrive::core::policy::{Equal, Guard, Latest, OrderKey, OrderPolicy, Source, TombstoneVersion};
use redrive::core::position::{Lane, TopicName};
use redrive::core::record::{Header, HeaderName, Record};
use redrive::core::state::{Applied, Keys, StateEntry};
use redrive::core::time::Timestamp;

use super::cluster::log::Isolation;
use super::cluster::{Place, Topic};
use super::holding::{holding, spoil};
use super::lineage;
use super::plan::Fault;
use super::planted::Bug;
use super::random::{Random, mix};
use super::world::World;

/// The header with the version.
pub(crate) const VERSION: &str = "rev";

/// The order of a seed's pipeline. Drawn apart, so that whatever else a seed decides stays.
pub(crate) fn order(seed: u64) -> OrderPolicy {
    let mut random = Random::new(mix(seed ^ 0x7e57));
    if !random.chance(40) {
        return holding(OrderPolicy::default(), seed);
    }
    let guard = Guard::Latest(Latest {
        version: vec![Source::Header(HeaderName::from_static(VERSION))],
        equal: *random.pick(&[Equal::Conflict, Equal::Conflict, Equal::Apply, Equal::Drop]),
        tombstone: *random.pick(&[TombstoneVersion::DeadLetter, TombstoneVersion::Next]),
        stale_output: random.chance(50).then(|| TopicName::new(&lineage::topic_name(Topic::StaleOutput))),
    });
    let key = if random.chance(15) { OrderKey::Partition } else { OrderKey::Record };
    holding(OrderPolicy { key, guard, ..OrderPolicy::default() }, seed)
}

/// Times in which no stale record can be put aside. Drawn apart, as the order is.
pub(crate) fn faults(seed: u64, order: &OrderPolicy, until: Duration) -> Vec<(Duration, Fault)> {
    let mut random = Random::new(mix(seed ^ 0x7e58));
    if order.stale_output().is_none() {
        return Vec::new();
    }
    let fault = |random: &mut Random| {
        let (target, lasts) = (Target::StaleOutput, random.millis(50, 10_000));
        match random.chance(70) {
            true => Fault::Unwritable { target, lasts },
            false => Fault::Refuse { target, lasts },
        }
    };
    (0..random.below(4)).map(|_| (random.time(Duration::ZERO, until), fault(&mut random))).collect()
}

/// The key of a record's order; `None` where it has none.
pub(crate) fn order_key(order: &OrderPolicy, record: &Record) -> Option<Vec<u8>> {
    match order.key {
        OrderKey::Record => record.key.as_ref().map(|key| key.to_vec()),
        OrderKey::Partition => Some(Vec::new()),
        OrderKey::Json(_) => unreachable!("no plan has its keys in values"),
    }
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
    /// Takes what waits in the tiers of a task for applied.
    fn take_for_applied(&self, partition: i32, versions: &mut VersionTable) {
        let tiers = self.cluster.lanes().filter(|lane| matches!(lane, Lane::Tier(_)));
        for place in tiers.map(|lane| Place::lane(lane, partition)) {
            let from = self.cluster.committed(place).map_or(0, |committed| committed.offset);
            for record in self.cluster.read(place, from, usize::MAX, Isolation::Committed) {
                let key = order_key(&self.plan.policy.order, &record).map(|key| versions.hash(&key));
                if let (Some(key), Some(version)) = (key, version_of_copy(&record))
                    && versions.get(key).is_none_or(|known| known.version < Version(version))
                {
                    let tag = fingerprint(record.value.as_deref());
                    versions.set(key, Entry { version: Version(version), tag });
                }
            }
        }
    }

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
        if self.bug == Some(Bug::FailedVersions) {
            self.take_for_applied(partition, &mut keys.versions);
        }
        spoil(&mut keys, self.bug);
        let keys = Box::new(keys);
        self.slots[slot].kept.insert(partition, keys.clone());
        Some(keys)
    }
}
