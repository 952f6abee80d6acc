//! The runtime: threads, clocks and signals around the core.
//!
//! Owns the workers of all pipelines and how the process ends. Decides nothing about a record.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use std::{fmt, io, thread};

use crossbeam_channel::Sender;

use crate::admin::health::Health;
use crate::admin::{ListenError, Sources, listen};
use crate::core::event::StopReason;
use crate::handler::{BuildHandlerError, Handlers, build};
use crate::kafka::error::ClientError;
use crate::kafka::start::Standing;
use crate::kafka::transaction::{TransactorError, TransactorSettings};
use crate::telemetry::Telemetry;
use crate::telemetry::metrics::Metrics;
use crate::topology::model::{Pipeline, Topology};

mod account;
mod clock;
mod deliveries;
mod inbox;
mod panic;
mod reading;
mod shutdown;
mod worker;
mod writer;

use account::Account;
use clock::Clock;
use inbox::Channel;
pub use shutdown::Shutdown;
use worker::{Parts, Worker, WorkerError, WorkerSettings};

/// How long the brokers may be out of reach at start.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// The most bytes in one batch: what a broker takes by default.
const BATCH_BYTES: usize = 1_000_000;

/// How a process of workers ended, and with it its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ended {
    /// It was told to, and everything settled is committed: 0.
    Drained,
    /// Something failed that a person must look at: 1.
    NeedsPerson,
    /// The topology or its properties do not work as they stand: 2.
    BadConfiguration,
    /// The Kafka client, or the brokers, refuse to go on: 3.
    Fatal,
}

impl Ended {
    /// The exit code.
    pub const fn code(self) -> u8 {
        match self {
            Self::Drained => 0,
            Self::NeedsPerson => 1,
            Self::BadConfiguration => 2,
            Self::Fatal => 3,
        }
    }
}

/// Why the workers of a topology could not be started or did not end in order.
#[derive(Debug, thiserror::Error)]
pub struct RunError {
    /// What the process's exit code is to say.
    pub ended: Ended,
    /// What happened, for people.
    detail: String,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

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
    let clock = Clock::start();
    let metrics = Metrics::new(&topology.app);
    let names = topology.pipelines.iter().flat_map(|pipeline| {
        (0..pipeline.workers.threads).map(move |thread| format!("{}/{thread}", pipeline.name))
    });
    let health = Health::new(names, clock.now().mono);
    let sources =
        Sources { health: health.clone(), metrics: metrics.clone(), now: Arc::new(move || clock.now().mono) };
    let _listener = listen(topology.http.listen, sources)?;

    let (ends, ended) = crossbeam_channel::unbounded();
    let mut workers = Vec::new();
    for pipeline in &topology.pipelines {
        let standing = Standing::look(&topology.kafka, pipeline, START_PATIENCE)?;
        let pipeline = Arc::new(pipeline.clone());
        for thread in 0..pipeline.workers.threads {
            let telemetry = Arc::new(Telemetry::new(&metrics, &pipeline, thread));
            // There are as many places as workers, in this order.
            let Some(health) = health.worker(workers.len()) else { continue };
            let parts = Parts {
                handler: build(&topology.app, &pipeline, handlers)?,
                runtime: runtime.handle().clone(),
                clock,
                account: Account::new(telemetry, health, clock),
                channel: Channel::new(),
            };
            workers.push((settings(topology, &pipeline, standing, instance, thread), parts));
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

/// Starts the thread of a worker; it says at `ends` how it ended.
fn spawn(
    settings: WorkerSettings,
    parts: Parts,
    shutdown: &Shutdown,
    ends: Sender<Result<(), RunError>>,
) -> io::Result<JoinHandle<()>> {
    let notes = parts.channel.notes.clone();
    shutdown.on_drain(move || {
        // A worker that has ended needs no telling.
        let _ = notes.send(inbox::Note::Drain);
    });
    let id = settings.transactor.transactional_id.clone();
    thread::Builder::new().name(id.clone()).spawn(move || {
        let _entered = parts.runtime.clone().enter();
        let end = match Worker::start(settings, parts).and_then(Worker::run) {
            Ok(StopReason::Drained) => Ok(()),
            Ok(StopReason::TwinProcess { times }) => Err(RunError {
                ended: Ended::Fatal,
                detail: format!(
                    "another process uses the transactional id `{id}`: fenced {times} times\nhint: give each process an \
                     instance of its own"
                ),
            }),
            Err(error) => Err(error.into()),
        };
        let _ = ends.send(end);
    })
}

fn settings(
    topology: &Topology,
    pipeline: &Arc<Pipeline>,
    standing: Standing,
    instance: &str,
    thread: usize,
) -> WorkerSettings {
    let transactor = TransactorSettings {
        kafka: topology.kafka.clone(),
        pipeline: Arc::clone(pipeline),
        transactional_id: format!("{}.{}.{instance}.{thread}", topology.app, pipeline.name),
        batch_bytes: BATCH_BYTES,
    };
    WorkerSettings { transactor, standing, writer: writer::draw(), seed: writer::draw().0 }
}

fn worst(so_far: Result<(), RunError>, next: RunError) -> Result<(), RunError> {
    match so_far {
        Err(first) => Err(RunError { ended: first.ended.max(next.ended), detail: first.detail }),
        Ok(()) => Err(next),
    }
}

fn from_system(error: io::Error) -> RunError {
    RunError { ended: Ended::NeedsPerson, detail: format!("the system gives no thread: {error}") }
}

impl From<WorkerError> for RunError {
    fn from(error: WorkerError) -> Self {
        let detail = error.to_string();
        let ended = match error {
            WorkerError::Client(error) => return error.into(),
            WorkerError::Transactor(TransactorError::Settings(_)) => Ended::BadConfiguration,
            WorkerError::Transactor(TransactorError::Thread { .. }) => Ended::NeedsPerson,
            WorkerError::Transactor(
                TransactorError::Authentication { .. }
                | TransactorError::Refused { .. }
                | TransactorError::Unreachable { .. },
            )
            | WorkerError::TransactorEnded { .. } => Ended::Fatal,
        };
        Self { ended, detail }
    }
}

impl From<ClientError> for RunError {
    fn from(error: ClientError) -> Self {
        let ended = match &error {
            ClientError::Settings(_) => Ended::BadConfiguration,
            ClientError::Thread { .. } => Ended::NeedsPerson,
            ClientError::Call { .. } | ClientError::Fatal { .. } => Ended::Fatal,
        };
        Self { ended, detail: error.to_string() }
    }
}

impl From<BuildHandlerError> for RunError {
    fn from(error: BuildHandlerError) -> Self {
        Self { ended: Ended::BadConfiguration, detail: error.to_string() }
    }
}

impl From<ListenError> for RunError {
    fn from(error: ListenError) -> Self {
        Self { ended: Ended::NeedsPerson, detail: error.to_string() }
    }
}
