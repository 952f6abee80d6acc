//! What the state topic says of the keys of a task, gathered from its entries one after another: the last of each key counts.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use super::{Applied, BadStateEntry, Blockers, StateEntry, TaskClock};
use crate::core::envelope::Envelope;
use crate::core::guard::{Entry, KeyHasher, VersionTable};
use crate::core::policy::{Guard, OrderKey, OrderPolicy};
use crate::core::record::Header;

/// What is known of the keys of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// The newest applied version of each key.
    pub versions: VersionTable,
    /// The records that are held, by order key and place.
    pub held: BTreeMap<(Vec<u8>, i64), HeldRecord>,
    /// What holds keys up.
    pub blockers: BTreeMap<Vec<u8>, Blockers>,
    /// How long the task has processed.
    pub clock: Duration,
    counts: bool,
    keys_in_values: bool,
    /// Entries that cannot be read, by key of the entry: a later one may replace them.
    bad: BTreeMap<Vec<u8>, BadStateEntry>,
}

/// A record that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldRecord {
    /// The record.
    pub envelope: Envelope,
    /// When its gap is over at the earliest, by the clock of its task.
    pub due: Duration,
}

impl Keys {
    /// Nothing yet; keys are hashed by `hasher`.
    pub fn new(hasher: KeyHasher, order: &OrderPolicy) -> Self {
        Self {
            versions: VersionTable::new(hasher),
            held: BTreeMap::new(),
            blockers: BTreeMap::new(),
            clock: Duration::ZERO,
            counts: matches!(order.guard, Guard::Contiguous(_)),
            keys_in_values: matches!(order.key, OrderKey::Json(_)),
            bad: BTreeMap::new(),
        }
    }

    /// Takes in a record of the state topic; `headers` are asked for where they matter. Gives back what says nothing of keys.
    ///
    /// # Errors
    /// What is no entry of redrive. An entry that cannot be read is kept back: [`Self::unreadable`].
    pub fn take<'a>(
        &mut self,
        key: Option<&'a [u8]>,
        value: Option<&'a [u8]>,
        headers: impl FnOnce() -> Vec<Header>,
    ) -> Result<Option<StateEntry<'a>>, BadStateEntry> {
        let entry = match StateEntry::read(key, value) {
            Err(
                bad @ (BadStateEntry::Applied { .. }
                | BadStateEntry::Held { .. }
                | BadStateEntry::Blockers { .. }
                | BadStateEntry::Clock { .. }),
            ) => {
                self.bad.insert(key.unwrap_or_default().to_vec(), bad);
                return Ok(None);
            }
            other => other?,
        };
        if !self.bad.is_empty() {
            self.bad.remove(key.unwrap_or_default());
        }
        match entry {
            StateEntry::Applied { key, applied } => self.apply(key, applied),
            StateEntry::Held { key: of, place, held: Some(held) } => match held.envelope(headers()) {
                Ok(mut envelope) => {
                    envelope.order_key = self.keys_in_values.then(|| Bytes::copy_from_slice(of));
                    self.held.insert((of.to_vec(), place), HeldRecord { envelope, due: held.due });
                }
                Err(problem) => {
                    let problem = problem.to_string();
                    let bad = BadStateEntry::Held { key: of.to_vec(), place, problem };
                    self.bad.insert(key.unwrap_or_default().to_vec(), bad);
                }
            },
            StateEntry::Held { key, place, held: None } => drop(self.held.remove(&(key.to_vec(), place))),
            StateEntry::Blockers { key, blockers: Some(blockers) } => {
                self.blockers.insert(key.to_vec(), blockers);
            }
            StateEntry::Blockers { key, blockers: None } => drop(self.blockers.remove(key)),
            StateEntry::Clock(clock) => self.clock = clock.map_or(Duration::ZERO, |TaskClock(clock)| clock),
            other @ (StateEntry::Position { .. } | StateEntry::Unknown) => return Ok(Some(other)),
        }
        Ok(None)
    }

    /// An entry that cannot be read and that none has replaced.
    pub fn unreadable(&self) -> Option<&BadStateEntry> {
        self.bad.values().next()
    }

    fn apply(&mut self, key: &[u8], applied: Option<Applied<'_>>) {
        let hash = self.versions.hash(key);
        match applied {
            Some(Applied { version, first, fingerprint, .. }) => {
                // A count that another guard did not keep starts with what that one applied.
                let tag = if self.counts { first.unwrap_or(version).as_tag() } else { fingerprint };
                self.versions.set(hash, Entry { version, tag });
            }
            None => drop(self.versions.remove(hash)),
        }
    }
}
