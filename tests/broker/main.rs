//! Proofs that need a real Kafka, which the run starts itself.

#[path = "../support/kafka.rs"]
mod support;

mod local_kafka;
