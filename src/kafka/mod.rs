//! Kafka: the only home of the client library.
//!
//! Owns every client, what they are configured with, and the translation between their types and the core's. Decides
//! nothing about a record. No signature outside this module mentions a type of the client library.

pub(crate) mod epochs;
#[cfg(test)]
mod fixture;
pub(crate) mod group;
mod producer;
mod settings;
mod stopwatch;
pub(crate) mod transaction;
