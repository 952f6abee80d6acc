//! A pipeline behind an HTTP handler of the test's own, with records whose every step the ledger follows.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use rdkafka::error::KafkaError;
use redrive::topology::model::Pipeline;
use tokio::runtime::Runtime;

use crate::binary::{Binary, Words};
use crate::found::{self, Isolation};
use crate::group::{marks, writers};
use crate::handler::{Answer, HttpHandler, told};
use crate::ledger::{Report, audit};
use crate::process::eventually;
use crate::readback;
use crate::support::Kafka;
use crate::topology::Draft;
use crate::watching::Watching;

/// Enough for tasks that differ, few enough for many records of each key.
const PARTITIONS: i32 = 4;
/// Many records each, and fewer than there may be calls at once.
pub(crate) const KEYS: usize = 40;
/// Makes a transaction take its time.
const FILLER: usize = 500;

/// Longer than what is kept of it.
const EXPLANATION: usize = 2_000;

/// What the handler answers for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    Succeeds,
    FailsOnce,
    FailsForEver,
}

impl Plan {
    /// Of 20 records 3 fail once and 1 for ever, spread over all keys.
    pub(crate) fn mixed(number: usize) -> Self {
        match (number / KEYS + number) % 20 {
            3 | 9 | 14 => Self::FailsOnce,
            18 => Self::FailsForEver,
            _ => Self::Succeeds,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Succeeds => "succeeds",
            Self::FailsOnce => "fails once",
            Self::FailsForEver => "fails for ever",
        }
    }
}

/// A pipeline, its handler, and what was sent to it.
pub(crate) struct Scene {
    pub(crate) kafka: &'static Kafka,
    pub(crate) pipeline: Pipeline,
    pub(crate) handler: HttpHandler,
    text: String,
    sent: usize,
    /// The handler's.
    _runtime: Runtime,
}

impl fmt::Debug for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scene")
    }
}

impl Scene {
    /// A pipeline with one tier of this delay, without any process.
    pub(crate) fn set(delay: &str) -> Self {
        Self::with(|draft| draft.tiers(&[delay]))
    }

    /// A pipeline with what is added to its draft, without any process.
    pub(crate) fn with(add: impl FnOnce(Draft) -> Draft) -> Self {
        Self::on(Kafka::shared(), add)
    }

    /// As [`Self::with`], on other brokers than the shared one.
    pub(crate) fn on(kafka: &'static Kafka, add: impl FnOnce(Draft) -> Draft) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let handler = runtime.block_on(HttpHandler::start("/work", answer)).expect("a handler");
        let draft = add(Draft::new(kafka, PARTITIONS).http(&handler.url).drain("30s"));
        let topology = draft.made(kafka);
        let pipeline = topology.pipelines.into_iter().next().unwrap();
        Self { kafka, pipeline, handler, text: draft.text(kafka), sent: 0, _runtime: runtime }
    }

    /// Writes records to the source, many of each key.
    pub(crate) fn send(&mut self, count: usize, plan: impl Fn(usize) -> Plan) {
        let numbers = self.sent..self.sent + count;
        let filler = "x".repeat(FILLER);
        let pairs: Vec<(String, String)> = numbers
            .map(|number| {
                (format!("key-{}", number % KEYS), format!("{}, {number} {filler}", plan(number).word()))
            })
            .collect();
        let records: Vec<_> =
            pairs.iter().map(|(key, value)| (Some(key.as_bytes()), Some(value.as_bytes()))).collect();
        self.kafka.produce(self.pipeline.source.as_str(), None, &records);
        self.sent += count;
    }

    /// Starts a process.
    pub(crate) fn run(&self, instance: u32) -> Binary {
        Binary::run(&self.text, instance)
    }

    /// Starts a process with orders at fail points.
    pub(crate) fn run_to(&self, instance: u32, orders: &str) -> Binary {
        Binary::run_to(&self.text, instance, orders)
    }

    /// Starts a process whose calendar is `skew` milliseconds ahead.
    pub(crate) fn run_ahead(&self, instance: u32, skew: i64) -> Binary {
        Binary::run_ahead(&self.text, instance, skew)
    }

    /// Starts a process, and keeps what it says.
    pub(crate) fn run_heard(&self, instance: u32) -> (Binary, Words) {
        Binary::heard(&self.text, instance)
    }

    /// As [`Self::run_heard`], with orders at fail points.
    pub(crate) fn run_heard_to(&self, instance: u32, orders: &str) -> (Binary, Words) {
        Binary::heard_to(&self.text, instance, orders)
    }

    pub(crate) fn output(&self) -> &str {
        self.pipeline.output.as_ref().unwrap().as_str()
    }

    pub(crate) fn tier(&self) -> &str {
        self.pipeline.tiers.first().unwrap().topic.name.as_str()
    }

    pub(crate) fn dead_letters(&self) -> &str {
        self.pipeline.dead_letter.name.as_str()
    }

    /// The workers that have last committed the source's partitions.
    pub(crate) fn writers(&self) -> BTreeSet<u64> {
        writers(self.kafka, &self.pipeline.group, self.pipeline.source.as_str(), PARTITIONS)
    }

    /// How many transactions there were, at least.
    pub(crate) fn transactions(&self) -> u64 {
        let marks = marks(self.kafka, &self.pipeline.group, self.pipeline.source.as_str(), PARTITIONS);
        marks.iter().flatten().map(|mark| mark.sequence.0).max().unwrap_or_default()
    }

    /// Whether every record has its fate.
    pub(crate) fn is_drained(&self) -> bool {
        self.kafka.read(self.output()).len() + self.kafka.read(self.dead_letters()).len() >= self.sent
    }

    /// Waits until every record has its fate, and the group has committed to the ends.
    pub(crate) fn drain(&self) {
        eventually("every record has its fate", || self.is_drained());
        let topics = readback::topics(&self.pipeline).unwrap();
        readback::committed_to_the_ends(self.kafka.bootstrap(), &self.pipeline.group, &topics)
            .unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Waits for something that is so only while there is work, and sends more where all is done before it was seen.
    pub(crate) fn at_work(&mut self, what: &str, mut is: impl FnMut(&Self) -> bool) {
        eventually(what, || {
            let so = is(self);
            if !so && self.is_drained() {
                self.send(500, Plan::mixed);
            }
            so
        });
    }

    /// Waits, at work, until a further output can be read.
    pub(crate) fn next_commit(&mut self) {
        let before = self.kafka.read(self.output()).len();
        let reader = found::reader(self.kafka.bootstrap(), &[self.output()], Isolation::Committed);
        let reader = reader.expect("a reader");
        let mut count = 0;
        self.at_work("a further output is committed", |_| {
            while let Some(polled) = reader.poll(Duration::from_millis(500)) {
                match polled {
                    Ok(_) => count += 1,
                    Err(KafkaError::PartitionEOF(_)) => {}
                    Err(error) => panic!("read the output: {error}"),
                }
                if count > before {
                    return true;
                }
            }
            false
        });
    }

    /// Watches from now on what the processes do.
    pub(crate) fn watch(&self) -> Watching {
        let topics = readback::topics(&self.pipeline).unwrap();
        let rules = readback::rules(&self.pipeline);
        Watching::start(self.kafka.bootstrap(), &self.pipeline.group, &topics, rules).expect("a watch")
    }

    /// As [`Self::audit`], with what a watch of the run saw.
    pub(crate) fn audit_watched(&self, watching: Watching) -> Report {
        let mut report = self.audit();
        let watched = watching.finish(Some(&self.handler.starts())).expect("everything was watched");
        report.join(&readback::rules(&self.pipeline), &watched);
        report
    }

    /// Everything read back, after the last process has ended.
    pub(crate) fn audit(&self) -> Report {
        let topics = readback::topics(&self.pipeline).unwrap();
        let starts = Some(self.handler.starts());
        let history = readback::history(self.kafka.bootstrap(), &self.pipeline.group, &topics, starts);
        let report = audit(&readback::rules(&self.pipeline), &history.expect("read everything back"));
        assert_eq!(report.source, self.sent, "what was sent is there");
        report
    }
}

fn answer(attempt: u32, value: Bytes) -> Answer {
    let plan = [Plan::Succeeds, Plan::FailsOnce, Plan::FailsForEver]
        .into_iter()
        .find(|plan| value.starts_with(plan.word().as_bytes()));
    match plan {
        None => told(StatusCode::BAD_REQUEST, "no plan"),
        Some(Plan::FailsOnce) if attempt <= 1 => told(StatusCode::SERVICE_UNAVAILABLE, "try later"),
        Some(Plan::FailsForEver) => told(StatusCode::SERVICE_UNAVAILABLE, "☠".repeat(EXPLANATION)),
        Some(Plan::Succeeds | Plan::FailsOnce) => (StatusCode::OK, [(CONTENT_TYPE, "text/plain")], value),
    }
}
