//! Records that are held behind their key: which plans hold them, and what the state topic says of them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use redrive::core::guard::Version;
use redrive::core::policy::{
    Contiguous, First, Guard, HeldBounds, OnExhausted, OrderPolicy, Source, WhileRetrying,
};
use redrive::core::position::TopicName;
use redrive::core::record::{Header, HeaderName, Record};
use redrive::core::state::{Held, Keys, StateEntry};

use super::cluster::log::Stored;
use super::cluster::{Cluster, Place, Topic};
use super::lineage;
use super::planted::Bug;
use super::random::{Random, mix};
use super::versions::VERSION;

/// Lets some plans hold records. Drawn apart, so that whatever else a seed decides stays.
pub(crate) fn holding(order: OrderPolicy, seed: u64) -> OrderPolicy {
    let mut random = Random::new(mix(seed ^ 0x4e1d));
    let held = HeldBounds { per_key: *random.pick(&[2, 4, 10_000]), ..HeldBounds::default() };
    let on_exhausted = *random.pick(&[OnExhausted::Continue, OnExhausted::Follow]);
    let park = OrderPolicy { retrying: WhileRetrying::Park(on_exhausted), held, ..order.clone() };
    match &order.guard {
        Guard::None if random.chance(35) => {
            let stale = random.chance(50).then(|| TopicName::new(&lineage::topic_name(Topic::StaleOutput)));
            let guard = Guard::Contiguous(Contiguous {
                version: vec![Source::Header(HeaderName::from_static(VERSION))],
                gap_timeout: if random.chance(70) {
                    random.millis(200, 20_000)
                } else {
                    random.millis(60_000, 180_000)
                },
                first: *random.pick(&[First::Any, First::Any, First::At(Version(1))]),
                stale_output: stale,
            });
            OrderPolicy { guard, held, ..order }
        }
        Guard::None if random.chance(50) => park,
        Guard::Latest(_) if random.chance(25) => park,
        Guard::None | Guard::Latest(_) | Guard::Contiguous(_) => order,
    }
}

/// The rules of a pipeline that counts versions.
pub(crate) fn count(order: &OrderPolicy) -> Option<&Contiguous> {
    match &order.guard {
        Guard::Contiguous(rules) => Some(rules),
        Guard::None | Guard::Latest(_) => None,
    }
}

/// The versions that are given to the records of each key.
#[derive(Debug, Default)]
pub(crate) struct Counters(BTreeMap<(i32, Bytes), Counter>);

#[derive(Debug, Default)]
struct Counter {
    last: i64,
    missing: Vec<i64>,
}

impl Counters {
    /// Gives a source record the version after the last of its key; some come too early, some late, some twice, some have none.
    pub(crate) fn add(&mut self, partition: i32, record: &mut Record, random: &mut Random) {
        let key = (partition, record.key.clone().unwrap_or_default());
        let counter = self.0.entry(key).or_default();
        let version = match random.below(20) {
            0..=3 => {
                counter.last += 2;
                counter.missing.push(counter.last - 1);
                counter.last
            }
            4..=10 if !counter.missing.is_empty() => {
                let place = random.below(counter.missing.len() as u64) as usize;
                counter.missing.remove(place)
            }
            11..=12 => (counter.last - random.below(3) as i64).max(0),
            13 => counter.last + 1,
            14 => return,
            _ => {
                counter.last += 1;
                counter.last
            }
        };
        if random.chance(80) && record.value.is_some() {
            record.value = Some(Bytes::from(format!("v{version}")));
        }
        let value = Some(Bytes::from(version.to_string()));
        record.headers.push(Header { name: HeaderName::from_static(VERSION), value });
    }
}

/// What a record of the state topic says of a held one: the key and the place, and the record where it stands there.
pub(crate) fn held_in(record: &Record) -> Option<(Vec<u8>, i64, Option<Held<'_>>)> {
    match StateEntry::read(record.key.as_deref(), record.value.as_deref()) {
        Ok(StateEntry::Held { key, place, held }) => Some((key.to_vec(), place, held)),
        Ok(_) => None,
        Err(error) => panic!("{record:?}: {error}"),
    }
}

/// What stands at a place of a log; a held record with its own key and value.
pub(crate) fn stored(cluster: &Cluster, place: Place, offset: i64) -> Option<Cow<'_, Stored>> {
    let stored = cluster.log(place).at(offset)?;
    if place.topic != Topic::State {
        return Some(Cow::Borrowed(stored));
    }
    let (_, _, held) = held_in(&stored.record)?;
    let Held { record_key, value, .. } = held?;
    let mut whole = stored.clone();
    whole.record.key = record_key.map(Bytes::copy_from_slice);
    whole.record.value = value.map(Bytes::copy_from_slice);
    Some(Cow::Owned(whole))
}

/// What a planted bug makes of what a new owner of a task reads.
pub(crate) fn spoil(keys: &mut Keys, bug: Option<Bug>) {
    match bug {
        Some(Bug::BlockerForgotten) => {
            keys.blockers.values_mut().for_each(|blockers| blockers.waiting.clear());
        }
        Some(Bug::ClockWhileStopped) => keys.clock += Duration::from_secs(3_600),
        _ => {}
    }
}
