//! What a task's partition of the state topic holds, read to its end: positions of lanes, versions of keys.
//!
//! The end is asked for without regard to open transactions, after the group's offsets were: then everything is below it that
//! an earlier owner has committed. It is read once the transactions before it have ended.

use std::collections::BTreeMap;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::{Offset as ClientOffset, TopicPartitionList};

use crate::core::guard::{Entry, KeyHasher, VersionTable};
use crate::core::policy::Guard;
use crate::core::position::{Epoch, Offset, Partition};
use crate::core::state::{Applied, BadStateEntry, LanePosition, StateEntry};
use crate::kafka::context::Context;
use crate::kafka::error::ClientError;
use crate::kafka::lookup::TRY;
use crate::kafka::settings;
use crate::kafka::stopwatch::Stopwatch;
use crate::topology::model::{Kafka, Pipeline};

/// The newest position of each lane, by the lane's word.
pub(super) type Positions = BTreeMap<String, LanePosition>;

/// What one partition of the state topic says of its task.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) positions: Positions,
    /// The newest applied version of each key; only where the pipeline has a guard.
    pub(super) versions: Option<Box<VersionTable>>,
}

/// One partition of the state topic, as far as it is read.
pub(super) struct Reading {
    pub(super) partition: Partition,
    pub(super) epoch: Epoch,
    consumer: BaseConsumer<Context>,
    end: Offset,
    stage: Stage,
    positions: BTreeMap<String, Result<LanePosition, BadStateEntry>>,
    versions: Option<Box<VersionTable>>,
    hasher: KeyHasher,
    /// The keys whose newest entries cannot be read.
    unreadable: BTreeMap<Vec<u8>, BadStateEntry>,
    /// How far it is read.
    next: Offset,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Transactions before the end may be open.
    Waits,
    Reads,
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

impl Reading {
    /// Asks how far is to be read.
    pub(super) fn begin(
        kafka: &Kafka,
        pipeline: &Pipeline,
        hasher: KeyHasher,
        (partition, epoch): (Partition, Epoch),
    ) -> Result<Self, NotRead> {
        let config = settings::state_consumer(kafka, pipeline);
        let consumer = client(&config, kafka)?;
        let impatient = client(&settings::impatient_consumer(kafka, pipeline), kafka)?;
        let topic = pipeline.state.name.as_str();
        let (_, end) = impatient.fetch_watermarks(topic, partition.0, TRY)?;
        let is_guarded = pipeline.policy.order.guard != Guard::None;
        let mut reading = Self {
            partition,
            epoch,
            consumer,
            end: Offset(end),
            stage: Stage::Waits,
            positions: BTreeMap::new(),
            versions: is_guarded.then(|| Box::new(VersionTable::new(hasher))),
            hasher,
            unreadable: BTreeMap::new(),
            next: Offset(0),
        };
        reading.begin_anew();
        Ok(reading)
    }

    /// Forgets what was read.
    fn begin_anew(&mut self) {
        self.stage = Stage::Waits;
        self.next = Offset(0);
        self.positions.clear();
        self.unreadable.clear();
        let hasher = self.hasher;
        self.versions.iter_mut().for_each(|versions| **versions = VersionTable::new(hasher));
    }

    /// Reads on for one try; everything, once the end is reached.
    pub(super) fn go_on(&mut self, pipeline: &Pipeline) -> Result<State, NotRead> {
        let topic = pipeline.state.name.as_str();
        if self.stage == Stage::Waits {
            let (_, stable) = self.consumer.fetch_watermarks(topic, self.partition.0, TRY)?;
            if Offset(stable) < self.end {
                let detail = format!("a transaction that writes `{topic}/{}` is open", self.partition);
                return Err(NotRead::Yet(detail));
            }
            let mut list = TopicPartitionList::with_capacity(1);
            list.add_partition_offset(topic, self.partition.0, ClientOffset::Beginning)?;
            self.consumer.assign(&list)?;
            self.stage = Stage::Reads;
        }
        let clock = Stopwatch::start();
        while let Some(left) = clock.left_of(TRY) {
            match self.consumer.poll(left) {
                Some(Ok(found)) => {
                    self.next = Offset(found.offset()).next();
                    let (positions, unreadable) = (&mut self.positions, &mut self.unreadable);
                    let versions = self.versions.as_deref_mut();
                    Entries { positions, versions, unreadable }.take(found.key(), found.payload());
                }
                // Behind everything that was stable when it was asked for, the end included.
                Some(Err(KafkaError::PartitionEOF(_))) => return self.read(),
                Some(Err(error)) => {
                    // An error may have ended the reading of the partition: it is read from its start again.
                    self.begin_anew();
                    return Err(error.into());
                }
                None => {}
            }
        }
        let (partition, next, end) = (self.partition, self.next, self.end);
        Err(NotRead::Yet(format!("`{topic}/{partition}` is being read, up to `{next}` of `{end}`")))
    }

    fn read(&mut self) -> Result<State, NotRead> {
        // Without its position a lane would begin somewhere without a word, and without its version a key with anything.
        if let Some((_, bad)) = self.unreadable.pop_first() {
            return Err(NotRead::Yet(bad.to_string()));
        }
        let positions = std::mem::take(&mut self.positions);
        let read = positions.into_iter().map(|(lane, position)| Ok((lane, position?)));
        let positions: Result<_, BadStateEntry> = read.collect();
        let positions = positions.map_err(|bad| NotRead::Yet(bad.to_string()))?;
        Ok(State { positions, versions: self.versions.take() })
    }
}

/// Where the entries of the state topic go.
struct Entries<'a> {
    positions: &'a mut BTreeMap<String, Result<LanePosition, BadStateEntry>>,
    versions: Option<&'a mut VersionTable>,
    unreadable: &'a mut BTreeMap<Vec<u8>, BadStateEntry>,
}

impl Entries<'_> {
    fn take(&mut self, key: Option<&[u8]>, value: Option<&[u8]>) {
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
                    self.unreadable.insert(key.clone(), bad);
                }
            }
        }
    }

    fn apply(&mut self, key: &[u8], applied: Option<Applied<'_>>) {
        let Some(versions) = self.versions.as_deref_mut() else { return };
        if !self.unreadable.is_empty() {
            self.unreadable.remove(key);
        }
        let hash = versions.hash(key);
        match applied {
            Some(Applied { version, fingerprint, .. }) => {
                versions.set(hash, Entry { version, tag: fingerprint });
            }
            None => drop(versions.remove(hash)),
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.consumer.context().end();
    }
}

fn client(config: &rdkafka::ClientConfig, kafka: &Kafka) -> Result<BaseConsumer<Context>, NotRead> {
    settings::create(config, Context::new("lookup"), kafka)
        .map_err(|error| NotRead::Never(ClientError::Settings(error)))
}
