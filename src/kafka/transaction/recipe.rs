//! One transaction, whole: begin, produce, wait, check epochs, send offsets, commit; and what an error does to it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::topic_partition_list::Offset as ClientOffset;

use crate::core::event::{
    AbortCause, Flaw, Generation, Slot, Suspects, Target, Transaction, TransactionResult, Write,
};
use crate::core::position::{Lane, LaneMark, Partition, TopicName};
use crate::fail_point::fail_point;
use crate::kafka::group::GroupMetadata;
use crate::kafka::producer::{Producer, SendError, Trouble};
use crate::kafka::settings;
use crate::kafka::stopwatch::Stopwatch;
use crate::kafka::transaction::fault::{self, Blame, Fault, Wear};
use crate::kafka::transaction::slots::HealError;
use crate::kafka::transaction::{Fatal, Work};
use crate::telemetry::event::RemakeCause;

/// One call to the coordinator; repeated where the transaction leaves time.
const CALL: Duration = Duration::from_secs(5);
/// One question about a topic.
const LOOK: Duration = Duration::from_secs(5);
/// Delivery reports of records that timed out come this much later at most.
const REPORT: Duration = Duration::from_secs(5);

impl Work {
    /// Carries out one transaction. Blocks until its result is certain, or certainly unknown.
    pub(super) fn carry_out(
        &mut self,
        transaction: &Transaction,
        group: &GroupMetadata,
    ) -> Result<TransactionResult, Fatal> {
        match self.slots.heal(&self.ending) {
            Ok(()) => {}
            Err(HealError::Again(detail)) => return Ok(passing(detail)),
            Err(HealError::Never(detail)) => return Err(Fatal(detail)),
        }
        let slot = self.slots.take_turn();
        let clock = Stopwatch::start();
        let Some(producer) = self.slots.producer(slot) else {
            return Ok(passing("the producer is gone".to_owned()));
        };
        if let Some(cause) = transaction.probe.and_then(|target| self.probe(producer, target, transaction)) {
            return Ok(TransactionResult::Aborted(cause));
        }
        fail_point!(BeforeBegin);
        match self.prepare(producer, transaction, group, clock) {
            Ok(()) => Ok(self.commit(slot)),
            Err(fault) => Ok(self.give_up(slot, fault, clock, group.generation)),
        }
    }

    /// Everything before the commit.
    fn prepare(
        &self,
        producer: &Producer,
        transaction: &Transaction,
        group: &GroupMetadata,
        clock: Stopwatch,
    ) -> Result<(), Fault> {
        producer.begin()?;
        fail_point!(AfterBegin);
        self.produce(producer, transaction)?;
        // Between the forming of this transaction and now the group may have taken a task away.
        for task in &transaction.tasks {
            if !self.epochs.is_current(task.partition, task.epoch) {
                let detail = format!("task `{}` is no longer ours", task.partition);
                return Err(Fault::Abort(AbortCause::Passing { detail }, Wear::Sound));
            }
        }
        let offsets = self.offsets(transaction)?;
        fail_point!(BeforeOffsets);
        let bound = self.settings.pipeline.policy.flow.transaction_timeout;
        loop {
            match producer.send_offsets(&offsets, group, CALL) {
                Ok(()) => break,
                Err(Trouble::Again(_)) if self.may_wait(clock, bound) => {}
                Err(trouble) => return Err(trouble.into()),
            }
        }
        fail_point!(AfterOffsets);
        Ok(())
    }

    /// Queues all records and waits until the broker has them.
    fn produce(&self, producer: &Producer, transaction: &Transaction) -> Result<(), Fault> {
        let bound = settings::message_timeout(&self.settings.pipeline).saturating_add(REPORT);
        for (index, write) in transaction.writes.iter().enumerate() {
            let topic = self.topic(write.target)?;
            let partition = explicit_partition(write);
            loop {
                match producer.send(topic.as_str(), partition, index, write) {
                    Ok(()) => break,
                    Err(SendError::QueueFull) => self.settle(producer, transaction, bound)?,
                    // The client would commit without this record.
                    Err(SendError::Failed(code)) => {
                        if producer.transaction_error().is_some() {
                            // It was doomed meanwhile: what it has taken before tells by whom.
                            self.settle(producer, transaction, bound)?;
                        }
                        let cause = self.cause(producer, transaction, (index, write), code);
                        return Err(Fault::Abort(cause, Wear::Sound));
                    }
                }
            }
            fail_point!(AfterProduce);
        }
        fail_point!(BeforeDeliveries);
        self.settle(producer, transaction, bound)?;
        fail_point!(AfterDeliveries);
        Ok(())
    }

    /// Waits until nothing is in flight and looks at what became of it.
    fn settle(&self, producer: &Producer, transaction: &Transaction, bound: Duration) -> Result<(), Fault> {
        if let Err(left) = producer.wait_for_deliveries(bound) {
            return Err(Fault::Broken(format!("`{}` records without a delivery report", left.0)));
        }
        let Some(failure) = producer.delivery_failure() else {
            return Ok(());
        };
        let doom = match producer.transaction_error() {
            Some(dead @ (Trouble::Fenced(_) | Trouble::Broken(_))) => return Err(dead.into()),
            Some(Trouble::Abort { code, .. }) => Some(code),
            Some(Trouble::Again(_)) | None => None,
        };
        let cause = match (transaction.writes.get(failure.index), doom) {
            // The coordinator refused one partition and with it all others, whose records only ran out of time.
            (Some(write), Some(doom)) if refuses_a_topic(doom) && ran_out_of_time(failure.code) => {
                let (target, obstacle) = self
                    .not_added(producer, transaction)
                    .map(|target| (target, String::new()))
                    .or_else(|| {
                        let (target, obstacle) = self.obstacle(producer, transaction)?;
                        Some((target, format!(": {obstacle}")))
                    })
                    .unwrap_or((write.target, String::new()));
                AbortCause::Unwritable { target, detail: format!("{doom}{obstacle}") }
            }
            (Some(write), Some(_) | None) => {
                self.cause(producer, transaction, (failure.index, write), failure.code)
            }
            (None, Some(_) | None) => AbortCause::Passing { detail: failure.code.to_string() },
        };
        Err(Fault::Abort(cause, Wear::Worn))
    }

    /// Who is to blame for a record's error.
    fn cause(
        &self,
        producer: &Producer,
        transaction: &Transaction,
        (place, write): (usize, &Write),
        code: RDKafkaErrorCode,
    ) -> AbortCause {
        let (target, detail) = (write.target, code.to_string());
        match fault::blame(code) {
            Blame::Record(flaw) => {
                let mut places = producer.refused(code);
                // One topic at a time: what another refused as well it refuses again.
                places.retain(|place| {
                    transaction.writes.get(*place).is_some_and(|write| write.target == target)
                });
                if !places.contains(&place) {
                    // The client's own refusal, which has no delivery report.
                    places = vec![place];
                }
                let suspects = suspects(places, flaw, transaction, self.settings.batch_bytes);
                AbortCause::Refused { target, partition: write.partition, flaw, suspects, detail }
            }
            Blame::Topic => AbortCause::Unwritable { target, detail },
            Blame::Unanswered => {
                let state =
                    self.topic(target).ok().and_then(|topic| producer.topic_state(topic.as_str(), LOOK).ok());
                let found = state.and_then(|state| {
                    let own = state.obstacle_after_timeout(explicit_partition(write));
                    own.map(|own| (target, own)).or_else(|| self.obstacle(producer, transaction))
                });
                match found {
                    Some((target, obstacle)) => {
                        AbortCause::Unwritable { target, detail: format!("{detail}: {obstacle}") }
                    }
                    None => AbortCause::Passing { detail },
                }
            }
            Blame::Nobody => AbortCause::Passing { detail },
        }
    }

    /// The target of a transaction that the coordinator did not take into it, where the client said which.
    fn not_added(&self, producer: &Producer, transaction: &Transaction) -> Option<Target> {
        let refused = producer.not_added();
        let mut targets = transaction.writes.iter().map(|write| write.target);
        targets.find(|target| {
            self.topic(*target).is_ok_and(|topic| refused.iter().any(|told| told == topic.as_str()))
        })
    }

    /// The first target of a transaction that plainly cannot be written, and why; none where the brokers do not answer.
    fn obstacle(&self, producer: &Producer, transaction: &Transaction) -> Option<(Target, String)> {
        let mut states = BTreeMap::new();
        for write in &transaction.writes {
            let state = match states.entry(write.target) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(unknown) => {
                    let topic = self.topic(write.target).ok()?;
                    unknown.insert(producer.topic_state(topic.as_str(), LOOK).ok()?)
                }
            };
            if let Some(obstacle) = state.obstacle(explicit_partition(write)) {
                return Some((write.target, obstacle));
            }
        }
        None
    }

    /// Whether what was wrong with a target still is; without an answer it is tried.
    fn probe(&self, producer: &Producer, target: Target, transaction: &Transaction) -> Option<AbortCause> {
        let topic = self.topic(target).ok()?;
        let state = producer.topic_state(topic.as_str(), LOOK).ok()?;
        transaction
            .writes
            .iter()
            .filter(|write| write.target == target)
            .find_map(|write| state.obstacle(explicit_partition(write)))
            .map(|detail| AbortCause::Unwritable { target, detail })
    }

    fn offsets(&self, transaction: &Transaction) -> Result<TopicPartitionList, Fault> {
        let mut list = TopicPartitionList::with_capacity(transaction.tasks.len());
        for task in &transaction.tasks {
            for (lane, offset) in &task.offsets {
                let topic = self.settings.pipeline.lane_topic(*lane);
                let mut element = list.add_partition(topic.as_str(), task.partition.0);
                element
                    .set_offset(ClientOffset::Offset(offset.0))
                    .map_err(|error| Fault::Broken(format!("offset `{offset}` of `{topic}`: {error}")))?;
                let id = task.topics.get(lane.index()).copied().flatten();
                match lane {
                    Lane::Source => element.set_metadata(task.mark.to_string()),
                    Lane::Control | Lane::Held | Lane::Tier(_) => {
                        element.set_metadata(id.map(|id| LaneMark(id).to_string()).unwrap_or_default());
                    }
                }
            }
        }
        Ok(list)
    }

    /// Commits. The call is repeated on the same producer for as long as the brokers may be deciding; after that, and
    /// after any error, only the committed marks know.
    fn commit(&mut self, slot: Slot) -> TransactionResult {
        let bound = self.settings.pipeline.policy.flow.transaction_timeout * 2;
        let clock = Stopwatch::start();
        fail_point!(BeforeCommit);
        let trouble = loop {
            let Some(producer) = self.slots.producer(slot) else { break None };
            match producer.commit(CALL) {
                Ok(()) => {
                    fail_point!(AfterCommit);
                    return TransactionResult::Committed;
                }
                Err(Trouble::Again(_)) if self.may_wait(clock, bound) => {
                    fail_point!(Unanswered);
                }
                Err(trouble) => break Some(trouble),
            }
        };
        // It must not speak again: a late request could end a later transaction (no epoch is raised per transaction).
        let detail = trouble.map(Trouble::into_detail).unwrap_or_default();
        self.slots.discard(slot, RemakeCause::Unknown, detail);
        fail_point!(InDoubt);
        TransactionResult::Unknown
    }

    /// Ends a transaction whose commit was never sent.
    fn give_up(
        &mut self,
        slot: Slot,
        fault: Fault,
        clock: Stopwatch,
        generation: Generation,
    ) -> TransactionResult {
        let fenced = |detail| {
            let worn = (RemakeCause::Fenced, detail);
            (TransactionResult::Fenced { slot, after: clock.elapsed(), generation }, Some(worn))
        };
        let (result, worn) = match fault {
            Fault::Abort(cause, wear) => match (self.abort(slot), wear) {
                (Ok(()), Wear::Sound) => (TransactionResult::Aborted(cause), None),
                (Ok(()), Wear::Worn) => {
                    let worn = (RemakeCause::Error, cause.detail().to_owned());
                    (TransactionResult::Aborted(cause), Some(worn))
                }
                (Err(Trouble::Fenced(detail)), _) => fenced(detail),
                (
                    Err(Trouble::Again(detail) | Trouble::Abort { detail, .. } | Trouble::Broken(detail)),
                    _,
                ) => (TransactionResult::Aborted(cause), Some((RemakeCause::Error, detail))),
            },
            Fault::Fenced(detail) => fenced(detail),
            Fault::Broken(detail) => (passing(detail.clone()), Some((RemakeCause::Error, detail))),
        };
        if let Some((cause, detail)) = worn {
            self.slots.discard(slot, cause, detail);
            if cause == RemakeCause::Fenced {
                // Whoever took the id, or the broker, has ended what was open. The id is taken back only where work goes on.
                return result;
            }
            // Now rather than before the next transaction: what is open holds back every reader. Where it fails now it
            // is done then.
            if let Err(error) = self.slots.heal(&self.ending) {
                tracing::debug!(?error, "a producer could not be made anew yet");
            }
        }
        result
    }

    fn abort(&self, slot: Slot) -> Result<(), Trouble> {
        let bound = self.settings.pipeline.policy.flow.transaction_timeout;
        let clock = Stopwatch::start();
        fail_point!(BeforeAbort);
        while let Some(producer) = self.slots.producer(slot) {
            match producer.abort(CALL) {
                Ok(()) => {
                    fail_point!(AfterAbort);
                    // What was dropped is reported, too; none of it may be counted for the next transaction.
                    return producer
                        .wait_for_deliveries(REPORT)
                        .map_err(|left| Trouble::Broken(format!("`{}` records without a report", left.0)));
                }
                Err(Trouble::Again(_)) if self.may_wait(clock, bound) => {}
                Err(trouble) => return Err(trouble),
            }
        }
        Ok(())
    }

    /// Whether a call may be repeated. Not once the worker has ended: then whoever comes next ends what is open.
    fn may_wait(&self, clock: Stopwatch, bound: Duration) -> bool {
        clock.left_of(bound).is_some() && !self.ending.load(Ordering::Relaxed)
    }

    fn topic(&self, target: Target) -> Result<&TopicName, Fault> {
        let pipeline = &self.settings.pipeline;
        let topic = match target {
            Target::Output => pipeline.policy.outputs.main.as_ref(),
            Target::Named(place) => {
                pipeline.policy.outputs.named.get(usize::from(place)).map(|(_, topic)| topic)
            }
            Target::StaleOutput => pipeline.policy.order.stale_output(),
            Target::Tier(tier) => pipeline.tiers.get(tier.index()).map(|tier| &tier.topic.name),
            Target::DeadLetter => Some(&pipeline.dead_letter.name),
            Target::State => Some(&pipeline.state.name),
            Target::Cases => Some(&pipeline.cases.name),
            Target::Audit => Some(&self.settings.audit),
        };
        topic.ok_or_else(|| Fault::Broken(format!("the pipeline has no `{target:?}` to write")))
    }
}

/// A retry copy or dead letter keeps its partition for life; output goes where its key belongs.
fn explicit_partition(write: &Write) -> Option<Partition> {
    match write.target {
        Target::Output | Target::Named(_) | Target::StaleOutput => None,
        Target::Tier(_) | Target::DeadLetter | Target::State | Target::Cases => Some(write.partition),
        // It has one.
        Target::Audit => Some(Partition(0)),
    }
}

/// Which of the records that met an error are to blame for it.
fn suspects(places: Vec<usize>, flaw: Flaw, transaction: &Transaction, batch_bytes: usize) -> Suspects {
    // The client puts a record that is larger than a batch into one of its own (`rd_kafka_msgset_writer_write_msgq`).
    let is_alone =
        |place: &usize| transaction.writes.get(*place).is_some_and(|write| bytes_of(write) > batch_bytes);
    let alone: Vec<usize> = match flaw {
        Flaw::TooLarge => places.iter().copied().filter(is_alone).collect(),
        Flaw::Invalid => Vec::new(),
    };
    if alone.is_empty() { Suspects::OneOf(places) } else { Suspects::Each(alone) }
}

/// What a record takes on the way, at least.
fn bytes_of(write: &Write) -> usize {
    let size = |bytes: &Option<bytes::Bytes>| bytes.as_ref().map_or(0, bytes::Bytes::len);
    let headers = write.headers.iter().map(|header| header.name.as_str().len() + size(&header.value));
    size(&write.key) + size(&write.value) + headers.sum::<usize>()
}

fn refuses_a_topic(doom: RDKafkaErrorCode) -> bool {
    fault::blame(doom) == Blame::Topic
}

fn ran_out_of_time(code: RDKafkaErrorCode) -> bool {
    fault::blame(code) == Blame::Unanswered
}

fn passing(detail: String) -> TransactionResult {
    TransactionResult::Aborted(AbortCause::Passing { detail })
}
