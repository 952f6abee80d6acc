//! What a round is about: redrive, or the naive worker that must fail where redrive must not.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::naive::Work;
use super::process::Program;
use super::stage::Stage;

/// Whose processes work on the records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Redrive,
    /// The soak's own program knows how to be one.
    Naive {
        soak: PathBuf,
    },
}

impl Subject {
    /// Begins the names of its topics.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::Redrive => "round",
            Self::Naive { .. } => "control",
        }
    }

    /// The consumer group whose commits count.
    pub(crate) fn group(&self, stage: &Stage) -> String {
        match self {
            Self::Redrive => stage.pipeline.group.clone(),
            Self::Naive { .. } => format!("{}.naive", stage.pipeline.group),
        }
    }

    pub(crate) fn program(&self, stage: &Stage, redrive: &Path, handler: &str) -> Result<Program> {
        match self {
            Self::Redrive => {
                let (redrive, file) = (redrive.to_owned(), stage.file().to_owned());
                Ok(Box::new(move |instance| {
                    let mut command = Command::new(&redrive);
                    command.args(["run", "--log-level", "warn", "--instance", &instance.to_string(), "-f"]);
                    command.arg(&file);
                    command
                }))
            }
            Self::Naive { soak } => {
                let (soak, work) = (soak.clone(), Work::of(stage, self.group(stage), handler)?);
                Ok(Box::new(move |instance| work.command(&soak, instance)))
            }
        }
    }
}
