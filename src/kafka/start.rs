//! Where a lane begins that the group has no offset for, resolved once to a number.

use std::thread;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::{Offset as ClientOffset, TopicPartitionList};

use crate::core::position::{Offset, Partition};
use crate::core::time::Timestamp;
use crate::kafka::context::Context;
use crate::kafka::error::ClientError;
use crate::kafka::settings;
use crate::kafka::stopwatch::Stopwatch;
use crate::topology::model::{Kafka, Pipeline, Start};

/// Where the log of a partition begins and ends for a reader of committed records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogRange {
    /// The offset of the oldest record.
    pub(crate) start: Offset,
    /// Behind the newest record that is not part of an open transaction.
    pub(crate) end: Offset,
}

/// What the group knew before any worker of this process joined it; only `start = "latest"` asks.
///
/// A partition without an offset is either part of the pipeline's first start, where `latest` means its end, or has
/// appeared later, where everything in it is new. Once the first worker has committed, both look the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing: the pipeline starts for the first time, on this many source partitions.
    New {
        /// Partitions of the source topic at that moment.
        partitions: usize,
    },
    /// Offsets of some partitions.
    Known,
}

/// How long one try to reach the broker may take.
const TRY: Duration = Duration::from_secs(5);

/// Between two tries of which the first failed at once.
const PAUSE: Duration = Duration::from_millis(100);

impl Standing {
    /// Asks the broker, before any worker of this process joins the group; tries again until `patience` is used up.
    pub(crate) fn look(kafka: &Kafka, pipeline: &Pipeline, patience: Duration) -> Result<Self, ClientError> {
        if pipeline.start != Start::Latest {
            return Ok(Self::Known);
        }
        let config = settings::lane_consumer(kafka, pipeline);
        let consumer = settings::create(&config, Context::new("lookup"), kafka)?;
        let watch = Stopwatch::start();
        loop {
            match Self::ask(&consumer, pipeline) {
                Ok(standing) => return Ok(standing),
                Err(source) if watch.left_of(patience).is_none() => {
                    return Err(ClientError::Call {
                        client: "lookup",
                        call: "tell the group's offsets",
                        source,
                    });
                }
                Err(error) => {
                    tracing::debug!(%error, "the group's offsets are not known yet");
                    thread::sleep(PAUSE);
                }
            }
        }
    }

    fn ask(consumer: &BaseConsumer<Context>, pipeline: &Pipeline) -> KafkaResult<Self> {
        let topic = pipeline.source.as_str();
        let metadata = consumer.fetch_metadata(Some(topic), TRY)?;
        let partitions = metadata.topics().iter().map(|topic| topic.partitions().len()).sum();
        let mut list = TopicPartitionList::with_capacity(partitions);
        for partition in (0..).take(partitions) {
            list.add_partition(topic, partition);
        }
        let committed = consumer.committed_offsets(list, TRY)?;
        for element in committed.elements() {
            element.error()?;
        }
        let known =
            committed.elements().iter().any(|element| matches!(element.offset(), ClientOffset::Offset(_)));
        Ok(if known { Self::Known } else { Self::New { partitions } })
    }

    fn includes(self, partition: Partition) -> bool {
        match self {
            Self::New { partitions } => usize::try_from(partition.0).is_ok_and(|number| number < partitions),
            Self::Known => false,
        }
    }
}

/// Resolves `start` for one source partition.
pub(super) struct Resolver<'a> {
    pub(super) consumer: &'a BaseConsumer<Context>,
    pub(super) kafka: &'a Kafka,
    pub(super) pipeline: &'a Pipeline,
    pub(super) standing: Standing,
    pub(super) patience: Duration,
}

impl Resolver<'_> {
    /// The offset to start at; may lie outside of `log` where another group's offset does.
    pub(super) fn resolve(&self, partition: Partition, log: LogRange) -> Result<Offset, ClientError> {
        match &self.pipeline.start {
            Start::Earliest => Ok(log.start),
            Start::Latest if self.standing.includes(partition) => Ok(log.end),
            // It has appeared since the group first committed: everything in it is new.
            Start::Latest => Ok(log.start),
            Start::At(time) => self.at(partition, *time, log),
            Start::Group(group) => self.of_group(group, partition, log),
        }
    }

    fn at(&self, partition: Partition, time: Timestamp, log: LogRange) -> Result<Offset, ClientError> {
        let topic = self.pipeline.source.as_str();
        let mut list = TopicPartitionList::with_capacity(1);
        let found = list
            .add_partition_offset(topic, partition.0, ClientOffset::Offset(time.as_millis()))
            .and_then(|()| self.consumer.offsets_for_times(list, self.patience))
            .and_then(|found| first(&found));
        match found.map_err(|source| refused("find an offset by time", source))? {
            ClientOffset::Offset(offset) => Ok(Offset(offset)),
            // No record is that young.
            ClientOffset::Beginning
            | ClientOffset::End
            | ClientOffset::Stored
            | ClientOffset::Invalid
            | ClientOffset::OffsetTail(_) => Ok(log.end),
        }
    }

    fn of_group(&self, group: &str, partition: Partition, log: LogRange) -> Result<Offset, ClientError> {
        let mut config = settings::lane_consumer(self.kafka, self.pipeline);
        config.set("group.id", group);
        let other: BaseConsumer<Context> = settings::create(&config, Context::new("lookup"), self.kafka)?;
        let mut list = TopicPartitionList::with_capacity(1);
        list.add_partition(self.pipeline.source.as_str(), partition.0);
        let found = other.committed_offsets(list, self.patience).and_then(|found| first(&found));
        match found.map_err(|source| refused("tell another group's offset", source))? {
            ClientOffset::Offset(offset) => Ok(Offset(offset)),
            // That group never stood in this partition: everything in it is new.
            ClientOffset::Beginning
            | ClientOffset::End
            | ClientOffset::Stored
            | ClientOffset::Invalid
            | ClientOffset::OffsetTail(_) => Ok(log.start),
        }
    }
}

fn first(list: &TopicPartitionList) -> KafkaResult<ClientOffset> {
    let elements = list.elements();
    let Some(element) = elements.first() else { return Ok(ClientOffset::Invalid) };
    element.error()?;
    Ok(element.offset())
}

fn refused(call: &'static str, source: rdkafka::error::KafkaError) -> ClientError {
    ClientError::Call { client: "lookup", call, source }
}
