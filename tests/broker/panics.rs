//! A panic of a handler is a defect of it: the process ends with an error and never limps on.

use std::env;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use redrive::core::event::Delivery;
use redrive::core::outcome::Outcome;
use redrive::handler::{Handler, Handlers};
use redrive::runtime::{Shutdown, run};
use redrive::topology::environment::Process as Environment;
use redrive::topology::model::Topology;

use crate::binary::ended;
use crate::process::{Process, eventually};
use crate::support::Kafka;
use crate::topology::Draft;

/// Where the child of a test finds its topology; what has it is the child.
const TOPOLOGY: &str = "REDRIVE_TEST_TOPOLOGY";

struct AtOnce;

impl Handler for AtOnce {
    async fn handle(&self, _: Delivery) -> Outcome {
        panic!("a defect at the first poll");
    }
}

struct Later;

impl Handler for Later {
    async fn handle(&self, _: Delivery) -> Outcome {
        tokio::task::yield_now().await;
        panic!("a defect after a wait");
    }
}

struct Sound;

impl Handler for Sound {
    async fn handle(&self, delivery: Delivery) -> Outcome {
        Outcome::output(&delivery.envelope, delivery.envelope.value.clone())
    }
}

#[test]
fn a_handler_that_panics_on_the_workers_thread_ends_the_process() -> ExitCode {
    ends_the_process(
        "panics::a_handler_that_panics_on_the_workers_thread_ends_the_process",
        AtOnce,
        "a defect at the first poll",
    )
}

#[test]
fn a_handler_that_panics_on_another_thread_ends_the_process() -> ExitCode {
    ends_the_process(
        "panics::a_handler_that_panics_on_another_thread_ends_the_process",
        Later,
        "a defect after a wait",
    )
}

/// Runs this test once more in a process of its own, which works with that handler, and looks at how it ends.
fn ends_the_process(test: &str, handler: impl Handler, words: &str) -> ExitCode {
    if let Some(topology) = env::var_os(TOPOLOGY) {
        return work(topology.as_ref(), Handlers::new().with("test", handler));
    }
    let kafka = Kafka::shared();
    let draft = Draft::new(kafka, 1).handler("test");
    let topology = draft.made(kafka);
    let pipeline = topology.pipelines.first().unwrap();
    let output = pipeline.output.as_ref().unwrap().as_str();
    kafka.produce(pipeline.source.as_str(), Some(0), &[(Some(b"key"), Some(b"value"))]);

    let folder = tempfile::tempdir().unwrap();
    let (file, log) = (folder.path().join("topology.toml"), folder.path().join("log"));
    File::create(&file).unwrap().write_all(draft.text(kafka).as_bytes()).unwrap();
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(TOPOLOGY, &file).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(File::create(&log).unwrap());
    let status = ended(&mut command.spawn().unwrap());
    let log = std::fs::read_to_string(log).unwrap();
    assert!(!status.success(), "{log}");
    assert!(log.contains(words) && log.contains("a panic ends the process"), "{status}: {log}");
    assert_eq!(kafka.read(output), [], "nothing is committed for it");

    let process = Process::start_with(&topology, "a", Handlers::new().with("test", Sound));
    eventually("a sound handler gets the record", || kafka.read(output).len() == 1);
    process.end().expect("a clean end");
    ExitCode::SUCCESS
}

/// As a program with a handler of its own does it.
fn work(topology: &Path, handlers: Handlers) -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let topology = Topology::load(topology, &Environment).unwrap_or_else(|problems| panic!("{problems}"));
    match run(&topology, &handlers, "a", &Shutdown::new()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => panic!("{error}"),
    }
}
