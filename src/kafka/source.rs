//! The source consumer: the member of the group, from which tasks come and whose membership fences every commit.
//!
//! Owns the subscription and the dialogue with the group. An assignment is answered at once, empty, so that the other
//! members go on; the partitions themselves are begun by hand once their tasks are restored. A revocation is answered
//! when the worker says so. Measured on librdkafka 2.12: it takes both, and lets partitions that were never begun go
//! with an empty answer.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::consumer::Consumer;
use rdkafka::error::RDKafkaErrorCode;

use crate::core::position::{Lane, Offset, Partition, TopicName};
use crate::fail_point::fail_point;
use crate::kafka::context::GroupChange;
use crate::kafka::error::ClientError;
use crate::kafka::group::GroupMetadata;
use crate::kafka::raw::{self, Membership};
use crate::kafka::reader::{Begin, Fetch, LaneId, Reader, Wake};
use crate::kafka::settings;
use crate::kafka::stopwatch::Stopwatch;
use crate::topology::model::{Kafka, Pipeline};

const CLIENT: &str = "source";

/// Between two tries to join under a name that is taken; each makes a client anew.
const NAME_TAKEN_PAUSE: Duration = Duration::from_secs(1);
/// How much later than its session the brokers may give a dead member up.
const NAME_TAKEN_SLACK: Duration = Duration::from_secs(10);

/// The group's member and the source partitions it reads.
#[derive(Debug)]
pub(crate) struct Source {
    reader: Reader,
    member: Member,
    topic: TopicName,
    /// What the group gave us, whether begun or not.
    held: BTreeSet<Partition>,
    admission: Admission,
    /// What nobody was told of yet.
    name_taken: Option<NameTaken>,
    asked_back: AskedBack,
}

/// Whether the group waits for partitions that it has asked back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AskedBack {
    Nothing,
    Some,
}

/// What it takes to become a member.
struct Member {
    name: String,
    kafka: Kafka,
    pipeline: Pipeline,
    wake: Arc<dyn Wake>,
}

/// Whether the group has taken the member in.
#[derive(Clone, Copy, Debug)]
enum Admission {
    /// Not yet.
    Asked {
        since: Stopwatch,
        /// By this client.
        last: Stopwatch,
        name: Name,
    },
    /// It has given it partitions, or none.
    Granted,
}

/// Whether somebody else has the member's name.
#[derive(Clone, Copy, Debug)]
enum Name {
    /// Nobody is known to.
    Free,
    Taken,
}

/// The group does not take this process in under its name: another one has it, or had it and its session goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NameTaken {
    /// The name.
    pub(crate) name: String,
    /// For how long it is asked for.
    pub(crate) within: Duration,
    /// The client's words.
    pub(crate) detail: String,
}

impl Admission {
    fn asked() -> Self {
        Self::Asked { since: Stopwatch::start(), last: Stopwatch::start(), name: Name::Free }
    }
}

impl Member {
    fn subscribe(&self) -> Result<Reader, ClientError> {
        let Self { name, kafka, pipeline, wake } = self;
        let config = settings::source_consumer(kafka, pipeline, name);
        let reader = Reader::new(CLIENT, &config, kafka, Arc::clone(wake))?;
        let subscribed = reader.consumer().subscribe(&[pipeline.source.as_str()]);
        subscribed.map_err(|source| ClientError::Call { client: CLIENT, call: "subscribe", source })?;
        Ok(reader)
    }

    fn twin(&self, detail: String) -> ClientError {
        ClientError::Twin { name: self.name.clone(), detail }
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Source {
    /// Makes the consumer and subscribes it to the pipeline's source and nothing else. `name` is the member's where
    /// membership is static.
    pub(crate) fn subscribe(
        kafka: &Kafka,
        pipeline: &Pipeline,
        name: &str,
        wake: Arc<dyn Wake>,
    ) -> Result<Self, ClientError> {
        let member = Member { name: name.to_owned(), kafka: kafka.clone(), pipeline: pipeline.clone(), wake };
        let reader = member.subscribe()?;
        let admission = Admission::asked();
        Ok(Self {
            reader,
            member,
            topic: pipeline.source.clone(),
            held: BTreeSet::new(),
            admission,
            name_taken: None,
            asked_back: AskedBack::Nothing,
        })
    }

    /// Serves the group; to be called at least every few hundred milliseconds, and whenever the consumer wakes.
    /// Assignments are answered here; revocations and losses wait for [`Source::answer`].
    pub(crate) fn serve(&mut self) -> Result<Vec<GroupChange>, ClientError> {
        match self.reader.listen() {
            Ok(()) => {}
            Err(ClientError::Fatal { code: RDKafkaErrorCode::FencedInstanceId, detail, .. }) => {
                return Err(self.member.twin(detail));
            }
            Err(ClientError::Fatal { code: RDKafkaErrorCode::UnreleasedInstanceId, detail, .. }) => {
                self.ask_again(detail)?;
                return Ok(Vec::new());
            }
            Err(other) => return Err(other),
        }
        let mut changes = Vec::new();
        while let Some(change) = self.reader.consumer().context().take_change() {
            match &change {
                GroupChange::Assigned(partitions) => {
                    self.admission = Admission::Granted;
                    self.held.extend(partitions);
                    let answered = self.reader.consumer().incremental_assign(&TopicPartitionList::new());
                    answered.map_err(|source| ClientError::Call {
                        client: CLIENT,
                        call: "answer the group",
                        source,
                    })?;
                }
                GroupChange::Revoked(partitions) | GroupChange::Lost(partitions) => {
                    self.held.retain(|held| !partitions.contains(held));
                    self.asked_back = AskedBack::Some;
                }
            }
            changes.push(change);
        }
        if self.asked_back == AskedBack::Nothing {
            self.reader.bring_back()?;
        }
        Ok(changes)
    }

    /// The name is taken (KIP-848): by the process before this one, which was killed and whose session goes on, or by one
    /// that lives. Which of the two, time tells. A client that was turned away stays so: it is made anew.
    fn ask_again(&mut self, detail: String) -> Result<(), ClientError> {
        let Admission::Asked { since, mut last, name } = self.admission else {
            return Err(self.member.twin(detail));
        };
        let within = self.member.pipeline.workers.session_timeout.saturating_add(NAME_TAKEN_SLACK);
        if since.left_of(within).is_none() {
            return Err(self.member.twin(detail));
        }
        match name {
            Name::Free => {
                self.name_taken = Some(NameTaken { name: self.member.name.clone(), within, detail });
            }
            Name::Taken => {}
        }
        if last.left_of(NAME_TAKEN_PAUSE).is_none() {
            self.reader = self.member.subscribe()?;
            last = Stopwatch::start();
        }
        self.admission = Admission::Asked { since, last, name: Name::Taken };
        Ok(())
    }

    /// Takes what is to be told of a name that is taken; told once.
    pub(crate) fn take_name_taken(&mut self) -> Option<NameTaken> {
        self.name_taken.take()
    }

    /// See [`Reader::take_outage`].
    pub(crate) fn take_outage(&mut self) -> Option<String> {
        self.reader.take_outage()
    }

    /// See [`Reader::take_refusals`].
    pub(crate) fn take_refusals(&mut self) -> Vec<String> {
        self.reader.take_refusals()
    }

    /// Begins to read a partition.
    pub(crate) fn begin(&mut self, partition: Partition, offset: Offset) -> Result<(), ClientError> {
        let id = LaneId { partition, lane: Lane::Source };
        self.reader.begin(vec![Begin { id, topic: self.topic.clone(), offset }])
    }

    /// See [`Reader::fetch`].
    pub(crate) fn fetch(&mut self, partition: Partition, most: usize) -> Fetch {
        self.reader.fetch(LaneId { partition, lane: Lane::Source }, most)
    }

    /// See [`Reader::position`].
    pub(crate) fn position(&self, partition: Partition) -> Option<(&TopicName, Offset)> {
        self.reader.position(LaneId { partition, lane: Lane::Source })
    }

    /// See [`Reader::passed`].
    pub(crate) fn passed(&mut self, idle: &[LaneId]) -> Result<Vec<(LaneId, Offset)>, ClientError> {
        self.reader.passed(idle)
    }

    /// See [`Reader::begin_anew`].
    pub(crate) fn begin_anew(&mut self, partition: Partition, offset: Offset) -> Result<(), ClientError> {
        self.reader.begin_anew(LaneId { partition, lane: Lane::Source }, offset)
    }

    /// Reads no further record of a partition; it is still ours for the group.
    pub(crate) fn give_up(&mut self, partition: Partition) {
        self.reader.give_up(partition);
    }

    /// Answers a revocation or loss: lets go what of `partitions` was begun.
    pub(crate) fn answer(&mut self, partitions: &BTreeSet<Partition>) -> Result<(), ClientError> {
        self.asked_back = AskedBack::Nothing;
        self.reader.end(|id| partitions.contains(&id.partition))
    }

    /// The membership now, for the offsets of a transaction that is being formed; `None` while there is none.
    ///
    /// 1. the client drops its membership on one of its own threads, at a moment that no callback has told yet;
    /// 2. a snapshot taken then has an empty member, and the broker may take offsets of an empty member unasked.
    ///
    /// It becomes a member again only after the loss was answered from this thread. So a snapshot is good if the client is a
    /// member *after* it was taken.
    pub(crate) fn metadata(&self) -> Option<GroupMetadata> {
        let snapshot = self.reader.consumer().group_metadata()?;
        match raw::membership(self.reader.consumer()) {
            Membership::Member(generation) => Some(GroupMetadata { snapshot, generation }),
            Membership::Outside => None,
        }
    }

    /// Leaves the group and ends the consumer, within about `patience`. Everything must have been committed: what the
    /// group still asks is answered at once.
    pub(crate) fn leave(mut self, patience: Duration) -> Result<(), ClientError> {
        let everything = std::mem::take(&mut self.held);
        self.reader.end(|_| true)?;
        self.reader.consumer().context().end();
        self.reader.consumer().unsubscribe();
        fail_point!(Leaving);
        if !everything.is_empty() {
            // Gives control back early when the group's last change was served, by the context.
            let _ = self.reader.consumer().poll(patience);
        }
        Ok(())
    }
}

#[cfg(test)]
#[cfg(feature = "broker-tests")]
mod tests;
