//! What a task's partition of the state topic holds: positions of lanes, versions of keys.

use std::collections::BTreeMap;

use rdkafka::error::KafkaError;

use crate::core::guard::{Entry, KeyHasher, VersionTable};
use crate::core::state::{Applied, BadStateEntry, LanePosition, StateEntry};
use crate::kafka::error::ClientError;

/// The newest position of each lane, by the lane's word.
pub(super) type Positions = BTreeMap<String, LanePosition>;

/// What one partition of the state topic says of its task.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) positions: Positions,
    /// The newest applied version of each key; only where the pipeline has a guard.
    pub(super) versions: Option<Box<VersionTable>>,
}

/// Why the positions are not known yet.
#[derive(Debug)]
pub(super) enum NotRead {
    /// Not all of it is read.
    Yet(String),
    /// The client cannot go on.
    Never(ClientError),
}

impl From<KafkaError> for NotRead {
    fn from(error: KafkaError) -> Self {
        Self::Yet(error.to_string())
    }
}

/// The newest entries of what is read so far.
pub(super) struct Entries {
    positions: BTreeMap<String, Result<LanePosition, BadStateEntry>>,
    versions: Option<Box<VersionTable>>,
    /// The keys whose newest entries cannot be read.
    bad_versions: BTreeMap<Vec<u8>, BadStateEntry>,
}

impl Entries {
    /// Nothing; versions are left out without a hasher.
    pub(super) fn new(hasher: Option<KeyHasher>) -> Self {
        let versions = hasher.map(|hasher| Box::new(VersionTable::new(hasher)));
        Self { positions: BTreeMap::new(), versions, bad_versions: BTreeMap::new() }
    }

    /// One that cannot be read.
    pub(super) fn unreadable(&self) -> Option<&BadStateEntry> {
        let positions = self.positions.values().filter_map(|position| position.as_ref().err());
        positions.chain(self.bad_versions.values()).next()
    }

    /// Takes in one record.
    pub(super) fn take(&mut self, key: Option<&[u8]>, value: Option<&[u8]>) {
        match StateEntry::read(key, value) {
            Ok(StateEntry::Position { lane, position: Some(position) }) => {
                self.positions.insert(lane, Ok(position));
            }
            Ok(StateEntry::Position { lane, position: None }) => drop(self.positions.remove(&lane)),
            Ok(StateEntry::Applied { key, applied }) => self.apply(key, applied),
            Ok(StateEntry::Unknown) => {}
            Err(BadStateEntry::Key) => tracing::debug!("a key of the state topic is not redrive's"),
            Err(bad @ BadStateEntry::Position { .. }) => {
                if let BadStateEntry::Position { lane, .. } = &bad {
                    self.positions.insert(lane.clone(), Err(bad));
                }
            }
            Err(bad @ BadStateEntry::Applied { .. }) => {
                if let (Some(_), BadStateEntry::Applied { key, .. }) = (&self.versions, &bad) {
                    self.bad_versions.insert(key.clone(), bad);
                }
            }
        }
    }

    /// What they say, those that cannot be read left out.
    pub(super) fn into_state(self) -> State {
        let positions = self.positions.into_iter();
        let positions = positions.filter_map(|(lane, position)| Some((lane, position.ok()?))).collect();
        State { positions, versions: self.versions }
    }

    fn apply(&mut self, key: &[u8], applied: Option<Applied<'_>>) {
        let Some(versions) = self.versions.as_deref_mut() else { return };
        self.bad_versions.remove(key);
        let hash = versions.hash(key);
        match applied {
            Some(Applied { version, fingerprint, .. }) => {
                versions.set(hash, Entry { version, tag: fingerprint });
            }
            None => drop(versions.remove(hash)),
        }
    }
}
