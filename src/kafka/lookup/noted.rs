//! The positions that a task's partition of the state topic holds, read to its end.
//!
//! The end is asked for without regard to open transactions, after the group's offsets were: then everything is below it that
//! an earlier owner has committed. It is read once the transactions before it have ended.

use std::collections::BTreeMap;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::{Offset as ClientOffset, TopicPartitionList};

use crate::core::position::{Epoch, Offset, Partition};
use crate::core::state::{BadStateEntry, LanePosition, StateEntry};
use crate::kafka::context::Context;
use crate::kafka::error::ClientError;
use crate::kafka::lookup::TRY;
use crate::kafka::settings;
use crate::kafka::stopwatch::Stopwatch;
use crate::topology::model::{Kafka, Pipeline};

/// The newest position of each lane, by the lane's word.
pub(super) type Positions = BTreeMap<String, LanePosition>;

/// One partition of the state topic, as far as it is read.
pub(super) struct Reading {
    pub(super) partition: Partition,
    pub(super) epoch: Epoch,
    consumer: BaseConsumer<Context>,
    end: Offset,
    stage: Stage,
    positions: BTreeMap<String, Result<LanePosition, BadStateEntry>>,
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
        partition: Partition,
        epoch: Epoch,
    ) -> Result<Self, NotRead> {
        let mut config = settings::lane_consumer(kafka, pipeline);
        config.set("enable.partition.eof", "true");
        let consumer = client(&config, kafka)?;
        let impatient = client(&settings::impatient_consumer(kafka, pipeline), kafka)?;
        let topic = pipeline.state.name.as_str();
        let (_, end) = impatient.fetch_watermarks(topic, partition.0, TRY)?;
        let (stage, positions) = (Stage::Waits, BTreeMap::new());
        Ok(Self { partition, epoch, consumer, end: Offset(end), stage, positions })
    }

    /// Reads on for one try; everything, once the end is reached.
    pub(super) fn go_on(&mut self, pipeline: &Pipeline) -> Result<Positions, NotRead> {
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
            let (key, value) = match self.consumer.poll(left) {
                Some(Ok(found)) => (found.key().map(<[u8]>::to_vec), found.payload().map(<[u8]>::to_vec)),
                // Behind everything that was stable when it was asked for, the end included.
                Some(Err(KafkaError::PartitionEOF(_))) => return self.read(),
                Some(Err(error)) => {
                    // An error may have ended the reading of the partition: it is read from its start again.
                    self.positions.clear();
                    self.stage = Stage::Waits;
                    return Err(error.into());
                }
                None => continue,
            };
            self.take(key.as_deref(), value.as_deref());
        }
        Err(NotRead::Yet(format!("`{topic}/{}` is being read", self.partition)))
    }

    fn take(&mut self, key: Option<&[u8]>, value: Option<&[u8]>) {
        match StateEntry::read(key, value) {
            Ok(StateEntry::Position { lane, position: Some(position) }) => {
                self.positions.insert(lane, Ok(position));
            }
            Ok(StateEntry::Position { lane, position: None }) => drop(self.positions.remove(&lane)),
            Ok(StateEntry::Applied { .. } | StateEntry::Unknown) => {}
            Err(BadStateEntry::Key) => tracing::debug!("a key of the state topic is not redrive's"),
            Err(bad @ BadStateEntry::Position { .. }) => {
                if let BadStateEntry::Position { lane, .. } = &bad {
                    self.positions.insert(lane.clone(), Err(bad));
                }
            }
            // No position depends on it.
            Err(bad @ BadStateEntry::Applied { .. }) => tracing::debug!(%bad, "an entry cannot be read"),
        }
    }

    fn read(&mut self) -> Result<Positions, NotRead> {
        let positions = std::mem::take(&mut self.positions);
        // Without its position a lane would begin somewhere without a word.
        let read = positions.into_iter().map(|(lane, position)| Ok((lane, position?)));
        read.collect::<Result<_, BadStateEntry>>().map_err(|bad| NotRead::Yet(bad.to_string()))
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
