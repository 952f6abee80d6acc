//! A process that is killed at any named point of its work loses, doubles and re-orders nothing.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use redrive::fail_point::FailPoint;

use crate::binary::Binary;
use crate::group::{expel, members};
use crate::proxy::{Fault, Proxy};
use crate::scene::{Plan, Scene};
use crate::size;
use crate::topology::Draft;

/// So many points at a time: a process mostly waits for its broker.
const AT_A_TIME: usize = 4;

/// What brings a process to a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scenario {
    /// Load.
    Working,
    /// Load, after a process that was killed with its offsets in an open transaction.
    TakingOver,
    /// A second process joins under load.
    Joined,
    /// The group believes that the process has left.
    Expelled,
    /// The process is told to end under load.
    Ending,
    /// The output takes no record for a while.
    Refused,
    /// A commit takes place and nobody is told.
    InDoubt,
}

/// What brings a process to this point, and at which passing it is killed there.
const fn scenario(point: FailPoint) -> (Scenario, u32) {
    match point {
        FailPoint::BetweenSlots
        | FailPoint::BeforeSubscribe
        | FailPoint::Assigned
        | FailPoint::BeforeCommitted
        | FailPoint::AfterCommitted
        | FailPoint::BeforeOpen
        | FailPoint::BetweenLanes
        | FailPoint::AfterOpen => (Scenario::TakingOver, 1),
        // From the second on between the two producers' transactions.
        FailPoint::BeforeBegin
        | FailPoint::Formed
        | FailPoint::AfterBegin
        | FailPoint::BeforeDeliveries
        | FailPoint::AfterDeliveries
        | FailPoint::BeforeOffsets
        | FailPoint::AfterOffsets
        | FailPoint::BeforeCommit
        | FailPoint::AfterCommit
        | FailPoint::ResultArrived => (Scenario::Working, 3),
        FailPoint::AfterProduce => (Scenario::Working, 30),
        FailPoint::BeforeAbort | FailPoint::AfterAbort | FailPoint::BeforeRemake | FailPoint::AfterRemake => {
            (Scenario::Refused, 1)
        }
        FailPoint::Revoked | FailPoint::LanesEnded | FailPoint::GivenBack => (Scenario::Joined, 1),
        FailPoint::Lost => (Scenario::Expelled, 1),
        FailPoint::Draining | FailPoint::Drained | FailPoint::BeforeLeave | FailPoint::Leaving => {
            (Scenario::Ending, 1)
        }
        FailPoint::Unanswered | FailPoint::InDoubt | FailPoint::BeforeMarks | FailPoint::AfterMarks => {
            (Scenario::InDoubt, 1)
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "how long each point takes is printed, not judged")]
fn killed_at_any_named_point_a_process_loses_doubles_and_reorders_nothing() {
    let open: Mutex<VecDeque<FailPoint>> = Mutex::new(FailPoint::ALL.iter().copied().collect());
    let failed = Mutex::new(Vec::new());
    let next = || open.lock().unwrap().pop_front();
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(point) = next() {
                    let since = Instant::now();
                    // All are tried, whatever one of them shows; why it failed was printed by the panic.
                    if catch_unwind(AssertUnwindSafe(|| killed_at(point))).is_err() {
                        failed.lock().unwrap().push(point);
                    }
                    println!("{point}: {:.1?}", since.elapsed());
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "killed at {failed:?}");
}

fn killed_at(point: FailPoint) {
    let mut scene = scene(point);
    for _ in 0..size::repetitions() {
        kill(&mut scene, point);
        let process = scene.run(0);
        scene.drain();
        assert_eq!(process.end().code(), Some(0), "{point}");
    }
    let report = scene.audit();
    assert!(report.is_clean(), "killed at `{point}`: {report}");
}

fn scene(point: FailPoint) -> Scene {
    match scenario(point) {
        (Scenario::InDoubt, _) => {
            // In doubt after twice the timeout, that is after one call, or after two where there is something between.
            let timeout = if point == FailPoint::Unanswered { "\"3s\"" } else { "\"2s\"" };
            let add = |draft: Draft| draft.tiers(&[TIER]).workers("transaction-timeout", timeout);
            Scene::on(&Proxy::shared().kafka, add)
        }
        (
            Scenario::Working
            | Scenario::TakingOver
            | Scenario::Joined
            | Scenario::Expelled
            | Scenario::Ending
            | Scenario::Refused,
            _,
        ) => Scene::set(TIER),
    }
}

/// Brings a process to a point, where it is killed.
fn kill(scene: &mut Scene, point: FailPoint) {
    let (scenario, passing) = scenario(point);
    let orders = format!("{point}:{passing}=kill");
    match scenario {
        Scenario::Working => {
            scene.send(LOAD, Plan::mixed);
            died(scene, scene.run_to(0, &orders), point);
        }
        Scenario::TakingOver => {
            scene.send(LOAD, Plan::mixed);
            died(scene, scene.run_to(0, "after-offsets:3=kill"), FailPoint::AfterOffsets);
            died(scene, scene.run_to(0, &orders), point);
        }
        Scenario::Joined => {
            let first = at_work(scene, &orders);
            let second = scene.run(1);
            died(scene, first, point);
            scene.drain();
            assert_eq!(second.end().code(), Some(0));
        }
        Scenario::Expelled => {
            let process = at_work(scene, &orders);
            forget_members(scene);
            died(scene, process, point);
        }
        Scenario::Ending => {
            let process = at_work(scene, &orders);
            process.tell_to_end();
            died(scene, process, point);
        }
        Scenario::Refused => {
            let process = at_work(scene, &orders);
            limit(scene, &[("max.message.bytes", "300")]);
            scene.send(LOAD, Plan::mixed);
            died(scene, process, point);
            limit(scene, &[]);
        }
        Scenario::InDoubt => {
            let process = at_work(scene, &orders);
            let fault = Proxy::shared().fault(&scene.pipeline.group, Fault::LoseAnswer);
            died(scene, process, point);
            assert!(fault.met() > 0);
        }
    }
}

/// Retries are due while the process is at work, dies and comes again.
const TIER: &str = "300ms";
/// Enough for some transactions of many records each.
const LOAD: usize = 400;

/// A process that has committed and has more to do.
fn at_work(scene: &mut Scene, orders: &str) -> Binary {
    let process = scene.run_to(0, orders);
    scene.send(LOAD, Plan::mixed);
    scene.next_commit();
    scene.send(LOAD, Plan::mixed);
    process
}

/// Waits until a process has died where it should, and has the group know at once.
fn died(scene: &Scene, mut process: Binary, point: FailPoint) {
    assert!(process.was_killed(), "it was to be killed at `{point}`");
    forget_members(scene);
}

fn forget_members(scene: &Scene) {
    for member in members(scene.kafka, &scene.pipeline.group) {
        expel(scene.kafka, &scene.pipeline.group, &member);
    }
}

fn limit(scene: &Scene, config: &[(&str, &str)]) {
    let admin: AdminClient<DefaultClientContext> = scene.kafka.config().create().expect("make a client");
    let mut change = AlterConfig::new(ResourceSpecifier::Topic(scene.output()));
    for (name, value) in config {
        change = change.set(name, value);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let changed = runtime.block_on(admin.alter_configs([&change], &AdminOptions::new())).expect("alter");
    assert!(changed.iter().all(Result::is_ok), "{changed:?}");
}
