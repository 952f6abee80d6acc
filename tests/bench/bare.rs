//! What anybody would write with the client alone: a loop that reads, writes the same records, and commits them with its
//! offsets in transactions.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use rdkafka::{Offset as ClientOffset, TopicPartitionList};
use redrive::core::guard::{Version, fingerprint};
use redrive::core::headers::name;
use redrive::core::position::{Offset, Partition};
use redrive::core::state::{Applied, applied_key};
use redrive::core::time::Timestamp;

use crate::found;
use crate::load::VERSION;

/// Nothing here takes longer.
const PATIENCE: Duration = Duration::from_secs(60);
/// A transaction is committed after this, however few records it holds.
const INTERVAL: Duration = Duration::from_millis(100);

/// The loop's clients and topics.
pub(crate) struct Bare {
    consumer: BaseConsumer,
    producer: ThreadedProducer<DefaultProducerContext>,
    source: String,
    output: String,
    state: String,
    /// The most records of a transaction.
    batch: usize,
}

impl Bare {
    pub(crate) fn new(
        bootstrap: &str,
        group: &str,
        [source, output, state]: [&str; 3],
        batch: usize,
    ) -> Result<Self> {
        let consumer: BaseConsumer = found::client(bootstrap)
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            .set("auto.offset.reset", "earliest")
            .set("isolation.level", "read_committed")
            .set("partition.assignment.strategy", "cooperative-sticky")
            .create()
            .context("creating a consumer")?;
        consumer.subscribe(&[source]).context("subscribing")?;
        let producer: ThreadedProducer<DefaultProducerContext> = found::client(bootstrap)
            .set("transactional.id", group)
            .set("partitioner", "murmur2_random")
            .set("linger.ms", "0")
            .create()
            .context("creating a producer")?;
        producer.init_transactions(PATIENCE).context("initialising")?;
        let [source, output, state] = [source, output, state].map(str::to_owned);
        Ok(Self { consumer, producer, source, output, state, batch })
    }

    /// One transaction; how many records it holds.
    pub(crate) fn turn(&self) -> Result<usize> {
        let mut next: BTreeMap<i32, i64> = BTreeMap::new();
        let (mut records, mut begun) = (0, None);
        while records < self.batch {
            let waited = begun.map(|begun: std::time::Instant| begun.elapsed()).unwrap_or_default();
            let Some(left) = INTERVAL.checked_sub(waited) else { break };
            match self.consumer.poll(left) {
                Some(Ok(record)) => {
                    if begun.is_none() {
                        self.producer.begin_transaction().context("beginning")?;
                        begun = Some(crate::worker::now());
                    }
                    self.write(&record)?;
                    next.insert(record.partition(), record.offset() + 1);
                    records += 1;
                }
                Some(Err(error)) => return Err(error).context("reading"),
                None => break,
            }
        }
        if records > 0 {
            let mut offsets = TopicPartitionList::new();
            for (partition, offset) in next {
                offsets.add_partition_offset(&self.source, partition, ClientOffset::Offset(offset))?;
            }
            let group = self.consumer.group_metadata().context("the group is not joined")?;
            self.producer.send_offsets_to_transaction(&offsets, &group, PATIENCE).context("offsets")?;
            self.producer.commit_transaction(PATIENCE).context("committing")?;
        }
        Ok(records)
    }

    fn write(&self, record: &BorrowedMessage<'_>) -> Result<()> {
        let origin = format!("{}/{}/{}", record.topic(), record.partition(), record.offset());
        let (mut headers, mut version) = (OwnedHeaders::new_with_capacity(3), 0);
        for header in record.headers().into_iter().flat_map(Headers::iter) {
            if header.key == VERSION {
                version = std::str::from_utf8(header.value.unwrap_or_default())?.parse()?;
            }
            headers = headers.insert(header);
        }
        let id = Some(&origin);
        headers = headers.insert(Header { key: name::EVENT_ID.as_str(), value: id });
        headers = headers.insert(Header { key: name::OPERATION_ID.as_str(), value: id });
        let (key, value) = (record.key().unwrap_or_default(), record.payload().unwrap_or_default());
        self.send(BaseRecord::to(&self.output).key(key).payload(value).headers(headers))?;
        let applied = Applied {
            version: Version(version),
            first: None,
            fingerprint: fingerprint(record.payload()),
            at: Timestamp::from_millis(record.timestamp().to_millis().unwrap_or_default()),
            topic: record.topic(),
            partition: Partition(record.partition()),
            offset: Offset(record.offset()),
        };
        let (key, value) = (applied_key(key), applied.to_bytes());
        self.send(BaseRecord::to(&self.state).partition(record.partition()).key(&key[..]).payload(&value[..]))
    }

    fn send(&self, mut record: BaseRecord<'_, [u8], [u8]>) -> Result<()> {
        while let Err((error, refused)) = self.producer.send(record) {
            anyhow::ensure!(
                error == KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull),
                "sending: {error}"
            );
            self.producer.flush(PATIENCE).context("sending")?;
            record = refused;
        }
        Ok(())
    }
}
