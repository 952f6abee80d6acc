//! What a guard costs: records per second with and without it and beside a bare loop, and how long its keys take to be
//! restored.
//!
//! `make bench` runs it. It starts a Kafka of its own, unless it is told of one. A comparison is made of runs that alternate
//! on the same brokers, so that what the machine does meanwhile strikes all of them.

mod bare;
mod load;
mod rates;
mod restore;
mod stage;
mod worker;

#[allow(dead_code, reason = "a benchmark keeps nothing")]
#[path = "../demo/broker.rs"]
mod broker;
#[allow(dead_code, reason = "a benchmark reads what is committed only")]
#[path = "../support/found.rs"]
mod found;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;

use crate::broker::Broker;
use crate::load::Load;
use crate::stage::Stage;

/// What a guard costs, and how long its keys take to be restored.
#[derive(Parser, Debug)]
struct Options {
    /// How many records, each with a key of its own.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(100..=20_000_000))]
    records: u32,
    /// Partitions of every topic.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(i32).range(1..=1_000))]
    partitions: i32,
    /// How often each of the three is run.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// How many partitions without any state are taken over; 0: that is left out.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(i32).range(0..=1_000))]
    empty_partitions: i32,
    /// Records of a task that may be in flight, and so in a transaction. Ten times what a topology has that says nothing: there
    /// the time of a commit counts, and a guard costs nearly nothing.
    #[arg(long, default_value_t = 2_500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    window: u32,
    /// `host:port` of brokers that run already.
    #[arg(long)]
    bootstrap: Option<String>,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    let folder = tempfile::Builder::new().prefix("redrive-bench-").tempdir().context("making a folder")?;
    let broker;
    let bootstrap = match &options.bootstrap {
        Some(bootstrap) => bootstrap,
        None => {
            broker = Broker::start(folder.path().join("kafka"), false)?;
            &broker.bootstrap
        }
    };
    let stage = Stage::new(bootstrap, folder.path())?;
    let load = Load { records: options.records, partitions: options.partitions };
    let source = stage.topic("source", load.partitions)?;
    load.send(bootstrap, &source)?;
    let guarded = rates::compare(&stage, &source, load, options)?;
    restore::of_keys(&stage, &guarded, load)?;
    if options.empty_partitions > 0 {
        restore::of_nothing(&stage, options.empty_partitions)?;
    }
    Ok(())
}
