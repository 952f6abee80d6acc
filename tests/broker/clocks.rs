//! Workers whose calendars differ: nothing is early beyond the difference, nothing stalls, nothing is lost or doubled.

use std::collections::BTreeMap;

use crate::group::share;
use crate::ledger::{Kind, Report};
use crate::process::eventually;
use crate::scene::{Plan, Scene};
use crate::size;

const HOUR: i64 = 3_600_000;
/// The delay of the only tier, in milliseconds.
const DELAY: i64 = 1_000;

/// The shortest time from the begin of a first attempt to the begin of the second, by the handler's own clock, and how many
/// there were. The wait begins when the first has failed, so it is shorter than this.
fn shortest_wait(scene: &Scene) -> (i64, usize) {
    let mut first: BTreeMap<String, i64> = BTreeMap::new();
    let mut waits = Vec::new();
    for start in scene.handler.starts() {
        match (start.attempt, first.get(&start.event_id)) {
            (1, _) => drop(first.insert(start.event_id, start.at)),
            (2, Some(before)) => waits.push(start.at - before),
            _ => {}
        }
    }
    (waits.iter().copied().min().expect("records waited"), waits.len())
}

/// Whether all is as it must be by true time. By the writers' calendars, which the ledger reads, things may look early.
fn is_whole(report: &Report) -> bool {
    report.findings.iter().all(|finding| finding.kind == Kind::Early)
}

#[test]
fn one_of_two_workers_is_an_hour_off_and_every_record_waits_its_time_and_no_longer() {
    for skew in [HOUR, -HOUR] {
        let mut scene = Scene::set("1s");
        let (right, wrong) = (scene.run(0), scene.run_ahead(1, skew));
        eventually("both have their share", || share(scene.kafka, &scene.pipeline.group, 2));
        scene.send(size::records(400), Plan::mixed);
        scene.drain();
        let (shortest, count) = shortest_wait(&scene);
        assert!(shortest >= DELAY, "{skew}: {shortest} ms");
        assert!(count >= 40, "{skew}: {count} waits");
        assert_eq!(right.end().code(), Some(0));
        assert_eq!(wrong.end().code(), Some(0));
        let report = scene.audit();
        assert!(is_whole(&report), "{skew}: {report}");
    }
}

#[test]
fn records_that_move_between_workers_an_hour_apart_neither_stall_nor_are_lost() {
    for skew in [HOUR, -HOUR] {
        let mut scene = Scene::set("1s");
        let mut process = scene.run_ahead(0, skew);
        for next in [0, skew, 0] {
            scene.send(size::records(200), Plan::mixed);
            scene.next_commit();
            process.kill();
            process = scene.run_ahead(0, next);
        }
        scene.drain();
        assert_eq!(process.end().code(), Some(0));
        let report = scene.audit();
        assert!(is_whole(&report), "{skew}: {report}");
    }
}

#[test]
fn records_that_move_between_workers_are_early_by_the_difference_at_most() {
    const SKEW: i64 = 400;
    let mut scene = Scene::set("1s");
    let mut process = scene.run(0);
    for next in [SKEW, 0, SKEW, 0] {
        scene.send(size::records(200), Plan::mixed);
        scene.next_commit();
        process.kill();
        process = scene.run_ahead(0, next);
    }
    scene.drain();
    let (shortest, _) = shortest_wait(&scene);
    assert!(shortest >= DELAY - SKEW, "{shortest} ms");
    assert_eq!(process.end().code(), Some(0));
    let report = scene.audit();
    assert!(is_whole(&report), "{report}");
}
