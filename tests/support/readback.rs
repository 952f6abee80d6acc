//! Reads a finished run back from Kafka, as any consumer with `read_committed` sees it, for the [ledger](crate::ledger).

use std::time::Duration;

use anyhow::{Context, Result};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use redrive::topology::model::Pipeline;

use crate::found::{self, Found, Isolation, client, partitions};
use crate::ledger::{Commit, Cut, History, Order, OutputValue, Role, Rules, Seen, Start};

const PATIENCE: Duration = Duration::from_secs(60);

/// The topics of a pipeline by their roles; `None` where it has no output.
pub(crate) fn topics(pipeline: &Pipeline) -> Option<Vec<(Role, String)>> {
    let mut topics = vec![(Role::Source, pipeline.source.to_string())];
    let tiers = pipeline.tiers.iter().map(|tier| tier.topic.name.to_string()).enumerate();
    topics.extend(tiers.map(|(index, name)| (Role::Tier(index), name)));
    topics.push((Role::Output, pipeline.output.as_ref()?.to_string()));
    topics.push((Role::DeadLetter, pipeline.dead_letter.name.to_string()));
    Some(topics)
}

/// What a pipeline promises whose handler gives back what it got, once nothing is left to do.
pub(crate) fn rules(pipeline: &Pipeline) -> Rules {
    let policy = &pipeline.policy;
    let millis = |delay: &Duration| i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
    Rules {
        source: pipeline.source.to_string(),
        delays: policy.ladder.delays.iter().map(millis).collect(),
        most_attempts: policy.ladder.most_attempts(),
        event_id: policy.identity.event_id.as_ref().map(|name| name.as_str().to_owned()),
        output: OutputValue::AsSource,
        order: Order::FirstTries,
        cut: Cut::Drained,
    }
}

/// Everything that lies in the topics, and what the group has committed of it.
pub(crate) fn history(
    bootstrap: &str,
    group: &str,
    topics: &[(Role, String)],
    starts: Option<Vec<Start>>,
) -> Result<History> {
    let mut history = History { records: vec![], commits: vec![], starts };
    for (role, topic) in topics {
        let found = found::records(bootstrap, topic, Isolation::Committed)?;
        history.records.extend(found.into_iter().map(|found| seen(found, *role)));
        match role {
            Role::Source | Role::Tier(_) => {
                history.commits.extend(commits(bootstrap, group, topic, *role)?);
            }
            Role::Output | Role::DeadLetter => {}
        }
    }
    Ok(history)
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

#[allow(dead_code, reason = "every test target takes what it needs")]
/// Whether the topic is there.
pub(crate) fn exists(bootstrap: &str, topic: &str) -> Result<bool> {
    let consumer: BaseConsumer = client(bootstrap).create().context("creating a consumer")?;
    let metadata = consumer.fetch_metadata(Some(topic), PATIENCE).context("asking for metadata")?;
    let unknown = RDKafkaErrorCode::UnknownTopicOrPartition;
    Ok(metadata.topics().iter().all(|found| found.error().map(RDKafkaErrorCode::from) != Some(unknown)))
}

fn seen(found: Found, role: Role) -> Seen {
    let Found { partition, offset, timestamp, key, value, headers } = found;
    Seen { role, partition, offset, timestamp: timestamp.unwrap_or(0), key, value, headers }
}
