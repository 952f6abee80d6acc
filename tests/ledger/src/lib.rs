//! The ledger: proves from what Kafka holds that every source record has exactly one fate.
//!
//! Knows nothing of redrive's code. It takes plain records as read back with `read_committed`, the group's committed
//! offsets, the ends of the partitions and, where there is one, the handler's own log, and finds what was lost, doubled,
//! torn, early, miscounted, changed, misplaced, out of order, left over or left open. Reading from Kafka is not its
//! business.
//!
//! [`audit`] judges a run that has ended, [`Ledger`] does the same piece by piece, and [`Watch`] judges a run that goes
//! on. The README beside this crate says what is proved and what is not.

mod chain;
mod control;
mod history;
mod kind;
mod lanes;
mod ledger;
mod life;
mod lives;
mod order;
mod print;
mod report;
mod request;
mod rules;
mod watch;

pub use history::{Commit, Ends, History, Part, Role, Seen, Start};
pub use kind::{Finding, Kind};
pub use ledger::Ledger;
pub use print::Tally;
pub use report::{Lateness, Report};
pub use rules::{Cut, Offsets, Order, OutputValue, Rules};
pub use watch::{Next, Watch};

/// Checks a history against what the pipeline promises.
pub fn audit(rules: &Rules, history: &History) -> Report {
    let mut ledger = Ledger::new(rules.clone());
    let (source, others) = history.records.iter().partition::<Vec<_>, _>(|seen| seen.role == Role::Source);
    source.into_iter().chain(others).for_each(|seen| ledger.record(seen));
    history.commits.iter().for_each(|commit| ledger.commit(*commit));
    history.ends.iter().for_each(|ends| ledger.ends(*ends));
    if let Some(starts) = &history.starts {
        ledger.calls(starts);
    }
    ledger.report()
}
