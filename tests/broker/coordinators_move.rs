//! The coordinators of the group and of the transactions move to other nodes while records flow: nothing is lost or doubled.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use tokio::runtime::Runtime;

use crate::chaos::Subject;
use crate::chaos::books::Books;
use crate::chaos::fates::Fates;
use crate::chaos::fleet::Fleet;
use crate::chaos::load::{self, Sender};
use crate::chaos::stage::Stage;
use crate::cluster::{Cluster, wait};
use crate::handler::HttpHandler;
use crate::leaders::{end, leader, move_leader, partition_of};
use crate::size;

const OFFSETS: &str = "__consumer_offsets";
const TRANSACTIONS: &str = "__transaction_state";
const PROCESSES: usize = 2;
/// More than are under way at once: those that have their fate after a move were begun after it.
const FATES: usize = 1_500;

/// Records on their way through processes of redrive.
struct Flow<'a> {
    cluster: &'a Cluster,
    sender: Sender,
    fates: Fates,
    fleet: Fleet,
}

impl Flow<'_> {
    /// Until so many further records have their fate and it is so; more are sent all the while.
    fn go_on_until(
        &mut self,
        further: usize,
        what: &str,
        mut is: impl FnMut(&Cluster) -> Result<bool>,
    ) -> Result<()> {
        let goal = self.fates.seen() + further;
        wait(what, || {
            self.fleet.look()?;
            self.sender.send(self.fates.seen().max(goal) + further)?;
            self.fates.count(Duration::from_millis(100))?;
            Ok(self.fates.seen() >= goal && is(self.cluster)?)
        })
    }

    fn go_on(&mut self) -> Result<()> {
        self.go_on_until(FATES, "records go on", |_| Ok(true))
    }

    /// Moves the coordinator of a name under load; what follows goes through the new one.
    fn move_coordinator(&mut self, topic: &str, name: &str) -> Result<()> {
        let partition = partition_of(self.cluster, topic, name)?;
        let asked = format!("somebody asks the coordinator of `{name}`");
        self.go_on_until(FATES, &asked, |cluster| Ok(end(cluster, topic, partition)? > 0))?;
        let (from, to) = move_leader(self.cluster, topic, partition)?;
        println!("{topic}/{partition} of {name}: from {from:?} to {to:?}");
        // What the new one writes: a busy process may have had no task for a while.
        let moved = end(self.cluster, topic, partition)?;
        let followed = format!("what goes through the coordinator of `{name}` goes through {to:?}");
        self.go_on_until(FATES, &followed, |cluster| Ok(end(cluster, topic, partition)? > moved))
    }
}

#[test]
fn coordinators_of_group_and_transactions_move_under_load_and_nothing_is_lost_or_doubled() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(folder.path().join("kafka")).unwrap();
    let runtime = Runtime::new().unwrap();
    let handler = runtime.block_on(HttpHandler::start("/work", load::answer)).unwrap();
    let redrive = Path::new(env!("CARGO_BIN_EXE_redrive"));
    let stage = Stage::set("moved", cluster.bootstrap(), &handler.url, redrive, &runtime).unwrap();
    let program = Subject::Redrive.program(&stage, redrive, &handler.url).unwrap();
    let mut flow = Flow {
        cluster: &cluster,
        sender: Sender::to(cluster.bootstrap(), stage.source()).unwrap(),
        fates: Fates::of(&stage).unwrap(),
        fleet: Fleet::start(program, PROCESSES, folder.path()).unwrap(),
    };
    flow.go_on().unwrap();
    let group = stage.pipeline.group.clone();
    for _ in 0..size::repetitions() {
        for _ in 0..2 {
            flow.move_coordinator(OFFSETS, &group).unwrap();
            for slot in 0..2 {
                flow.move_coordinator(TRANSACTIONS, &format!("soak.moved.0.0.{slot}")).unwrap();
            }
        }
        for (topic, name) in [(OFFSETS, group.as_str()), (TRANSACTIONS, "soak.moved.1.0.0")] {
            let partition = partition_of(&cluster, topic, name).unwrap();
            let (node, _) = leader(&cluster, topic, partition).unwrap();
            println!("orderly stop of {node:?}, which leads {topic}/{partition} of {name}");
            cluster.stop(node).unwrap();
            flow.go_on().unwrap();
            cluster.restart(node).unwrap();
            flow.go_on().unwrap();
            cluster.wait_until_whole().unwrap();
        }
    }

    let Flow { sender, mut fates, mut fleet, .. } = flow;
    sender.finish().unwrap();
    let drained = wait("every record has its fate", || {
        fleet.look()?;
        fates.count(Duration::from_millis(100))?;
        Ok(fates.are_all(sender.sent()))
    });
    let unplanned = fleet.end().unwrap();
    cluster.wait_until_stable().unwrap();
    let books = Books::close(&stage, &group, &handler, sender.sent()).unwrap();
    assert!(books.are_clean(), "{drained:?}\n{}\n{:?}", books.text, books.differences);
    assert!(unplanned.surprises.is_empty() && unplanned.gave_up.is_empty(), "{unplanned:?}");
    drained.unwrap();
    println!("{} records; {} calls again", sender.sent(), books.repeated);
}
