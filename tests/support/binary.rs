//! The binary, run as users run it.

use std::io::Write;
use std::process::{Child, Command, ExitStatus, Stdio};

use signal_hook::consts::SIGTERM;
use tempfile::NamedTempFile;

/// A running `redrive run`. Dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Binary {
    child: Child,
    _topology: NamedTempFile,
}

impl Binary {
    /// Starts it on the text of a topology.
    pub(crate) fn run(topology: &str, instance: u32) -> Self {
        let mut file = NamedTempFile::new().expect("a file");
        file.write_all(topology.as_bytes()).expect("write the topology");
        let mut command = Command::new(env!("CARGO_BIN_EXE_redrive"));
        command
            .args(["run", "--log-level", "warn", "--instance", &instance.to_string(), "-f"])
            .arg(file.path());
        let child = command.stdin(Stdio::null()).spawn().expect("run redrive");
        Self { child, _topology: file }
    }

    /// Ends it by SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("it has ended");
    }

    /// Tells it to end and waits.
    pub(crate) fn end(mut self) -> ExitStatus {
        let id = self.child.id().to_string();
        let told = Command::new("kill").args([&format!("-{SIGTERM}"), &id]).status().expect("run kill");
        assert!(told.success());
        self.wait()
    }

    /// Waits until it ends by itself.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("it has ended")
    }
}

impl Drop for Binary {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
