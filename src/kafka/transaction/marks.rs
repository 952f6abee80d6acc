//! The committed marks of tasks: what tells, after a commit without a verdict, whether it took place.

use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer, DefaultConsumerContext};
use rdkafka::topic_partition_list::Offset as ClientOffset;

use crate::core::position::{CommitMark, Partition, TopicName};
use crate::fail_point::fail_point;
use crate::kafka::settings::{self, SettingsError};
use crate::kafka::transaction::TransactorSettings;

/// The fetch waits at the client for pending transactions to end.
const FETCH_WITHIN: Duration = Duration::from_secs(10);

/// Reads the group's committed offsets without being a member.
pub(super) struct Marks {
    consumer: BaseConsumer<DefaultConsumerContext>,
    source: TopicName,
    group: String,
}

/// The marks could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MarksError {
    /// Not now.
    Again(String),
    /// The group's offset carries metadata that is not redrive's: somebody else commits for it.
    Foreign(String),
}

impl Marks {
    pub(super) fn new(settings: &TransactorSettings) -> Result<Self, SettingsError> {
        let TransactorSettings { kafka, pipeline, .. } = settings;
        let config = settings::lane_consumer(kafka, pipeline);
        Ok(Self {
            consumer: settings::create(&config, DefaultConsumerContext, kafka)?,
            source: pipeline.source.clone(),
            group: pipeline.group.clone(),
        })
    }

    /// The mark at the committed source offset of each task, after every pending transaction has ended.
    pub(super) fn committed(
        &self,
        partitions: &[Partition],
    ) -> Result<Vec<(Partition, Option<CommitMark>)>, MarksError> {
        let mut wanted = TopicPartitionList::with_capacity(partitions.len());
        for partition in partitions {
            wanted.add_partition(self.source.as_str(), partition.0);
        }
        fail_point!(BeforeMarks);
        let found = self
            .consumer
            .committed_offsets(wanted, FETCH_WITHIN)
            .map_err(|error| MarksError::Again(error.to_string()))?;
        fail_point!(AfterMarks);
        found
            .elements()
            .iter()
            .map(|element| {
                let partition = Partition(element.partition());
                element.error().map_err(|error| MarksError::Again(error.to_string()))?;
                match element.offset() {
                    ClientOffset::Offset(_) => {}
                    // Nothing is committed.
                    ClientOffset::Invalid
                    | ClientOffset::Beginning
                    | ClientOffset::End
                    | ClientOffset::Stored
                    | ClientOffset::OffsetTail(_) => return Ok((partition, None)),
                }
                let mark = element.metadata().parse::<CommitMark>().map_err(|error| {
                    MarksError::Foreign(format!(
                        "the offset of group `{}` for `{}/{partition}` was committed by somebody else: {error}",
                        self.group, self.source
                    ))
                })?;
                Ok((partition, Some(mark)))
            })
            .collect()
    }
}
