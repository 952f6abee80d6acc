//! Codecs: what the values of records hold, as far as a pipeline goes by it.
//!
//! Owns how values are read. The bytes themselves stay what they are: whatever is read out of them, copies and dead letters carry
//! them unchanged.

pub mod json;
