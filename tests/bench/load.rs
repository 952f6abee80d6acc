//! The records that are read: each with a key of its own and a version.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};

use crate::found;

/// The header with the version.
pub(crate) const VERSION: &str = "rev";
/// Nothing here takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many records, over how many partitions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) records: u32,
    pub(crate) partitions: i32,
}

impl Load {
    /// Writes them to a topic, as evenly as can be.
    pub(crate) fn send(self, bootstrap: &str, topic: &str) -> Result<()> {
        let sender = Sender::new(bootstrap)?;
        for (number, partition) in (0..self.records).zip((0..self.partitions).cycle()) {
            sender.send(topic, partition, &format!("customer-{number:09}"))?;
        }
        sender.finish()
    }
}

/// Writes records.
pub(crate) struct Sender(ThreadedProducer<DefaultProducerContext>);

impl Sender {
    pub(crate) fn new(bootstrap: &str) -> Result<Self> {
        let mut client = found::client(bootstrap);
        client.set("enable.idempotence", "true").set("linger.ms", "5");
        client.create().context("creating a producer").map(Self)
    }

    /// One of 120 bytes.
    pub(crate) fn send(&self, topic: &str, partition: i32, key: &str) -> Result<()> {
        let value = format!(r#"{{"customer":"{key}","total":"17.90","note":"{:60}"}}"#, "");
        let headers = OwnedHeaders::new().insert(Header { key: VERSION, value: Some("7") });
        let mut record = BaseRecord::to(topic).partition(partition).key(key).payload(&value).headers(headers);
        while let Err((error, refused)) = self.0.send(record) {
            ensure!(error == KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), "sending: {error}");
            self.0.flush(PATIENCE).context("sending")?;
            record = refused;
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<()> {
        self.0.flush(PATIENCE).context("sending")
    }
}
