//! A process that is killed at a chosen point of its work loses, doubles and re-orders nothing.

use std::collections::BTreeSet;

use crate::binary::Binary;
use crate::found::Found;
use crate::group::{members, settled_members, share};
use crate::handler::now;
use crate::ledger::{Commit, Report, Role};
use crate::process::eventually;
use crate::readback::commits;
use crate::scene::{KEYS, Plan, Scene};
use crate::size;
use crate::watermarks::Watermarks;

/// Load, a kill by `kill`, and another process that goes on; as often as the size of the run says. Then the ledger.
fn killed(delay: &str, kill: impl Fn(&mut Scene, Binary)) -> (Scene, Report) {
    let mut scene = Scene::set(delay);
    let watching = scene.watch();
    let mut process = scene.run(0);
    for _ in 0..size::repetitions() {
        scene.send(size::records(2_000), Plan::mixed);
        kill(&mut scene, process);
        scene.handler.release();
        process = scene.run(0);
        scene.drain();
    }
    assert_eq!(process.end().code(), Some(0));
    let report = scene.audit_watched(watching);
    assert!(report.is_clean() && report.balances(), "{report}");
    (scene, report)
}

#[test]
fn killed_while_calls_are_unanswered() {
    let (_, report) = killed("1s", |scene, process| {
        scene.next_commit();
        scene.handler.hold();
        scene.at_work("calls are in flight", |scene| scene.handler.unanswered() > 0);
        process.kill();
    });
    assert!(report.repeated > 0, "the calls that had no answer are made again");
}

#[test]
fn killed_while_a_transaction_is_open_whose_records_nobody_reads() {
    let (scene, _) = killed("1s", |scene, process| {
        let outputs = Watermarks::of(scene.kafka, scene.output());
        scene.at_work("a transaction is open in a process that is stopped", |_| {
            // Looked for first: a process that is stopped at any moment is rarely in the middle of one.
            if !(0..100).any(|_| outputs.is_open()) {
                return false;
            }
            process.freeze();
            // What it had sent before has arrived by then.
            let open = (0..20).all(|_| outputs.is_open());
            if !open {
                process.thaw();
            }
            open
        });
        process.kill();
        assert!(outputs.is_open(), "it stays open");
    });
    let committed = scene.kafka.read(scene.output());
    let places: BTreeSet<_> = committed.iter().map(place).collect();
    let all = scene.kafka.read_uncommitted(scene.output());
    let aborted: Vec<&Found> = all.iter().filter(|found| !places.contains(&place(found))).collect();
    assert!(!aborted.is_empty(), "there is something to be invisible");
    for found in aborted {
        let again = committed.iter().filter(|other| other.value == found.value).count();
        assert_eq!(again, 1, "{found:?} is written again, and that one counts");
    }
}

fn place(found: &Found) -> (i32, i64) {
    (found.partition, found.offset)
}

#[test]
fn killed_right_after_a_commit() {
    killed("1s", |scene, process| {
        scene.next_commit();
        process.kill();
    });
}

#[test]
fn killed_while_records_wait_and_nothing_is_due() {
    killed("3s", |scene, process| {
        eventually("records wait in a process that is stopped, and none is due", || {
            scene.drain();
            scene.send(40, |_| Plan::FailsOnce);
            let mut due = Vec::new();
            eventually("all wait, or have waited", || {
                due = waiting(scene);
                due.len() == 40 || scene.is_drained()
            });
            process.freeze();
            let frozen = now();
            let held = !due.is_empty() && due.iter().all(|due| *due > frozen);
            if !held {
                process.thaw();
            }
            held
        });
        process.kill();
    });
}

/// When the records are due that wait in the tier.
fn waiting(scene: &Scene) -> Vec<i64> {
    let positions = committed(scene, Role::Tier(0), scene.tier());
    let passed = |found: &Found| {
        positions.iter().any(|commit| commit.partition == found.partition && found.offset < commit.offset)
    };
    let records = scene.kafka.read(scene.tier());
    records.iter().filter(|found| !passed(found)).map(|found| found.number("redrive-due")).collect()
}

fn committed(scene: &Scene, role: Role, topic: &str) -> Vec<Commit> {
    commits(scene.kafka.bootstrap(), &scene.pipeline.group, topic, role).expect("the group's offsets")
}

#[test]
fn killed_while_it_takes_over_from_one_that_was_killed() {
    killed("1s", |scene, process| {
        scene.next_commit();
        scene.handler.hold();
        process.kill();
        let group = &scene.pipeline.group;
        let dead = members(scene.kafka, group);
        let next = scene.run(0);
        eventually("the next has joined", || {
            settled_members(scene.kafka, group)
                .is_some_and(|now| !now.is_empty() && now.iter().all(|member| !dead.contains(member)))
        });
        // Without an answer of the handler it has nothing to commit but where it starts, and before it joined it could not.
        let moved = || {
            let commits = committed(scene, Role::Source, scene.pipeline.source.as_str());
            commits.into_iter().filter(|commit| commit.offset > 0).collect::<Vec<_>>()
        };
        let before = moved();
        next.kill();
        assert_eq!(moved(), before);
    });
}

#[test]
fn told_to_end_under_load_it_finishes_what_runs_and_leaves_at_once() {
    let mut scene = Scene::set("1s");
    let group = scene.pipeline.group.clone();
    let mut first = scene.run(0);
    scene.send(size::records(1_000), Plan::mixed);
    scene.drain();
    let firsts = members(scene.kafka, &group);
    assert_eq!(firsts.len(), 1);
    let second = scene.run(1);
    eventually("both have their share", || share(scene.kafka, &group, 2));

    scene.handler.hold();
    scene.send(size::records(1_000), Plan::mixed);
    eventually("one record of each key is in flight", || scene.handler.unanswered() == KEYS);
    first.tell_to_end();
    scene.handler.release();
    assert_eq!(first.wait().code(), Some(0));
    let left = members(scene.kafka, &group);
    assert_eq!(left.len(), 1, "the group knows at once that it left");
    assert!(!firsts.contains(&left[0]), "{left:?}");

    scene.drain();
    assert_eq!(second.end().code(), Some(0));
    let report = scene.audit();
    assert!(report.is_clean(), "{report}");
    // What ended behind a record that was queued when it was told cannot be committed, and is handled again.
    assert!(report.repeated <= KEYS, "{} calls are made again", report.repeated);
}
