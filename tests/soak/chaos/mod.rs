//! Chaos with books: several processes on three Kafka nodes, faults as a seed plans them, and the ledger of every record.
//!
//! Two drivers play it: a test in the gate, small, and the soak, large. It owns everything but the nodes, which they start
//! once for many rounds.

pub(crate) mod books;
pub(crate) mod fates;
pub(crate) mod fleet;
pub(crate) mod load;
pub(crate) mod naive;
mod nodes;
mod process;
mod round;
mod schedule;
pub(crate) mod stage;
mod subject;

pub(crate) use round::{Done, Outcome, Round};
pub(crate) use schedule::Size;
pub(crate) use subject::Subject;
