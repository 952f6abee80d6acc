//! What the brokers say about a topic that is to be written.

use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::client::Client;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::core::position::Partition;

/// A topic as the brokers' metadata show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::kafka) enum TopicState {
    /// It exists.
    Known(Vec<PartitionState>),
    /// It is missing, or we may not see it.
    Refused(String),
}

/// One partition of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kafka) struct PartitionState {
    partition: Partition,
    leader: Option<i32>,
    replicas: usize,
    in_sync: usize,
}

impl TopicState {
    /// Why a partition cannot be written, where that is plain.
    pub(in crate::kafka) fn obstacle(&self, partition: Option<Partition>) -> Option<String> {
        let partitions = match self {
            Self::Known(partitions) => partitions,
            Self::Refused(detail) => return Some(detail.clone()),
        };
        let count = partitions.len();
        match partition {
            None => partitions.iter().find_map(PartitionState::leaderless),
            Some(wanted) => match partitions.iter().find(|state| state.partition == wanted) {
                None => Some(format!("partition `{wanted}` is missing, the topic has {count}")),
                Some(state) => state.leaderless(),
            },
        }
    }

    /// As [`Self::obstacle`], for a record that the brokers left unanswered: then too few replicas are one, too.
    pub(in crate::kafka) fn obstacle_after_timeout(&self, partition: Option<Partition>) -> Option<String> {
        self.obstacle(partition).or_else(|| {
            let Self::Known(partitions) = self else {
                return None;
            };
            partitions
                .iter()
                .filter(|state| partition.is_none_or(|wanted| wanted == state.partition))
                .find(|state| state.in_sync < state.replicas)
                .map(|state| {
                    format!(
                        "partition `{}` has {} of {} replicas in sync",
                        state.partition, state.in_sync, state.replicas
                    )
                })
        })
    }
}

impl PartitionState {
    fn leaderless(&self) -> Option<String> {
        match self.leader {
            Some(_) => None,
            None => Some(format!("partition `{}` has no leader", self.partition)),
        }
    }
}

/// Asks the brokers. Also brings the client's own picture up to date.
pub(super) fn state<C: ClientContext>(
    client: &Client<C>,
    topic: &str,
    bound: Duration,
) -> Result<TopicState, KafkaError> {
    let metadata = client.fetch_metadata(Some(topic), bound)?;
    let Some(found) = metadata.topics().iter().find(|found| found.name() == topic) else {
        return Ok(TopicState::Refused("the brokers do not know it".to_owned()));
    };
    if let Some(error) = found.error() {
        return Ok(TopicState::Refused(RDKafkaErrorCode::from(error).to_string()));
    }
    let partitions = found
        .partitions()
        .iter()
        .map(|partition| PartitionState {
            partition: Partition(partition.id()),
            leader: Some(partition.leader()).filter(|leader| *leader >= 0),
            replicas: partition.replicas().len(),
            in_sync: partition.isr().len(),
        })
        .collect();
    Ok(TopicState::Known(partitions))
}
