//! The guard on a real Kafka: whatever is killed or moves, an older version never follows a newer one.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use rdkafka::message::{Header, OwnedHeaders};
use redrive::core::position::{Lane, TierIndex};
use redrive::core::state::applied_key;
use redrive::topology::model::{Pipeline, Topology};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::binary::Binary;
use crate::expired::committed_of;
use crate::found::Found;
use crate::handler::{Answer, HttpHandler, told};
use crate::process::eventually;
use crate::size;
use crate::source_grows::grow;
use crate::support::Kafka;
use crate::topology::Draft;

const CASES: &str = include_str!("../cases/guard.json");
const GUARD: &str = "guard = \"latest\"\nversion = { header = \"rev\" }\n";
/// What fails at its first attempt begins with it.
const FAILS: &str = "fails once, ";

pub(crate) fn answer(attempt: u32, value: Bytes) -> Answer {
    if attempt == 1 && value.starts_with(FAILS.as_bytes()) {
        return told(StatusCode::SERVICE_UNAVAILABLE, "try later");
    }
    (StatusCode::OK, [(CONTENT_TYPE, "text/plain")], value)
}

/// A record with its version, in its header and its value.
struct Version {
    key: String,
    version: i64,
    value: Option<String>,
}

fn send(kafka: &Kafka, topology: &Topology, versions: &[Version]) {
    let records = versions.iter().map(|Version { key, version, value }| {
        let headers = rev(&version.to_string());
        (Some(key.as_bytes()), value.as_ref().map(|value| value.as_bytes()), headers)
    });
    kafka.produce_with_headers(pipeline(topology).source.as_str(), None, records);
}

pub(crate) fn pipeline(topology: &Topology) -> &Pipeline {
    &topology.pipelines[0]
}

pub(crate) fn output(kafka: &Kafka, topology: &Topology) -> Vec<Found> {
    kafka.read(pipeline(topology).output.as_ref().unwrap().as_str())
}

fn committed(kafka: &Kafka, topology: &Topology, lane: Lane) -> i64 {
    committed_of(kafka, pipeline(topology), lane)
}

/// The versions of the output, in order.
fn effects(kafka: &Kafka, topology: &Topology) -> Vec<i64> {
    output(kafka, topology).iter().map(|found| found.number("rev")).collect()
}

/// So much of a vector's time passes here.
const PACE: f64 = 0.2;

/// A time of a vector, in seconds.
fn paced(seconds: &Value) -> Duration {
    Duration::from_secs_f64(seconds.as_f64().unwrap() * PACE)
}

/// What a vector says of the order.
fn order_of(case: &Value) -> String {
    match case["mode"].as_str().unwrap() {
        "latest" => GUARD.to_owned(),
        "contiguous" => {
            let gap = paced(&case["gap_timeout"]).as_millis();
            format!("guard = \"contiguous\"\nversion = {{ header = \"rev\" }}\ngap-timeout = \"{gap}ms\"\n")
        }
        _ => String::new(),
    }
}

/// Plays a vector with the process killed before every arrival.
fn play(case: &Value, handler: &str) {
    let (kafka, name) = (Kafka::shared(), case["name"].as_str().unwrap());
    // A predecessor that waits for longer than a gap may last.
    let tier = if name.ends_with("known_predecessor") { "6s" } else { "1s" };
    let draft = Draft::new(kafka, 1).http(handler).tiers(&[tier]).order(&order_of(case));
    let draft = draft.workers("static-membership", "true");
    let topology = draft.made(kafka);
    let text = draft.text(kafka);
    let version = |version: i64, value: Option<String>| Version { key: "k".to_owned(), version, value };
    let own = |version: i64| Some(format!("value-{version}"));
    let mut process = Binary::run(&text, 0);
    let mut sent = 0;
    let start = case["start"].as_i64();
    if let Some(start) = start {
        send(kafka, &topology, &[version(start, own(start))]);
        sent += 1;
        eventually("the first is applied", || committed(kafka, &topology, Lane::Source) >= sent);
    }
    for arrival in case["arrivals"].as_array().unwrap() {
        if arrival["tick"] == true {
            thread::sleep(paced(&case["gap_timeout"]) / 2);
            continue;
        }
        process.kill();
        if arrival["stopped_until"].is_number() {
            thread::sleep(paced(&case["gap_timeout"]) * 2);
            process = Binary::run(&text, 0);
            continue;
        }
        process = Binary::run(&text, 0);
        if let Some(number) = arrival["version"].as_i64() {
            let given =
                arrival.get("value").map_or_else(|| own(number), |value| value.as_str().map(str::to_owned));
            let fails = arrival["outcome"] == "transient";
            let value = given.map(|value| if fails { format!("{FAILS}{value}") } else { value });
            send(kafka, &topology, &[version(number, value)]);
            sent += 1;
            eventually("it has its fate", || committed(kafka, &topology, Lane::Source) >= sent);
        } else {
            let tier = Lane::Tier(TierIndex(0));
            eventually("its copy has its fate", || committed(kafka, &topology, tier) >= 1);
        }
    }
    let numbers = |list: &str| -> Vec<i64> {
        case[list].as_array().into_iter().flatten().map(|number| number.as_i64().unwrap()).collect()
    };
    let expected: Vec<i64> = start.into_iter().chain(numbers("effects")).collect();
    let conflicts = case["reasons"].as_array().into_iter().flatten().filter(|reason| reason.is_string());
    let gaps = numbers("quarantined").into_iter().map(|_| "version-gap");
    let mut reasons: Vec<&str> = conflicts.map(|_| "version-conflict").chain(gaps).collect();
    reasons.sort_unstable();
    let letters = || kafka.read(pipeline(&topology).dead_letter.name.as_str());
    eventually("what is held has its fate", || {
        effects(kafka, &topology).len() >= expected.len() && letters().len() >= reasons.len()
    });
    assert_eq!(process.end().code(), Some(0), "{name}");

    assert_eq!(effects(kafka, &topology), expected, "{name}");
    let mut found: Vec<String> = letters().iter().map(|letter| letter.text("redrive-reason")).collect();
    found.sort_unstable();
    assert_eq!(found, reasons, "{name}");
}

#[test]
fn every_vector_holds_with_a_kill_before_each_arrival_and_the_control_regresses() {
    let cases: Value = serde_json::from_str(CASES).unwrap();
    let cases = cases["cases"].as_array().unwrap();
    let runtime = Runtime::new().unwrap();
    let handler = runtime.block_on(HttpHandler::start("/work", answer)).unwrap();
    assert_eq!(cases.len(), 15);
    // A few at a time: each start takes a second of a core.
    for some in cases.chunks(5) {
        thread::scope(|scope| {
            for case in some {
                scope.spawn(|| play(case, &handler.url));
            }
        });
    }
}

/// Writes an entry of the state topic, as nobody but a task's owner may.
fn write_state(kafka: &Kafka, topology: &Topology, key: &[u8], value: Option<&[u8]>) {
    kafka.produce(pipeline(topology).state.name.as_str(), Some(0), &[(Some(key), value)]);
}

#[test]
fn an_entry_of_a_later_format_keeps_its_task_waiting_whatever_comes_behind_it_until_it_is_mended() {
    let kafka = Kafka::shared();
    let draft = Draft::new(kafka, 1).order(GUARD);
    let topology = draft.made(kafka);
    let text = draft.text(kafka);
    let version = |version| Version { key: "q".to_owned(), version, value: Some("v".to_owned()) };
    send(kafka, &topology, &[version(10)]);
    let first = Binary::run(&text, 0);
    eventually("it is applied", || committed(kafka, &topology, Lane::Source) >= 1);
    assert_eq!(first.end().code(), Some(0));

    let entry = applied_key(b"q");
    write_state(kafka, &topology, &entry, Some(b"\x63later"));
    send(kafka, &topology, &[version(15)]);
    let (process, words) = Binary::heard(&text, 0);
    for number in 0..5 {
        write_state(kafka, &topology, format!("stranger-{number}").as_bytes(), Some(b"x"));
        thread::sleep(Duration::from_secs(1));
    }
    eventually("it says why", || words.said().contains("format `99`"));
    assert_eq!(effects(kafka, &topology), [10], "nothing is known of what is applied");
    write_state(kafka, &topology, &entry, None);
    eventually("it goes on", || committed(kafka, &topology, Lane::Source) >= 2);
    assert_eq!(effects(kafka, &topology), [10, 15]);
    assert_eq!(process.end().code(), Some(0));
}

#[test]
fn the_topics_of_a_guarded_pipeline_do_not_follow_a_source_that_grows_and_its_other_tasks_go_on() {
    let kafka = Kafka::shared();
    let draft = Draft::new(kafka, 1).order(GUARD).tiers(&["1s"]);
    let topology = draft.made(kafka);
    let source = pipeline(&topology).source.as_str();
    grow(kafka, source, 2);
    eventually("it has grown", || !draft.topics("plan", kafka).status.success());

    let planned = draft.topics("apply", kafka);
    let told = String::from_utf8_lossy(&planned.stdout).into_owned();
    assert_eq!(planned.status.code(), Some(2), "{planned:?}");
    assert!(told.contains("its source 2: keys may have moved"), "{told}");
    let process = Binary::run(&draft.text(kafka), 0);
    kafka.produce_with_headers(source, Some(0), [(Some(&b"k"[..]), Some(&b"v"[..]), rev("7"))]);
    eventually("the other task goes on", || effects(kafka, &topology) == [7]);
    assert_eq!(process.end().code(), Some(0));
}

fn rev(version: &str) -> OwnedHeaders {
    OwnedHeaders::new().insert(Header { key: "rev", value: Some(version) })
}

/// Keys that are written over and over.
pub(crate) const KEYS: usize = 100;

/// Writes the next version of every key over and over, while a second process joins and leaves every second, in order or killed;
/// for ten minutes in the tests at full size. The last version, and how often the process came and went.
#[expect(clippy::disallowed_methods, reason = "the test goes on for a while")]
pub(crate) fn move_tasks(kafka: &Kafka, topology: &Topology, text: &str, lasts: Duration) -> (i64, usize) {
    let lasts = if size::is_full() { Duration::from_secs(600) } else { lasts };
    let (begun, mut version, mut moves) = (Instant::now(), 0, 0);
    while begun.elapsed() < lasts {
        let guest = Binary::run(text, 1);
        let joined = Instant::now();
        while joined.elapsed() < Duration::from_secs(1) {
            version += 1;
            let of_key = |key: usize| {
                let fails =
                    if (key + usize::try_from(version).unwrap()).is_multiple_of(7) { FAILS } else { "" };
                Version { key: format!("key-{key}"), version, value: Some(format!("{fails}{version}")) }
            };
            send(kafka, topology, &(0..KEYS).map(of_key).collect::<Vec<_>>());
        }
        // In turn in order and not.
        if moves % 2 == 0 {
            guest.kill();
        } else {
            assert_eq!(guest.end().code(), Some(0));
        }
        moves += 1;
    }
    (version, moves)
}

#[test]
fn while_tasks_move_under_load_versions_only_rise_and_the_newest_of_each_key_is_applied() {
    let kafka = Kafka::shared();
    let runtime = Runtime::new().unwrap();
    let handler = runtime.block_on(HttpHandler::start("/work", answer)).unwrap();
    let stale = kafka.topic("stale", 4);
    let order = format!("{GUARD}stale-output = \"{stale}\"\n");
    let draft = Draft::new(kafka, 4).http(&handler.url).tiers(&["500ms", "2s"]).order(&order);
    let topology = draft.made(kafka);
    let text = draft.text(kafka);
    let settled = Binary::run(&text, 0);
    let (version, moves) = move_tasks(kafka, &topology, &text, Duration::from_secs(20));
    let sent = KEYS * usize::try_from(version).unwrap();
    eventually("every record has its fate", || {
        output(kafka, &topology).len() + kafka.read(&stale).len() >= sent
    });
    assert_eq!(settled.end().code(), Some(0));

    let mut newest: BTreeMap<Vec<u8>, i64> = BTreeMap::new();
    let mut seen: BTreeSet<(Vec<u8>, i64)> = BTreeSet::new();
    let outputs = output(kafka, &topology);
    for found in &outputs {
        let (key, rev) = (found.key.clone().unwrap(), found.number("rev"));
        let before = newest.insert(key.clone(), rev);
        assert!(before.is_none_or(|before| before < rev), "{key:?} goes from {before:?} to {rev}");
        seen.insert((key, rev));
    }
    assert_eq!(newest.len(), KEYS);
    assert!(
        newest.values().all(|newest| *newest == version),
        "the newest of each key is applied: {newest:?}"
    );
    let late = kafka.read(&stale);
    for found in &late {
        let (key, rev) = (found.key.clone().unwrap(), found.number("redrive-version"));
        assert!(seen.insert((key, rev)), "version {rev} is stale and applied, or stale twice");
    }
    assert_eq!(seen.len(), sent, "each version of each key has one fate");
    println!("{sent} records, {moves} moves, {} applied, {} stale", outputs.len(), late.len());
    assert!(!late.is_empty(), "nothing came late");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "how long it takes is printed, and bounded generously")]
fn the_versions_of_many_keys_are_restored_before_anything_is_handled() {
    let kafka = Kafka::shared();
    let draft = Draft::new(kafka, 1).order(GUARD);
    let topology = draft.made(kafka);
    let text = draft.text(kafka);
    let many = size::records(100_000);
    let of_key = |number: usize, version| Version {
        key: format!("key-{number}"),
        version,
        value: Some("v".to_owned()),
    };
    send(kafka, &topology, &(0..many).map(|number| of_key(number, 2)).collect::<Vec<_>>());
    let all = i64::try_from(many).unwrap();
    let first = Binary::run(&text, 0);
    eventually("all are applied", || committed(kafka, &topology, Lane::Source) >= all);
    assert_eq!(first.end().code(), Some(0));

    // One that is stale, one that is not.
    send(kafka, &topology, &[of_key(0, 1), of_key(many - 1, 3)]);
    let begun = Instant::now();
    let process = Binary::run(&text, 0);
    eventually("both have their fates", || committed(kafka, &topology, Lane::Source) >= all + 2);
    let (took, memory) = (begun.elapsed(), process.memory());
    println!("{many} keys restored within {took:.1?}, {} MB resident", memory >> 20);
    assert_eq!(process.end().code(), Some(0));
    assert_eq!(effects(kafka, &topology).last(), Some(&3));
    assert_eq!(effects(kafka, &topology).len(), many + 1);
}
