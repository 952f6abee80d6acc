//! Proofs that need a real Kafka, which the run starts itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test may panic")]

#[path = "../support/kafka.rs"]
mod support;

#[path = "../support/binary.rs"]
mod binary;
#[path = "../support/group.rs"]
mod group;
#[path = "../support/process.rs"]
mod process;
#[path = "../support/produce.rs"]
mod produce;
#[path = "../support/topology.rs"]
mod topology;

mod bytes_kept;
mod end_to_end;
mod killed;
mod local_kafka;
mod positions;
mod tasks_move;
mod trouble;
