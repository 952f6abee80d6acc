//! The metrics by their names, and their text form.
//!
//! Prefix `redrive_`, base units, labels from closed sets: never a key, an offset or the text of an error.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use prometheus::core::Collector;
use prometheus::{
    CounterVec, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder,
};

use crate::core::class::Reason;

/// Reasons that handlers name are the users' own: at most this many get a series of their own, the rest is `other`.
/// Otherwise a handler that puts an order number into its reason would bring a monitoring system down.
const MOST_NAMED_REASONS: usize = 100;

/// From a call on the same machine to the longest time limit that is usual.
const CALL_SECONDS: [f64; 13] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 30.0];

/// From one turn of the worker's loop to a night without workers.
const LATENESS_SECONDS: [f64; 12] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0, 300.0, 3600.0, 36_000.0];

/// From an idle broker beside us to the transaction timeout.
const TRANSACTION_SECONDS: [f64; 12] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 10.0];

/// From one record to a full window of many tasks.
const TRANSACTION_RECORDS: [f64; 12] =
    [1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 5000.0, 10_000.0];

/// From an idle group to a pending transaction that must time out first.
const RESTORE_SECONDS: [f64; 9] = [0.005, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 30.0, 60.0];

/// All metrics of this process; clones share them.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    registry: Registry,
    families: Families,
    named_reasons: Mutex<BTreeSet<String>>,
}

/// The metrics with their labels; every one has `app`, and all but `build` have `pipeline` first.
#[derive(Debug)]
pub(super) struct Families {
    pub(super) records: IntCounterVec,
    pub(super) record_bytes: IntCounterVec,
    pub(super) attempts: IntCounterVec,
    pub(super) executions: HistogramVec,
    pub(super) lateness: HistogramVec,
    pub(super) dead_letters: IntCounterVec,
    pub(super) transactions: IntCounterVec,
    pub(super) transaction_seconds: HistogramVec,
    pub(super) transaction_records: HistogramVec,
    pub(super) producer_reinits: IntCounterVec,
    pub(super) rebalances: IntCounterVec,
    pub(super) tasks: IntGaugeVec,
    pub(super) blocked: CounterVec,
    pub(super) lost: IntCounterVec,
    pub(super) restore: HistogramVec,
    pub(super) breaches: IntCounterVec,
}

impl Metrics {
    /// Metrics of their own, labelled with the app.
    pub fn new(app: &str) -> Self {
        let registry = registry(app);
        let families = Families::new(&registry);
        let build = register(
            &registry,
            IntGaugeVec::new(Opts::new("build_info", "Always 1; the version of redrive."), &["version"]),
        );
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        Self(Arc::new(Shared { registry, families, named_reasons: Mutex::default() }))
    }

    /// All metrics in Prometheus' text format, version 0.0.4.
    pub fn text(&self) -> String {
        // Metrics that are registered can be written: the encoder fails for families without a name or a series.
        TextEncoder::new().encode_to_string(&self.0.registry.gather()).unwrap_or_default()
    }

    pub(super) fn families(&self) -> &Families {
        &self.0.families
    }

    /// The label of a reason.
    pub(super) fn reason_label(&self, reason: &Reason) -> String {
        let word = reason.to_string();
        let Reason::Named(_) = reason else {
            return word;
        };
        let mut named = self.0.named_reasons.lock().unwrap_or_else(PoisonError::into_inner);
        if named.contains(&word) || named.len() < MOST_NAMED_REASONS {
            named.insert(word.clone());
            return word;
        }
        "other".to_owned()
    }
}

#[expect(clippy::expect_used, reason = "the prefix is a legal one")]
fn registry(app: &str) -> Registry {
    let app = HashMap::from([("app".to_owned(), app.to_owned())]);
    Registry::new_custom(Some("redrive".to_owned()), Some(app)).expect("a legal prefix")
}

#[expect(clippy::expect_used, reason = "names and labels are written below, and a test makes them all")]
fn register<C: Collector + Clone + 'static>(registry: &Registry, family: prometheus::Result<C>) -> C {
    let family = family.expect("legal names");
    registry.register(Box::new(family.clone())).expect("different names");
    family
}

impl Families {
    fn new(registry: &Registry) -> Self {
        let count = |name: &str, help: &str, labels: &[&str]| {
            register(registry, IntCounterVec::new(Opts::new(name, help), labels))
        };
        let spread = |name: &str, help: &str, labels: &[&str], buckets: &[f64]| {
            let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
            register(registry, HistogramVec::new(options, labels))
        };
        Self {
            records: count(
                "records_total",
                "Records by lane and fate, counted when their transaction is committed.",
                &["pipeline", "lane", "fate"],
            ),
            record_bytes: count(
                "record_bytes_total",
                "Bytes of keys, values and headers read, by lane.",
                &["pipeline", "lane"],
            ),
            attempts: count(
                "attempts_total",
                "Deliveries that ended, by lane and class; success is a class here.",
                &["pipeline", "lane", "class"],
            ),
            executions: spread(
                "executions_seconds",
                "Time from calling the handler to its outcome, by result.",
                &["pipeline", "result"],
                &CALL_SECONDS,
            ),
            lateness: spread(
                "delivery_lateness_seconds",
                "Handler start minus due, by lane.",
                &["pipeline", "lane"],
                &LATENESS_SECONDS,
            ),
            dead_letters: count(
                "dead_letters_total",
                "Dead letters by class and reason, counted when their transaction is committed.",
                &["pipeline", "class", "reason"],
            ),
            transactions: count("transactions_total", "Transactions by result.", &["pipeline", "result"]),
            transaction_seconds: spread(
                "transaction_seconds",
                "Time from begin to the result of a transaction.",
                &["pipeline"],
                &TRANSACTION_SECONDS,
            ),
            transaction_records: spread(
                "transaction_records",
                "Consumed records that got their fate by one transaction.",
                &["pipeline"],
                &TRANSACTION_RECORDS,
            ),
            producer_reinits: count(
                "producer_reinits_total",
                "Producers made anew, by cause.",
                &["pipeline", "cause"],
            ),
            rebalances: count(
                "rebalances_total",
                "Changes of the group that gave partitions to a worker of this process or took them, by kind.",
                &["pipeline", "kind"],
            ),
            tasks: register(
                registry,
                IntGaugeVec::new(
                    Opts::new("tasks", "Tasks of this process by state."),
                    &["pipeline", "state"],
                ),
            ),
            blocked: register(
                registry,
                CounterVec::new(
                    Opts::new(
                        "blocked_seconds_total",
                        "Time in which at least one task could not go on, by what.",
                    ),
                    &["pipeline", "by"],
                ),
            ),
            lost: count(
                "lost_records_total",
                "Offsets that were deleted before they were read, counted at the jump over them; ends of transactions count, too.",
                &["pipeline", "lane", "partition"],
            ),
            restore: spread(
                "restore_seconds",
                "Time from an assignment to the first record that may be read.",
                &["pipeline"],
                &RESTORE_SECONDS,
            ),
            breaches: count(
                "invariant_violations_total",
                "Invariants of redrive itself that did not hold: a defect.",
                &["pipeline", "id"],
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_reasons_get_a_series_each_until_there_are_too_many() {
        let metrics = Metrics::new("shop");
        let label =
            |number: usize| metrics.reason_label(&Reason::Named(format!("r{number}").parse().unwrap()));
        for number in 0..MOST_NAMED_REASONS {
            assert_eq!(label(number), format!("r{number}"));
        }
        assert_eq!(label(MOST_NAMED_REASONS), "other");
        assert_eq!(label(0), "r0", "one that has a series keeps it");
        assert_eq!(metrics.reason_label(&Reason::Http(418)), "http-418", "redrive's own are bounded anyway");
    }

    #[test]
    fn the_build_is_told_with_the_app() {
        let text = Metrics::new("shop").text();
        let line = format!("redrive_build_info{{version=\"{}\",app=\"shop\"}} 1", env!("CARGO_PKG_VERSION"));
        assert!(text.lines().any(|found| found == line), "{text}");
    }
}
