//! The ledger: proves from what Kafka holds that every source record has exactly one fate.
//!
//! Knows nothing of redrive's code. It takes plain records as read back with `read_committed`, the group's committed
//! offsets and, where there is one, the handler's own log, and finds what was lost, doubled, torn, early, miscounted,
//! changed, misplaced or out of order. Reading from Kafka is not its business.

mod chain;
mod control;
mod history;
mod life;
mod order;
mod report;
mod rules;

use std::collections::BTreeMap;

pub use history::{Commit, History, Role, Seen, Start};
pub use report::{Finding, Kind, Lateness, Report};
pub use rules::{Cut, Order, OutputValue, Rules};

/// Checks a history against what the pipeline promises.
pub fn audit(rules: &Rules, history: &History) -> Report {
    let mut report = Report::default();
    let commits = Commits::of(&history.commits);
    let lives = life::gather(rules, history, &mut report);
    for life in lives.values() {
        chain::check(rules, &commits, life, history.starts.is_some(), &mut report);
    }
    order::check(rules, &lives, &mut report);
    if rules.cut == Cut::Drained {
        lag(rules, history, &commits, &mut report);
    }
    report.finish();
    report
}

/// The committed offsets by lane.
struct Commits(BTreeMap<(Role, i32), i64>);

impl Commits {
    fn of(commits: &[Commit]) -> Self {
        Self(commits.iter().map(|commit| ((commit.role, commit.partition), commit.offset)).collect())
    }

    /// Whether the group has committed past this record.
    fn cover(&self, record: &Seen) -> bool {
        self.0.get(&(record.role, record.partition)).is_some_and(|next| record.offset < *next)
    }
}

/// Counted in records: behind the last one may be transaction markers, which take offsets too.
fn lag(rules: &Rules, history: &History, commits: &Commits, report: &mut Report) {
    let mut left: BTreeMap<(Role, i32), usize> = BTreeMap::new();
    let lanes = |record: &&Seen| matches!(record.role, Role::Source | Role::Tier(_));
    for record in history.records.iter().filter(lanes).filter(|record| !commits.cover(record)) {
        *left.entry((record.role, record.partition)).or_default() += 1;
    }
    for ((role, partition), count) in left {
        let place = format!("{}/{partition}", rules.topic(role));
        report.find(Kind::Lag, place, format!("`{count}` records are not committed after the drain"));
    }
}
