//! How long after it was due a waiting record reaches the handler.

use std::time::Duration;

use crate::ledger::Start;
use crate::scene::{Plan, Scene};
use crate::size;

/// Records at a time, and how long until the next: 200 a second, which leaves the machine idle.
const AT_ONCE: usize = 10;
const EVERY: Duration = Duration::from_millis(50);
/// In milliseconds, and not a figure: on a machine that runs all tests at once everything is late.
const CEILING: i64 = 2_000;

/// How late the handler was called for each record that had waited, in milliseconds, the latest last.
fn lateness(delay: &str) -> Vec<i64> {
    let mut scene = Scene::set(delay);
    let process = scene.run(0);
    // What a start takes is no lateness of a tier.
    scene.send(1, |_| Plan::Succeeds);
    scene.drain();
    let count = size::records(400);
    for _ in 0..count / AT_ONCE {
        scene.send(AT_ONCE, |_| Plan::FailsOnce);
        std::thread::sleep(EVERY);
    }
    scene.drain();
    assert_eq!(process.end().code(), Some(0));

    let late = |start: &Start| Some(start.at - start.due?);
    let mut late: Vec<i64> = scene.handler.starts().iter().filter_map(late).collect();
    late.sort_unstable();
    assert_eq!(late.len(), count, "each waited once");
    assert!(scene.audit().is_clean());
    late
}

#[test]
fn waiting_records_run_when_they_are_due() {
    for delay in ["1s", "5s"] {
        let late = lateness(delay);
        let at = |part: usize| late[(late.len() - 1) * part / 1_000];
        let (first, middle, high, last) = (at(0), at(500), at(990), at(1_000));
        println!(
            "{} records after {delay}: late by {middle} ms (median), {high} ms (p99), {last} ms (most)",
            late.len()
        );
        assert!(first >= 0, "early by {} ms", -first);
        assert!(high < CEILING, "{high} ms late");
    }
}
