//! What a task's partition of the state topic holds, read to its end: positions of lanes, versions of keys.
//!
//! The end is asked for without regard to open transactions, after the group's offsets were: then everything is below it that
//! an earlier owner has committed. It is read once the transactions before it have ended.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset as ClientOffset, TopicPartitionList};

use crate::core::guard::{Entry, KeyHasher, VersionTable};
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
    begun: Stopwatch,
    end: Offset,
    stage: Stage,
    entries: Entries,
    /// Of the keys, where the pipeline has a guard.
    hasher: Option<KeyHasher>,
    /// What could not be read when it was read to its end last.
    unreadable_last: Option<String>,
    /// How far it is read.
    next: Offset,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Transactions before the end may be open.
    Waits,
    Reads,
    /// What was asked for is to be asked for again.
    Old,
}

/// A pending transaction ends sooner.
const LONGEST_END: Duration = Duration::from_secs(60);

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
        let hasher = pipeline.policy.order.is_guarded().then_some(hasher);
        Ok(Self {
            partition,
            epoch,
            begun: Stopwatch::start(),
            consumer,
            end: Offset(end),
            stage: Stage::Waits,
            entries: Entries::new(hasher),
            hasher,
            unreadable_last: None,
            next: Offset(0),
        })
    }

    /// Forgets what was read.
    fn begin_anew(&mut self) {
        self.stage = Stage::Waits;
        self.next = Offset(0);
        self.entries = Entries::new(self.hasher);
    }

    /// Whether it must be begun anew.
    pub(super) fn is_old(&self) -> bool {
        self.stage == Stage::Old
    }

    /// Reads on for one try; everything, once the end is reached.
    pub(super) fn go_on(&mut self, pipeline: &Pipeline) -> Result<State, NotRead> {
        let topic = pipeline.state.name.as_str();
        if self.stage == Stage::Waits {
            let (_, stable) = self.consumer.fetch_watermarks(topic, self.partition.0, TRY)?;
            if Offset(stable) < self.end {
                if self.begun.left_of(LONGEST_END).is_none() {
                    // The topic may have been made anew since.
                    self.stage = Stage::Old;
                }
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
                    self.entries.take(found.key(), found.payload());
                }
                // Behind everything that was stable when it was asked for, the end included.
                Some(Err(KafkaError::PartitionEOF(_))) => return self.read(pipeline),
                Some(Err(error)) => {
                    if ends_reading(&error) {
                        self.begin_anew();
                    }
                    return Err(error.into());
                }
                None => {}
            }
        }
        let (partition, next, end) = (self.partition, self.next, self.end);
        let goes_on = || format!("`{topic}/{partition}` is being read, up to `{next}` of `{end}`");
        Err(NotRead::Yet(self.unreadable_last.clone().unwrap_or_else(goes_on)))
    }

    fn read(&mut self, pipeline: &Pipeline) -> Result<State, NotRead> {
        // Without its position a lane would begin somewhere without a word, and without its version a key with anything.
        if let Some(bad) = self.entries.unreadable() {
            let place = format!("{}/{}", pipeline.state.name, self.partition);
            let hint = "a newer redrive may have written it: run that, or write the entry of this key anew";
            let detail = format!("`{place}`: {bad}; {hint}");
            self.unreadable_last = Some(detail.clone());
            // All of it, since somebody may have mended it.
            self.begin_anew();
            return Err(NotRead::Yet(detail));
        }
        let Entries { positions, versions, .. } = std::mem::replace(&mut self.entries, Entries::new(None));
        let positions = positions.into_iter();
        let positions = positions.filter_map(|(lane, position)| Some((lane, position.ok()?))).collect();
        Ok(State { positions, versions })
    }
}

/// The newest entries of what is read so far.
struct Entries {
    positions: BTreeMap<String, Result<LanePosition, BadStateEntry>>,
    versions: Option<Box<VersionTable>>,
    /// The keys whose newest entries cannot be read.
    bad_versions: BTreeMap<Vec<u8>, BadStateEntry>,
}

impl Entries {
    /// Nothing; versions are left out without a hasher.
    fn new(hasher: Option<KeyHasher>) -> Self {
        let versions = hasher.map(|hasher| Box::new(VersionTable::new(hasher)));
        Self { positions: BTreeMap::new(), versions, bad_versions: BTreeMap::new() }
    }

    /// One that cannot be read.
    fn unreadable(&self) -> Option<&BadStateEntry> {
        let positions = self.positions.values().filter_map(|position| position.as_ref().err());
        positions.chain(self.bad_versions.values()).next()
    }

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
                    self.bad_versions.insert(key.clone(), bad);
                }
            }
        }
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

impl Drop for Reading {
    fn drop(&mut self) {
        self.consumer.context().end();
    }
}

/// Whether the client reads no further after an error: all others it tells and goes on by itself.
fn ends_reading(error: &KafkaError) -> bool {
    let code = error.rdkafka_error_code();
    matches!(
        code,
        Some(
            RDKafkaErrorCode::AutoOffsetReset
                | RDKafkaErrorCode::OffsetOutOfRange
                | RDKafkaErrorCode::UnknownTopic
                | RDKafkaErrorCode::UnknownPartition
                | RDKafkaErrorCode::UnknownTopicOrPartition
                | RDKafkaErrorCode::Fatal
        )
    )
}

fn client(config: &rdkafka::ClientConfig, kafka: &Kafka) -> Result<BaseConsumer<Context>, NotRead> {
    settings::create(config, Context::new("lookup"), kafka)
        .map_err(|error| NotRead::Never(ClientError::Settings(error)))
}
