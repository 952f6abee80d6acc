//! The demo: two redrive processes on the shipped `topology/orders.toml`, a flaky handler, a real Kafka, one SIGKILL in
//! the middle, and at the end a ledger that was read back from Kafka and finds every record exactly once.
//!
//! `make demo` runs it. It starts what it needs on free ports in a folder of its own, and stops it again.

mod act;
mod broker;
mod handler;
mod load;
mod process;
mod progress;
mod show;
mod stage;

#[path = "../support/ends.rs"]
mod ends;
#[allow(dead_code, reason = "the demo reads what is committed only")]
#[path = "../support/found.rs"]
mod found;
#[path = "../support/handler.rs"]
mod http;
#[path = "../support/readback.rs"]
mod readback;
#[path = "../support/watching.rs"]
mod watching;

use std::process::ExitCode;

use clap::Parser;
use redrive_ledger as ledger;

/// Two processes, a flaky handler, a kill, and the ledger of every record.
#[derive(Parser, Debug)]
struct Options {
    /// How many records to send.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(100..=5_000_000))]
    records: u32,
    /// No record fails and no process is killed; prints records per second.
    #[arg(long)]
    calm: bool,
    /// Leave Kafka running and the logs in place, and say how to look into them.
    #[arg(long)]
    keep: bool,
}

fn main() -> ExitCode {
    match show::run(&Options::parse()) {
        Ok(show::Verdict::Good) => ExitCode::SUCCESS,
        Ok(show::Verdict::Bad) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}
