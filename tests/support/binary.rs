//! The binary, run as users run it.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use redrive::fail_point::VARIABLE;
use signal_hook::consts::{SIGCONT, SIGTERM};
use tempfile::NamedTempFile;

use crate::process::eventually;

/// Not among those that a program may handle.
const SIGSTOP: i32 = 19;
/// As above.
const SIGKILL: i32 = 9;

/// A running `redrive run`. Dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Binary {
    child: Child,
    _topology: NamedTempFile,
}

impl Binary {
    /// Starts it on the text of a topology on which it cannot work: its exit code, and what it says.
    pub(crate) fn fails(topology: &str) -> (Option<i32>, String) {
        let words = NamedTempFile::new().expect("a file");
        let mut process = Self::run_with(topology, 0, &[], words.reopen().expect("the same file").into());
        let code = process.wait().code();
        (code, std::fs::read_to_string(words.path()).expect("what it said"))
    }

    /// Starts it on the text of a topology.
    pub(crate) fn run(topology: &str, instance: u32) -> Self {
        Self::run_with(topology, instance, &[], Stdio::inherit())
    }

    /// As [`Self::run`], with orders at fail points.
    pub(crate) fn run_to(topology: &str, instance: u32, orders: &str) -> Self {
        Self::run_with(topology, instance, &[(VARIABLE, orders)], Stdio::inherit())
    }

    /// Starts it on the text of a topology, and keeps what it says.
    pub(crate) fn heard(topology: &str, instance: u32) -> (Self, Words) {
        Self::heard_with(topology, instance, "warn", &[])
    }

    /// As [`Self::heard`], with orders at fail points; it says more.
    pub(crate) fn heard_to(topology: &str, instance: u32, orders: &str) -> (Self, Words) {
        Self::heard_with(topology, instance, "info", &[(VARIABLE, orders)])
    }

    fn heard_with(topology: &str, instance: u32, level: &str, variables: &[(&str, &str)]) -> (Self, Words) {
        let words = NamedTempFile::new().expect("a file");
        let stderr = words.reopen().expect("the same file").into();
        (Self::run_at(level, topology, instance, variables, stderr), Words(words))
    }

    /// Starts it on the text of a topology, with a calendar that is `skew` milliseconds ahead.
    pub(crate) fn run_ahead(topology: &str, instance: u32, skew: i64) -> Self {
        Self::run_with(topology, instance, &[("REDRIVE_CLOCK_SKEW_MS", &skew.to_string())], Stdio::inherit())
    }

    /// Whether it has ended, and how.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("look at the process")
    }

    fn run_with(topology: &str, instance: u32, variables: &[(&str, &str)], stderr: Stdio) -> Self {
        Self::run_at("warn", topology, instance, variables, stderr)
    }

    fn run_at(level: &str, topology: &str, instance: u32, variables: &[(&str, &str)], stderr: Stdio) -> Self {
        let mut file = NamedTempFile::new().expect("a file");
        file.write_all(topology.as_bytes()).expect("write the topology");
        let mut command = Command::new(env!("CARGO_BIN_EXE_redrive"));
        command
            .args(["run", "--log-level", level, "--instance", &instance.to_string(), "-f"])
            .arg(file.path())
            .envs(variables.iter().copied());
        let child = command.stdin(Stdio::null()).stderr(stderr).spawn().expect("run redrive");
        Self { child, _topology: file }
    }

    /// The memory it holds, in bytes, as Linux counts it; 0 before it is known.
    pub(crate) fn memory(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("read what Linux tells of the process");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kib.unwrap_or(0) << 10
    }

    /// Ends it by SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("it has ended");
    }

    /// Stops it where it is, as if all its threads were never scheduled.
    pub(crate) fn freeze(&self) {
        self.signal(SIGSTOP);
    }

    /// Lets it go on after [`Self::freeze`].
    pub(crate) fn thaw(&self) {
        self.signal(SIGCONT);
    }

    /// Tells it to end and does not wait.
    pub(crate) fn tell_to_end(&self) {
        self.signal(SIGTERM);
    }

    /// Tells it to end and waits.
    pub(crate) fn end(mut self) -> ExitStatus {
        self.tell_to_end();
        self.wait()
    }

    fn signal(&self, signal: i32) {
        let id = self.child.id().to_string();
        let told = Command::new("kill").args([&format!("-{signal}"), &id]).status().expect("run kill");
        assert!(told.success());
    }

    /// Waits until it ends, and says whether SIGKILL did that.
    pub(crate) fn was_killed(&mut self) -> bool {
        self.wait().signal() == Some(SIGKILL)
    }

    /// Whether it runs.
    pub(crate) fn runs(&mut self) -> bool {
        self.child.try_wait().expect("look at the process").is_none()
    }

    /// Waits until it ends.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        ended(&mut self.child)
    }
}

/// What a process says.
#[derive(Debug)]
pub(crate) struct Words(NamedTempFile);

impl Words {
    /// What it has said so far.
    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(self.0.path()).expect("what it said")
    }
}

impl Drop for Binary {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits, within bounds, until a child has ended.
pub(crate) fn ended(child: &mut Child) -> ExitStatus {
    let mut status = None;
    eventually("the process ends", || {
        status = child.try_wait().expect("look at the process");
        status.is_some()
    });
    status.expect("it has ended")
}
