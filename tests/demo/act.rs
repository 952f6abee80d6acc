//! The part of the demo in which records flow: counts fates as they become visible, kills one process, starts it again.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rdkafka::consumer::BaseConsumer;
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use tokio::time::Instant;

use crate::found::{self, Isolation};
use crate::http::HttpHandler;
use crate::ledger::Role;
use crate::load::Load;
use crate::process::Process;
use crate::progress::{Progress, grouped};
use crate::readback;
use crate::show::Interrupted;
use crate::stage::Stage;
use crate::watching::Watching;

/// From the start of the processes on; on two idle cores it takes a third of this.
const BOUND: Duration = Duration::from_secs(150);
/// From SIGTERM on: the drain of the topology, the leave, and some patience.
const STOPS_WITHIN: Duration = Duration::from_secs(40);
/// How often the show looks around.
const LOOK: Duration = Duration::from_millis(100);

/// The part in which records flow.
pub(crate) struct Act<'a> {
    handler: &'a HttpHandler,
    load: Load,
    stage: &'a Stage,
    processes: Vec<Process>,
    /// A calm run is a measurement: nothing else works beside it.
    watching: Option<&'a Watching>,
    kill: Kill,
}

/// Where the kill of one process stands.
#[derive(Clone, Copy)]
enum Kill {
    Ahead,
    Done { at: Instant },
    StartedAgain,
}

impl<'a> Act<'a> {
    pub(crate) fn new(
        load: Load,
        stage: &'a Stage,
        handler: &'a HttpHandler,
        processes: Vec<Process>,
        watching: Option<&'a Watching>,
    ) -> Self {
        Self { handler, load, stage, processes, watching, kill: Kill::Ahead }
    }

    /// Until every record has its fate; says how long that took from the first call on.
    pub(crate) fn play(
        &mut self,
        bootstrap: &str,
        progress: &mut Progress,
        interrupted: &Interrupted,
    ) -> Result<Option<Duration>> {
        let fates = found::reader(
            bootstrap,
            &[self.stage.topic(Role::Output)?, self.stage.topic(Role::DeadLetter)?],
            Isolation::Committed,
        )?;
        let (mut output, mut dead) = (0, 0);
        let (begun, mut first_call) = (Instant::now(), None);
        let goal = u64::from(self.load.records);
        while output + dead < goal {
            interrupted.check()?;
            self.count_fates(&fates, &mut output, &mut dead)?;
            let calls = self.handler.calls();
            if calls > 0 {
                first_call.get_or_insert_with(Instant::now);
            }
            let proved = self.proved()?;
            progress.show(
                output + dead,
                &format!(
                    "{} output, {} dead letters, {} calls, {proved} cuts proved",
                    grouped(output),
                    grouped(dead),
                    grouped(calls)
                ),
            );
            self.kill_one(calls, progress)?;
            for process in &mut self.processes {
                process.check()?;
            }
            let waited = begun.elapsed();
            ensure!(
                waited < BOUND,
                "`{}` of `{goal}` records have a fate after {} s",
                output + dead,
                waited.as_secs()
            );
        }
        ensure!(
            self.load.calm || matches!(self.kill, Kill::StartedAgain),
            "all was done before the kill was"
        );
        progress.tell(&format!(
            "every record has its fate, {:.0} s after the processes were started",
            begun.elapsed().as_secs_f64()
        ));
        let took = first_call.map(|first| first.elapsed());
        readback::committed_to_the_ends(bootstrap, &self.stage.group, &self.stage.topics)?;
        Ok(took)
    }

    /// Tells both processes to stop and waits until they have drained.
    pub(crate) fn stop(&mut self) -> Result<()> {
        self.processes.iter().try_for_each(Process::tell_to_stop)?;
        self.processes.iter_mut().try_for_each(|process| process.ended(STOPS_WITHIN))
    }

    /// At how many cuts the ledger was right so far; the first at which it was not ends the run.
    fn proved(&self) -> Result<u32> {
        let found = self.watching.map(Watching::found).unwrap_or_default();
        found.findings.first().map_or(Ok(found.cuts), |finding| bail!("while it ran: {finding}"))
    }

    /// Takes what became visible since the last look, and waits for it a little.
    fn count_fates(&self, fates: &BaseConsumer, output: &mut u64, dead: &mut u64) -> Result<()> {
        let until = Instant::now() + LOOK;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            match fates.poll(left) {
                Some(Ok(record)) if record.topic() == self.stage.topic(Role::Output)? => *output += 1,
                Some(Ok(_)) => *dead += 1,
                Some(Err(KafkaError::PartitionEOF(_))) | None => {}
                Some(Err(error)) => return Err(error).context("watching the output"),
            }
        }
        Ok(())
    }

    fn kill_one(&mut self, calls: u64, progress: &Progress) -> Result<()> {
        let Some(victim) = self.processes.last_mut() else { bail!("no process is there to be killed") };
        match self.kill {
            Kill::Ahead if !self.load.calm && calls >= u64::from(self.load.records) * 2 / 5 => {
                victim.kill()?;
                progress.tell(&format!(
                    "process {} killed by SIGKILL after {} calls in all: Kafka holds its partitions until its session ends",
                    victim.instance,
                    grouped(calls)
                ));
                self.kill = Kill::Done { at: Instant::now() };
            }
            Kill::Done { at } if at.elapsed() >= Duration::from_secs(1) => {
                victim.start_again(self.stage)?;
                progress.tell(&format!("process {} started again", victim.instance));
                self.kill = Kill::StartedAgain;
            }
            Kill::Ahead | Kill::Done { .. } | Kill::StartedAgain => {}
        }
        Ok(())
    }
}
