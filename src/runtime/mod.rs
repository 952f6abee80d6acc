//! The runtime: threads, clocks and signals around the core.
//!
//! Owns the workers of all pipelines and how the process ends. Decides nothing about a record.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use crossbeam_channel::Sender;

use crate::core::event::StopReason;
use crate::handler::{BuildHandlerError, Handlers, build};
use crate::kafka::error::ClientError;
use crate::kafka::start::Standing;
use crate::kafka::transaction::{TransactorError, TransactorSettings};
use crate::topology::model::{Pipeline, Topology};

mod clock;
mod deliveries;
mod inbox;
mod panic;
mod reading;
mod report;
mod shutdown;
mod worker;
mod writer;

use clock::Clock;
use report::{Log, Reporter, Reports};
pub use shutdown::Shutdown;
use worker::{Worker, WorkerError, WorkerSettings};

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
/// order. Blocks.
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
    let reports: Arc<dyn Reports> = Arc::new(Log);
    let (ends, ended) = crossbeam_channel::unbounded();
    let mut threads = Vec::new();
    for pipeline in &topology.pipelines {
        let standing = Standing::look(&topology.kafka, pipeline, START_PATIENCE)?;
        let pipeline = Arc::new(pipeline.clone());
        for thread in 0..pipeline.workers.threads {
            let job = Job {
                transactional_id: format!("{}.{}.{instance}.{thread}", topology.app, pipeline.name),
                settings: settings(topology, &pipeline, standing, instance, thread),
                handler: build(&topology.app, &pipeline, handlers)?,
                reporter: Reporter::new(&pipeline.name, Arc::clone(&reports)),
                shutdown: shutdown.clone(),
                runtime: runtime.handle().clone(),
            };
            threads
                .push(job.spawn(format!("{}-{thread}", pipeline.name), ends.clone()).map_err(from_system)?);
        }
    }
    drop(ends);
    let mut result = Ok(());
    for end in ended {
        if let Err(error) = end {
            tracing::error!("{error}");
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

struct Job {
    transactional_id: String,
    settings: WorkerSettings,
    handler: crate::handler::AnyHandler,
    reporter: Reporter,
    shutdown: Shutdown,
    runtime: tokio::runtime::Handle,
}

impl Job {
    fn spawn(self, name: String, ends: Sender<Result<(), RunError>>) -> io::Result<thread::JoinHandle<()>> {
        thread::Builder::new().name(name).spawn(move || {
            let _entered = self.runtime.enter();
            let (notes, inbox) = crossbeam_channel::unbounded();
            let to_drain = notes.clone();
            self.shutdown.on_drain(move || {
                let _ = to_drain.send(inbox::Note::Drain);
            });
            let Self { settings, handler, reporter, runtime, .. } = self;
            let worker = Worker::start(settings, handler, runtime.clone(), Clock::start(), reporter, (notes, inbox));
            let end = match worker.and_then(Worker::run) {
                Ok(StopReason::Drained) => Ok(()),
                Ok(StopReason::TwinProcess { times }) => Err(RunError {
                    ended: Ended::Fatal,
                    detail: format!(
                        "another process uses the transactional id `{}`: fenced {times} times\nhint: give each process \
                         an instance name of its own",
                        self.transactional_id
                    ),
                }),
                Err(error) => Err(error.into()),
            };
            let _ = ends.send(end);
        })
    }
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
