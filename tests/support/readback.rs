//! Reads a finished run back from Kafka, as any consumer with `read_committed` sees it, for the [ledger](crate::ledger).

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::{ClientConfig, Timestamp};

use crate::ledger::{Commit, Role, Seen};

const PATIENCE: Duration = Duration::from_secs(20);

/// The settings that every client here shares.
pub(crate) fn client(bootstrap: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("broker.address.family", "v4");
    config
}

/// A consumer of no group's offsets, at the beginning of these topics.
pub(crate) fn reader(bootstrap: &str, topics: &[&str]) -> Result<BaseConsumer> {
    let reader: BaseConsumer = client(bootstrap)
        // librdkafka wants a group's name; nothing is ever committed in it.
        .set("group.id", "redrive-readback")
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "error")
        .set("isolation.level", "read_committed")
        .set("enable.partition.eof", "true")
        .set("fetch.queue.backoff.ms", "5")
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

/// All records of a topic.
pub(crate) fn records(bootstrap: &str, topic: &str, role: Role) -> Result<Vec<Seen>> {
    let reader = reader(bootstrap, &[topic])?;
    let mut open = partitions(&reader, topic)?.len();
    let mut found = Vec::new();
    while open > 0 {
        match reader.poll(PATIENCE) {
            Some(Ok(message)) => found.push(seen(&message, role)),
            Some(Err(KafkaError::PartitionEOF(_))) => open -= 1,
            Some(Err(error)) => return Err(error).with_context(|| format!("reading `{topic}`")),
            None => bail!("`{topic}` gave nothing for {} s, and its end was not reached", PATIENCE.as_secs()),
        }
    }
    Ok(found)
}

/// The committed offsets of a group in a topic.
pub(crate) fn commits(bootstrap: &str, group: &str, topic: &str, role: Role) -> Result<Vec<Commit>> {
    let consumer: BaseConsumer =
        client(bootstrap).set("group.id", group).create().context("creating a consumer")?;
    let mut list = TopicPartitionList::new();
    for partition in partitions(&consumer, topic)? {
        list.add_partition(topic, partition);
    }
    let committed = consumer
        .committed_offsets(list, PATIENCE)
        .with_context(|| format!("fetching offsets of `{group}`"))?;
    let mut found = Vec::new();
    for element in committed.elements() {
        if let Offset::Offset(offset) = element.offset() {
            found.push(Commit { role, partition: element.partition(), offset });
        }
    }
    Ok(found)
}

/// Whether the topic is there.
pub(crate) fn exists(bootstrap: &str, topic: &str) -> Result<bool> {
    let consumer: BaseConsumer = client(bootstrap).create().context("creating a consumer")?;
    let metadata = consumer.fetch_metadata(Some(topic), PATIENCE).context("asking for metadata")?;
    let unknown = RDKafkaErrorCode::UnknownTopicOrPartition;
    Ok(metadata.topics().iter().all(|found| found.error().map(RDKafkaErrorCode::from) != Some(unknown)))
}

fn partitions(consumer: &BaseConsumer, topic: &str) -> Result<Vec<i32>> {
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

fn seen(message: &BorrowedMessage<'_>, role: Role) -> Seen {
    let headers = message.headers().into_iter().flat_map(|headers| headers.iter());
    Seen {
        role,
        partition: message.partition(),
        offset: message.offset(),
        timestamp: match message.timestamp() {
            Timestamp::CreateTime(millis) | Timestamp::LogAppendTime(millis) => millis,
            Timestamp::NotAvailable => 0,
        },
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers: headers.map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec))).collect(),
    }
}
