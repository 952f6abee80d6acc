//! The pure core: decides the fate of every record, without a clock, IO or threads.
//!
//! Owns the rules of failure, order and commit. Everything it knows arrives as an [`event::Event`] together with the
//! time; everything it wants done leaves as an [`event::Action`]. So a whole cluster of workers runs in a seeded
//! simulation.

pub mod class;
pub mod classify;
mod clock;
mod closed;
pub mod control;
pub mod decoded;
pub mod envelope;
pub mod event;
pub mod guard;
pub mod headers;
mod held;
pub mod history;
pub mod invariant;
mod lane;
pub mod outcome;
pub mod pointer;
pub mod policy;
pub mod position;
pub mod processor;
mod random;
pub mod record;
pub mod route;
pub mod state;
mod task;
pub mod time;
