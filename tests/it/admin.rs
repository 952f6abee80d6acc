//! The listener for probes and metrics, as a kubelet and a Prometheus see it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redrive::admin::health::Health;
use redrive::admin::{Listener, Sources, listen};
use redrive::core::class::{Class, Reason};
use redrive::core::event::{
    AbortCause, Fate, FateKind, Generation, Part, Report, Slot, Target, TransactionResult,
};
use redrive::core::invariant::{Breach, InvariantId};
use redrive::core::outcome::{Outcome, Verdict};
use redrive::core::position::{Lane, Offset, Partition, TierIndex};
use redrive::core::time::Monotonic;
use redrive::telemetry::Telemetry;
use redrive::telemetry::blocked::BlockedBy;
use redrive::telemetry::event::{
    BrokerFound, BrokerLost, ExecutionEnded, ExecutionStarted, ProducerRemade, Rebalance, RebalanceSeen,
    RecordsFetched, RecordsLost, RemakeCause, Reported, TaskLeft, TaskRestored, TaskState, TasksCounted,
    TimePassed, TransactionEnded,
};
use redrive::telemetry::metrics::Metrics;
use redrive::topology::model::{HandlerSpec, Passthrough};

use crate::handlers::place::{delivery, envelope, pipeline};

const FREE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

fn at(seconds: u64) -> Monotonic {
    Monotonic::from_start(Duration::from_secs(seconds))
}

/// Status and body.
fn fetch(listener: &Listener, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(listener.address()).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[test]
fn probes_tell_what_the_workers_noted() {
    let seconds = Arc::new(AtomicU64::new(100));
    let clock = Arc::clone(&seconds);
    let health = Health::new(["payments/0".to_owned()], at(100));
    let worker = health.worker(0).unwrap();
    let now = Arc::new(move || at(clock.load(Ordering::SeqCst)));
    let listener = listen(FREE, Sources { health, metrics: Metrics::new("shop"), now }).unwrap();

    assert_eq!(fetch(&listener, "/live"), (200, "ok\n".to_owned()));
    let (status, why) = fetch(&listener, "/ready");
    assert_eq!((status, why.lines().count()), (503, 2), "{why}");

    worker.producers_ready();
    worker.assigned(2);
    assert_eq!(fetch(&listener, "/ready"), (200, "ok\n".to_owned()));

    worker.blocked(BlockedBy::Broker);
    assert_eq!(fetch(&listener, "/ready"), (503, "worker `payments/0` reaches no broker\n".to_owned()));
    assert_eq!(fetch(&listener, "/live").0, 200, "a restart would not bring the broker back");

    worker.beat(at(100));
    seconds.store(111, Ordering::SeqCst);
    assert_eq!(fetch(&listener, "/live").0, 503);
    assert_eq!(fetch(&listener, "/nothing").0, 404);
}

#[test]
fn an_address_that_is_taken_is_told_and_free_again_afterwards() {
    let sources =
        || Sources { health: Health::new([], at(0)), metrics: Metrics::new("shop"), now: Arc::new(|| at(0)) };
    let listener = listen(FREE, sources()).unwrap();
    let address = listener.address();
    let error = listen(address, sources()).unwrap_err().to_string();
    assert!(error.starts_with(&format!("`http.listen` cannot listen on `{address}`: ")), "{error}");
    assert!(error.contains("\nhint: "), "{error}");
    drop(listener);
    assert_eq!(listen(address, sources()).unwrap().address(), address);
}

/// The value of a series, its labels in any order; `None` where there is no such series.
fn value(text: &str, series: &str) -> Option<f64> {
    let parts = |series: &str| {
        let (name, labels) = series.trim_end_matches('}').split_once('{').unwrap();
        let mut labels: Vec<_> = labels.split(',').map(str::to_owned).collect();
        labels.sort();
        (name.to_owned(), labels)
    };
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let mut found = lines.filter_map(|line| line.rsplit_once(' '));
    found.find(|(name, _)| parts(name) == parts(series)).map(|(_, value)| value.parse().unwrap())
}

fn telemetry(metrics: &Metrics) -> Telemetry {
    let mut pipeline = pipeline(HandlerSpec::Passthrough(Passthrough::default()));
    pipeline.policy.ladder.delays = vec![Duration::from_secs(5)];
    pipeline.tiers = vec![redrive::topology::model::Tier {
        label: "retry.5s".into(),
        delay: Duration::from_secs(5),
        topic: pipeline.dead_letter.clone(),
    }];
    Telemetry::new(metrics, &pipeline, 0)
}

fn verdict(class: Class, reason: &str) -> Verdict {
    Verdict { class, reason: reason.parse::<Reason>().unwrap() }
}

#[test]
fn fates_are_counted_by_lane_class_and_reason() {
    let metrics = Metrics::new("shop");
    let telemetry = telemetry(&metrics);
    let fate = |lane, kind, count| Fate { partition: Partition(3), lane, kind, count };
    let tier = Lane::Tier(TierIndex(0));
    telemetry.emit(Reported {
        report: &Report::Settled(vec![
            fate(Lane::Source, FateKind::Emit, 7),
            fate(Lane::Source, FateKind::Retry(verdict(Class::Throttled, "http-429")), 2),
            fate(tier, FateKind::Hop, 3),
            fate(tier, FateKind::DeadLetter(verdict(Class::Permanent, "no-stock")), 4),
            fate(tier, FateKind::DeadLetter(verdict(Class::Poison, "bad-control-header")), 5),
        ]),
        now: at(1),
    });
    let text = metrics.text();
    for (series, expected) in [
        ("records_total{app=\"shop\",fate=\"emit\",lane=\"source\",pipeline=\"payments\"}", 7.0),
        ("records_total{app=\"shop\",fate=\"retry\",lane=\"source\",pipeline=\"payments\"}", 2.0),
        ("records_total{app=\"shop\",fate=\"hop\",lane=\"retry.5s\",pipeline=\"payments\"}", 3.0),
        ("records_total{app=\"shop\",fate=\"dead-letter\",lane=\"retry.5s\",pipeline=\"payments\"}", 9.0),
        ("attempts_total{app=\"shop\",class=\"success\",lane=\"source\",pipeline=\"payments\"}", 7.0),
        ("attempts_total{app=\"shop\",class=\"throttled\",lane=\"source\",pipeline=\"payments\"}", 2.0),
        ("attempts_total{app=\"shop\",class=\"permanent\",lane=\"retry.5s\",pipeline=\"payments\"}", 4.0),
        ("attempts_total{app=\"shop\",class=\"poison\",lane=\"retry.5s\",pipeline=\"payments\"}", 0.0),
        (
            "dead_letters_total{app=\"shop\",class=\"permanent\",pipeline=\"payments\",reason=\"no-stock\"}",
            4.0,
        ),
        (
            "dead_letters_total{app=\"shop\",class=\"poison\",pipeline=\"payments\",reason=\"bad-control-header\"}",
            5.0,
        ),
    ] {
        assert_eq!(value(&text, &format!("redrive_{series}")), Some(expected), "{series}\n{text}");
    }
}

#[test]
fn calls_and_transactions_are_counted_and_timed() {
    let metrics = Metrics::new("shop");
    let telemetry = telemetry(&metrics);
    let mut delivery = delivery(envelope(Some(b"abc")));
    delivery.lateness = Some(Duration::from_millis(20));
    let took = Duration::from_millis(3);
    telemetry.emit(RecordsFetched { lane: Lane::Source, bytes: 120 });
    telemetry.emit(ExecutionStarted { delivery: &delivery });
    telemetry.emit(ExecutionEnded { delivery: &delivery, outcome: &Outcome::done(), took });
    let cause = AbortCause::Passing { detail: "coordinator moved".into() };
    for result in [
        TransactionResult::Committed,
        TransactionResult::Aborted(cause),
        TransactionResult::Fenced { slot: Slot::First, after: took, generation: Generation(1) },
        TransactionResult::Unknown,
    ] {
        telemetry.emit(TransactionEnded { result: &result, records: 12, took });
    }
    telemetry.emit(ProducerRemade { cause: RemakeCause::Fenced, detail: "fenced" });
    let text = metrics.text();
    let place = "app=\"shop\"";
    for (series, expected) in [
        (format!("record_bytes_total{{{place},lane=\"source\",pipeline=\"payments\"}}"), 120.0),
        (format!("delivery_lateness_seconds_count{{{place},lane=\"source\",pipeline=\"payments\"}}"), 1.0),
        (format!("executions_seconds_count{{{place},pipeline=\"payments\",result=\"done\"}}"), 1.0),
        (format!("transactions_total{{{place},pipeline=\"payments\",result=\"committed\"}}"), 1.0),
        (format!("transactions_total{{{place},pipeline=\"payments\",result=\"aborted\"}}"), 1.0),
        (format!("transactions_total{{{place},pipeline=\"payments\",result=\"fenced\"}}"), 1.0),
        (format!("transactions_total{{{place},pipeline=\"payments\",result=\"unknown\"}}"), 1.0),
        (format!("transaction_seconds_count{{{place},pipeline=\"payments\"}}"), 4.0),
        (format!("transaction_records_sum{{{place},pipeline=\"payments\"}}"), 12.0),
        (format!("producer_reinits_total{{{place},cause=\"fenced\",pipeline=\"payments\"}}"), 1.0),
    ] {
        assert_eq!(value(&text, &format!("redrive_{series}")), Some(expected), "{series}\n{text}");
    }
}

#[test]
fn what_belongs_to_a_partition_goes_with_it() {
    let metrics = Metrics::new("shop");
    let telemetry = telemetry(&metrics);
    let lost = |partition| RecordsLost {
        partition,
        lane: Lane::Tier(TierIndex(0)),
        from: Offset(10),
        to: Offset(25),
    };
    let series = |partition: i32| {
        let labels = format!("lane=\"retry.5s\",partition=\"{partition}\",pipeline=\"payments\"");
        value(&metrics.text(), &format!("redrive_lost_records_total{{app=\"shop\",{labels}}}"))
    };
    telemetry.emit(lost(Partition(3)));
    telemetry.emit(lost(Partition(4)));
    assert_eq!((series(3), series(4)), (Some(15.0), Some(15.0)));
    telemetry.emit(TaskLeft { partition: Partition(3) });
    assert_eq!((series(3), series(4)), (None, Some(15.0)));
}

#[test]
fn tasks_are_counted_over_all_workers_and_without_those_that_ended() {
    let metrics = Metrics::new("shop");
    let (first, second) = (telemetry(&metrics), telemetry(&metrics));
    let running =
        || value(&metrics.text(), "redrive_tasks{app=\"shop\",pipeline=\"payments\",state=\"running\"}");
    first.emit(TasksCounted { state: TaskState::Running, count: 3 });
    second.emit(TasksCounted { state: TaskState::Running, count: 2 });
    first.emit(TasksCounted { state: TaskState::Running, count: 4 });
    assert_eq!(running(), Some(6.0));
    drop(first);
    assert_eq!(running(), Some(2.0));
}

#[test]
fn the_life_of_tasks_and_what_blocks_them_is_counted() {
    let metrics = Metrics::new("shop");
    let telemetry = telemetry(&metrics);
    let partitions = vec![Partition(3)];
    telemetry.emit(RebalanceSeen { kind: Rebalance::Assigned, partitions: &partitions });
    telemetry.emit(TaskRestored { partition: Partition(3), took: Duration::from_millis(40) });
    let (target, detail) = (Target::DeadLetter, "unknown topic".to_owned());
    let report = Report::Blocked { part: Part::Records, partitions: partitions.clone(), target, detail };
    telemetry.emit(Reported { report: &report, now: at(10) });
    telemetry.emit(BrokerLost { detail: "all brokers down", now: at(12) });
    telemetry.emit(TimePassed { now: at(14) });
    telemetry.emit(BrokerFound { now: at(15) });
    let report = Report::Unblocked { part: Part::Records, partitions, target };
    telemetry.emit(Reported { report: &report, now: at(20) });
    telemetry.emit(TimePassed { now: at(99) });
    let breach = Breach { id: InvariantId::R3, detail: "1 ms early".into() };
    telemetry.emit(Reported { report: &Report::Broken(breach), now: at(99) });
    let text = metrics.text();
    for (series, expected) in [
        ("rebalances_total{app=\"shop\",kind=\"assigned\",pipeline=\"payments\"}", 1.0),
        ("restore_seconds_count{app=\"shop\",pipeline=\"payments\"}", 1.0),
        ("blocked_seconds_total{app=\"shop\",by=\"dlq\",pipeline=\"payments\"}", 10.0),
        ("blocked_seconds_total{app=\"shop\",by=\"broker\",pipeline=\"payments\"}", 3.0),
        ("blocked_seconds_total{app=\"shop\",by=\"output\",pipeline=\"payments\"}", 0.0),
        ("invariant_violations_total{app=\"shop\",id=\"R3\",pipeline=\"payments\"}", 1.0),
        ("invariant_violations_total{app=\"shop\",id=\"R1\",pipeline=\"payments\"}", 0.0),
    ] {
        assert_eq!(value(&text, &format!("redrive_{series}")), Some(expected), "{series}\n{text}");
    }
}

#[test]
fn metrics_are_served_as_text() {
    let metrics = Metrics::new("shop");
    let _telemetry = telemetry(&metrics);
    let sources =
        Sources { health: Health::new([], at(0)), metrics: metrics.clone(), now: Arc::new(|| at(0)) };
    let listener = listen(FREE, sources).unwrap();
    let (status, text) = fetch(&listener, "/metrics");
    assert_eq!(status, 200);
    for line in ["# TYPE redrive_records_total counter", "# TYPE redrive_executions_seconds histogram"] {
        assert!(text.contains(line), "{text}");
    }
}
