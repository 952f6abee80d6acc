//! Both protocols of a group, with members of either kind: what moves between processes has one fate.

use crate::probe::Probes;
use crate::process::eventually;
use crate::scene::{Plan, Scene};
use crate::size;
use crate::stopwatch::Stopwatch;
use crate::topology::Draft;
use crate::watermarks::Watermarks;

fn is_static(draft: Draft) -> Draft {
    draft.workers("static-membership", "true")
}

/// Three processes under load: all begin, one ends in order, one is killed and comes back. Then the ledger.
fn come_and_go(kind: impl FnOnce(Draft) -> Draft) {
    let mut scene = Scene::with(|draft| kind(draft.tiers(&["500ms"])));
    let first = scene.run(0);
    scene.send(size::records(2_000), Plan::mixed);
    scene.next_commit();
    let second = scene.run(1);
    scene.at_work("two have something", |scene| scene.writers().len() == 2);
    let third = scene.run(2);
    scene.at_work("three have something", |scene| scene.writers().len() == 3);

    assert_eq!(second.end().code(), Some(0));
    scene.at_work("two have everything", |scene| scene.writers().len() == 2);
    let before = scene.writers();
    third.kill();
    let third = scene.run(2);
    scene.at_work("the new one has something", |scene| {
        let now = scene.writers();
        now.len() == 2 && now != before
    });

    scene.drain();
    assert_eq!(first.end().code(), Some(0));
    assert_eq!(third.end().code(), Some(0));
    let report = scene.audit();
    assert!(report.is_clean(), "{report}");
}

#[test]
fn members_of_the_classic_protocol_come_and_go() {
    come_and_go(|draft| draft);
}

#[test]
fn static_members_of_the_classic_protocol_come_and_go() {
    come_and_go(is_static);
}

#[test]
fn members_of_the_protocol_consumer_come_and_go() {
    come_and_go(|draft| draft.protocol("consumer"));
}

#[test]
fn static_members_of_the_protocol_consumer_come_and_go() {
    come_and_go(|draft| is_static(draft.protocol("consumer")));
}

/// Kills the only process under load and starts it at once; says after how many seconds the last stable offset moved on,
/// and after how many an output.
fn killed_and_started(kind: impl FnOnce(Draft) -> Draft) -> (f64, f64) {
    let mut scene = Scene::with(|draft| kind(draft.tiers(&["500ms"])));
    let process = scene.run(0);
    scene.send(size::records(2_000), Plan::mixed);
    scene.next_commit();
    let outputs = Watermarks::of(scene.kafka, scene.output());
    scene.at_work("a transaction is open in a process that is stopped", |_| {
        if !(0..100).any(|_| outputs.is_open()) {
            return false;
        }
        process.freeze();
        let open = (0..20).all(|_| outputs.is_open());
        if !open {
            process.thaw();
        }
        open
    });
    let before = scene.kafka.read(scene.output()).len();
    process.kill();

    let clock = Stopwatch::start();
    let process = scene.run(0);
    eventually("the last stable offset moves on", || !outputs.is_open());
    let unpinned = clock.seconds();
    scene.send(size::records(500), Plan::mixed);
    eventually("a further output is committed", || scene.kafka.read(scene.output()).len() > before);
    let resumed = clock.seconds();

    scene.drain();
    assert_eq!(process.end().code(), Some(0));
    let report = scene.audit();
    assert!(report.is_clean(), "{report}");
    (unpinned, resumed)
}

#[test]
fn a_static_member_that_is_killed_and_started_goes_on_without_waiting_for_its_session() {
    let (unpinned, resumed) = killed_and_started(|draft| {
        is_static(draft).workers("session-timeout", "\"60s\"").workers("transaction-timeout", "\"50s\"")
    });
    println!("static: unpinned after {unpinned:.2} s, resumed after {resumed:.2} s");
    assert!(unpinned < 25.0, "a transaction would pin it for 50 s: {unpinned} s");
    assert!(resumed < 30.0, "a session takes 60 s: {resumed} s");
}

#[test]
fn a_member_that_is_killed_and_started_goes_on_when_its_session_has_ended() {
    let (unpinned, resumed) = killed_and_started(|draft| draft);
    println!("dynamic: unpinned after {unpinned:.2} s, resumed after {resumed:.2} s");
    assert!(resumed < 6.0 + 15.0, "a session takes 6 s: {resumed} s");
}

#[test]
fn a_static_member_of_the_protocol_consumer_waits_for_its_session_and_takes_its_name_back() {
    let (unpinned, resumed) = killed_and_started(|draft| is_static(draft.protocol("consumer")));
    println!("consumer, static: unpinned after {unpinned:.2} s, resumed after {resumed:.2} s");
    assert!(resumed < 6.0 + 20.0, "a session takes 6 s: {resumed} s");
}

#[test]
fn whoever_waits_for_a_name_that_is_taken_says_so_once_and_until_it_has_it() {
    let probes = Probes::somewhere();
    let mut scene =
        Scene::with(|draft| is_static(draft.tiers(&["500ms"]).protocol("consumer")).listen(probes.address()));
    let first = scene.run(0);
    scene.send(200, Plan::mixed);
    scene.drain();
    first.kill();

    let (second, words) = scene.run_heard(0);
    let noted = "waits for its name in the group";
    eventually("it is noted", || probes.says("/ready", 503, noted));
    scene.send(200, Plan::mixed);
    scene.drain();
    eventually("nothing is noted", || probes.ask("/ready").is_some_and(|said| said.text == "ok\n"));
    let counted = probes.ask("/metrics").unwrap().text;
    let waited = |line: &str| line.contains("by=\"member-name\"") && !line.ends_with(" 0");
    assert!(counted.lines().any(waited), "{counted}");
    let told = "the group has a member of this name";
    assert_eq!(words.said().matches(told).count(), 1, "{}", words.said());
    assert_eq!(second.end().code(), Some(0));
    let report = scene.audit();
    assert!(report.is_clean(), "{report}");
}
