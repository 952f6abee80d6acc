//! The guard, from the logs alone: R5 (no key goes back), and what may be dropped or quarantined for it (R1).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redrive::core::guard::{Version, fingerprint};
use redrive::core::invariant::{Breach, InvariantId};
use redrive::core::policy::{Equal, OnExhausted, TombstoneVersion};

use super::super::cluster::transactions::Serial;
use super::super::cluster::{Cluster, Place, Topic};
use super::super::holding::{self, count};
use super::super::lineage::{self, Root};
use super::super::versions::{applied_in, order_key, rules, version_of_copy};
use super::copies::{Consumed, same_bytes};
use super::{Checker, State, broken};

/// A key of a task.
type KeyOf = (i32, Vec<u8>);

/// What the logs say is applied of each key.
#[derive(Debug, Default)]
pub(super) struct Versions {
    /// By the state topic.
    newest: BTreeMap<KeyOf, Newest>,
    /// By what was emitted: the fingerprints of each version's values.
    applied: BTreeMap<KeyOf, BTreeMap<i64, BTreeSet<u64>>>,
    /// Between which two versions tombstones were emitted that were given one and of which no log tells it.
    counted_on: BTreeMap<KeyOf, Vec<(i64, i64)>>,
    /// The last output of each key: its version, and of what.
    emitted: BTreeMap<KeyOf, (i64, Root)>,
    /// What this transaction quarantines as a conflict, and what it puts aside as stale.
    conflicts: BTreeSet<Root>,
    aside: BTreeSet<Root>,
}

/// What is applied of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Newest {
    version: i64,
    fingerprint: u64,
    /// The record that was applied.
    origin: Root,
}

/// What a consumed record says of itself.
struct Known {
    key: KeyOf,
    version: Option<i64>,
    fingerprint: u64,
    is_tombstone: bool,
}

impl Versions {
    /// Whether a version was applied with a value of which this holds, as far as is known.
    fn was_applied(&self, key: &KeyOf, version: i64, value: impl Fn(u64) -> bool) -> bool {
        let values = self.applied.get(key).and_then(|versions| versions.get(&version));
        let mut between = self.counted_on.get(key).into_iter().flatten();
        values.is_some_and(|values| values.iter().any(|applied| value(*applied)))
            || between.any(|(from, to)| *from < version && version < *to)
    }
}

impl Checker {
    /// A transaction was decided to be committed, of whose records this says what became; `dropped` had no effect.
    pub(super) fn versions(
        &mut self,
        cluster: &Cluster,
        serial: Serial,
        consumed: &[Consumed],
    ) -> Result<(), Breach> {
        let policy = self.policy.clone();
        let Some(rules) = rules(&policy.order) else { return Ok(()) };
        let before = self.newest_before(cluster, serial)?;
        self.entries_are_backed(cluster, before.keys(), consumed)?;
        self.take_emitted(cluster, &before, consumed);
        let conflicts = std::mem::take(&mut self.versions.conflicts);
        let aside = std::mem::take(&mut self.versions.aside);
        for record in consumed {
            let Known { key, version, fingerprint, is_tombstone } = self.known_of(cluster, record);
            let state = self.tales[&record.source].state;
            let now = self.versions.newest.get(&key).copied();
            let source = record.source;
            match (state, version) {
                (State::Emitted, Some(version)) => {
                    let was = before.get(&key).copied().unwrap_or(now);
                    let newer = match was {
                        None => true,
                        Some(was) if rules.equal == Equal::Apply => version >= was.version,
                        Some(was) => version > was.version,
                    };
                    if !newer || now.is_none_or(|now| now.version < version) {
                        let detail =
                            format!("{source:?}, version {version}, is applied after {was:?}: {now:?}");
                        return broken(InvariantId::R5, detail);
                    }
                }
                (State::Dropped, Some(version)) => {
                    let is_stale = now.is_some_and(|now| now.version > version);
                    let same = |applied| applied == fingerprint || rules.equal == Equal::Drop;
                    let is_duplicate = now.is_some_and(|now| now.version >= version)
                        && self.versions.was_applied(&key, version, same);
                    let justified = match (rules.stale_output.is_some(), aside.contains(&source)) {
                        (true, true) => is_stale,
                        (true, false) => is_duplicate,
                        (false, false) => is_stale || is_duplicate,
                        (false, true) => false,
                    };
                    if !justified {
                        let detail = format!("{source:?}, version {version}, is dropped for {now:?}");
                        return broken(InvariantId::R1, detail);
                    }
                }
                (State::Emitted, None) if is_tombstone && rules.tombstone == TombstoneVersion::Next => {}
                (State::Emitted | State::Dropped, None) => {
                    return broken(InvariantId::R5, format!("{source:?} has no version and is {state:?}"));
                }
                (State::Dead, Some(version)) if conflicts.contains(&source) => {
                    if !self.versions.was_applied(&key, version, |applied| applied != fingerprint) {
                        let applied = self.versions.applied.get(&key).and_then(|known| known.get(&version));
                        let detail = format!("{source:?} is no conflict: version {version} is {applied:?}");
                        return broken(InvariantId::R1, detail);
                    }
                }
                (State::Unread | State::Waiting(..) | State::Dead, _) => {}
            }
        }
        self.outputs_rise(cluster, serial, rules.equal)
    }

    /// Takes in what the transaction says is applied; what was before, of the keys that it names.
    fn newest_before(
        &mut self,
        cluster: &Cluster,
        serial: Serial,
    ) -> Result<BTreeMap<KeyOf, Option<Newest>>, Breach> {
        let mut before = BTreeMap::new();
        for (place, _, stored) in cluster.written(serial, Topic::State) {
            let Some((key, applied)) = applied_in(&stored.record) else { continue };
            let Some(applied) = applied else {
                return broken(InvariantId::R5, format!("what is applied of {key:?} is forgotten"));
            };
            let Version(version) = applied.version;
            let Some(origin) = Root::new(applied.topic, applied.partition.0.into(), applied.offset.0) else {
                return broken(InvariantId::R5, format!("what is applied of {key:?} has no origin"));
            };
            let newest = Newest { version, fingerprint: applied.fingerprint, origin };
            let key = (place.partition, key);
            let was = self.versions.newest.insert(key.clone(), newest);
            if was.is_some_and(|was| was.version > version) {
                return broken(InvariantId::R5, format!("{key:?} goes from {was:?} to {newest:?}"));
            }
            if before.insert(key.clone(), was).is_some() {
                return broken(InvariantId::R5, format!("{key:?} is written twice by {serial:?}"));
            }
        }
        Ok(before)
    }

    /// R5: whatever is said to be applied is so by an effect in the same transaction.
    fn entries_are_backed<'a>(
        &self,
        cluster: &Cluster,
        keys: impl Iterator<Item = &'a KeyOf>,
        consumed: &[Consumed],
    ) -> Result<(), Breach> {
        for key in keys {
            let entry = self.versions.newest[key];
            let is_backed = |record: &&Consumed| {
                let known = self.known_of(cluster, record);
                (known.key == *key && record.source == entry.origin)
                    && self.tales[&record.source].state == State::Emitted
                    && known.fingerprint == entry.fingerprint
                    && known.version.is_none_or(|version| version == entry.version)
            };
            if !consumed.iter().any(|record| is_backed(&record)) {
                return broken(InvariantId::R5, format!("{entry:?} of {key:?} is not what was emitted"));
            }
        }
        Ok(())
    }

    /// Takes in what the transaction emits.
    fn take_emitted(
        &mut self,
        cluster: &Cluster,
        before: &BTreeMap<KeyOf, Option<Newest>>,
        consumed: &[Consumed],
    ) {
        for record in consumed.iter().filter(|record| self.tales[&record.source].state == State::Emitted) {
            let Known { key, version, fingerprint, .. } = self.known_of(cluster, record);
            let newest = self.versions.newest.get(&key).copied();
            let told = newest.filter(|newest| newest.origin == record.source);
            match (version.or(told.map(|newest| newest.version)), newest) {
                (Some(version), _) => {
                    let versions = self.versions.applied.entry(key).or_default();
                    versions.entry(version).or_default().insert(fingerprint);
                }
                (None, Some(newest)) => {
                    let was = before.get(&key).copied().flatten().map_or(i64::MIN, |was| was.version);
                    self.versions.counted_on.entry(key).or_default().push((was, newest.version));
                }
                (None, None) => {}
            }
        }
    }

    /// What a consumed record says of itself.
    fn known_of(&self, cluster: &Cluster, record: &Consumed) -> Known {
        let Consumed { place, offset, .. } = record;
        let stored = &holding::stored(cluster, *place, *offset).expect("it was consumed").record;
        let key = order_key(&self.policy.order, stored).unwrap_or_default();
        Known {
            key: (place.partition, key),
            version: version_of_copy(stored),
            fingerprint: fingerprint(stored.value.as_deref()),
            is_tombstone: stored.value.is_none(),
        }
    }

    /// Who reads the output of a key sees versions that never fall.
    fn outputs_rise(&mut self, cluster: &Cluster, serial: Serial, equal: Equal) -> Result<(), Breach> {
        for root in cluster.written(serial, Topic::Output).filter_map(|(.., stored)| stored.origin) {
            let Some(original) = cluster.log(root.place).at(root.offset) else { continue };
            let Some(version) = version_of_copy(&original.record) else { continue };
            let key = order_key(&self.policy.order, &original.record).unwrap_or_default();
            let key = (root.place.partition, key);
            let last: Option<(i64, Root)> = self.versions.emitted.insert(key, (version, root));
            let falls = last.is_some_and(|(last, by)| {
                last > version || last == version && by != root && equal != Equal::Apply
            });
            if falls {
                let detail = format!("the output of {root:?}, version {version}, follows {last:?}");
                return broken(InvariantId::R5, detail);
            }
        }
        Ok(())
    }

    /// Whether a record may end without any effect, as far as its handler goes.
    pub(super) fn may_be_dropped(&self, record: &Consumed) -> bool {
        self.policy.order.is_guarded() && record.answer.is_none()
    }

    /// R7: what is put aside as stale has the bytes of its source record and says what it is.
    pub(super) fn stale_copied(
        &mut self,
        cluster: &Cluster,
        record: &Consumed,
        (place, offset): (Place, i64),
    ) -> Result<(), Breach> {
        let source = record.source;
        self.versions.aside.insert(source);
        let copy = cluster.log(place).at(offset);
        let (Some(original), Some(copy)) = (cluster.log(source.place).at(source.offset), copy) else {
            return broken(InvariantId::R7, format!("{source:?} is no source record"));
        };
        let told = lineage::number(&copy.record.headers, "redrive-version");
        let known = self.known_of(cluster, record);
        if told.is_none() || told != known.version {
            let detail = format!("{source:?}, version {:?}, is put aside as {told:?}", known.version);
            return broken(InvariantId::R7, detail);
        }
        same_bytes(original, &copy.record.key, &copy.record.value, &copy.record.headers)
    }

    /// R1: a dead letter of the guard says what is so. Whether a conflict is one is seen at the end of its transaction.
    pub(super) fn quarantined(
        &mut self,
        cluster: &Cluster,
        record: &Consumed,
        reason: &str,
        now: Duration,
    ) -> Result<(), Breach> {
        let Known { version, is_tombstone, .. } = self.known_of(cluster, record);
        let stored = holding::stored(cluster, record.place, record.offset).expect("it was consumed");
        let policy = self.policy.clone();
        let rules = rules(&policy.order);
        let holds = match reason {
            "no-key" => policy.order.keeps_state() && order_key(&policy.order, &stored.record).is_none(),
            "no-version" if count(&policy.order).is_some() => version.is_none(),
            "version-conflict" if count(&policy.order).is_some() => version.is_some(),
            "version-gap" => {
                count(&policy.order).is_some_and(|rules| self.gap_is_over(cluster, record, rules, now))
            }
            "predecessor-dead" => {
                self.holds.followers.push(record.source);
                policy.order.parks() == Some(OnExhausted::Follow)
            }
            "no-version" => {
                version.is_none()
                    && rules
                        .is_some_and(|rules| !is_tombstone || rules.tombstone == TombstoneVersion::DeadLetter)
            }
            "version-conflict" => {
                self.versions.conflicts.insert(record.source);
                rules.is_some_and(|rules| rules.equal == Equal::Conflict) && version.is_some()
            }
            _ => true,
        };
        if holds {
            return Ok(());
        }
        let of = lineage::text(&stored.record.headers, "redrive-event-id");
        broken(InvariantId::R1, format!("{:?} {of:?} is no dead letter for `{reason}`", record.source))
    }
}
