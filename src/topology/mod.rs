//! The topology: what a user declares, compiled to values that are valid by construction.
//!
//! Owns the language of the file, its start values and its bounds, and [the compiled form](model). Text enters through
//! [`Topology::compile`](model::Topology::compile), which tells every problem at once. Knows nothing of what a broker
//! says: whether topics exist is not decided here.

pub mod code;
pub mod diagnostic;
pub mod duration;
pub mod environment;
pub mod model;

mod address;
mod compile;
mod handler;
mod holding;
mod kafka;
mod keys;
mod moment;
mod name;
mod nearest;
mod neighbour;
mod order;
mod pipeline;
mod reading;
mod retry;
mod secret;
mod section;
mod size;
mod source;
mod topics;
mod value;
mod workers;
