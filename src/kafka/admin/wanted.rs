//! Which topics a topology needs, and what they must be like.

use crate::core::position::TopicName;
use crate::kafka::admin::drained::Drained;
use crate::topology::model::{Cleanup, OwnTopic, Pipeline, TopicSettings, Topology};

/// A record on one of our topics is a source record with our headers: 4 KiB at most, and room for what Kafka adds.
pub(super) const ROOM_FOR_HEADERS: u64 = 64 * 1024;
/// The largest record of the topics that hold requests, answers and what operators did, in bytes.
pub(super) const SMALL_RECORD: u64 = 1 << 20;
/// `message.max.bytes` of a broker that was not told otherwise.
pub(super) const BROKERS_OWN_MAX_MESSAGE_BYTES: usize = 1_048_588;

/// One topic of one pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Its name.
    pub(super) topic: TopicName,
    /// The pipeline.
    pub(super) pipeline: String,
    /// What it is to the pipeline: `source`, `output`, `stale-output`, `retry.5s`, `dlq`, `state`, `control`, `cases`, `audit`.
    pub(super) role: String,
    /// Who makes it, and how.
    pub(super) kind: Kind,
}

/// Who makes a topic, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The users; it must be there.
    Foreign,
    /// We, once, for a tier that the ladder does not have: only its partitions follow this source.
    Drained(TopicName),
    /// We.
    Own {
        /// Its partitions and its largest record.
        shape: Shape,
        /// What its old records become.
        cleanup: Cleanup,
        /// Replicas.
        settings: TopicSettings,
    },
}

/// How many partitions a topic of our own has, and how large its largest record may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// As many as this source; its largest record and our headers.
    AsSource(TopicName),
    /// As many as this source; at most [`SMALL_RECORD`].
    Small(TopicName),
    /// One; at most [`SMALL_RECORD`].
    Single,
}

impl Shape {
    /// The source that it follows.
    pub(super) fn source(&self) -> Option<&TopicName> {
        match self {
            Self::AsSource(source) | Self::Small(source) => Some(source),
            Self::Single => None,
        }
    }
}

/// All topics of a topology, by pipeline, with the tiers that are only drained; a topic may come more than once.
pub(super) fn topics(topology: &Topology, drained: &Drained) -> Vec<Wanted> {
    let settings = topology.pipelines.first().map(|pipeline| pipeline.topics);
    let audit = settings.map(|settings| Wanted {
        topic: topology.audit.name.clone(),
        pipeline: String::new(),
        role: "audit".to_owned(),
        kind: Kind::Own { shape: Shape::Single, cleanup: topology.audit.cleanup, settings },
    });
    topology.pipelines.iter().flat_map(|pipeline| of_pipeline(pipeline, drained)).chain(audit).collect()
}

/// The topics that a pipeline writes.
pub(super) fn written(pipeline: &Pipeline) -> impl Iterator<Item = &TopicName> {
    let others = [&pipeline.dead_letter, &pipeline.state, &pipeline.cases];
    let own = pipeline.tiers.iter().map(|tier| &tier.topic).chain(others);
    own.map(|topic| &topic.name)
        .chain(&pipeline.output)
        .chain(pipeline.outputs.values())
        .chain(pipeline.policy.order.stale_output())
}

fn of_pipeline(pipeline: &Pipeline, drained: &Drained) -> Vec<Wanted> {
    let wanted = |topic: &TopicName, role: &str, kind| Wanted {
        topic: topic.clone(),
        pipeline: pipeline.name.clone(),
        role: role.to_owned(),
        kind,
    };
    let own = |topic: &OwnTopic, role: &str, shape: fn(TopicName) -> Shape| {
        let kind = Kind::Own {
            shape: shape(pipeline.source.clone()),
            cleanup: topic.cleanup,
            settings: pipeline.topics,
        };
        wanted(&topic.name, role, kind)
    };
    let mut all = vec![wanted(&pipeline.source, "source", Kind::Foreign)];
    all.extend(pipeline.output.iter().map(|topic| wanted(topic, "output", Kind::Foreign)));
    all.extend(
        pipeline.outputs.iter().map(|(name, topic)| wanted(topic, &format!("output {name}"), Kind::Foreign)),
    );
    let stale = pipeline.policy.order.stale_output();
    all.extend(stale.map(|topic| wanted(topic, "stale-output", Kind::Foreign)));
    all.extend(pipeline.tiers.iter().map(|tier| own(&tier.topic, &tier.label, Shape::AsSource)));
    all.extend(
        drained
            .of(&pipeline.name)
            .iter()
            .map(|tier| wanted(&tier.topic.name, &tier.label, Kind::Drained(pipeline.source.clone()))),
    );
    all.push(own(&pipeline.dead_letter, "dlq", Shape::AsSource));
    all.push(own(&pipeline.state, "state", Shape::AsSource));
    all.push(own(&pipeline.control, "control", Shape::Small));
    all.push(own(&pipeline.cases, "cases", Shape::Small));
    all
}
