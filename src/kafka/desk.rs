//! The desk where operators ask: requests are written to the control lane, their answers read from the cases.
//!
//! Needs nothing but Kafka: no worker on this machine, no place in the group. What is asked and what an answer means is not
//! decided here.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::{Offset as ClientOffset, TopicPartitionList};

use crate::core::control::{Answer, BadAnswer, Request, RequestId};
use crate::core::event::{Target, Write};
use crate::core::position::{Offset, Partition, TopicName};
use crate::core::time::Timestamp;
use crate::kafka::admin::AdminError;
use crate::kafka::context::Context;
use crate::kafka::producer::{Producer, SendError};
use crate::kafka::settings;
use crate::kafka::start;
use crate::kafka::stopwatch::Stopwatch;
use crate::topology::model::{Kafka, Pipeline};

/// One question to the brokers. The first one also connects.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// A request is in Kafka within this, or given up.
pub(super) const WRITTEN_WITHIN: Duration = Duration::from_secs(10);
/// How long a delivery report may come after that.
const REPORT: Duration = Duration::from_secs(5);
/// The clocks of whoever asks and of the worker that answers differ by less.
const SKEW_MILLIS: i64 = 86_400_000;

/// What became of the requests that were asked for.
pub(crate) type Answers = BTreeMap<RequestId, Result<Answer, BadAnswer>>;

/// Nothing could be asked, or no answer read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeskError {
    /// The brokers could not be asked.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// A topic is not there, or not for us.
    #[error("topic `{topic}`: {detail}\nhint: `redrive topics plan` shows what is missing")]
    Topic {
        /// The topic.
        topic: TopicName,
        /// The brokers' words.
        detail: String,
    },
    /// It is not certain that a request was written.
    #[error(
        "`{id}` may not have been written to `{topic}`: {detail}\nhint: `redrive answer {id}` shows whether it was"
    )]
    NotWritten {
        /// The request.
        id: RequestId,
        /// The control lane.
        topic: TopicName,
        /// The client's words.
        detail: String,
    },
    /// The client says of itself that it cannot go on.
    #[error("the client cannot go on: {code}: {detail}")]
    Fatal {
        /// The kind of error.
        code: RDKafkaErrorCode,
        /// The client's words.
        detail: String,
    },
}

/// A connection for requests to one pipeline.
pub(crate) struct Desk<'a> {
    pipeline: &'a Pipeline,
    producer: Producer,
    reader: BaseConsumer<Context>,
}

impl fmt::Debug for Desk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").field("pipeline", &self.pipeline.name).finish_non_exhaustive()
    }
}

impl<'a> Desk<'a> {
    /// Makes the clients; nothing is asked of the brokers yet.
    pub(crate) fn open(kafka: &Kafka, pipeline: &'a Pipeline) -> Result<Self, DeskError> {
        let config = settings::request_producer(kafka, pipeline);
        let producer = Producer::make(&config, kafka).map_err(AdminError::from)?;
        let mut config = settings::lane_consumer(kafka, pipeline);
        config.set("enable.partition.eof", "true");
        let reader = settings::create(&config, Context::new("answers"), kafka).map_err(AdminError::from)?;
        Ok(Self { pipeline, producer, reader })
    }

    /// Writes requests, each to the control lane of its task, and waits up to `patience` for their answers. Those that are
    /// missing in what is returned have none yet.
    pub(crate) fn ask(
        &self,
        requests: &[(Partition, Request)],
        patience: Duration,
    ) -> Result<Answers, DeskError> {
        for (partition, _) in requests {
            self.look(&self.pipeline.control.name, *partition)?;
            self.look(&self.pipeline.cases.name, *partition)?;
        }
        // No answer lies before what is there now.
        let mut starts = BTreeMap::new();
        for (partition, _) in requests {
            let (_, end) = self.watermarks(*partition)?;
            starts.insert(*partition, end);
        }
        self.write(requests)?;
        self.read(&starts, requests.iter().map(|(_, request)| &request.id), patience)
    }

    /// Waits up to `patience` for the answers to requests that were written before.
    pub(crate) fn ask_again(&self, ids: &[RequestId], patience: Duration) -> Result<Answers, DeskError> {
        let mut starts: BTreeMap<Partition, i64> = BTreeMap::new();
        for (partition, at) in ids.iter().filter_map(RequestId::asked) {
            self.look(&self.pipeline.cases.name, partition)?;
            let start = self.first_since(partition, at)?;
            starts.entry(partition).and_modify(|known| *known = start.min(*known)).or_insert(start);
        }
        self.read(&starts, ids.iter(), patience)
    }

    fn write(&self, requests: &[(Partition, Request)]) -> Result<(), DeskError> {
        let topic = &self.pipeline.control.name;
        let not_written = |id: &RequestId, detail: String| DeskError::NotWritten {
            id: id.clone(),
            topic: topic.clone(),
            detail,
        };
        for (index, (partition, request)) in requests.iter().enumerate() {
            let write = Write {
                // The target is the core's word; this topic is none of its.
                target: Target::Cases,
                partition: *partition,
                timestamp: Some(request.at),
                key: Some(request.key()),
                value: Some(request.value()),
                headers: Vec::new(),
            };
            let sent = self.producer.send(topic.as_str(), Some(*partition), index, &write);
            sent.map_err(|error| match error {
                SendError::QueueFull => not_written(&request.id, "the client's queue is full".to_owned()),
                SendError::Failed(code) => not_written(&request.id, code.to_string()),
            })?;
        }
        let delivered = self.producer.wait_for_deliveries(WRITTEN_WITHIN.saturating_add(REPORT));
        let failure = self.producer.delivery_failure();
        let failed =
            failure.and_then(|failure| Some((requests.get(failure.index)?, failure.code.to_string())));
        match (failed, delivered, requests.first()) {
            (Some(((_, request), detail)), ..) => Err(not_written(&request.id, detail)),
            (None, Err(left), Some((_, request))) => {
                Err(not_written(&request.id, format!("`{}` without a delivery report", left.0)))
            }
            (None, Ok(()), _) | (None, Err(_), None) => Ok(()),
        }
    }

    /// Reads the cases from these offsets on until every request has its answer, or the time is over.
    fn read<'i>(
        &self,
        starts: &BTreeMap<Partition, i64>,
        ids: impl Iterator<Item = &'i RequestId>,
        patience: Duration,
    ) -> Result<Answers, DeskError> {
        let topic = &self.pipeline.cases.name;
        let mut open: Vec<&RequestId> = ids.collect();
        let mut list = TopicPartitionList::with_capacity(starts.len());
        for (partition, start) in starts {
            let added = list.add_partition_offset(topic.as_str(), partition.0, ClientOffset::Offset(*start));
            added.map_err(|error| self.unreachable(&error))?;
        }
        self.reader.assign(&list).map_err(|error| self.unreachable(&error))?;
        drop(list);
        let (clock, mut answers) = (Stopwatch::start(), Answers::new());
        while let Some(left) = clock.left_of(patience).filter(|_| !open.is_empty()) {
            match self.reader.poll(left.min(Duration::from_millis(200))) {
                Some(Ok(found)) => {
                    let read = found.key().and_then(|key| Answer::read(key, found.payload()));
                    if let Some((id, answer)) = read.filter(|(id, _)| open.contains(&id)) {
                        open.retain(|asked| **asked != id);
                        answers.insert(id, answer);
                    }
                }
                Some(Err(error)) => tracing::debug!(%error, "no answer yet"),
                None => {}
            }
            if let Some((code, detail)) = self.reader.client().fatal_error() {
                return Err(DeskError::Fatal { code, detail });
            }
        }
        Ok(answers)
    }

    /// Checks that a partition can be written and read.
    fn look(&self, topic: &TopicName, partition: Partition) -> Result<(), DeskError> {
        let state = self.producer.topic_state(topic.as_str(), ANSWER_WITHIN);
        let state = state.map_err(|error| self.unreachable(&error))?;
        match state.obstacle(Some(partition)) {
            None => Ok(()),
            Some(detail) => Err(DeskError::Topic { topic: topic.clone(), detail }),
        }
    }

    fn watermarks(&self, partition: Partition) -> Result<(i64, i64), DeskError> {
        let topic = self.pipeline.cases.name.as_str();
        let found = self.reader.fetch_watermarks(topic, partition.0, ANSWER_WITHIN);
        found.map_err(|error| self.unreachable(&error))
    }

    /// Where answers to what was asked at this time can begin.
    fn first_since(&self, partition: Partition, at: Timestamp) -> Result<i64, DeskError> {
        let since = Timestamp::from_millis(at.as_millis().saturating_sub(SKEW_MILLIS).max(0));
        let topic = &self.pipeline.cases.name;
        let found = start::first_since(&self.reader, topic, partition, since, ANSWER_WITHIN);
        match found.map_err(|error| self.unreachable(&error))? {
            Some(Offset(offset)) => Ok(offset),
            // Nothing is that young.
            None => self.watermarks(partition).map(|(_, end)| end),
        }
    }

    fn unreachable(&self, error: &KafkaError) -> DeskError {
        match self.producer.authentication_failure() {
            Some(detail) => AdminError::Authentication { detail },
            None => AdminError::Unreachable { detail: error.to_string() },
        }
        .into()
    }
}
