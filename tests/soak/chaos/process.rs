//! One process under test, started again and again with the same identity.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use signal_hook::consts::{SIGCONT, SIGTERM};
use tokio::time::Instant;

/// Not among those that a program may handle.
const SIGSTOP: i32 = 19;

/// Makes the command of the process with this number.
pub(crate) type Program = Box<dyn Fn(usize) -> Command>;

/// Killed when dropped, if it still runs.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    started: Instant,
}

/// A process that does not listen to signals yet is ended by them, as any program is.
const LISTENS_WITHIN: Duration = Duration::from_secs(1);

impl Process {
    /// Starts it; what it says is appended to the log.
    pub(crate) fn start(mut command: Command, log: &PathBuf) -> Result<Self> {
        let log = File::options().create(true).append(true).open(log).context("opening a log")?;
        command.stdout(log.try_clone().context("opening a log")?).stderr(log);
        // Out of the terminal's group: ^C is for the run, which stops its processes in order.
        command.process_group(0);
        let started = Instant::now();
        Ok(Self { child: command.spawn().context("starting a process")?, started })
    }

    /// By SIGKILL, and waits until it is gone.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill().context("killing a process")?;
        self.child.wait().context("waiting for a process")?;
        Ok(())
    }

    /// Stops it where it is, as if all its threads were never scheduled.
    pub(crate) fn freeze(&self) -> Result<()> {
        self.signal(SIGSTOP)
    }

    /// Lets it go on.
    pub(crate) fn thaw(&self) -> Result<()> {
        self.signal(SIGCONT)
    }

    /// It finishes what runs, commits, and ends.
    pub(crate) fn tell_to_end(&self) -> Result<()> {
        std::thread::sleep(LISTENS_WITHIN.saturating_sub(self.started.elapsed()));
        self.signal(SIGTERM)
    }

    /// How it ended, if it did.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().context("looking at a process")
    }

    fn signal(&self, signal: i32) -> Result<()> {
        // The standard library sends no other signal than SIGKILL.
        let id = self.child.id().to_string();
        let told = Command::new("kill").args([&format!("-{signal}"), &id]).status();
        ensure!(told.context("running kill")?.success(), "process {id} is gone");
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Ok(None) = self.ended()
            && let Err(error) = self.kill()
        {
            eprintln!("a process is left over: {error:#}");
        }
    }
}
