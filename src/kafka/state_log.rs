//! The state topic of a pipeline, read by whoever wants to know: every partition from its start to its end.
//!
//! Needs no place in the group, and disturbs no owner of a task. What is read is committed; what an open transaction writes is
//! not part of it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::{Offset as ClientOffset, TopicPartitionList};

use crate::core::position::{Offset, Partition};
use crate::core::record::Header;
use crate::core::time::Timestamp;
use crate::kafka::admin::{AdminError, Refusals, unreachable};
use crate::kafka::convert::Converter;
use crate::kafka::desk::DeskError;
use crate::kafka::lookup::ends_reading;
use crate::kafka::settings;
use crate::kafka::stopwatch::Stopwatch;
use crate::topology::model::{Kafka, Pipeline};

/// One question to the brokers. The first one also connects.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// Between two records, or the last one and the end.
const RECORD_WITHIN: Duration = Duration::from_secs(30);

/// One record of the state topic.
pub(crate) struct Logged<'a> {
    /// Where it stands.
    pub(crate) partition: Partition,
    /// Its offset there.
    pub(crate) offset: Offset,
    /// When it was written.
    pub(crate) at: Timestamp,
    /// Its key.
    pub(crate) key: Option<&'a [u8]>,
    /// Its value.
    pub(crate) value: Option<&'a [u8]>,
    /// Copies its headers.
    pub(crate) headers: &'a dyn Fn() -> Vec<Header>,
}

impl fmt::Debug for Logged<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logged").field("partition", &self.partition).field("offset", &self.offset).finish()
    }
}

/// The state topic of one pipeline.
pub(crate) struct StateLog<'a> {
    pipeline: &'a Pipeline,
    consumer: BaseConsumer<Refusals>,
}

impl fmt::Debug for StateLog<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateLog").field("pipeline", &self.pipeline.name).finish_non_exhaustive()
    }
}

impl<'a> StateLog<'a> {
    /// Makes the client; nothing is asked of the brokers yet.
    pub(crate) fn open(kafka: &Kafka, pipeline: &'a Pipeline) -> Result<Self, DeskError> {
        let config = settings::state_consumer(kafka, pipeline);
        let consumer = settings::create(&config, Refusals::default(), kafka).map_err(AdminError::from)?;
        Ok(Self { pipeline, consumer })
    }

    /// Hands over everything that is committed when this is called, each partition in its order. May be called again.
    ///
    /// # Errors
    /// Where a partition cannot be read to its end.
    pub(crate) fn read(&self, mut each: impl FnMut(&Logged<'_>)) -> Result<(), DeskError> {
        let topic = self.pipeline.state.name.as_str();
        let mut ends = self.ends()?;
        let mut list = TopicPartitionList::with_capacity(ends.len());
        for partition in ends.keys() {
            let added = list.add_partition_offset(topic, partition.0, ClientOffset::Beginning);
            added.map_err(|error| self.unreachable(&error))?;
        }
        self.consumer.assign(&list).map_err(|error| self.unreachable(&error))?;
        let mut waited = Stopwatch::start();
        while !ends.is_empty() {
            let polled = self.consumer.poll(Duration::from_millis(200));
            if let Some((code, detail)) = self.consumer.client().fatal_error() {
                return Err(DeskError::Fatal { code, detail });
            }
            match polled {
                Some(Ok(found)) => {
                    waited = Stopwatch::start();
                    let (partition, offset) = (Partition(found.partition()), Offset(found.offset()));
                    let Some(end) = ends.get(&partition).copied() else { continue };
                    if offset < end {
                        hand_over(&found, &mut each);
                    }
                    if offset.next() >= end {
                        ends.remove(&partition);
                    }
                }
                // Behind everything that was committed when it was asked for.
                Some(Err(KafkaError::PartitionEOF(partition))) => drop(ends.remove(&Partition(partition))),
                Some(Err(error)) if ends_reading(&error) || is_refusal(&error) => {
                    return Err(self.cannot(error.to_string()));
                }
                Some(Err(error)) => tracing::debug!(%error, "the state topic is read on"),
                None => {}
            }
            if waited.left_of(RECORD_WITHIN).is_none() {
                let source = KafkaError::MessageConsumption(RDKafkaErrorCode::OperationTimedOut);
                return Err(self.unreachable(&source));
            }
        }
        Ok(())
    }

    /// Behind what is committed, of each partition that holds anything.
    fn ends(&self) -> Result<BTreeMap<Partition, Offset>, DeskError> {
        let topic = self.pipeline.state.name.as_str();
        let metadata = self.consumer.fetch_metadata(Some(topic), ANSWER_WITHIN);
        let metadata = metadata.map_err(|error| self.unreachable(&error))?;
        let found = metadata.topics().iter().find(|found| found.name() == topic);
        let found = found.ok_or_else(|| self.cannot("it is not there".to_owned()))?;
        if let Some(error) = found.error() {
            return Err(self.cannot(RDKafkaErrorCode::from(error).to_string()));
        }
        let mut ends = BTreeMap::new();
        for partition in found.partitions() {
            let range = self.consumer.fetch_watermarks(topic, partition.id(), ANSWER_WITHIN);
            let (start, end) = range.map_err(|error| self.unreachable(&error))?;
            if start < end {
                ends.insert(Partition(partition.id()), Offset(end));
            }
        }
        Ok(ends)
    }

    fn cannot(&self, detail: String) -> DeskError {
        DeskError::Topic { topic: self.pipeline.state.name.clone(), detail }
    }

    fn unreachable(&self, error: &KafkaError) -> DeskError {
        unreachable(&self.consumer, error).into()
    }
}

fn hand_over(found: &BorrowedMessage<'_>, each: &mut impl FnMut(&Logged<'_>)) {
    let at = Timestamp::from_millis(found.timestamp().to_millis().unwrap_or_default());
    each(&Logged {
        partition: Partition(found.partition()),
        offset: Offset(found.offset()),
        at,
        key: found.key(),
        value: found.payload(),
        headers: &|| Converter::default().record(found).headers,
    });
}

/// Whether the brokers do not let us read.
fn is_refusal(error: &KafkaError) -> bool {
    let code = error.rdkafka_error_code();
    matches!(
        code,
        Some(RDKafkaErrorCode::TopicAuthorizationFailed | RDKafkaErrorCode::GroupAuthorizationFailed)
    )
}
