//! What needs nothing outside: no broker, no network.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test may panic")]

#[cfg(feature = "runtime")]
mod admin;
#[cfg(feature = "runtime")]
mod cli;
mod fail_points;
#[cfg(feature = "runtime")]
mod handlers;
mod layers;
mod order;
mod props;
mod sim;
mod topologies;
