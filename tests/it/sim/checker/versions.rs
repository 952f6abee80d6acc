//! The guard, from the logs alone: R5 (no key goes back), and what may be dropped for it (R1).

use std::collections::BTreeMap;

use redrive::core::guard::{Version, fingerprint};
use redrive::core::invariant::{Breach, InvariantId};
use redrive::core::policy::{Equal, TombstoneVersion};

use super::super::cluster::transactions::Serial;
use super::super::cluster::{Cluster, Topic};
use super::super::lineage::{self, Root};
use super::super::versions::{applied_in, rules, version_of_copy};
use super::copies::Consumed;
use super::{Checker, State, broken};

/// A key of a task.
pub(super) type KeyOf = (i32, Vec<u8>);

/// What is applied of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Newest {
    version: i64,
    fingerprint: u64,
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
        for record in consumed {
            let (key, version, value) = self.known_of(cluster, record);
            let state = self.tales[&record.source].state;
            let now = self.newest.get(&key).copied();
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
                    let justified = now.is_some_and(|now| {
                        let same = now.fingerprint == fingerprint(value.as_deref());
                        now.version > version
                            || now.version == version && (same || rules.equal == Equal::Drop)
                    });
                    if !justified {
                        let detail = format!("{source:?}, version {version}, is dropped for {now:?}");
                        return broken(InvariantId::R1, detail);
                    }
                }
                (State::Emitted, None) if value.is_none() && rules.tombstone == TombstoneVersion::Next => {}
                (State::Emitted | State::Dropped, None) => {
                    return broken(InvariantId::R5, format!("{source:?} has no version and is {state:?}"));
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
        for (place, offset) in &cluster.transactions.of(serial).writes {
            if place.topic != Topic::State {
                continue;
            }
            let Some(stored) = cluster.log(*place).at(*offset) else { continue };
            let Some((key, applied)) = applied_in(&stored.record) else { continue };
            let Some(applied) = applied else {
                return broken(InvariantId::R5, format!("what is applied of {key:?} is forgotten"));
            };
            let Version(version) = applied.version;
            let newest = Newest { version, fingerprint: applied.fingerprint };
            let key = (place.partition, key);
            let was = self.newest.insert(key.clone(), newest);
            if was.is_some_and(|was| was.version > version) {
                return broken(InvariantId::R5, format!("{key:?} goes from {was:?} to {newest:?}"));
            }
            if before.insert(key.clone(), was).is_some() {
                return broken(InvariantId::R5, format!("{key:?} is written twice by {serial:?}"));
            }
        }
        Ok(before)
    }

    /// The key, the version and the value of a consumed record.
    fn known_of(&self, cluster: &Cluster, record: &Consumed) -> (KeyOf, Option<i64>, Option<bytes::Bytes>) {
        let Consumed { place, offset, .. } = record;
        let stored = cluster.log(*place).at(*offset).expect("it was consumed");
        let key = stored.record.key.as_ref().map(|key| key.to_vec()).unwrap_or_default();
        ((place.partition, key), version_of_copy(&stored.record), stored.record.value.clone())
    }

    /// Who reads the output of a key sees versions that never fall.
    fn outputs_rise(&mut self, cluster: &Cluster, serial: Serial, equal: Equal) -> Result<(), Breach> {
        for (place, offset) in &cluster.transactions.of(serial).writes {
            if place.topic != Topic::Output {
                continue;
            }
            let Some(root) = cluster.log(*place).at(*offset).and_then(|stored| stored.origin) else {
                continue;
            };
            let Some(original) = cluster.log(root.place).at(root.offset) else { continue };
            let Some(version) = version_of_copy(&original.record) else { continue };
            let key = original.record.key.as_ref().map(|key| key.to_vec()).unwrap_or_default();
            let last: Option<(i64, Root)> = self.emitted.insert((root.place.partition, key), (version, root));
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
        rules(&self.policy.order).is_some() && record.answer.is_none()
    }

    /// R1: a dead letter of the guard says what is so.
    pub(super) fn quarantined(
        &self,
        cluster: &Cluster,
        record: &Consumed,
        reason: &str,
    ) -> Result<(), Breach> {
        let (_, version, value) = self.known_of(cluster, record);
        let stored = cluster.log(record.place).at(record.offset).expect("it was consumed");
        let rules = rules(&self.policy.order);
        let holds = match reason {
            "no-key" => rules.is_some() && stored.record.key.is_none(),
            "no-version" => {
                version.is_none()
                    && rules.is_some_and(|rules| {
                        value.is_some() || rules.tombstone == TombstoneVersion::DeadLetter
                    })
            }
            "version-conflict" => {
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
