//! Kafka for the demo, started and stopped by `scripts/kafka`.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// A broker in a folder of its own; wiped when dropped, unless it is to be kept.
#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) bootstrap: String,
    pub(crate) folder: PathBuf,
    keep: bool,
}

impl Broker {
    pub(crate) fn start(folder: PathBuf, keep: bool) -> Result<Self> {
        // Made before anything runs: an interrupted start is wiped too.
        let mut broker = Self { bootstrap: String::new(), folder, keep: false };
        let mut command = broker.script("start");
        if !keep {
            // Where the demo is killed, the script's own watch takes over.
            command.args(["--owner", &std::process::id().to_string(), "--wipe"]);
        }
        let output = command.stderr(Stdio::inherit()).output().context("running scripts/kafka")?;
        ensure!(output.status.success(), "scripts/kafka start failed ({})", output.status);
        let text = String::from_utf8_lossy(&output.stdout);
        broker.bootstrap = text.lines().last().unwrap_or_default().trim().to_owned();
        ensure!(!broker.bootstrap.is_empty(), "scripts/kafka start printed no bootstrap address");
        broker.keep = keep;
        Ok(broker)
    }

    fn script(&self, what: &str) -> Command {
        let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/kafka"));
        command.arg(what).arg(&self.folder).stdin(Stdio::null());
        command
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if !self.keep
            && let Err(error) = self.script("wipe").status()
        {
            eprintln!("demo: Kafka in `{}` could not be stopped: {error}", self.folder.display());
        }
    }
}
