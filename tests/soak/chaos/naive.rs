//! What a naive worker is told to do; the soak's own program becomes one when it is started with this.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::stage::Stage;

/// The topics, the group and the handler of a naive worker.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Work {
    #[arg(long)]
    pub(crate) bootstrap: String,
    #[arg(long)]
    pub(crate) group: String,
    #[arg(long)]
    pub(crate) source: String,
    #[arg(long)]
    pub(crate) output: String,
    #[arg(long)]
    pub(crate) dead_letters: String,
    /// The handler.
    #[arg(long)]
    pub(crate) url: String,
    /// Which of several it is.
    #[arg(long, default_value_t = 0)]
    pub(crate) instance: usize,
}

impl Work {
    /// The subcommand of the soak program.
    pub(crate) const COMMAND: &str = "naive-worker";

    pub(super) fn of(stage: &Stage, group: String, handler: &str) -> Result<Self> {
        Ok(Self {
            bootstrap: stage.bootstrap.clone(),
            group,
            source: stage.source().to_owned(),
            output: stage.output()?.to_owned(),
            dead_letters: stage.dead_letters().to_owned(),
            url: handler.to_owned(),
            instance: 0,
        })
    }

    pub(super) fn command(&self, soak: &Path, instance: usize) -> Command {
        let mut command = Command::new(soak);
        command.args([Self::COMMAND, "--bootstrap", &self.bootstrap, "--group", &self.group]);
        command.args(["--source", &self.source, "--output", &self.output]);
        command.args(["--dead-letters", &self.dead_letters, "--url", &self.url]);
        command.args(["--instance", &instance.to_string()]);
        command
    }
}
