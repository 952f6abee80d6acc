//! redrive: a Kafka-native retry-topic stream processor.

pub mod core;
pub mod topology;

#[cfg(feature = "runtime")]
pub mod admin;
#[cfg(feature = "runtime")]
pub mod handler;
#[cfg(feature = "runtime")]
pub(crate) mod kafka;
#[cfg(feature = "runtime")]
pub mod runtime;
#[cfg(feature = "runtime")]
pub mod telemetry;
