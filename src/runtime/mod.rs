//! The runtime: threads, clocks and signals around the core.
//!
//! Owns the workers of all pipelines and how the process ends. Decides nothing about a record.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::{io, thread};

use crossbeam_channel::Sender;

use crate::admin::health::Health;
use crate::admin::{Sources, listen};
use crate::core::event::StopReason;
use crate::handler::{AnyHandler, BuildHandlerError, Handlers, build};
use crate::kafka::admin::Verified;
use crate::kafka::transaction::{TransactorError, TransactorSettings};
use crate::telemetry::Telemetry;
use crate::telemetry::metrics::Metrics;
use crate::topology::model::{Pipeline, Topology};

mod account;
pub(crate) mod clock;
mod deliveries;
mod ended;
mod inbox;
mod panic;
mod patience;
mod reading;
mod shutdown;
mod worker;
mod writer;

use account::Account;
use clock::Clock;
use inbox::Channel;
use worker::{Parts, Worker, WorkerError, WorkerSettings};

pub use ended::{Ended, RunError};
use ended::{from_system, worst};
pub use shutdown::Shutdown;

/// The most bytes in one batch where nothing is known: what a broker takes by default.
const BATCH_BYTES: usize = 1_000_000;

/// Runs all pipelines of a topology until `shutdown`, or until one of its workers cannot go on; then the others end in
/// order. Listens for probes meanwhile. Blocks.
///
/// `instance` is the name of this process: the same after a restart, so that what the process before it left open is
/// ended at once, and no other running process's.
///
/// # Errors
///
/// [`RunError`] with the first thing that went wrong and the worst exit code of all.
pub fn run(
    topology: &Topology,
    handlers: &Handlers,
    instance: &str,
    shutdown: &Shutdown,
) -> Result<(), RunError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(from_system)?;
    // Handlers are built in the runtime that runs them.
    let _entered = runtime.enter();
    // What the topology says of them is told before anything outside is asked.
    let mut built = build_all(topology, handlers)?.into_iter();
    let clock = Clock::start();
    let metrics = Metrics::new(&topology.app);
    let names = topology.pipelines.iter().flat_map(|pipeline| {
        (0..pipeline.workers.threads).map(move |thread| format!("{}/{thread}", pipeline.name))
    });
    let health = Health::new(names, clock.now().mono);
    let sources =
        Sources { health: health.clone(), metrics: metrics.clone(), now: Arc::new(move || clock.now().mono) };
    let _listener = listen(topology.http.listen, sources)?;
    let accounts = |pipelines: &[Pipeline]| accounts(pipelines, &metrics, &health, clock);
    let mut waiting = accounts(&topology.pipelines);
    let Some(verified) = patience::until_verified(topology, &mut waiting, clock, shutdown)? else {
        return Ok(());
    };
    let pipelines: Vec<_> = topology.pipelines.iter().map(|pipeline| tuned(pipeline, &verified)).collect();
    let mut accounts = accounts(&pipelines).into_iter();

    let (ends, ended) = crossbeam_channel::unbounded();
    let mut workers = Vec::new();
    for pipeline in pipelines {
        let pipeline = Arc::new(pipeline);
        let batch_bytes =
            verified.pipelines.get(&pipeline.name).map_or(BATCH_BYTES, |found| found.batch_bytes);
        for thread in 0..pipeline.workers.threads {
            // There are as many accounts and handlers as workers, in this order.
            let Some((account, handler)) = accounts.next().zip(built.next()) else { continue };
            let parts = Parts {
                handler,
                runtime: runtime.handle().clone(),
                clock,
                account,
                channel: Channel::new(),
                ending: Arc::default(),
            };
            let transactor = TransactorSettings {
                kafka: topology.kafka.clone(),
                pipeline: Arc::clone(&pipeline),
                audit: topology.audit.name.clone(),
                transactional_id: format!("{}.{}.{instance}.{thread}", topology.app, pipeline.name),
                batch_bytes,
            };
            let (writer, seed) = (writer::draw(), writer::draw().0);
            workers.push((WorkerSettings { transactor, writer, seed }, parts));
        }
    }
    let mut threads = Vec::new();
    for (settings, parts) in workers {
        match spawn(settings, parts, shutdown, ends.clone()) {
            Ok(thread) => threads.push(thread),
            // Told like the end of a worker: the others must end, too.
            Err(error) => drop(ends.send(Err(from_system(error)))),
        }
    }
    drop(ends);
    let mut result = Ok(());
    for end in ended {
        if let Err(error) = end {
            health.fatal(&error.detail);
            shutdown.drain();
            result = worst(result, error);
        }
    }
    for thread in threads {
        // A worker that panics ends the process before it can be joined.
        let _ = thread.join();
    }
    result
}

/// The account of each worker.
fn accounts(pipelines: &[Pipeline], metrics: &Metrics, health: &Health, clock: Clock) -> Vec<Account> {
    let workers = pipelines
        .iter()
        .flat_map(|pipeline| (0..pipeline.workers.threads).map(move |thread| (pipeline, thread)));
    workers
        .enumerate()
        .filter_map(|(index, (pipeline, thread))| {
            let telemetry = Arc::new(Telemetry::new(metrics, pipeline, thread));
            // There are as many places as workers, in this order.
            health.worker(index).map(|health| Account::new(telemetry, health, clock))
        })
        .collect()
}

/// The handler of each worker.
fn build_all(topology: &Topology, handlers: &Handlers) -> Result<Vec<AnyHandler>, BuildHandlerError> {
    let workers =
        topology.pipelines.iter().flat_map(|pipeline| (0..pipeline.workers.threads).map(move |_| pipeline));
    workers.map(|pipeline| build(&topology.app, pipeline, handlers)).collect()
}

/// Starts the thread of a worker; it says at `ends` how it ended.
fn spawn(
    settings: WorkerSettings,
    parts: Parts,
    shutdown: &Shutdown,
    ends: Sender<Result<(), RunError>>,
) -> io::Result<JoinHandle<()>> {
    let (notes, ending) = (parts.channel.notes.clone(), Arc::clone(&parts.ending));
    shutdown.on_drain(move || {
        ending.store(true, Ordering::Relaxed);
        // A worker that has ended needs no telling.
        let _ = notes.send(inbox::Note::Drain);
    });
    let id = settings.transactor.transactional_id.clone();
    let ending = Arc::clone(&parts.ending);
    thread::Builder::new().name(id.clone()).spawn(move || {
        let _entered = parts.runtime.clone().enter();
        let end = match Worker::start(settings, parts).and_then(Worker::run) {
            Ok(StopReason::Drained) => Ok(()),
            Ok(StopReason::CutOff { records }) => Err(RunError {
                ended: Ended::NeedsPerson,
                detail: format!(
                    "worker `{id}` was told to end and could not commit `{records}` settled records: nothing is lost, \
                     whoever gets its tasks does them again\nhint: were the brokers away, or could a topic not be written?"
                ),
            }),
            Ok(StopReason::TwinProcess { times }) => Err(RunError {
                ended: Ended::Fatal,
                detail: format!(
                    "another process uses the transactional id `{id}`: fenced {times} times\nhint: give each process an \
                     instance of its own"
                ),
            }),
            // It was waiting for brokers and has begun nothing.
            Err(WorkerError::Transactor(TransactorError::Unreachable { .. }))
                if ending.load(Ordering::Relaxed) =>
            {
                Ok(())
            }
            Err(error) => Err(error.into()),
        };
        let _ = ends.send(end);
    })
}

/// The pipeline with what only the brokers know: which tiers are left to be drained; offsets of idle lanes are committed four
/// times while they are kept, and a task is given back well within the session.
fn tuned(pipeline: &Pipeline, verified: &Verified) -> Pipeline {
    let mut pipeline = pipeline.clone().draining(verified.drained.of(&pipeline.name).to_vec());
    if let Some(kept) = verified.offsets_retention {
        let flow = &mut pipeline.policy.flow;
        flow.recommit = flow.recommit.min(kept / 4);
    }
    if let Some(session) = verified.pipelines.get(&pipeline.name).and_then(|found| found.session) {
        pipeline.workers.session_timeout = session;
        pipeline.policy.flow.revoke = session / 3;
    }
    pipeline
}
