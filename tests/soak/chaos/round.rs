//! One round: records flow through several processes, faults come as planned, and the books are closed.

use std::collections::VecDeque;
use std::ops::AddAssign;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;
use tokio::time::Instant;

use super::books::Books;
use super::fates::Fates;
use super::fleet::Fleet;
use super::load::{self, Sender};
use super::nodes::Nodes;
use super::schedule::{Fault, Planned, Size, schedule};
use super::stage::Stage;
use super::subject::Subject;
use crate::cluster::Cluster;
use crate::handler::HttpHandler;
use crate::readback;

/// Between two looks around.
const LOOK: Duration = Duration::from_millis(100);
/// Between two lines of how far it is.
const EVERY: Duration = Duration::from_secs(10);
/// Without a new fate for this long, all is over: whatever is missing then is for the books.
const STALLED: Duration = Duration::from_secs(150);
const PROCESSES: usize = 3;

/// A round before it is played.
#[derive(Clone, Copy)]
pub(crate) struct Round<'a> {
    pub(crate) cluster: &'a Arc<Cluster>,
    pub(crate) seed: u64,
    pub(crate) number: usize,
    pub(crate) size: Size,
    pub(crate) subject: &'a Subject,
    /// The built `redrive`.
    pub(crate) redrive: &'a Path,
    /// Where the processes' logs go.
    pub(crate) folder: &'a Path,
    /// Whether nothing new is to be begun: what was sent is worked off, and the books are closed.
    pub(crate) enough: &'a dyn Fn() -> bool,
    /// Told what happens.
    pub(crate) tell: &'a dyn Fn(&str),
}

/// What has been done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) records: usize,
    pub(crate) kills: usize,
    pub(crate) freezes: usize,
    pub(crate) node_kills: usize,
    pub(crate) node_stops: usize,
    pub(crate) rolls: usize,
}

impl AddAssign for Done {
    fn add_assign(&mut self, other: Self) {
        self.records += other.records;
        self.kills += other.kills;
        self.freezes += other.freezes;
        self.node_kills += other.node_kills;
        self.node_stops += other.node_stops;
        self.rolls += other.rolls;
    }
}

/// How a round went.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) done: Done,
    pub(crate) books: Books,
    /// What must not happen, apart from what the books tell.
    pub(crate) surprises: Vec<String>,
    /// Processes that ended with an error that they told, and were started again, as a supervisor does.
    pub(crate) gave_up: Vec<String>,
    /// Without making the topics and closing the books.
    pub(crate) took: Duration,
}

impl Outcome {
    /// Nothing is lost, doubled, early or otherwise wrong, no process hung or crashed, and no transaction hangs.
    pub(crate) fn is_clean(&self) -> bool {
        self.books.are_clean() && self.surprises.is_empty()
    }
}

impl Round<'_> {
    pub(crate) fn play(&self) -> Result<Outcome> {
        let runtime = Runtime::new().context("starting a runtime")?;
        let handler = runtime.block_on(HttpHandler::start("/work", load::answer))?;
        let name = format!("{}{}", self.subject.word(), self.number);
        let stage = Stage::set(&name, self.cluster.bootstrap(), &handler.url, self.redrive, &runtime)?;
        let begun = Instant::now();
        let program = self.subject.program(&stage, self.redrive, &handler.url)?;
        let mut flow = Flow {
            sender: Sender::to(&stage.bootstrap, stage.source())?,
            fates: Fates::of(&stage)?,
            fleet: Fleet::start(program, PROCESSES, self.folder)?,
            nodes: Nodes::of(self.cluster),
            planned: schedule(self.seed, self.number, &self.size, Stage::SESSION).into(),
            done: Done::default(),
            surprises: Vec::new(),
        };
        flow.go(self, &handler)?;
        let took = begun.elapsed();
        let Flow { sender, fleet, mut done, mut surprises, .. } = flow;
        let group = self.subject.group(&stage);
        if *self.subject == Subject::Redrive
            && let Err(error) = to_the_ends(&stage, &group)
        {
            surprises.push(format!("{error:#}"));
        }
        let unplanned = fleet.end()?;
        surprises.extend(unplanned.surprises);
        if let Err(error) = self.cluster.wait_until_stable() {
            surprises.push(format!("{error:#}"));
        }
        (self.tell)("reading everything back");
        done.records = sender.sent();
        let books = Books::close(&stage, &group, &handler, done.records)?;
        stage.strike(&runtime)?;
        Ok(Outcome { done, books, surprises, gave_up: unplanned.gave_up, took })
    }
}

fn to_the_ends(stage: &Stage, group: &str) -> Result<()> {
    let topics = readback::topics(&stage.pipeline).context("the pipeline has no output")?;
    readback::committed_to_the_ends(&stage.bootstrap, group, &topics)
}

/// A round while records flow.
struct Flow {
    sender: Sender,
    fates: Fates,
    fleet: Fleet,
    nodes: Nodes,
    planned: VecDeque<Planned>,
    done: Done,
    surprises: Vec<String>,
}

impl Flow {
    /// Until every record that was sent has its fate and nothing is away.
    fn go(&mut self, round: &Round<'_>, handler: &HttpHandler) -> Result<()> {
        let (begun, mut next_line) = (Instant::now(), Instant::now() + EVERY);
        let whole = self.planned.len();
        let (mut fated, mut last) = (0, Instant::now());
        loop {
            let enough = (round.enough)();
            self.fleet.look()?;
            let nodes_are_whole = self.nodes.are_whole()?;
            if enough {
                self.planned.clear();
            } else {
                self.sender.send(round.size.sent_after(whole - self.planned.len()))?;
                self.strike(round)?;
            }
            self.fates.count(LOOK)?;
            if self.fates.seen() > fated {
                (fated, last) = (self.fates.seen(), Instant::now());
            }
            let sent = self.sender.sent();
            let all = self.planned.is_empty() && (enough || sent == round.size.records);
            if all && nodes_are_whole && self.fleet.is_whole() && self.fates.are_all(sent) {
                return self.sender.finish();
            }
            if last.elapsed() > STALLED {
                let silent = STALLED.as_secs();
                self.surprises.push(format!(
                    "`{fated}` of `{sent}` records had a fate, and for {silent} s none had; {}",
                    self.fates.last_words()
                ));
                return Ok(());
            }
            if Instant::now() >= next_line {
                next_line = Instant::now() + EVERY;
                let seconds = begun.elapsed().as_secs();
                let calls = handler.calls();
                (round.tell)(&format!("{seconds} s: {sent} sent, {fated} fates, {calls} calls"));
            }
        }
    }

    /// The first fault whose place is reached and that can be.
    fn strike(&mut self, round: &Round<'_>) -> Result<()> {
        for index in 0..self.planned.len() {
            let Some(planned) = self.planned.get(index).copied() else { break };
            if planned.after > self.fates.seen() {
                break;
            }
            if let Some(what) = self.inject(planned.fault)? {
                (round.tell)(&what);
                self.planned.remove(index);
                break;
            }
        }
        Ok(())
    }

    /// What was done; `None`: not at present.
    fn inject(&mut self, fault: Fault) -> Result<Option<String>> {
        let done = &mut self.done;
        let (count, what, whom) = match fault {
            Fault::Kill { pick, away } => {
                (&mut done.kills, "SIGKILL of process", self.fleet.kill(pick, away)?)
            }
            Fault::Freeze { pick, away } => {
                (&mut done.freezes, "SIGSTOP of process", self.fleet.freeze(pick, away)?)
            }
            Fault::KillNode { pick, away } => {
                (&mut done.node_kills, "SIGKILL of node", self.nodes.send_away(pick, away, Cluster::kill))
            }
            Fault::StopNode { pick, away } => (
                &mut done.node_stops,
                "orderly stop of node",
                self.nodes.send_away(pick, away, Cluster::stop),
            ),
            Fault::Roll => {
                (&mut done.rolls, "rolling restart of all processes, from", self.fleet.roll().then_some(0))
            }
        };
        Ok(whom.map(|whom| {
            *count += 1;
            format!("{what} {whom}")
        }))
    }
}
