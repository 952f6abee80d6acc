//! A handler written in Rust. A topology asks for it by its name: `handler.rust = { name = "apply-payment" }`.
//!
//! Try it with `cargo run --example handler -- TOPOLOGY`.

use std::process::ExitCode;

use redrive::core::class::{Class, ReasonName};
use redrive::core::event::Delivery;
use redrive::core::outcome::Outcome;
use redrive::handler::{Handler, Handlers};
use redrive::runtime::{self, Shutdown};
use redrive::topology::environment::Process;
use redrive::topology::model::Topology;

const NO_AMOUNT: ReasonName = ReasonName::from_static("no-amount");
const LEDGER_BUSY: ReasonName = ReasonName::from_static("ledger-busy");

/// Applies payments: the value is an amount, the output the receipt.
struct ApplyPayment;

impl Handler for ApplyPayment {
    async fn handle(&self, delivery: Delivery) -> Outcome {
        let value = delivery.envelope.value.as_deref().unwrap_or_default();
        let Some(amount) = std::str::from_utf8(value).ok().and_then(|text| text.parse::<u64>().ok()) else {
            // Repeating cannot help: a dead letter at once.
            return Outcome::failed(Class::Permanent, NO_AMOUNT, "the value is no amount");
        };
        // The same on every attempt and after every crash, so that the ledger takes each operation once.
        let operation = delivery.envelope.operation_id();
        match apply(&operation, amount) {
            Ok(receipt) => Outcome::output(&delivery.envelope, Some(receipt.into())),
            // May heal: again in place, then through the tiers.
            Err(why) => Outcome::failed(Class::Transient, LEDGER_BUSY, why),
        }
    }
}

/// Stands for the ledger, which is busy for every seventh amount.
fn apply(operation: &[u8], amount: u64) -> Result<String, &'static str> {
    let operation = String::from_utf8_lossy(operation);
    if amount.is_multiple_of(7) { Err("the ledger is busy") } else { Ok(format!("{operation}: {amount}")) }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args_os().nth(1).ok_or("usage: handler TOPOLOGY")?;
    let topology = Topology::load(file.as_ref(), &Process)?;
    let handlers = Handlers::new().with("apply-payment", ApplyPayment);
    Ok(runtime::run(&topology, &handlers, "0", &Shutdown::on_signals()?)?)
}
