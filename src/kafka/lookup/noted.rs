//! What a task's partition of the state topic holds: positions of lanes, versions of keys.

use std::collections::BTreeMap;

use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message};

use crate::core::guard::KeyHasher;
use crate::core::policy::OrderPolicy;
use crate::core::state::{BadStateEntry, Keys, LanePosition, StateEntry};
use crate::kafka::convert::Converter;
use crate::kafka::error::ClientError;

/// The newest position of each lane, by the lane's word.
pub(super) type Positions = BTreeMap<String, LanePosition>;

/// What one partition of the state topic says of its task.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) positions: Positions,
    /// What is known of keys; only where the pipeline has a guard or parks.
    pub(super) keys: Option<Box<Keys>>,
}

/// Why the positions are not known yet.
#[derive(Debug)]
pub(super) enum NotRead {
    /// Not all of it is read.
    Yet(String),
    /// The client cannot go on.
    Never(ClientError),
}

impl From<ClientError> for NotRead {
    fn from(error: ClientError) -> Self {
        Self::Never(error)
    }
}

impl From<KafkaError> for NotRead {
    fn from(error: KafkaError) -> Self {
        Self::Yet(error.to_string())
    }
}

/// The newest entries of what is read so far.
pub(super) struct Entries {
    positions: BTreeMap<String, Result<LanePosition, BadStateEntry>>,
    keys: Option<Box<Keys>>,
}

impl Entries {
    /// Nothing; what is known of keys is left out without their order.
    pub(super) fn new(order: Option<&(KeyHasher, OrderPolicy)>) -> Self {
        let keys = order.map(|(hasher, order)| Box::new(Keys::new(*hasher, order)));
        Self { positions: BTreeMap::new(), keys }
    }

    /// One that cannot be read.
    pub(super) fn unreadable(&self) -> Option<&BadStateEntry> {
        let positions = self.positions.values().filter_map(|position| position.as_ref().err());
        positions.chain(self.keys.iter().filter_map(|keys| keys.unreadable())).next()
    }

    /// Takes in one record.
    pub(super) fn take(&mut self, found: &BorrowedMessage<'_>) {
        let (key, value) = (found.key(), found.payload());
        let entry = match &mut self.keys {
            Some(keys) => keys.take(key, value, || Converter::default().record(found).headers),
            None => StateEntry::read(key, value).map(Some),
        };
        match entry {
            Ok(Some(StateEntry::Position { lane, position: Some(position) })) => {
                self.positions.insert(lane, Ok(position));
            }
            Ok(Some(StateEntry::Position { lane, position: None })) => drop(self.positions.remove(&lane)),
            Ok(_) => {}
            Err(BadStateEntry::Key) => tracing::debug!("a key of the state topic is not redrive's"),
            Err(bad) => {
                if let BadStateEntry::Position { lane, .. } = &bad {
                    self.positions.insert(lane.clone(), Err(bad));
                }
            }
        }
    }

    /// What they say, those that cannot be read left out.
    pub(super) fn into_state(self) -> State {
        let positions = self.positions.into_iter();
        let positions = positions.filter_map(|(lane, position)| Some((lane, position.ok()?))).collect();
        State { positions, keys: self.keys }
    }
}
