//! A record whose handler always fails goes through its whole ladder, and its headers tell of it without growing.

use std::collections::BTreeMap;

use crate::found::Found;
use crate::ledger::Start;
use crate::scene::{Plan, Scene};

const RECORDS: usize = 4;
const EXECUTIONS: usize = 2;
/// In milliseconds, as every draft has it.
const DEADLINE: i64 = 3_600_000;
/// All control headers of one record together.
const MOST_BYTES: usize = 4_096;

#[test]
fn the_dead_letter_comes_after_exactly_the_executions_of_the_ladder() {
    // Tiers 1, 2, 2, 2, and then no more: five attempts.
    exhaust(&["1s", "2s"], 3, 5);
}

#[test]
fn headers_do_not_grow_however_often_the_last_tier_is_repeated() {
    // Attempts and executions get a second digit on the way.
    exhaust(&["100ms", "200ms"], 12, 14);
}

fn exhaust(tiers: &[&str], repeats: usize, attempts: usize) {
    let mut scene = Scene::with(|draft| {
        draft.tiers(tiers).retry("last-tier-repeats", &repeats.to_string()).retry(
            "in-place",
            &format!(r#"{{ executions = {EXECUTIONS}, base = "10ms", cap = "20ms", budget = "1m" }}"#),
        )
    });
    scene.send(RECORDS, |_| Plan::FailsForEver);
    let process = scene.run(0);
    scene.drain();
    assert_eq!(process.end().code(), Some(0));
    let report = scene.audit();
    assert!(report.is_clean(), "{report}");

    let starts = by_id(scene.handler.starts(), |start| start.event_id.clone());
    let written = scene.pipeline.tiers.iter().flat_map(|tier| scene.kafka.read(tier.topic.name.as_str()));
    let copies = by_id(written, |copy| copy.text("redrive-event-id"));
    let dead = scene.kafka.read(scene.dead_letters());
    assert_eq!(dead.len(), RECORDS);
    for dead in &dead {
        let id = dead.text("redrive-event-id");
        let (calls, mut copies) = (&starts[&id], copies[&id].clone());
        copies.sort_by_key(|copy| copy.number("redrive-attempt"));
        called(calls, attempts);
        told(calls, &copies, dead, attempts);
        bounded(&copies, dead, tiers.len());
    }
}

fn by_id<T>(all: impl IntoIterator<Item = T>, id: impl Fn(&T) -> String) -> BTreeMap<String, Vec<T>> {
    let mut by_id: BTreeMap<String, Vec<T>> = BTreeMap::new();
    for one in all {
        by_id.entry(id(&one)).or_default().push(one);
    }
    by_id
}

/// The handler was called for every execution of every attempt, once, and never again.
fn called(calls: &[Start], attempts: usize) {
    let calls: Vec<(u32, u32)> = calls.iter().map(|call| (call.attempt, call.execution)).collect();
    let small = |number: usize| u32::try_from(number).unwrap();
    let expected: Vec<(u32, u32)> = (1..=attempts)
        .flat_map(|attempt| (1..=EXECUTIONS).map(move |execution| (small(attempt), small(execution))))
        .collect();
    assert_eq!(calls, expected);
}

/// Every copy and the dead letter tell what has happened so far, and when it began.
fn told(calls: &[Start], copies: &[Found], dead: &Found, attempts: usize) {
    let ended: Vec<i64> = copies.iter().chain([dead]).map(|found| found.number("redrive-attempt")).collect();
    assert_eq!(ended, (1..=i64::try_from(attempts).unwrap()).collect::<Vec<_>>());
    let began = dead.number("redrive-first-attempt-at");
    let failed = dead.number("redrive-first-failed-at");
    // One clock, read before the call is sent, when it comes, when its answer is there, and when the next one comes.
    let sent = dead.number("redrive-origin-timestamp");
    let [first, second, ..] = calls else { panic!("{calls:?}") };
    assert!(sent <= began && began <= first.at, "{sent}, {began}, {}", first.at);
    assert!(first.at <= failed && failed <= second.at, "{}, {failed}, {}", first.at, second.at);
    for found in copies.iter().chain([dead]) {
        let executions = found.number("redrive-attempt") * i64::try_from(EXECUTIONS).unwrap();
        assert_eq!(found.number("redrive-executions"), executions);
        assert_eq!(found.number("redrive-first-attempt-at"), began);
        assert_eq!(found.number("redrive-first-failed-at"), failed);
        assert_eq!(found.number("redrive-deadline-at"), began + DEADLINE);
        assert_eq!(found.text("redrive-first-lane"), "source");
        assert_eq!(found.text("redrive-first-class"), "transient");
        assert_eq!(found.text("redrive-first-reason"), "http-503");
        assert_eq!(found.text("redrive-class"), "transient");
    }
    assert_eq!(dead.text("redrive-reason"), "exhausted");
}

/// Within the bound always; and once the record has failed in every lane, nothing grows but the digits of its counters:
/// attempts, executions, and the count of each entry of its history.
fn bounded(copies: &[Found], dead: &Found, tiers: usize) {
    for found in copies.iter().chain([dead]) {
        let bytes = control_bytes(found);
        assert!(bytes <= MOST_BYTES, "{bytes} bytes in {found:?}");
    }
    let after: Vec<usize> =
        copies.iter().skip(tiers).map(|copy| control_bytes(copy) - counter_digits(copy)).collect();
    assert!(after.len() > 1, "there is more than the first pass");
    assert!(after.iter().all(|bytes| *bytes == after[0]), "{after:?}");
}

fn control_bytes(found: &Found) -> usize {
    let own = found.headers.iter().filter(|(name, _)| name.starts_with("redrive-"));
    own.map(|(name, value)| name.len() + value.as_ref().map_or(0, Vec::len)).sum()
}

fn counter_digits(found: &Found) -> usize {
    let history = found.text("redrive-history");
    // Lane, class, reason, count, first, last.
    let counts = history.split("; ").map(|entry| entry.split(' ').nth(3).unwrap().len());
    let counters = ["redrive-attempt", "redrive-executions"].map(|name| found.text(name).len());
    counts.chain(counters).sum()
}
