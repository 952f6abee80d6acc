//! The records of a round, how the handler takes each of them, and their way into the source.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};

use crate::found;
use crate::handler::{Answer, told};
use crate::random::mix;

/// Many records each, and far more than there may be calls at once.
const KEYS: usize = 997;
/// Makes records as long as small orders are.
const FILLER: &str =
    "....................................................................................................";
/// A broker may be down meanwhile, and another in the next moment.
const SENT_WITHIN: Duration = Duration::from_secs(120);

/// How the handler takes a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Plan {
    Succeeds,
    FailsOnce,
    FailsTwice,
    FailsForEver,
    Broken,
}

impl Plan {
    const ALL: [Self; 5] =
        [Self::Succeeds, Self::FailsOnce, Self::FailsTwice, Self::FailsForEver, Self::Broken];

    /// Of 100 records 30 fail: 20 once, 7 twice, 3 for ever; and 2 are broken.
    fn of(number: usize) -> Self {
        match mix(u64::try_from(number).unwrap_or(u64::MAX)) % 100 {
            0..20 => Self::FailsOnce,
            20..27 => Self::FailsTwice,
            27..30 => Self::FailsForEver,
            30..32 => Self::Broken,
            _ => Self::Succeeds,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Succeeds => "succeeds",
            Self::FailsOnce => "fails once",
            Self::FailsTwice => "fails twice",
            Self::FailsForEver => "fails for ever",
            Self::Broken => "is broken",
        }
    }
}

/// Answers 200 with the value itself, 503 while it is to fail, 422 where it is broken.
pub(crate) fn answer(attempt: u32, value: Bytes) -> Answer {
    let later = || told(StatusCode::SERVICE_UNAVAILABLE, "try later");
    match Plan::ALL.into_iter().find(|plan| value.starts_with(plan.word().as_bytes())) {
        None => told(StatusCode::BAD_REQUEST, "no plan"),
        Some(Plan::FailsOnce) if attempt <= 1 => later(),
        Some(Plan::FailsTwice) if attempt <= 2 => later(),
        Some(Plan::FailsForEver) => later(),
        Some(Plan::Broken) => told(StatusCode::UNPROCESSABLE_ENTITY, "nobody can do this"),
        Some(Plan::Succeeds | Plan::FailsOnce | Plan::FailsTwice) => {
            (StatusCode::OK, [(CONTENT_TYPE, "text/plain")], value)
        }
    }
}

/// How many of the first `records` end how: the reasons of dead letters, and `None` for the output.
pub(crate) fn ends(records: usize) -> BTreeMap<Option<&'static str>, usize> {
    let mut ends = BTreeMap::new();
    for plan in (0..records).map(Plan::of) {
        let end = match plan {
            Plan::Succeeds | Plan::FailsOnce | Plan::FailsTwice => None,
            Plan::FailsForEver => Some("exhausted"),
            Plan::Broken => Some("http-422"),
        };
        *ends.entry(end).or_default() += 1;
    }
    ends
}

/// Writes one record after another.
pub(crate) struct Sender {
    producer: ThreadedProducer<DefaultProducerContext>,
    source: String,
    sent: usize,
}

impl Sender {
    pub(crate) fn to(bootstrap: &str, source: &str) -> Result<Self> {
        let producer = found::client(bootstrap)
            .set("partitioner", "murmur2_random")
            // Whatever happens to the brokers, each is there once.
            .set("enable.idempotence", "true")
            .set("message.timeout.ms", SENT_WITHIN.as_millis().to_string())
            .set("linger.ms", "20")
            .create()
            .context("creating a producer")?;
        Ok(Self { producer, source: source.to_owned(), sent: 0 })
    }

    pub(crate) fn sent(&self) -> usize {
        self.sent
    }

    /// Sends until so many are on their way in all, or the client takes no more for now.
    pub(crate) fn send(&mut self, until: usize) -> Result<()> {
        while self.sent < until {
            let number = self.sent;
            let key = format!("key-{}", number % KEYS);
            let value = format!("{}, {number} {FILLER}", Plan::of(number).word());
            let record = BaseRecord::to(&self.source).key(&key).payload(&value);
            match self.producer.send(record) {
                Ok(()) => self.sent += 1,
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), _)) => return Ok(()),
                Err((error, _)) => return Err(error).with_context(|| format!("sending record {number}")),
            }
        }
        Ok(())
    }

    /// Waits until all are there.
    pub(crate) fn finish(&self) -> Result<()> {
        self.producer.flush(SENT_WITHIN).context("sending")?;
        ensure!(self.producer.in_flight_count() == 0, "not every record could be sent");
        Ok(())
    }
}
