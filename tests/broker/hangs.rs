//! A call of the client that does not return: people are told, once, and the work goes on when it does.

use std::fs;

use crate::probe::Probes;
use crate::process::eventually;
use crate::scene::{Plan, Scene};

const TOLD: &str = "a transaction has been under way for long";

#[test]
fn a_commit_that_does_not_return_is_told_once_and_noted_until_it_does() {
    let probes = Probes::somewhere();
    let mut scene = Scene::with(|draft| {
        draft.tiers(&["300ms"]).workers("transaction-timeout", "\"2s\"").listen(probes.address())
    });
    let parked = std::env::temp_dir().join(format!("redrive-hangs-{}", std::process::id()));
    let orders = format!("before-commit:3=park({})", parked.display());
    let (process, words) = scene.run_heard_to(0, &orders);
    scene.send(200, Plan::mixed);
    eventually("the transactor stands", || parked.exists());
    let noted = "has a transaction under way for ";
    eventually("it is noted", || probes.says("/ready", 200, noted));
    eventually("it is told", || words.said().contains(TOLD));
    assert!(probes.says("/live", 200, ""), "too early for a restart");

    fs::remove_file(&parked).unwrap();
    scene.drain();
    eventually("nothing is noted", || probes.ask("/ready").is_some_and(|said| said.text == "ok\n"));
    assert_eq!(words.said().matches(TOLD).count(), 1, "{}", words.said());
    assert_eq!(process.end().code(), Some(0));
    let report = scene.audit();
    assert!(report.is_clean(), "{report}");
}
