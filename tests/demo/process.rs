//! One `redrive run` process.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::time::Instant;

use crate::stage::Stage;

/// Killed when dropped, if it still runs.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) instance: usize,
    /// Where its metrics are.
    pub(crate) listen: SocketAddr,
    log: PathBuf,
    child: Option<Child>,
}

impl Process {
    pub(crate) fn start(stage: &Stage, instance: usize, log: PathBuf) -> Result<Self> {
        // Free now; nobody else takes it in the moment until the process does.
        let listen = TcpListener::bind("127.0.0.1:0")
            .and_then(|socket| socket.local_addr())
            .context("finding a port")?;
        let mut process = Self { instance, listen, log, child: None };
        process.start_again(stage)?;
        Ok(process)
    }

    /// With the same identity, port and log.
    pub(crate) fn start_again(&mut self, stage: &Stage) -> Result<()> {
        let log = File::options().create(true).append(true).open(&self.log).context("opening a log")?;
        let mut command =
            stage.redrive(&["run", "-f", Stage::FILE, "--instance", &self.instance.to_string()])?;
        command.env(Stage::LISTEN, self.listen.to_string());
        command.stdout(log.try_clone().context("opening a log")?).stderr(log);
        // Out of the terminal's group: ^C is for the demo, which stops its processes in order.
        command.process_group(0);
        self.child = Some(command.spawn().context("starting redrive")?);
        Ok(())
    }

    /// By SIGKILL.
    pub(crate) fn kill(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill().context("killing redrive")?;
            child.wait().context("waiting for redrive")?;
        }
        Ok(())
    }

    /// Fails where it ended by itself.
    pub(crate) fn check(&mut self) -> Result<()> {
        let ended = match &mut self.child {
            Some(child) => child.try_wait().context("looking at redrive")?,
            None => None,
        };
        match ended {
            Some(status) => {
                bail!("process {} ended by itself ({status})\n{}", self.instance, self.last_words())
            }
            None => Ok(()),
        }
    }

    /// Sends SIGTERM: it finishes what runs, commits, and ends.
    pub(crate) fn tell_to_stop(&self) -> Result<()> {
        let Some(child) = &self.child else { return Ok(()) };
        // The standard library sends no other signal than SIGKILL.
        let sent = Command::new("sh").args(["-c", "kill -TERM \"$0\"", &child.id().to_string()]).status();
        ensure!(sent.context("sending SIGTERM")?.success(), "process {} is gone", self.instance);
        Ok(())
    }

    /// Waits for its end. After `bound` it is killed, which is an error.
    pub(crate) fn ended(&mut self, bound: Duration) -> Result<()> {
        let Some(child) = &mut self.child else { return Ok(()) };
        let Some(status) = wait(child, bound)? else {
            self.kill()?;
            bail!("process {} did not stop within {} s of SIGTERM", self.instance, bound.as_secs());
        };
        self.child = None;
        ensure!(status.success(), "process {} stopped with {status}\n{}", self.instance, self.last_words());
        Ok(())
    }

    fn last_words(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(15).collect();
        lines.into_iter().rev().map(|line| format!("  | {line}\n")).collect()
    }
}

/// `None`: it still runs after `bound`.
fn wait(child: &mut Child, bound: Duration) -> Result<Option<ExitStatus>> {
    let until = Instant::now() + bound;
    loop {
        let ended = child.try_wait().context("waiting for redrive")?;
        if ended.is_some() || Instant::now() > until {
            return Ok(ended);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.kill() {
            eprintln!("demo: process {}: {error:#}", self.instance);
        }
    }
}
