//! The soak: rounds of chaos on three Kafka nodes until a million records went through a hundred SIGKILLs, and the ledger
//! of every one of them; then the same schedule on a naive worker, which must fail.
//!
//! `make soak` runs it. What is done is kept in a folder, so that a run that was ended goes on with its next round.

mod chaos;
mod goal;
mod naive_worker;
mod rounds;
mod state;

#[path = "../support/cluster.rs"]
mod cluster;
#[path = "../support/ends.rs"]
mod ends;
#[path = "../support/found.rs"]
mod found;
#[path = "../support/handler.rs"]
mod handler;
#[allow(dead_code, clippy::as_conversions, clippy::indexing_slicing, reason = "made for tests")]
#[path = "../it/sim/random.rs"]
mod random;
#[path = "../support/readback.rs"]
mod readback;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use redrive_ledger as ledger;

use chaos::naive::Work;

/// Rounds of chaos on three Kafka nodes, with a ledger of every record.
#[derive(Parser, Debug)]
struct Options {
    #[command(subcommand)]
    command: Option<Command>,
    /// Where it is kept what is done; a run that was ended goes on from there.
    #[arg(long, default_value = "target/soak")]
    folder: PathBuf,
    /// Begin anew, whatever the folder holds.
    #[arg(long)]
    fresh: bool,
    /// Determines the schedule of a run that begins; by default another one each time.
    #[arg(long)]
    seed: Option<u64>,
    /// After so many minutes nothing new is begun; what was sent is worked off and audited.
    #[arg(long, env = "SOAK_MINUTES")]
    minutes: Option<u64>,
    /// Records of a round.
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1_000..=500_000))]
    round: u32,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Be the naive worker of the control run.
    #[command(hide = true, name = Work::COMMAND)]
    NaiveWorker(Work),
}

fn main() -> ExitCode {
    let options = Options::parse();
    let ended = match &options.command {
        Some(Command::NaiveWorker(work)) => naive_worker::run(work).map(|()| rounds::Verdict::Good),
        None => rounds::run(&options),
    };
    match ended {
        Ok(rounds::Verdict::Good) => ExitCode::SUCCESS,
        Ok(rounds::Verdict::Bad) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("soak: {error:#}");
            ExitCode::FAILURE
        }
    }
}
