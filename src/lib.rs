//! redrive: a Kafka-native retry-topic stream processor.
//!
//! A **pipeline** reads a source topic, calls a **handler** for every record, and gives each record exactly one **fate**: its
//! result, a durable wait in a delay **tier**, or a **dead letter** with its whole history. The fate and the source offset
//! are committed in one Kafka transaction.
//!
//! # The map
//!
//! | module | what it owns |
//! |---|---|
//! | [`core`] | every decision, pure: no clock, no IO, no threads. [`core::processor::Processor`] is the state machine of one worker |
//! | [`topology`] | the TOML that users write, compiled to values that are valid by construction, all mistakes at once |
//! | `telemetry` | events that log and count together |
//! | `fail_point` | where tests have a process die; empty without the feature `fail-points` |
//! | [`codec`] | reads JSON: what a pipeline goes by that stands in values |
//! | [`handler`] | the trait [`handler::Handler`], HTTP, passthrough |
//! | `kafka` | the only home of the Kafka client: consumers, transactions, topics |
//! | `admin` | probes and metrics over HTTP |
//! | [`runtime`] | threads, clocks and signals around the core |
//! | `cli` | one file per subcommand, in the binary |
//!
//! A module imports from those above it only; `core` and `topology` build without the `runtime` feature, so their purity is
//! compiled, not promised.
//!
//! # The way of a record
//!
//! Event in, action out: the worker's thread reads its lanes and tells the core ([`core::event::Event::Fetched`]); the core
//! looks at the record, waits until it is due and its key is free, and has the handler run ([`core::event::Action::Handle`]).
//! The answer is classed ([`mod@core::classify`]) and routed ([`core::route`]). A prefix of settled records per lane becomes one
//! transaction ([`core::event::Action::Transact`]), which the transactor thread carries out whole. What a commit without
//! an answer did is told by a sequence number in the offset's metadata ([`core::position::CommitMark`]).
//!
//! # What holds
//!
//! 1. Output, retry copies, dead letters and the offsets of everything consumed are one transaction.
//! 2. Handlers are called at least once, with a stable operation id.
//! 3. No record is handed to a handler before it is due.
//! 4. Records of one key are handled one at a time; one that waits in a tier does not hold up its key.
//! 5. What cannot be written stops its tasks, visibly; nothing is skipped.
//! 6. Records that retention deleted unread are counted and reported.
//! 7. Key, value and foreign headers are kept byte for byte.
//! 8. Control headers count on redrive's own topics only, and within bounds.
//!
//! The invariants behind these are [`core::invariant::InvariantId`].
//!
//! # A program of your own
//!
//! ```no_run
//! use redrive::core::event::Delivery;
//! use redrive::core::outcome::Outcome;
//! use redrive::handler::{Handler, Handlers};
//! use redrive::runtime::{Shutdown, run};
//! use redrive::topology::environment::Process;
//! use redrive::topology::model::Topology;
//!
//! struct Echo;
//!
//! impl Handler for Echo {
//!     async fn handle(&self, delivery: Delivery) -> Outcome {
//!         Outcome::output(&delivery.envelope, delivery.envelope.value.clone())
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let topology = Topology::load("topology.toml".as_ref(), &Process)?;
//! run(&topology, &Handlers::new().with("echo", Echo), "0", &Shutdown::on_signals()?)?;
//! # Ok(())
//! # }
//! ```

pub mod core;
pub mod topology;

#[cfg(feature = "runtime")]
pub mod admin;
#[cfg(feature = "runtime")]
pub mod cli;
#[cfg(feature = "runtime")]
pub mod codec;
#[cfg(feature = "runtime")]
pub mod fail_point;
#[cfg(feature = "runtime")]
pub mod handler;
#[cfg(feature = "runtime")]
pub(crate) mod kafka;
#[cfg(feature = "runtime")]
pub mod runtime;
#[cfg(feature = "runtime")]
pub mod telemetry;

/// The examples of the README are tests.
#[cfg(all(doctest, feature = "runtime"))]
#[doc = include_str!("../README.md")]
pub struct Readme;
