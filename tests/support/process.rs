//! redrive running in a thread of the test, and waiting for what it does.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use redrive::handler::Handlers;
use redrive::runtime::{RunError, Shutdown, run};
use redrive::topology::model::Topology;

use crate::size::patience;

/// A running redrive.
#[derive(Debug)]
pub(crate) struct Process {
    shutdown: Shutdown,
    thread: JoinHandle<Result<(), RunError>>,
}

#[allow(dead_code, reason = "every test target takes what it needs")]
impl Process {
    /// Starts one.
    pub(crate) fn start(topology: &Topology, instance: &str) -> Self {
        Self::start_with(topology, instance, Handlers::new())
    }

    /// Starts one with handlers written in Rust.
    pub(crate) fn start_with(topology: &Topology, instance: &str, handlers: Handlers) -> Self {
        // Shown where the test fails. Another test of the same process may have done it.
        let _ = tracing_subscriber::fmt().with_test_writer().with_max_level(tracing::Level::INFO).try_init();
        let shutdown = Shutdown::new();
        let (topology, instance, told) = (topology.clone(), instance.to_owned(), shutdown.clone());
        let thread = thread::spawn(move || run(&topology, &handlers, &instance, &told));
        Self { shutdown, thread }
    }

    /// Tells it to end and waits.
    pub(crate) fn end(self) -> Result<(), RunError> {
        self.shutdown.drain();
        self.thread.join().expect("no panic")
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits until it ends by itself.
    pub(crate) fn wait(self) -> Result<(), RunError> {
        eventually("the process ends", || self.has_ended());
        self.thread.join().expect("no panic")
    }
}

/// Asks again and again until it is so.
#[allow(clippy::disallowed_methods, reason = "the bound of a test's wait")]
pub(crate) fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let (started, patience) = (Instant::now(), patience());
    while !is() {
        assert!(started.elapsed() < patience, "not within {patience:?}: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}
