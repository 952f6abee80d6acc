//! How many bytes things take that there are millions of, counted where they are allocated.
//!
//! A target of its own: the counting allocator would slow down all others.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test may panic")]

mod counted;
#[cfg(feature = "runtime")]
mod json;
mod versions;
