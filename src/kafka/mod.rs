//! Kafka: the only home of the client library.
//!
//! Owns every client, what they are configured with, and the translation between their types and the core's. Decides
//! nothing about a record. No signature outside this module mentions a type of the client library.

pub(crate) mod admin;
#[cfg(test)]
#[cfg(feature = "broker-tests")]
#[path = "../../tests/support/kafka.rs"]
pub(crate) mod broker;
pub(crate) mod build;
mod context;
mod convert;
pub(crate) mod desk;
pub(crate) mod epochs;
pub(crate) mod error;
#[cfg(test)]
pub(crate) mod fixture;
pub(crate) mod group;
pub(crate) mod lookup;
mod producer;
mod raw;
pub(crate) mod reader;
mod settings;
pub(crate) mod source;
pub(crate) mod start;
pub(crate) mod state_log;
mod stopwatch;
pub(crate) mod transaction;

pub(crate) use context::GroupChange;
