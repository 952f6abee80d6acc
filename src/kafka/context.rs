//! What the client calls back: translated and handed over, never decided.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{ClientContext, TopicPartitionList};

use crate::core::position::Partition;
use crate::kafka::raw::{self, Membership};

/// What the group decided about a member's partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GroupChange {
    /// These are new. May be empty: every change of the group must be answered.
    Assigned(Vec<Partition>),
    /// These are to be given back in order.
    Revoked(Vec<Partition>),
    /// These already belong to somebody else.
    Lost(Vec<Partition>),
}

/// Receives what a consumer calls back, on the thread that polls it.
#[derive(Debug)]
pub(super) struct Context {
    client: &'static str,
    changes: Mutex<VecDeque<GroupChange>>,
    served: AtomicU64,
    ending: AtomicBool,
}

impl Context {
    /// For the consumer that is called `client` in logs.
    pub(super) fn new(client: &'static str) -> Self {
        let changes = Mutex::new(VecDeque::new());
        Self { client, changes, served: AtomicU64::new(0), ending: AtomicBool::new(false) }
    }

    /// The oldest change of the group that was not taken yet.
    pub(super) fn take_change(&self) -> Option<GroupChange> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// How many callbacks there were. A poll that gives no record and leaves this alone found an empty queue.
    pub(super) fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }

    /// From now on the group's changes are answered here: nobody else will, and the client waits for it when it is
    /// dropped.
    pub(super) fn end(&self) {
        self.ending.store(true, Ordering::Relaxed);
    }

    fn count(&self) {
        self.served.fetch_add(1, Ordering::Relaxed);
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        self.count();
        match level {
            RDKafkaLogLevel::Emerg
            | RDKafkaLogLevel::Alert
            | RDKafkaLogLevel::Critical
            | RDKafkaLogLevel::Error => {
                tracing::warn!(client = self.client, facility, "{text}");
            }
            RDKafkaLogLevel::Warning | RDKafkaLogLevel::Notice => {
                tracing::info!(client = self.client, facility, "{text}");
            }
            RDKafkaLogLevel::Info | RDKafkaLogLevel::Debug => {
                tracing::debug!(client = self.client, facility, "{text}");
            }
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.count();
        tracing::debug!(client = self.client, %error, "{reason}");
    }
}

impl ConsumerContext for Context {
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        change: RDKafkaRespErr,
        list: &mut TopicPartitionList,
    ) {
        self.count();
        if self.ending.load(Ordering::Relaxed) {
            answer_at_the_end(consumer, change);
            return;
        }
        let partitions = list.elements().iter().map(|element| Partition(element.partition())).collect();
        let change = if change == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            GroupChange::Assigned(partitions)
        } else if consumer.assignment_lost() || raw::membership(consumer) == Membership::Outside {
            // An assign between the loss and this call takes the client's own mark of the loss away.
            GroupChange::Lost(partitions)
        } else {
            GroupChange::Revoked(partitions)
        };
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).push_back(change);
    }
}

/// Answers what the group still asks of a client that ends.
///
/// 1. the client ends, and the group asks for partitions,
/// 2. one of the client's own threads ends the membership for good,
/// 3. the question is taken from the queue: an answer would wait for that thread's reply, for ever.
fn answer_at_the_end(consumer: &BaseConsumer<Context>, change: RDKafkaRespErr) {
    if consumer.closed() {
        return;
    }
    let answered = if change == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
        consumer.incremental_assign(&TopicPartitionList::new())
    } else {
        consumer.assignment().and_then(|held| consumer.incremental_unassign(&held))
    };
    if let Err(error) = answered {
        tracing::debug!(%error, "the group's last change could not be answered");
    }
}
