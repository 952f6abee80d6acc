//! The topology: what a user declares, compiled to values that are valid by construction.

pub mod model;
