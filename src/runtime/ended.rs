//! How a process of workers ended, in words and as an exit code.

use std::{fmt, io};

use crate::admin::ListenError;
use crate::handler::BuildHandlerError;
use crate::kafka::admin::{AdminError, VerifyError};
use crate::kafka::error::ClientError;
use crate::kafka::transaction::TransactorError;
use crate::runtime::worker::WorkerError;

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
    pub(super) detail: String,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

/// The first error, with the worst exit code so far.
pub(super) fn worst(so_far: Result<(), RunError>, next: RunError) -> Result<(), RunError> {
    match so_far {
        Err(first) => Err(RunError { ended: first.ended.max(next.ended), detail: first.detail }),
        Ok(()) => Err(next),
    }
}

/// Where the system gives no thread.
pub(super) fn from_system(error: io::Error) -> RunError {
    RunError { ended: Ended::NeedsPerson, detail: format!("the system gives no thread: {error}") }
}

impl From<WorkerError> for RunError {
    fn from(error: WorkerError) -> Self {
        let detail = error.to_string();
        let ended = match error {
            WorkerError::Client(error) => return error.into(),
            WorkerError::Transactor(
                TransactorError::Settings(_) | TransactorError::Authentication { .. },
            ) => Ended::BadConfiguration,
            WorkerError::Transactor(TransactorError::Thread { .. }) => Ended::NeedsPerson,
            WorkerError::Transactor(
                TransactorError::Refused { .. } | TransactorError::Unreachable { .. },
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
            ClientError::Call { .. } | ClientError::Fatal { .. } | ClientError::Twin { .. } => Ended::Fatal,
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

impl From<VerifyError> for RunError {
    fn from(error: VerifyError) -> Self {
        let ended = match &error {
            VerifyError::Admin(AdminError::Settings(_) | AdminError::Authentication { .. }) => {
                Ended::BadConfiguration
            }
            VerifyError::Topics { .. }
            | VerifyError::Session { .. }
            | VerifyError::Admin(
                AdminError::Unreachable { .. } | AdminError::Refused { .. } | AdminError::NotSeen { .. },
            ) => Ended::NeedsPerson,
        };
        Self { ended, detail: error.to_string() }
    }
}
