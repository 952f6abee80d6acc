//! Partitions read by hand: each has its own queue, its own pace, and is begun and ended on its own.
//!
//! Owns one consumer and the queues of its open partitions. A partition is held by not polling its queue: pausing would
//! throw away what is fetched. The worker's second consumer, which reads the tiers, is a plain reader: same group id, so
//! that the group's offsets are its offsets, but never subscribed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::base_consumer::PartitionQueue;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::{ClientConfig, Offset as ClientOffset, TopicPartitionList};

use crate::core::position::{Lane, Offset, Partition, TopicName};
use crate::core::record::Record;
use crate::kafka::context::Context;
use crate::kafka::convert::Converter;
use crate::kafka::error::ClientError;
use crate::kafka::{raw, settings};
use crate::topology::model::{Kafka, Pipeline};

/// One lane of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LaneId {
    /// The task.
    pub(crate) partition: Partition,
    /// The lane.
    pub(crate) lane: Lane,
}

/// Told from the client's threads; must neither block nor call the client.
pub(crate) trait Wake: Send + Sync + 'static {
    /// A lane that was empty has records.
    fn lane(&self, lane: LaneId);
    /// A consumer has something to say that is not a record of an open lane.
    fn consumer(&self);
}

/// Where to begin to read a lane.
#[derive(Clone, Debug)]
pub(crate) struct Begin {
    /// The lane.
    pub(crate) id: LaneId,
    /// Its topic.
    pub(crate) topic: TopicName,
    /// The offset of the first record wanted.
    pub(crate) offset: Offset,
}

/// What polling a lane gave.
#[derive(Debug)]
pub(crate) enum Fetch {
    /// Records, rising offsets.
    Records(Vec<Record>),
    /// Nothing there yet; [`Wake::lane`] tells when there is.
    Empty,
    /// The broker no longer has, or never had, the record at `next`. The lane gives nothing until it is begun anew.
    OutOfRange {
        /// The offset that was asked for.
        next: Offset,
    },
}

/// One consumer and its open lanes.
pub(crate) struct Reader {
    client: &'static str,
    /// Before the consumer, which they keep alive: fields are dropped in order.
    open: BTreeMap<LaneId, OpenLane>,
    converter: Converter,
    wake: Arc<dyn Wake>,
    /// Lanes of which a record came on the main queue.
    astray: BTreeSet<(String, Partition)>,
    outage: Option<String>,
    refusals: Vec<String>,
    consumer: Arc<BaseConsumer<Context>>,
}

struct OpenLane {
    topic: TopicName,
    /// `None` once its task was given up: what is still fetched is never read.
    queue: Option<PartitionQueue<Context>>,
    /// Behind the last record that was handed over, and behind what was passed.
    next: Offset,
    range: Range,
    /// Where the client stood in this partition when it was begun.
    before: Option<Offset>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Range {
    Inside,
    Outside,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("client", &self.client).field("open", &self.open.keys()).finish()
    }
}

impl Reader {
    /// Makes the consumer of the tiers.
    pub(crate) fn of_tiers(
        kafka: &Kafka,
        pipeline: &Pipeline,
        wake: Arc<dyn Wake>,
    ) -> Result<Self, ClientError> {
        Self::new("lanes", &settings::lane_consumer(kafka, pipeline), kafka, wake)
    }

    /// Makes a consumer that is not subscribed to anything.
    pub(super) fn new(
        client: &'static str,
        config: &ClientConfig,
        kafka: &Kafka,
        wake: Arc<dyn Wake>,
    ) -> Result<Self, ClientError> {
        let mut consumer: BaseConsumer<Context> = settings::create(config, Context::new(client), kafka)?;
        let waker = Arc::clone(&wake);
        consumer.set_nonempty_callback(move || waker.consumer());
        let converter = Converter::default();
        let consumer = Arc::new(consumer);
        Ok(Self {
            client,
            open: BTreeMap::new(),
            converter,
            wake,
            astray: BTreeSet::new(),
            outage: None,
            refusals: Vec::new(),
            consumer,
        })
    }

    pub(super) fn consumer(&self) -> &BaseConsumer<Context> {
        &self.consumer
    }

    /// Begins to read lanes, each at its offset. Outside of any change of the group this is no part of the group's
    /// protocol, so it may come any time after the partitions were assigned.
    pub(crate) fn begin(&mut self, lanes: Vec<Begin>) -> Result<(), ClientError> {
        let mut list = TopicPartitionList::with_capacity(lanes.len());
        let positions = self.positions(lanes.iter().map(|begin| (&begin.topic, begin.id.partition)))?;
        for Begin { id, topic, offset } in lanes {
            // Split before it is assigned, or the first records go to the consumer's main queue.
            let mut queue = self.consumer.split_partition_queue(topic.as_str(), id.partition.0);
            let wake = Arc::clone(&self.wake);
            if let Some(queue) = queue.as_mut() {
                queue.set_nonempty_callback(move || wake.lane(id));
            }
            list.add_partition_offset(topic.as_str(), id.partition.0, ClientOffset::Offset(offset.0))
                .map_err(|source| self.refused("begin a lane", source))?;
            let before = positions.get(&(topic.clone(), id.partition)).copied();
            self.open.insert(id, OpenLane { topic, queue, next: offset, range: Range::Inside, before });
        }
        self.consumer.incremental_assign(&list).map_err(|source| self.refused("begin a lane", source))
    }

    /// Takes up to `most` records of a lane, without waiting. A lane that is not open is empty.
    pub(crate) fn fetch(&mut self, id: LaneId, most: usize) -> Fetch {
        let Some(open) = self.open.get_mut(&id) else { return Fetch::Empty };
        let Some(queue) = open.queue.as_ref() else { return Fetch::Empty };
        let mut records = Vec::new();
        while open.range == Range::Inside && records.len() < most {
            match queue.poll(Duration::ZERO) {
                Some(Ok(found)) => {
                    let record = self.converter.record(&found);
                    if record.offset >= open.next {
                        open.next = record.offset.next();
                        records.push(record);
                    }
                }
                Some(Err(KafkaError::MessageConsumption(RDKafkaErrorCode::AutoOffsetReset))) => {
                    open.range = Range::Outside;
                }
                // The client tries again by itself; whether it cannot is asked of `fatal`.
                Some(Err(error)) => {
                    if refuses_access(&error) {
                        self.refusals.push(format!("topic `{}`: {error}", open.topic));
                    }
                    tracing::debug!(client = self.client, topic = %open.topic, %error, "fetch failed");
                }
                None => break,
            }
        }
        match (records.is_empty(), open.range) {
            (false, _) => Fetch::Records(records),
            (true, Range::Inside) => Fetch::Empty,
            (true, Range::Outside) => Fetch::OutOfRange { next: open.next },
        }
    }

    /// How far these lanes have come that just gave nothing: those that have passed more than they handed over.
    ///
    /// What is no record, such as the end of a transaction, the client takes from a lane's queue by itself and moves its own
    /// position behind it. The end of the log is never asked for: a record that came between would be lost.
    ///
    /// 1. a lane is ended and begun anew at a lower offset,
    /// 2. the client still tells the position from before, since one of its own threads is to clear it,
    /// 3. records between the two are not handed over yet.
    ///
    /// So a position counts only once it differs from that at the beginning.
    pub(crate) fn passed(&mut self, idle: &[LaneId]) -> Result<Vec<(LaneId, Offset)>, ClientError> {
        let open = idle.iter().filter_map(|id| self.open.get(id).map(|open| (id, open)));
        let open = open.filter(|(_, open)| open.queue.is_some() && open.range == Range::Inside);
        let positions = self.positions(open.map(|(id, open)| (&open.topic, id.partition)))?;
        let mut passed = Vec::new();
        for id in idle {
            let Some(open) = self.open.get_mut(id) else { continue };
            let position = positions.get(&(open.topic.clone(), id.partition)).copied();
            if let Some(position) = position
                && open.before != Some(position)
                && position > open.next
            {
                open.next = position;
                passed.push((*id, position));
            }
        }
        Ok(passed)
    }

    /// Where the client stands in partitions; those in which it has not begun are left out.
    fn positions<'a>(
        &self,
        partitions: impl Iterator<Item = (&'a TopicName, Partition)>,
    ) -> Result<BTreeMap<(TopicName, Partition), Offset>, ClientError> {
        let mut list = TopicPartitionList::new();
        for (topic, partition) in partitions {
            list.add_partition(topic.as_str(), partition.0);
        }
        raw::position(&*self.consumer, &mut list)
            .map_err(|source| self.refused("tell its position", source))?;
        let elements = list.elements();
        let known = elements.iter().filter_map(|element| match element.offset() {
            ClientOffset::Offset(offset) => {
                Some(((TopicName::new(element.topic()), Partition(element.partition())), Offset(offset)))
            }
            ClientOffset::Beginning
            | ClientOffset::End
            | ClientOffset::Stored
            | ClientOffset::Invalid
            | ClientOffset::OffsetTail(_) => None,
        });
        Ok(known.collect())
    }

    /// The topic of an open lane and the offset of the next record that it will hand over.
    pub(crate) fn position(&self, id: LaneId) -> Option<(&TopicName, Offset)> {
        self.open.get(&id).filter(|open| open.queue.is_some()).map(|open| (&open.topic, open.next))
    }

    /// Begins an open lane anew, at another offset.
    pub(crate) fn begin_anew(&mut self, id: LaneId, offset: Offset) -> Result<(), ClientError> {
        let Some(OpenLane { topic, queue: Some(_), .. }) = self.open.get(&id) else { return Ok(()) };
        let topic = topic.clone();
        self.end(|open| open == id)?;
        self.begin(vec![Begin { id, topic, offset }])?;
        // The queue may still hold what the client left over from before. It fires when it is no longer *empty*, so it
        // must be polled once to fire again.
        self.wake.lane(id);
        Ok(())
    }

    /// Reads no further record of a task, at once; the client learns it by [`Reader::end`].
    pub(crate) fn give_up(&mut self, partition: Partition) {
        for (id, open) in &mut self.open {
            if id.partition == partition {
                open.queue = None;
            }
        }
    }

    /// Ends the open lanes that are `chosen`.
    pub(crate) fn end(&mut self, chosen: impl Fn(LaneId) -> bool) -> Result<(), ClientError> {
        let mut list = TopicPartitionList::new();
        self.open.retain(|id, open| {
            let ends = chosen(*id);
            if ends {
                list.add_partition(open.topic.as_str(), id.partition.0);
            }
            !ends
        });
        self.consumer.incremental_unassign(&list).map_err(|source| self.refused("end a lane", source))
    }

    /// Serves what the consumer has to say besides the records of open lanes. To be called at least every few hundred
    /// milliseconds.
    pub(crate) fn serve(&mut self) -> Result<(), ClientError> {
        self.listen()?;
        self.bring_back()
    }

    /// As [`Self::serve`], but for lanes that have gone astray: beginning one anew answers whatever the group asks back at
    /// that moment.
    pub(super) fn listen(&mut self) -> Result<(), ClientError> {
        loop {
            let served = self.consumer.context().served();
            match self.consumer.poll(Duration::ZERO) {
                Some(Ok(record)) => {
                    self.astray.insert((record.topic().to_owned(), Partition(record.partition())));
                }
                Some(Err(error)) => self.noted(&error),
                None if self.consumer.context().served() == served => break,
                None => {}
            }
        }
        match self.consumer.client().fatal_error() {
            Some((code, detail)) => Err(ClientError::Fatal { client: self.client, code, detail }),
            None => Ok(()),
        }
    }

    /// The client's words, if it found all brokers gone since the last call. It does not tell when one is back.
    pub(crate) fn take_outage(&mut self) -> Option<String> {
        self.outage.take()
    }

    /// What the brokers do not let us do since the last call, in the client's words. The client tells a refusal once, and
    /// tries again by itself.
    pub(crate) fn take_refusals(&mut self) -> Vec<String> {
        std::mem::take(&mut self.refusals)
    }

    /// The client tries again by itself after whatever it reports here.
    fn noted(&mut self, error: &KafkaError) {
        if refuses_access(error) {
            self.refusals.push(error.to_string());
        }
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::AllBrokersDown) {
            self.outage = Some(error.to_string());
        }
        tracing::debug!(client = self.client, %error, "the client reports an error");
    }

    /// A record on the main queue has left its lane's own queue: reads such lanes again from where they stand.
    pub(super) fn bring_back(&mut self) -> Result<(), ClientError> {
        while let Some((topic, partition)) = self.astray.pop_first() {
            let found = self.open.iter().find(|(id, open)| {
                id.partition == partition && open.topic.as_str() == topic && open.queue.is_some()
            });
            if let Some((id, next)) = found.map(|(id, open)| (*id, open.next)) {
                self.begin_anew(id, next)?;
            }
        }
        Ok(())
    }

    fn refused(&self, call: &'static str, source: KafkaError) -> ClientError {
        ClientError::Call { client: self.client, call, source }
    }
}

fn refuses_access(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(RDKafkaErrorCode::TopicAuthorizationFailed | RDKafkaErrorCode::GroupAuthorizationFailed)
    )
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.consumer.context().end();
        self.open.clear();
    }
}
