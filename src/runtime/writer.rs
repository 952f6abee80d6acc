//! A number that no other worker has, or had.

use std::hash::{BuildHasher, RandomState};

use crate::core::position::WriterId;

/// Draws a number at random.
pub(super) fn draw() -> WriterId {
    // Seeded by the system once per thread and counted up from there; no two draws of a process are alike.
    WriterId(RandomState::new().hash_one(std::process::id()))
}
