//! Reads a topic to its end, as a consumer of either isolation sees it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

/// The next record or the end of a partition comes within this.
const PATIENCE: Duration = Duration::from_secs(60);

/// A record as it lies in a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    /// Milliseconds since the epoch.
    pub(crate) timestamp: Option<i64>,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    /// In order; a null value is not an empty one.
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
}

#[allow(
    dead_code,
    clippy::expect_used,
    reason = "every test target takes what it needs, and a test may panic"
)]
impl Found {
    /// The text of a header that it has once.
    pub(crate) fn text(&self, name: &str) -> String {
        let mut values = self.headers.iter().filter(|(found, _)| found == name).map(|(_, value)| value);
        let value = values.next().unwrap_or_else(|| panic!("no `{name}` in {self:?}"));
        assert!(values.next().is_none(), "`{name}` twice");
        String::from_utf8(value.clone().expect("a value")).expect("text")
    }

    /// The number in a header that it has once.
    pub(crate) fn number(&self, name: &str) -> i64 {
        self.text(name).parse().expect("a number")
    }
}

/// What a reader sees of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isolation {
    Committed,
    /// Also what is not yet committed, and what was aborted.
    Uncommitted,
}

impl Isolation {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Committed => "read_committed",
            Self::Uncommitted => "read_uncommitted",
        }
    }
}

/// The settings that every client here shares.
pub(crate) fn client(bootstrap: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("broker.address.family", "v4");
    config
}

/// A consumer of no group's offsets, at the beginning of these topics.
pub(crate) fn reader(bootstrap: &str, topics: &[&str], isolation: Isolation) -> Result<BaseConsumer> {
    let reader: BaseConsumer = client(bootstrap)
        // librdkafka wants a group's name; nothing is ever committed in it.
        .set("group.id", "redrive-test-reader")
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "error")
        .set("isolation.level", isolation.as_str())
        .set("enable.partition.eof", "true")
        .set("fetch.queue.backoff.ms", "5")
        .set("fetch.wait.max.ms", "50")
        .create()
        .context("creating a consumer")?;
    let mut list = TopicPartitionList::new();
    for topic in topics {
        for partition in partitions(&reader, topic)? {
            list.add_partition_offset(topic, partition, Offset::Beginning)?;
        }
    }
    reader.assign(&list).context("assigning partitions")?;
    Ok(reader)
}

/// All records of a topic, by partition and offset.
pub(crate) fn records(bootstrap: &str, topic: &str, isolation: Isolation) -> Result<Vec<Found>> {
    let reader = reader(bootstrap, &[topic], isolation)?;
    let mut open = partitions(&reader, topic)?.len();
    let mut records = Vec::new();
    let mut heard = now();
    while open > 0 {
        match reader.poll(Duration::from_millis(100)) {
            Some(Ok(message)) => records.push(found(&message)),
            Some(Err(KafkaError::PartitionEOF(_))) => open -= 1,
            Some(Err(error)) => return Err(error).with_context(|| format!("reading `{topic}`")),
            None => {
                let silent = heard.elapsed();
                ensure!(
                    silent < PATIENCE,
                    "`{topic}` gave nothing for {silent:?}, and its end was not reached"
                );
                continue;
            }
        }
        heard = now();
    }
    records.sort_by_key(|found| (found.partition, found.offset));
    Ok(records)
}

/// The partitions of a topic.
pub(crate) fn partitions(consumer: &BaseConsumer, topic: &str) -> Result<Vec<i32>> {
    let metadata = consumer.fetch_metadata(Some(topic), PATIENCE).context("asking for metadata")?;
    let found: Vec<i32> = metadata
        .topics()
        .iter()
        .flat_map(|topic| topic.partitions())
        .map(|partition| partition.id())
        .collect();
    ensure!(!found.is_empty(), "topic `{topic}` does not exist");
    Ok(found)
}

pub(crate) fn found(message: &BorrowedMessage<'_>) -> Found {
    let headers = message.headers().into_iter().flat_map(|headers| headers.iter());
    Found {
        partition: message.partition(),
        offset: message.offset(),
        timestamp: message.timestamp().to_millis(),
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers: headers.map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec))).collect(),
    }
}

#[expect(clippy::disallowed_methods, reason = "the bound of a wait")]
fn now() -> Instant {
    Instant::now()
}
