//! The invariants by their ids, and what a breach of one says.

use std::fmt;

/// An invariant of the core. All are checked by the simulation and by properties; R1 to R4, R6, R8 and R9 while running,
/// too, as far as that costs nothing for a record: there a breach is counted and reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InvariantId {
    /// A committed transaction holds one fate for each record between the old and the new committed offset.
    R1,
    /// Nothing is committed for a task whose epoch is not current.
    R2,
    /// No record is handled before its due time.
    R3,
    /// Attempt grows by one per delivery that ended in an attempt, and never passes the limit.
    R4,
    /// The committed version of a key never goes down.
    R5,
    /// After an abort: position = last committed, nothing staged, results kept.
    R6,
    /// Retry, dead letter and replay keep key, value and foreign headers byte for byte, and lead to the origin.
    R7,
    /// At most one open transaction per worker, none while only waiting records exist.
    R8,
    /// At most one record per key is being handled in a task; held records leave in order.
    R9,
    /// In = emitted + dropped + obeyed + dead + waiting + held, at every read_committed cut.
    R10,
}

impl fmt::Display for InvariantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// An invariant that does not hold, and what was seen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invariant {id} is broken: {detail}")]
pub struct Breach {
    /// Which invariant.
    pub id: InvariantId,
    /// What was seen, with the numbers.
    pub detail: String,
}
