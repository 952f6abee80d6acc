//! Which topics a topology needs, and what they must be like.

use std::time::Duration;

use crate::core::position::TopicName;
use crate::topology::model::{OwnTopic, Pipeline, TopicSettings, Topology};

/// A record on one of our topics is a source record with our headers: 4 KiB at most, and room for what Kafka adds.
pub(super) const ROOM_FOR_HEADERS: u64 = 64 * 1024;
/// `message.max.bytes` of a broker that was not told otherwise.
pub(super) const BROKERS_OWN_MAX_MESSAGE_BYTES: usize = 1_048_588;

/// One topic of one pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Its name.
    pub(super) topic: TopicName,
    /// The pipeline.
    pub(super) pipeline: String,
    /// What it is to the pipeline: `source`, `output`, `retry.5s`, `dlq`, `state`.
    pub(super) role: String,
    /// Who makes it, and how.
    pub(super) kind: Kind,
}

/// Who makes a topic, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The users; it must be there.
    Foreign,
    /// We, with as many partitions as this source has.
    Own {
        /// The pipeline's source.
        source: TopicName,
        /// What its old records become.
        cleanup: Cleanup,
        /// Replicas.
        settings: TopicSettings,
    },
}

/// What becomes of old records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cleanup {
    /// They are deleted, not earlier than this.
    Delete(Duration),
    /// The newest of each key stays.
    Compact,
}

/// All topics of a topology, by pipeline; a topic may come more than once.
pub(super) fn topics(topology: &Topology) -> Vec<Wanted> {
    topology.pipelines.iter().flat_map(of_pipeline).collect()
}

/// The topics that a pipeline writes.
pub(super) fn written(pipeline: &Pipeline) -> impl Iterator<Item = &TopicName> {
    let own = pipeline.tiers.iter().map(|tier| &tier.topic).chain([&pipeline.dead_letter, &pipeline.state]);
    own.map(|topic| &topic.name).chain(&pipeline.output).chain(pipeline.outputs.values())
}

fn of_pipeline(pipeline: &Pipeline) -> Vec<Wanted> {
    let wanted = |topic: &TopicName, role: &str, kind| Wanted {
        topic: topic.clone(),
        pipeline: pipeline.name.clone(),
        role: role.to_owned(),
        kind,
    };
    let own = |topic: &OwnTopic, role: &str| {
        let kind = Kind::Own {
            source: pipeline.source.clone(),
            cleanup: topic.retention.map_or(Cleanup::Compact, Cleanup::Delete),
            settings: pipeline.topics,
        };
        wanted(&topic.name, role, kind)
    };
    let mut all = vec![wanted(&pipeline.source, "source", Kind::Foreign)];
    all.extend(pipeline.output.iter().map(|topic| wanted(topic, "output", Kind::Foreign)));
    all.extend(
        pipeline.outputs.iter().map(|(name, topic)| wanted(topic, &format!("output {name}"), Kind::Foreign)),
    );
    all.extend(pipeline.tiers.iter().map(|tier| own(&tier.topic, &tier.label)));
    all.push(own(&pipeline.dead_letter, "dlq"));
    all.push(own(&pipeline.state, "state"));
    all
}
