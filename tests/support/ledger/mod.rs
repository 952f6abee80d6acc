//! The ledger: proves from what Kafka holds that every source record has exactly one fate.
//!
//! Knows nothing of redrive's code. It takes plain records as read back with `read_committed`, the group's committed
//! offsets and, where there is one, the handler's own log, and finds what was lost, doubled, torn, early, miscounted,
//! changed, misplaced or out of order. Reading from Kafka is not its business.

mod chain;
mod control;
mod life;
mod order;
mod report;

use std::collections::BTreeMap;

pub(crate) use report::{Kind, Report};

/// The part that a topic plays in a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    Source,
    /// By its place in the ladder, from 0.
    Tier(usize),
    Output,
    DeadLetter,
}

/// A record as it was read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) role: Role,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    /// Milliseconds since the epoch.
    pub(crate) timestamp: i64,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    /// In order; a null value is not an empty one.
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
}

/// A committed offset of the pipeline's group: the next record to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) role: Role,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
}

/// One call as the handler itself logged it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) event_id: String,
    pub(crate) attempt: u32,
    pub(crate) execution: u32,
    /// Milliseconds since the epoch; `None` where the record did not have to wait.
    pub(crate) due: Option<i64>,
    /// When the call came, by the handler's clock.
    pub(crate) at: i64,
}

/// What the pipeline promises.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) source: String,
    /// The tiers' delays in milliseconds, in the ladder's order.
    pub(crate) delays: Vec<i64>,
    pub(crate) most_attempts: u32,
    /// The header that holds the event id; `None`: the origin is the event id.
    pub(crate) event_id: Option<String>,
    pub(crate) output: OutputValue,
    pub(crate) order: Order,
    pub(crate) cut: Cut,
}

/// What the one output record of a success must hold. Key and foreign headers are always those of the source record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputValue {
    Any,
    AsSource,
}

/// Which records of a key must come out in the order in which they went in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Unchecked,
    /// Those that never waited in a tier.
    FirstTries,
    All,
}

/// When the records were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Records may be unread, and may wait.
    Running,
    /// Nothing may be left.
    Drained,
}

/// All that is known of a run.
#[derive(Clone, Debug)]
pub(crate) struct History {
    pub(crate) records: Vec<Seen>,
    pub(crate) commits: Vec<Commit>,
    /// `None`: the handler kept no log, and what only it can tell is not checked.
    pub(crate) starts: Option<Vec<Start>>,
}

/// Checks a history against what the pipeline promises.
pub(crate) fn audit(rules: &Rules, history: &History) -> Report {
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

impl Rules {
    /// What people call a topic of this role.
    fn topic(&self, role: Role) -> String {
        match role {
            Role::Source => self.source.clone(),
            Role::Tier(tier) => format!("tier {tier}"),
            Role::Output => "output".to_owned(),
            Role::DeadLetter => "dead letters".to_owned(),
        }
    }

    fn place(&self, record: &Seen) -> String {
        format!("{}/{}/{}", self.topic(record.role), record.partition, record.offset)
    }
}
