//! A transaction whose end nobody told is found out about: what was committed stays once, what was not is done again.

use std::path::PathBuf;

use tempfile::TempDir;

use crate::binary::Binary;
use crate::ledger::Report;
use crate::process::eventually;
use crate::proxy::{Fault, Faulted, Proxy};
use crate::scene::{Plan, Scene};
use crate::topology::Draft;
use crate::watermarks::Watermarks;

/// Some transactions.
const LOAD: usize = 400;

/// A pipeline whose clients reach the broker through the proxy. A commit is in doubt after twice the timeout.
fn scene() -> (&'static Proxy, Scene) {
    let proxy = Proxy::shared();
    let add = |draft: Draft| draft.tiers(&["300ms"]).workers("transaction-timeout", "\"2s\"");
    (proxy, Scene::on(&proxy.kafka, add))
}

/// A file that a parked thread makes, and waits until it is gone.
struct Park {
    _folder: TempDir,
    file: PathBuf,
}

impl Park {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("parked");
        Self { _folder: folder, file }
    }

    /// The order that parks at a point.
    fn at(&self, point: &str) -> String {
        format!("{point}=park({})", self.file.display())
    }

    fn wait(&self) {
        eventually("the thread is parked", || self.file.exists());
    }

    fn go_on(&self) {
        std::fs::remove_file(&self.file).expect("let it go on");
    }
}

/// A process with load, the end of one of whose transactions is met by the fault, and so is every repetition: the client
/// asks again each time the transaction timeout has passed without an answer.
fn faulted(scene: &mut Scene, proxy: &Proxy, fault: Fault, orders: &str) -> (Binary, Faulted) {
    let process = scene.run_to(0, orders);
    scene.send(LOAD, Plan::mixed);
    scene.next_commit();
    let faulted = proxy.fault(&scene.pipeline.group, fault);
    scene.at_work("the end of a transaction is met by the fault", |_| faulted.met() > 0);
    (process, faulted)
}

fn drained(scene: &Scene, process: Binary) -> Report {
    scene.drain();
    assert_eq!(process.end().code(), Some(0));
    let report = scene.audit();
    assert!(report.is_clean(), "{report}");
    report
}

/// The end of a transaction meets a fault until its outcome was looked up; nothing runs twice.
fn found_by_the_marks(fault: Fault) {
    let (proxy, mut scene) = scene();
    let park = Park::new();
    let (process, faulted) = faulted(&mut scene, proxy, fault, &park.at("after-marks"));
    park.wait();
    drop(faulted);
    park.go_on();
    let report = drained(&scene, process);
    assert_eq!(report.repeated, 0, "its handlers do not run again");
}

#[test]
fn a_commit_that_took_place_and_whose_answer_was_lost_is_found_and_not_repeated() {
    found_by_the_marks(Fault::LoseAnswer);
}

#[test]
fn a_commit_that_never_arrived_is_found_and_made_again_without_the_handlers() {
    found_by_the_marks(Fault::LoseRequest);
}

#[test]
fn a_coordinator_that_answers_late_is_waited_for() {
    let proxy = Proxy::shared();
    // The doubt comes after longer than one call takes.
    let mut scene =
        Scene::on(&proxy.kafka, |draft| draft.tiers(&["300ms"]).workers("transaction-timeout", "\"5s\""));
    let park = Park::new();
    let orders = format!("{},in-doubt=panic", park.at("unanswered"));
    let (process, faulted) = faulted(&mut scene, proxy, Fault::HoldAnswer, &orders);
    park.wait();
    drop(faulted);
    park.go_on();
    let report = drained(&scene, process);
    assert_eq!(report.repeated, 0, "its handlers do not run again");
}

#[test]
fn killed_with_a_commit_sent_and_unanswered_whether_it_took_place_or_not() {
    let (proxy, mut scene) = scene();
    for fault in [Fault::LoseAnswer, Fault::LoseRequest] {
        let (process, faulted) = faulted(&mut scene, proxy, fault, "");
        process.kill();
        drop(faulted);
    }
    let process = scene.run(0);
    drained(&scene, process);
}

#[test]
fn transactions_that_the_broker_gave_up_are_made_again_and_are_no_twin() {
    let (_, mut scene) = scene();
    // Three in a row would be a twin, were each sooner than the timeout. The last has its offsets sent, too.
    let points = ["before-offsets:2", "before-offsets:3", "before-offsets:4", "after-offsets:2"];
    let parks = points.map(|point| (point, Park::new()));
    let orders: Vec<String> = parks.iter().map(|(point, park)| park.at(point)).collect();
    let process = scene.run_to(0, &orders.join(","));
    scene.send(LOAD, Plan::mixed);
    let outputs = Watermarks::of(scene.kafka, scene.output());
    for (_, park) in &parks {
        park.wait();
        eventually("the broker has the transaction", || outputs.is_open());
        eventually("the broker gives the transaction up", || !outputs.is_open());
        park.go_on();
    }
    let report = drained(&scene, process);
    assert_eq!(report.repeated, 0, "its handlers do not run again");
}
