//! Proofs that need a real Kafka, which the run starts itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test may panic")]

use redrive_ledger as ledger;

#[path = "../support/kafka.rs"]
mod support;
use support::found;

#[path = "../support/binary.rs"]
mod binary;
#[path = "../soak/chaos/mod.rs"]
mod chaos;
#[path = "../support/cluster.rs"]
mod cluster;
#[path = "../support/ends.rs"]
mod ends;
#[path = "../support/group.rs"]
mod group;
#[path = "../support/handler.rs"]
mod handler;
#[path = "../support/leaders.rs"]
mod leaders;
#[path = "../support/probe.rs"]
mod probe;
#[path = "../support/process.rs"]
mod process;
#[path = "../support/produce.rs"]
mod produce;
#[path = "../support/proxy.rs"]
mod proxy;
#[allow(dead_code, clippy::as_conversions, reason = "made for the simulation, which uses all of it")]
#[path = "../it/sim/random.rs"]
mod random;
#[path = "../support/readback.rs"]
mod readback;
#[path = "../support/rights.rs"]
mod rights;
#[path = "../support/scene.rs"]
mod scene;
#[path = "../support/size.rs"]
mod size;
#[path = "../support/small_disk.rs"]
mod small_disk;
#[path = "../support/stopwatch.rs"]
mod stopwatch;
#[path = "../support/topology.rs"]
mod topology;
#[path = "../support/watching.rs"]
mod watching;
#[path = "../support/watermarks.rs"]
mod watermarks;

mod bench;
mod bytes_kept;
mod clocks;
mod control;
mod coordinators_move;
mod end_to_end;
mod exhausted;
mod expired;
mod fail_points;
mod guard;
mod hangs;
mod held;
mod json;
mod kill_points;
mod killed;
mod lateness;
mod local_cluster;
mod local_kafka;
mod lost_verdict;
mod outages;
mod panics;
mod positions;
mod protocols;
mod refused;
mod refused_records;
mod remade;
mod source_grows;
mod stale;
mod tasks_move;
mod tiers_change;
mod trouble;
mod truncated;
mod twins;
mod unauthorised;
mod under_chaos;
mod versions;
mod waiting;
mod watched;
mod zombie;
