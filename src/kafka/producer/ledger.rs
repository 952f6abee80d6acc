//! What is in flight and what failed, told by the client's delivery reports.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{DeliveryResult, ProducerContext};

use crate::core::event::Flaw;
use crate::kafka::stopwatch::Stopwatch;

/// A record that was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kafka) struct DeliveryFailure {
    /// Its place in the transaction.
    pub(in crate::kafka) index: usize,
    /// Why.
    pub(in crate::kafka) code: RDKafkaErrorCode,
}

/// Records were still in flight when the time was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kafka) struct StillInFlight(pub(in crate::kafka) usize);

/// Counts the records of one producer. Written by the client's thread, read by the transactor's.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    in_flight: AtomicUsize,
    told: Mutex<Told>,
    none_in_flight: Condvar,
}

#[derive(Debug, Default)]
struct Told {
    failure: Option<DeliveryFailure>,
    /// All records that were refused as they are.
    refused: Vec<DeliveryFailure>,
    /// The topics that the coordinator does not take into the transaction.
    not_added: Vec<String>,
    authentication: Option<String>,
}

impl Ledger {
    pub(super) fn reset(&self) {
        let mut told = self.lock();
        told.failure = None;
        told.refused.clear();
        told.not_added.clear();
    }

    /// Before the record is handed to the client, since its report may come at once.
    pub(super) fn sent(&self) {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn not_sent(&self) {
        self.landed();
    }

    pub(super) fn failure(&self) -> Option<DeliveryFailure> {
        self.lock().failure
    }

    /// The records that were refused as they are with this code, in the order of the transaction.
    pub(super) fn refused(&self, code: RDKafkaErrorCode) -> Vec<usize> {
        let told = self.lock();
        let mut places: Vec<usize> =
            told.refused.iter().filter(|failure| failure.code == code).map(|failure| failure.index).collect();
        places.sort_unstable();
        places
    }

    /// The topics that the coordinator did not take into the transaction through a fault of their own.
    pub(super) fn not_added(&self) -> Vec<String> {
        self.lock().not_added.clone()
    }

    pub(super) fn authentication_failure(&self) -> Option<String> {
        self.lock().authentication.clone()
    }

    pub(super) fn wait_until_none_in_flight(&self, bound: Duration) -> Result<(), StillInFlight> {
        let clock = Stopwatch::start();
        let mut told = self.lock();
        loop {
            match self.in_flight.load(Ordering::Acquire) {
                0 => return Ok(()),
                in_flight => {
                    let Some(left) = clock.left_of(bound) else {
                        return Err(StillInFlight(in_flight));
                    };
                    told = self
                        .none_in_flight
                        .wait_timeout(told, left)
                        .map_or_else(|poisoned| poisoned.into_inner().0, |(told, _)| told);
                }
            }
        }
    }

    fn landed(&self) {
        if self.in_flight.fetch_sub(1, Ordering::AcqRel) == 1 {
            // Under the lock: a waiter that has just read the count is not yet asleep.
            let _told = self.lock();
            self.none_in_flight.notify_all();
        }
    }

    /// Every step under the lock is whole.
    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When several records fail, the one that says most: its own fault, then its topic's, then whatever fell with it.
#[expect(clippy::wildcard_enum_match_arm, reason = "the client's list of errors is open")]
fn weight(code: RDKafkaErrorCode) -> u8 {
    match code {
        _ if flaw_of(code).is_some() => 3,
        RDKafkaErrorCode::PurgeQueue | RDKafkaErrorCode::PurgeInflight => 0,
        RDKafkaErrorCode::MessageTimedOut => 1,
        _ => 2,
    }
}

/// What is wrong with a record that meets this error; `None` where the error names no record.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the client's list of errors grows; only these name a record"
)]
pub(in crate::kafka) fn flaw_of(code: RDKafkaErrorCode) -> Option<Flaw> {
    match code {
        // 10, 18 and 4 of the protocol, and the client's own limit, which bears the name of the first. The broker
        // measures the batch: its other records meet the same error.
        RDKafkaErrorCode::MessageSizeTooLarge
        | RDKafkaErrorCode::MessageBatchTooLarge
        | RDKafkaErrorCode::InvalidMessageSize => Some(Flaw::TooLarge),
        // 87 and 32. Where the broker names the record the client tells the others of its batch another code (KIP-467).
        RDKafkaErrorCode::InvalidRecord | RDKafkaErrorCode::InvalidTimestamp => Some(Flaw::Invalid),
        _ => None,
    }
}

/// The topic that the client's log says the coordinator refused. With one topic it takes none of the others, whose records only
/// run out of time, and the client's errors name no topic at all: who is to blame stands only there
/// (`rd_kafka_txn_handle_AddPartitionsToTxn`).
fn refused_topic<'text>(facility: &str, text: &'text str) -> Option<&'text str> {
    let (_, told) = text.split_once("Failed to add partition \"").filter(|_| facility == "ADDPARTS")?;
    let (topic, why) = told.split_once('"')?;
    let innocent = "Operation not attempted";
    (!why.contains(innocent)).then_some(topic)
}

impl ClientContext for Ledger {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        if let Some(topic) = refused_topic(facility, text) {
            self.lock().not_added.push(topic.to_owned());
        }
        match level {
            RDKafkaLogLevel::Emerg
            | RDKafkaLogLevel::Alert
            | RDKafkaLogLevel::Critical
            | RDKafkaLogLevel::Error => tracing::warn!(client = "producer", facility, "{text}"),
            RDKafkaLogLevel::Warning | RDKafkaLogLevel::Notice => {
                tracing::info!(client = "producer", facility, "{text}");
            }
            RDKafkaLogLevel::Info | RDKafkaLogLevel::Debug => {
                tracing::debug!(client = "producer", facility, "{text}");
            }
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(client = "producer", %error, "{reason}");
        if matches!(
            error.rdkafka_error_code(),
            Some(RDKafkaErrorCode::Authentication | RDKafkaErrorCode::SaslAuthenticationFailed)
        ) {
            self.lock().authentication = Some(reason.to_owned());
        }
    }
}

impl ProducerContext for Ledger {
    /// The place of the record in its transaction.
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, index: usize) {
        if let Err((error, _)) = result {
            let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail);
            let mut told = self.lock();
            if flaw_of(code).is_some() {
                told.refused.push(DeliveryFailure { index, code });
            }
            if told.failure.is_none_or(|known| weight(code) > weight(known.code)) {
                told.failure = Some(DeliveryFailure { index, code });
            }
        }
        self.landed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hears(ledger: &Ledger, facility: &str, text: &str) {
        ledger.log(RDKafkaLogLevel::Error, facility, text);
    }

    #[test]
    fn the_topic_that_the_coordinator_refuses_is_told_apart_from_those_that_fall_with_it() {
        let ledger = Ledger::default();
        hears(
            &ledger,
            "ADDPARTS",
            "[thrd:main]: TxnCoordinator/1: Failed to add partition \"out\" [0] to transaction: Broker: Operation not attempted",
        );
        hears(
            &ledger,
            "ADDPARTS",
            "[thrd:main]: TxnCoordinator/1: Failed to add partition \"tier.5s\" [2] to transaction: Broker: Topic authorization failed",
        );
        hears(
            &ledger,
            "FAIL",
            "[thrd:main]: Failed to add partition \"x\" [2] to transaction: what else says so",
        );
        assert_eq!(ledger.not_added(), ["tier.5s"]);
        ledger.reset();
        assert!(ledger.not_added().is_empty(), "the next transaction has done nothing yet");
    }
}
