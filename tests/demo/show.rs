//! The course of the demo, from an empty folder to the ledger.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};

use crate::Options;
use crate::act::Act;
use crate::broker::Broker;
use crate::handler;
use crate::http::HttpHandler;
use crate::ledger::{Role, audit};
use crate::load::Load;
use crate::process::Process;
use crate::progress::{Progress, grouped};
use crate::readback;
use crate::stage::Stage;
use crate::watching::Watching;

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All zeros are zero, all counts as planned.
    Good,
    /// They are not.
    Bad,
}

pub(crate) fn run(options: &Options) -> Result<Verdict> {
    let interrupted = Interrupted::listen()?;
    let mut folder = tempfile::Builder::new().prefix("redrive-demo-").tempdir().context("making a folder")?;
    let verdict = show(options, folder.path(), &interrupted);
    let failed = !matches!(verdict, Ok(Verdict::Good)) && interrupted.check().is_ok();
    if failed {
        eprintln!("demo: what the processes logged is kept in `{}`", folder.path().display());
    }
    folder.disable_cleanup(failed || options.keep);
    verdict
}

fn show(options: &Options, folder: &Path, interrupted: &Interrupted) -> Result<Verdict> {
    let runtime = tokio::runtime::Runtime::new().context("starting a runtime")?;
    let load = Load::new(options.records, options.calm);
    let mut progress = Progress::new(options.records);

    progress.tell("starting Kafka");
    let broker = Broker::start(folder.join("kafka"), options.keep)?;
    interrupted.check()?;
    let handler = runtime.block_on(HttpHandler::start("/orders", handler::answer))?;
    let stage = Stage::set(&broker.bootstrap, &handler.url, &runtime)?;
    progress.tell(&format!(
        "sending {} records to `{}`: {load}",
        grouped(load.records.into()),
        stage.source()
    ));
    load.send(&broker.bootstrap, &stage)?;

    let watching = (!options.calm)
        .then(|| Watching::start(&broker.bootstrap, &stage.group, &stage.topics, stage.rules.clone()))
        .transpose()?;
    let mut processes = Vec::new();
    for instance in 0..2 {
        let process = Process::start(&stage, instance, folder.join(format!("process-{instance}.log")))?;
        progress.tell(&format!("process {instance} started, metrics at http://{}/metrics", process.listen));
        processes.push(process);
    }
    let mut act = Act::new(load, &stage, &handler, processes, watching.as_ref());
    let played = act.play(&broker.bootstrap, &mut progress, interrupted);
    interrupted.check()?;
    let stopped = act.stop();
    progress.tell("both processes are stopped; reading everything back");
    progress.finish();

    let history = readback::history(&broker.bootstrap, &stage.group, &stage.topics, Some(handler.starts()))?;
    let mut report = audit(&stage.rules, &history);
    if let Some(watching) = watching {
        report.join(&stage.rules, &watching.finish(history.starts.as_deref())?);
    }
    println!("\nThe ledger, read back from Kafka with read_committed:\n\n{report}");
    let mut faults = load.differences(&report);
    faults.extend(
        [played.as_ref().err(), stopped.as_ref().err()]
            .into_iter()
            .flatten()
            .map(|error| format!("{error:#}")),
    );
    for fault in &faults {
        println!("  ! {fault}");
    }
    if let Ok(Some(took)) = played
        && options.calm
    {
        let rate = f64::from(load.records) / took.as_secs_f64();
        println!("  {rate:.0} records per second, from the first call to the last committed fate\n");
    }
    say_where_to_look(options, &broker, &stage)?;
    Ok(if report.is_clean() && faults.is_empty() { Verdict::Good } else { Verdict::Bad })
}

fn say_where_to_look(options: &Options, broker: &Broker, stage: &Stage) -> Result<()> {
    println!("Where to look further:");
    if options.keep {
        let dead = stage.topic(Role::DeadLetter)?;
        println!("  Kafka still runs: bootstrap {}, folder {}", broker.bootstrap, broker.folder.display());
        println!(
            "  kcat -b {} -C -t {dead} -o beginning -e -c 3 -f '%k\\n%h\\n%s\\n\\n'   the first dead letters",
            broker.bootstrap
        );
        println!("  {}   what the topics are", stage.typed("topics plan"));
        println!("  scripts/kafka wipe {}   stops Kafka and removes its folder", broker.folder.display());
    } else {
        println!("  make demo DEMO=--keep    leaves Kafka running and says how to read the dead letters");
    }
    println!("  topology/orders.toml     what ran");
    println!("  README.md                your own topology in 10 minutes");
    Ok(())
}

/// Set by SIGINT and SIGTERM; whoever waits looks at it.
pub(crate) struct Interrupted(Arc<AtomicBool>);

impl Interrupted {
    fn listen() -> Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&flag)).context("listening to signals")?;
        }
        Ok(Self(flag))
    }

    pub(crate) fn check(&self) -> Result<()> {
        ensure!(!self.0.load(Ordering::Relaxed), "interrupted");
        Ok(())
    }
}
