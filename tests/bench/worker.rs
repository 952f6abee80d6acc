//! One `redrive run` process, and what Linux tells of it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::stage::{Pipeline, redrive};

/// From SIGTERM on.
const STOPS_WITHIN: Duration = Duration::from_secs(60);
/// Linux counts the time of a processor in these.
const TICKS_PER_SECOND: f64 = 100.0;

/// Killed when dropped, if it still runs.
#[derive(Debug)]
pub(crate) struct Worker {
    child: Child,
    log: PathBuf,
    pub(crate) begun: Instant,
}

impl Worker {
    pub(crate) fn start(pipeline: &Pipeline) -> Result<Self> {
        let log = pipeline.file.with_extension("log");
        let told = File::options().create(true).append(true).open(&log).context("opening a log")?;
        let begun = now();
        let mut command = redrive()?;
        command.args(["run", "--instance", "0", "-f"]).arg(&pipeline.file).stdin(Stdio::null());
        command.stdout(told.try_clone().context("opening a log")?).stderr(told);
        let child = command.spawn().context("starting redrive")?;
        Ok(Self { child, log, begun })
    }

    /// Fails where it ended by itself.
    pub(crate) fn check(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait().context("looking at redrive")? {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            let last: Vec<&str> = log.lines().rev().take(15).collect();
            let last: Vec<&str> = last.into_iter().rev().collect();
            bail!("redrive ended by itself ({status})\n{}", last.join("\n"));
        }
        Ok(())
    }

    /// Seconds of a processor that it has taken so far.
    pub(crate) fn processor_time(&self) -> Result<f64> {
        processor_time(&self.child.id().to_string())
    }

    /// MB of memory: now, and the most so far.
    pub(crate) fn memory(&self) -> Result<(u64, u64)> {
        let status = read(&format!("/proc/{}/status", self.child.id()))?;
        let mb = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
            kib.map(|kib| kib * 1024 / 1_000_000).with_context(|| format!("Linux tells no {name}"))
        };
        Ok((mb("VmRSS:")?, mb("VmHWM:")?))
    }

    /// Sends SIGTERM and waits.
    pub(crate) fn end(mut self) -> Result<()> {
        let sent =
            Command::new("sh").args(["-c", "kill -TERM \"$0\"", &self.child.id().to_string()]).status();
        ensure!(sent.context("sending SIGTERM")?.success(), "redrive is gone");
        let begun = now();
        while begun.elapsed() < STOPS_WITHIN {
            if let Some(status) = self.child.try_wait().context("waiting for redrive")? {
                ensure!(status.success(), "redrive stopped with {status}");
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!("redrive did not stop within {} s of SIGTERM", STOPS_WITHIN.as_secs());
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Seconds of a processor that this program has taken so far.
pub(crate) fn own_processor_time() -> Result<f64> {
    processor_time("self")
}

fn processor_time(process: &str) -> Result<f64> {
    let stat = read(&format!("/proc/{process}/stat"))?;
    // The name stands in brackets and may hold anything.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u32>().ok());
    Ok(ticks.map(f64::from).sum::<f64>() / TICKS_PER_SECOND)
}

fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(Path::new(path)).with_context(|| format!("reading `{path}`"))
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
