//! Where a lane begins that the group has no offset for, resolved once to a number.

use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::{Offset as ClientOffset, TopicPartitionList};

use crate::core::position::{CommitMark, Founding, Offset, Partition, TopicName};
use crate::core::time::Timestamp;
use crate::kafka::context::Context;
use crate::kafka::error::ClientError;
use crate::kafka::settings;
use crate::topology::model::{Kafka, Pipeline, Start};

/// Where the log of a partition begins and ends for a reader of committed records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogRange {
    /// The offset of the oldest record.
    pub(crate) start: Offset,
    /// Behind the newest record that is not part of an open transaction.
    pub(crate) end: Offset,
}

/// Resolves `start` for one source partition.
pub(super) struct Resolver<'a> {
    pub(super) consumer: &'a BaseConsumer<Context>,
    pub(super) kafka: &'a Kafka,
    pub(super) pipeline: &'a Pipeline,
    pub(super) founding: Founding,
    pub(super) patience: Duration,
}

impl Resolver<'_> {
    /// The offset to start at; may lie outside of `log` where another group's offset does.
    pub(super) fn resolve(&self, partition: Partition, log: LogRange) -> Result<Offset, ClientError> {
        match &self.pipeline.start {
            Start::Earliest => Ok(log.start),
            Start::Latest if self.founding.includes(partition) => Ok(log.end),
            // It has appeared since the pipeline first started: everything in it is new.
            Start::Latest => Ok(log.start),
            Start::At(time) => self.at(partition, *time, log),
            Start::Group(group) => self.of_group(group, partition, log),
        }
    }

    fn at(&self, partition: Partition, time: Timestamp, log: LogRange) -> Result<Offset, ClientError> {
        let topic = &self.pipeline.source;
        let found = first_since(self.consumer, topic, partition, time, self.patience);
        // No record is that young.
        found
            .map(|offset| offset.unwrap_or(log.end))
            .map_err(|source| refused("find an offset by time", source))
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

/// What the group was founded on: what its marks say, and where it has committed nothing yet, what there is now. Offsets
/// without a mark, as a tool writes them, found it on nothing: what has no offset is new.
pub(super) fn founding(
    kafka: &Kafka,
    pipeline: &Pipeline,
    patience: Duration,
) -> Result<Founding, ClientError> {
    let config = settings::impatient_consumer(kafka, pipeline);
    let consumer: BaseConsumer<Context> = settings::create(&config, Context::new("lookup"), kafka)?;
    ask(&consumer, pipeline, patience).map_err(|source| refused("tell the group's offsets", source))
}

fn ask(consumer: &BaseConsumer<Context>, pipeline: &Pipeline, patience: Duration) -> KafkaResult<Founding> {
    let topic = pipeline.source.as_str();
    let metadata = consumer.fetch_metadata(Some(topic), patience)?;
    let partitions: usize = metadata.topics().iter().map(|topic| topic.partitions().len()).sum();
    let mut list = TopicPartitionList::with_capacity(partitions);
    for partition in (0..).take(partitions) {
        list.add_partition(topic, partition);
    }
    let committed = consumer.committed_offsets(list, patience)?;
    let (mut known, mut founded) = (0usize, None);
    for element in committed.elements() {
        element.error()?;
        if let ClientOffset::Offset(_) = element.offset() {
            known = known.saturating_add(1);
            let mark = element.metadata().parse::<CommitMark>().ok();
            founded = founded.into_iter().chain(mark.map(|mark| mark.founding)).min();
        }
    }
    Ok(match (known, founded) {
        (0, _) => Founding(u32::try_from(partitions).unwrap_or(u32::MAX)),
        (_, Some(founding)) => founding,
        (_, None) => Founding::default(),
    })
}

/// The first offset of a partition whose record carries this time or a later one; `None` where no record is that young.
pub(super) fn first_since(
    consumer: &BaseConsumer<Context>,
    topic: &TopicName,
    partition: Partition,
    time: Timestamp,
    patience: Duration,
) -> KafkaResult<Option<Offset>> {
    let mut list = TopicPartitionList::with_capacity(1);
    list.add_partition_offset(topic.as_str(), partition.0, ClientOffset::Offset(time.as_millis()))?;
    let found = consumer.offsets_for_times(list, patience)?;
    Ok(match first(&found)? {
        ClientOffset::Offset(offset) => Some(Offset(offset)),
        ClientOffset::Beginning
        | ClientOffset::End
        | ClientOffset::Stored
        | ClientOffset::Invalid
        | ClientOffset::OffsetTail(_) => None,
    })
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
