//! What a task's partition of the state topic holds, read to its end: positions of lanes, versions of keys.
//!
//! The end is asked for without regard to open transactions, after the group's offsets were: then everything is below it that
//! an earlier owner has committed. It is read once the transactions before it have ended.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset as ClientOffset, TopicPartitionList};

use crate::core::guard::KeyHasher;
use crate::core::policy::OrderPolicy;
use crate::core::position::{Epoch, Offset, Partition};
use crate::core::state::{BadStateEntry, Keys, LanePosition, StateEntry};
use crate::kafka::context::Context;
use crate::kafka::convert::Converter;
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
    /// What is known of keys; only where the pipeline has a guard or parks.
    pub(super) keys: Option<Box<Keys>>,
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
    /// Of the keys, and their order, where the pipeline has a guard or parks.
    hasher: Option<(KeyHasher, OrderPolicy)>,
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
        let order = &pipeline.policy.order;
        let hasher = order.keeps_state().then(|| (hasher, order.clone()));
        Ok(Self {
            partition,
            epoch,
            begun: Stopwatch::start(),
            consumer,
            end: Offset(end),
            stage: Stage::Waits,
            entries: Entries::new(hasher.as_ref()),
            hasher,
            unreadable_last: None,
            next: Offset(0),
        })
    }

    /// Forgets what was read.
    fn begin_anew(&mut self) {
        self.stage = Stage::Waits;
        self.next = Offset(0);
        self.entries = Entries::new(self.hasher.as_ref());
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
                    self.entries.take(&found);
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
        let Entries { positions, keys } = std::mem::replace(&mut self.entries, Entries::new(None));
        let positions = positions.into_iter();
        let positions = positions.filter_map(|(lane, position)| Some((lane, position.ok()?))).collect();
        Ok(State { positions, keys })
    }
}

/// The newest entries of what is read so far.
struct Entries {
    positions: BTreeMap<String, Result<LanePosition, BadStateEntry>>,
    keys: Option<Box<Keys>>,
}

impl Entries {
    /// Nothing; what is known of keys is left out without a hasher.
    fn new(order: Option<&(KeyHasher, OrderPolicy)>) -> Self {
        let keys = order.map(|(hasher, order)| Box::new(Keys::new(*hasher, order)));
        Self { positions: BTreeMap::new(), keys }
    }

    /// One that cannot be read.
    fn unreadable(&self) -> Option<&BadStateEntry> {
        let positions = self.positions.values().filter_map(|position| position.as_ref().err());
        positions.chain(self.keys.iter().filter_map(|keys| keys.unreadable())).next()
    }

    fn take(&mut self, found: &BorrowedMessage<'_>) {
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
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.consumer.context().end();
    }
}

/// Whether the client reads no further after an error: all others it tells and goes on by itself.
pub(in crate::kafka) fn ends_reading(error: &KafkaError) -> bool {
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
