//! The partitions of the state topic that are being read, all of a worker's side by side.
//!
//! Owns the clients for that, while anything is read: what they hold ready counts for all partitions together.
//!
//! The end of a partition is asked for without regard to open transactions, after the group's offsets were: then everything
//! is below it that an earlier owner has committed. It is read once the transactions before it have ended.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientConfig, Offset as ClientOffset, TopicPartitionList};

use crate::core::guard::KeyHasher;
use crate::core::policy::OrderPolicy;
use crate::core::position::{Epoch, Offset, Partition};
use crate::kafka::context::Context;
use crate::kafka::error::ClientError;
use crate::kafka::lookup::TRY;
use crate::kafka::lookup::noted::{Entries, NotRead, State};
use crate::kafka::settings;
use crate::kafka::stopwatch::Stopwatch;
use crate::topology::model::{Kafka, Pipeline};

/// A pending transaction ends sooner.
const LONGEST_END: Duration = Duration::from_secs(60);
/// People are told of a task whose state is being read this often.
pub(super) const TELL_EVERY: Duration = Duration::from_secs(5);

/// The partitions of the state topic that are being read.
#[derive(Default)]
pub(super) struct States {
    clients: Option<Clients>,
    readings: BTreeMap<Partition, Reading>,
}

/// How far a partition of the state topic is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The task.
    pub(crate) partition: Partition,
    /// The offset that is read next.
    pub(crate) next: Offset,
    /// The offset up to which it is read.
    pub(crate) end: Offset,
}

struct Clients {
    /// Asks for ends behind which nothing was written when it asked.
    impatient: Client,
    reader: Client,
    /// The partitions that the reader has begun. None is begun twice by one client, which may still hold an end from before.
    begun: BTreeSet<Partition>,
}

/// A client beside the one that is of the group. Dropped, it writes no more logs.
pub(super) struct Client(BaseConsumer<Context>);

/// One partition, as far as it is read.
struct Reading {
    epoch: Epoch,
    begun: Stopwatch,
    end: Offset,
    stage: Stage,
    entries: Entries,
    /// How keys are hashed, and their order, where the pipeline has a guard or parks.
    order: Option<(KeyHasher, OrderPolicy)>,
    next: Offset,
    told: Stopwatch,
    /// What could not be read when it was read to its end last.
    unreadable_last: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Transactions before the end may be open.
    Waits,
    Reads,
    Ended,
}

impl States {
    /// What a partition holds, once it is read to its end; begins to read it where that is not done. Reads nothing by itself.
    pub(super) fn ask(
        &mut self,
        (kafka, pipeline): (&Kafka, &Pipeline),
        hasher: KeyHasher,
        (partition, epoch): (Partition, Epoch),
    ) -> Result<State, NotRead> {
        let policy = &pipeline.policy.order;
        let order = policy.keeps_state().then(|| (hasher, policy.clone()));
        let topic = pipeline.state.name.as_str();
        if self.readings.get(&partition).is_none_or(|reading| reading.epoch != epoch) {
            self.forget(partition, topic);
            let end = self.clients(kafka, pipeline)?.impatient.end(topic, partition)?;
            self.readings.insert(partition, Reading::new(epoch, end, order));
        }
        let Some(reading) = self.readings.get(&partition) else {
            return Err(NotRead::Yet(String::new()));
        };
        match reading.stage {
            Stage::Waits => self.begin((kafka, pipeline), partition),
            Stage::Reads => Err(NotRead::Yet(reading.goes_on(topic, partition))),
            Stage::Ended => self.take(pipeline, partition),
        }
    }

    /// Why a task that has asked before still waits, where it does for nothing but its state.
    pub(super) fn goes_on(&self, topic: &str, (partition, epoch): (Partition, Epoch)) -> Option<String> {
        let reading = self.readings.get(&partition).filter(|reading| reading.epoch == epoch)?;
        (reading.stage == Stage::Reads).then(|| reading.goes_on(topic, partition))
    }

    /// Whether anything is being read now.
    pub(super) fn is_reading(&self) -> bool {
        self.readings.values().any(|reading| reading.stage == Stage::Reads)
    }

    /// Reads on until a partition has come to its end and nothing more is there at once, for one try at most.
    pub(super) fn read_on(&mut self, topic: &str) {
        let clock = Stopwatch::start();
        let mut open = self.readings.values().filter(|reading| reading.stage == Stage::Reads).count();
        let mut ended = 0_usize;
        let Some(Clients { reader, .. }) = &self.clients else { return };
        while open > 0 {
            let Some(left) = clock.left_of(TRY) else { return };
            match reader.0.poll(if ended > 0 { Duration::ZERO } else { left }) {
                Some(Ok(found)) => {
                    let reading = self.readings.get_mut(&Partition(found.partition()));
                    if let Some(reading) = reading.filter(|reading| reading.stage == Stage::Reads) {
                        reading.next = Offset(found.offset()).next();
                        reading.entries.take(&found);
                    }
                }
                // Behind everything that was stable when it was asked for, the end included.
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    let reading = self.readings.get_mut(&Partition(partition));
                    if let Some(reading) = reading.filter(|reading| reading.stage == Stage::Reads) {
                        reading.stage = Stage::Ended;
                        open = open.saturating_sub(1);
                        ended = ended.saturating_add(1);
                        reader.leave(topic, Partition(partition));
                    }
                }
                Some(Err(error)) => {
                    tracing::debug!(%error, "the state topic cannot be read");
                    // The client does not tell which partition it means.
                    if ends_reading(&error) {
                        return self.begin_anew();
                    }
                }
                None if ended > 0 => return,
                None => {}
            }
        }
    }

    /// How far the partitions are read of which nothing was told for so long.
    pub(super) fn progress(&mut self, every: Duration) -> Vec<Progress> {
        let due = |(partition, reading): (&Partition, &mut Reading)| {
            let due = reading.stage == Stage::Reads && reading.told.left_of(every).is_none();
            due.then(|| {
                reading.told = Stopwatch::start();
                Progress { partition: *partition, next: reading.next, end: reading.end }
            })
        };
        self.readings.iter_mut().filter_map(due).collect()
    }

    /// Reads a partition no further.
    pub(super) fn forget(&mut self, partition: Partition, topic: &str) {
        let forgotten = self.readings.remove(&partition);
        if let (Some(Reading { stage: Stage::Reads, .. }), Some(clients)) = (forgotten, &self.clients) {
            clients.reader.leave(topic, partition);
        }
        self.rest();
    }

    /// Ends the clients where nothing is read any more.
    fn rest(&mut self) {
        if self.readings.is_empty() {
            self.clients = None;
        }
    }

    fn clients(&mut self, kafka: &Kafka, pipeline: &Pipeline) -> Result<&mut Clients, NotRead> {
        let clients = match self.clients.take() {
            Some(clients) => clients,
            None => {
                let impatient = Client::new(&settings::impatient_consumer(kafka, pipeline), kafka)?;
                let reader = Client::new(&settings::state_consumer(kafka, pipeline), kafka)?;
                Clients { impatient, reader, begun: BTreeSet::new() }
            }
        };
        Ok(self.clients.insert(clients))
    }

    /// Begins to read a partition whose transactions have ended.
    fn begin(
        &mut self,
        (kafka, pipeline): (&Kafka, &Pipeline),
        partition: Partition,
    ) -> Result<State, NotRead> {
        let topic = pipeline.state.name.as_str();
        let is_reading = self.is_reading();
        let clients = self.clients(kafka, pipeline)?;
        let stable = clients.reader.end(topic, partition)?;
        let Some(reading) = self.readings.get_mut(&partition) else {
            return Err(NotRead::Yet(String::new()));
        };
        if stable < reading.end {
            if reading.begun.left_of(LONGEST_END).is_none() {
                // The topic may have been made anew since: its end is asked for again.
                self.readings.remove(&partition);
            }
            return Err(NotRead::Yet(format!("a transaction that writes `{topic}/{partition}` is open")));
        }
        let Some(clients) = &mut self.clients else {
            return Err(NotRead::Yet(String::new()));
        };
        if clients.begun.contains(&partition) {
            if is_reading {
                let detail = format!("`{topic}/{partition}` is read again once others are read");
                return Err(NotRead::Yet(detail));
            }
            clients.reader = Client::new(&settings::state_consumer(kafka, pipeline), kafka)?;
            clients.begun.clear();
        }
        clients.begun.insert(partition);
        let mut list = TopicPartitionList::with_capacity(1);
        list.add_partition_offset(topic, partition.0, ClientOffset::Beginning)?;
        clients.reader.0.incremental_assign(&list)?;
        let Some(reading) = self.readings.get_mut(&partition) else {
            return Err(NotRead::Yet(String::new()));
        };
        reading.stage = Stage::Reads;
        Err(NotRead::Yet(reading.goes_on(topic, partition)))
    }

    /// Gives away what is read.
    fn take(&mut self, pipeline: &Pipeline, partition: Partition) -> Result<State, NotRead> {
        let Some(mut reading) = self.readings.remove(&partition) else {
            return Err(NotRead::Yet(String::new()));
        };
        let entries = std::mem::replace(&mut reading.entries, Entries::new(reading.order.as_ref()));
        // Without its position a lane would begin somewhere without a word, and without its version a key with anything.
        if let Some(bad) = entries.unreadable() {
            let place = format!("{}/{partition}", pipeline.state.name);
            let hint = "a newer redrive may have written it: run that, or write the entry of this key anew";
            let detail = format!("`{place}`: {bad}; {hint}");
            // All of it, since somebody may have mended it.
            reading.stage = Stage::Waits;
            reading.next = Offset(0);
            reading.unreadable_last = Some(detail.clone());
            self.readings.insert(partition, reading);
            return Err(NotRead::Yet(detail));
        }
        self.rest();
        Ok(entries.into_state())
    }

    /// Forgets what was read of partitions that are not read to their ends.
    fn begin_anew(&mut self) {
        for reading in self.readings.values_mut().filter(|reading| reading.stage == Stage::Reads) {
            reading.stage = Stage::Waits;
            reading.next = Offset(0);
            reading.entries = Entries::new(reading.order.as_ref());
        }
    }
}

impl Reading {
    fn new(epoch: Epoch, end: Offset, order: Option<(KeyHasher, OrderPolicy)>) -> Self {
        Self {
            epoch,
            begun: Stopwatch::start(),
            end,
            stage: Stage::Waits,
            entries: Entries::new(order.as_ref()),
            order,
            next: Offset(0),
            told: Stopwatch::start(),
            unreadable_last: None,
        }
    }

    fn goes_on(&self, topic: &str, partition: Partition) -> String {
        let Self { next, end, .. } = self;
        let goes_on = || format!("`{topic}/{partition}` is being read, up to `{next}` of `{end}`");
        self.unreadable_last.clone().unwrap_or_else(goes_on)
    }
}

impl Client {
    pub(super) fn new(config: &ClientConfig, kafka: &Kafka) -> Result<Self, ClientError> {
        Ok(Self(settings::create(config, Context::new("lookup"), kafka)?))
    }

    /// Serves its logs; it is given no records.
    pub(super) fn serve(&self) {
        let _ = self.0.poll(Duration::ZERO);
    }

    /// The end of a partition, as this client's isolation sees it.
    pub(super) fn end(&self, topic: &str, partition: Partition) -> Result<Offset, KafkaError> {
        let (_, end) = self.0.fetch_watermarks(topic, partition.0, TRY)?;
        Ok(Offset(end))
    }

    /// Fetches no more of a partition. Whatever of it is still there is passed over.
    fn leave(&self, topic: &str, partition: Partition) {
        let mut list = TopicPartitionList::with_capacity(1);
        list.add_partition(topic, partition.0);
        if let Err(error) = self.0.incremental_unassign(&list) {
            tracing::debug!(%partition, %error, "a partition of the state topic is not left");
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.0.context().end();
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

#[cfg(test)]
mod tests;
