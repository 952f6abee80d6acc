//! One transactional producer: the client's calls, with their errors sorted by what has to follow.

use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header as ClientHeader, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer as _, ThreadedProducer};

use crate::core::event::Write;
use crate::core::position::Partition;
use crate::kafka::group::GroupMetadata;
use crate::kafka::settings::{self, SettingsError};
use crate::topology::model::Kafka;

mod ledger;
mod topic;

use ledger::Ledger;
pub(super) use ledger::{DeliveryFailure, StillInFlight, flaw_of};
pub(super) use topic::TopicState;

/// A transactional producer, or one for records outside of transactions. Dropped with an open transaction, it leaves that to the next one of the same id.
pub(super) struct Producer {
    client: ThreadedProducer<Ledger>,
}

/// Why a call of a transaction failed, by what has to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// No answer yet: the same call may be repeated on this producer.
    Again(String),
    /// The transaction must be aborted; the producer lives.
    Abort {
        /// The kind of error.
        code: RDKafkaErrorCode,
        /// The client's words.
        detail: String,
    },
    /// Another producer has this id, or the broker gave the transaction up. The producer is dead.
    Fenced(String),
    /// The producer is dead, or nobody knows.
    Broken(String),
}

impl Trouble {
    /// The client's words.
    pub(super) fn into_detail(self) -> String {
        match self {
            Self::Again(detail)
            | Self::Abort { detail, .. }
            | Self::Fenced(detail)
            | Self::Broken(detail) => detail,
        }
    }
}

/// Why a record could not even be queued. The transaction could be committed without it, and must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SendError {
    /// The queue is full: no refusal, room comes when records are delivered.
    QueueFull,
    /// The client refuses it.
    Failed(RDKafkaErrorCode),
}

/// Why a producer could not be initialised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum InitError {
    /// No broker answered in time, or a coordinator is on the move: the same call may be repeated on this producer.
    Unanswered(String),
    /// Try again with another producer.
    Again(String),
    /// The brokers refuse who we say we are.
    Authentication(String),
    /// It will never work as configured: a right is missing, a timeout is above the broker's limit.
    Never(String),
}

impl Producer {
    /// Makes one. It must be initialised before its first transaction.
    pub(super) fn make(config: &ClientConfig, kafka: &Kafka) -> Result<Self, SettingsError> {
        Ok(Self { client: settings::create(config, Ledger::default(), kafka)? })
    }

    /// Fences every other producer of this id and ends what it left open. Blocks up to `bound`.
    pub(super) fn initialise(&self, bound: Duration) -> Result<(), InitError> {
        let Err(error) = self.client.init_transactions(bound) else {
            return Ok(());
        };
        let detail = error.to_string();
        if let Some(refusal) = self.authentication_failure() {
            return Err(InitError::Authentication(refusal));
        }
        let (fatal, retriable) = if let KafkaError::Transaction(error) = &error {
            (error.is_fatal().then(|| error.code()), error.is_retriable())
        } else {
            (None, false)
        };
        match fatal {
            None if retriable => Err(InitError::Unanswered(detail)),
            // Fenced: somebody else was initialised at the same time.
            None | Some(RDKafkaErrorCode::Fenced) => Err(InitError::Again(detail)),
            Some(_) => Err(InitError::Never(detail)),
        }
    }

    /// Begins a transaction and forgets what became of the records of the last one.
    pub(super) fn begin(&self) -> Result<(), Trouble> {
        self.client.context().reset();
        self.sorted(self.client.begin_transaction())
    }

    /// Queues one record; `index` is its place in the transaction and comes back with a failure.
    pub(super) fn send(
        &self,
        topic: &str,
        partition: Option<Partition>,
        index: usize,
        write: &Write,
    ) -> Result<(), SendError> {
        // Entries of the state topic have none, and there are as many of them as outputs.
        let headers = (!write.headers.is_empty()).then(|| {
            let headers = OwnedHeaders::new_with_capacity(write.headers.len());
            write.headers.iter().fold(headers, |headers, header| {
                headers.insert(ClientHeader { key: header.name.as_str(), value: header.value.as_deref() })
            })
        });
        let record = BaseRecord::<[u8], [u8], usize> {
            topic,
            partition: partition.map(|partition| partition.0),
            payload: write.value.as_deref(),
            key: write.key.as_deref(),
            timestamp: write.timestamp.map(crate::core::time::Timestamp::as_millis),
            headers,
            delivery_opaque: index,
        };
        let ledger = self.client.context();
        ledger.sent();
        match self.client.send(record) {
            Ok(()) => Ok(()),
            Err((error, _)) => {
                ledger.not_sent();
                match error.rdkafka_error_code() {
                    Some(RDKafkaErrorCode::QueueFull) => Err(SendError::QueueFull),
                    Some(code) => Err(SendError::Failed(code)),
                    None => Err(SendError::Failed(RDKafkaErrorCode::InvalidArgument)),
                }
            }
        }
    }

    /// Waits until no record is in flight.
    pub(super) fn wait_for_deliveries(&self, bound: Duration) -> Result<(), StillInFlight> {
        self.client.context().wait_until_none_in_flight(bound)
    }

    /// The failure that says most about the records of this transaction.
    pub(super) fn delivery_failure(&self) -> Option<DeliveryFailure> {
        self.client.context().failure()
    }

    /// The places of all records of this transaction that were refused as they are with this code.
    pub(super) fn refused(&self, code: RDKafkaErrorCode) -> Vec<usize> {
        self.client.context().refused(code)
    }

    /// The topics that the coordinator did not take into this transaction; none where the client did not say.
    pub(super) fn not_added(&self) -> Vec<String> {
        self.client.context().not_added()
    }

    /// Why the brokers refuse who we say we are, where they do.
    pub(super) fn authentication_failure(&self) -> Option<String> {
        self.client.context().authentication_failure()
    }

    /// Why the producer is dead, or why the open transaction can only be aborted; for a failed delivery often says no
    /// more than that it failed.
    pub(super) fn transaction_error(&self) -> Option<Trouble> {
        if let Some(dead) = self.fatal_error() {
            return Some(dead);
        }
        // With a transaction open, begin refuses either with the error that dooms it, or since it is open.
        match self.sorted(self.client.begin_transaction()) {
            Err(abort @ Trouble::Abort { .. }) => Some(abort),
            Ok(()) | Err(Trouble::Again(_) | Trouble::Fenced(_) | Trouble::Broken(_)) => None,
        }
    }

    /// Adds offsets to the transaction in the name of the group's member.
    pub(super) fn send_offsets(
        &self,
        offsets: &TopicPartitionList,
        group: &GroupMetadata,
        bound: Duration,
    ) -> Result<(), Trouble> {
        self.sorted(self.client.send_offsets_to_transaction(offsets, &group.snapshot, bound))
    }

    /// Commits. After any error but [`Trouble::Again`] nobody knows whether it took place.
    pub(super) fn commit(&self, bound: Duration) -> Result<(), Trouble> {
        self.sorted(self.client.commit_transaction(bound))
    }

    /// Aborts, dropping what is still queued.
    pub(super) fn abort(&self, bound: Duration) -> Result<(), Trouble> {
        self.sorted(self.client.abort_transaction(bound))
    }

    /// What the brokers say about a topic.
    pub(super) fn topic_state(&self, topic: &str, bound: Duration) -> Result<TopicState, KafkaError> {
        topic::state(self.client.client(), topic, bound)
    }

    fn fatal_error(&self) -> Option<Trouble> {
        self.client.client().fatal_error().map(|(code, detail)| dead(code, detail))
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the client's list of errors is open")]
    fn sorted(&self, result: Result<(), KafkaError>) -> Result<(), Trouble> {
        let error = match result {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        if let Some(dead) = self.fatal_error() {
            return Err(dead);
        }
        let detail = error.to_string();
        Err(match error {
            // The flush before a commit ran out of time; nothing was sent.
            KafkaError::Flush(RDKafkaErrorCode::OperationTimedOut) => Trouble::Again(detail),
            KafkaError::Transaction(error) if error.is_fatal() => dead(error.code(), detail),
            KafkaError::Transaction(error) if error.txn_requires_abort() => {
                Trouble::Abort { code: error.code(), detail }
            }
            KafkaError::Transaction(error)
                if error.is_retriable() || error.code() == RDKafkaErrorCode::OperationTimedOut =>
            {
                Trouble::Again(detail)
            }
            // Errors with no flag at all are fatal (the client's own advice).
            _ => Trouble::Broken(detail),
        })
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the client's list of errors is open")]
fn dead(code: RDKafkaErrorCode, detail: String) -> Trouble {
    match code {
        RDKafkaErrorCode::Fenced
        | RDKafkaErrorCode::ProducerFenced
        | RDKafkaErrorCode::InvalidProducerEpoch => Trouble::Fenced(detail),
        _ => Trouble::Broken(detail),
    }
}
