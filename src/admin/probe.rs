//! What a probe is told: pure functions of what the workers noted.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use crate::admin::health::{Membership, Pulse, Snapshot, Transacting, Worker};
use crate::core::time::{Monotonic, in_words};
use crate::telemetry::blocked::BlockedBy;

/// A worker that has not finished a turn of its loop for this long is stuck. Its loop waits 100 ms at most.
const LONGEST_TURN: Duration = Duration::from_secs(10);

/// A worker whose start has said nothing for this long is stuck. While it waits for brokers it says every few seconds that
/// it does; before that, all topics are looked at, each within 15 s.
const LONGEST_START: Duration = Duration::from_secs(300);

/// A transactor that has said nothing for so many transaction timeouts is stuck in a call of the client: all the waits of a
/// transaction, one after another, take fewer. Whatever the timeout, it has [`LEAST_STUCK`].
const STUCK: u32 = 10;

/// Not even a transactor whose transactions are to be short is given up before.
const LEAST_STUCK: Duration = Duration::from_secs(600);

/// A worker may be without an assignment for this long, as during a rebalance, and still count as ready.
const LONGEST_UNASSIGNED: Duration = Duration::from_secs(60);

/// What a probe is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Why not; none: all is well.
    pub against: Vec<String>,
    /// What people should know all the same.
    pub notes: Vec<String>,
}

impl Verdict {
    /// Whether nothing speaks against it.
    pub const fn is_good(&self) -> bool {
        self.against.is_empty()
    }
}

impl fmt::Display for Verdict {
    /// One thing a line, what speaks against it first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_good() {
            writeln!(f, "ok")?;
        }
        self.against.iter().chain(&self.notes).try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// Whether every worker's loop turns, or is about to, and the client answers its transactor. If not, only a restart helps.
pub fn live(snapshot: &Snapshot, now: Monotonic) -> Verdict {
    let mut verdict = Verdict::default();
    for Worker { name, pulse, transacting, .. } in &snapshot.workers {
        if let Some(Transacting { heard, timeout, .. }) = transacting
            && now.since(*heard) > timeout.saturating_mul(STUCK).max(LEAST_STUCK)
        {
            let seconds = now.since(*heard).as_secs();
            let what = format!(
                "worker `{name}` has had no answer of the Kafka client to its transaction for {seconds} s"
            );
            verdict.against.push(what);
        }
        match pulse {
            Pulse::Starting { last } if now.since(*last) > LONGEST_START => {
                let seconds = now.since(*last).as_secs();
                let what = format!("worker `{name}` has said nothing of its start for {seconds} s");
                verdict.against.push(what);
            }
            Pulse::Turning { last } if now.since(*last) > LONGEST_TURN => {
                let seconds = now.since(*last).as_secs();
                let what = format!("worker `{name}` has not finished a turn of its loop for {seconds} s");
                verdict.against.push(what);
            }
            Pulse::Starting { .. } | Pulse::Turning { .. } => {}
        }
    }
    verdict
}

/// Whether the process does its part: every worker is in the group with its producers, and a broker answers. Tasks that
/// wait for a topic are noted, but a restart would not help them.
pub fn ready(snapshot: &Snapshot, now: Monotonic) -> Verdict {
    let mut verdict = Verdict::default();
    if let Some(why) = &snapshot.fatal {
        verdict.against.push(format!("fatal error: {why}"));
    }
    for worker in &snapshot.workers {
        let name = &worker.name;
        if !worker.producers_ready {
            verdict.against.push(format!("worker `{name}` has not initialised its producers yet"));
        }
        match worker.membership {
            Membership::Joining => {
                verdict.against.push(format!("worker `{name}` has had no assignment from its group yet"));
            }
            Membership::Outside { since } if now.since(since) > LONGEST_UNASSIGNED => {
                let seconds = now.since(since).as_secs();
                verdict.against.push(format!("worker `{name}` has been outside its group for {seconds} s"));
            }
            Membership::Outside { .. } | Membership::Member { .. } => {}
        }
        if let Some(transacting) = &worker.transacting
            && now.since(transacting.since) > transacting.late_after()
        {
            let seconds = now.since(transacting.since).as_secs();
            let timeout = in_words(transacting.timeout);
            verdict.notes.push(format!(
                "worker `{name}` has a transaction under way for {seconds} s, and all its tasks wait for that \
                 (`transaction-timeout` is {timeout})"
            ));
        }
        for by in &worker.blocked {
            match by {
                BlockedBy::Broker => verdict.against.push(format!("worker `{name}` reaches no broker")),
                BlockedBy::Source => {
                    verdict
                        .notes
                        .push(format!("worker `{name}` has tasks that wait: their source cannot be read"));
                }
                BlockedBy::MemberName => {
                    let seconds = worker.name_until.since(now).as_secs();
                    verdict.notes.push(format!(
                        "worker `{name}` waits for its name in the group: another process has it, or had it and its \
                         session is not over; after {seconds} s at most it has it or ends"
                    ));
                }
                BlockedBy::PositionsStale => {
                    let text = "has tasks that wait for a person (positions-stale)";
                    verdict.notes.push(format!("worker `{name}` {text}"));
                }
                BlockedBy::Partitions => {
                    let text = "has tasks that wait: topics of redrive's own have too few partitions";
                    verdict.notes.push(format!("worker `{name}` {text}"));
                }
                BlockedBy::Output
                | BlockedBy::StaleOutput
                | BlockedBy::Tier
                | BlockedBy::DeadLetter
                | BlockedBy::State => {
                    let by = by.as_str();
                    verdict
                        .notes
                        .push(format!("worker `{name}` has tasks that wait: `{by}` cannot be written"));
                }
                BlockedBy::Cases | BlockedBy::Audit => {
                    let by = by.as_str();
                    verdict
                        .notes
                        .push(format!("worker `{name}` answers no request: `{by}` cannot be written"));
                }
            }
        }
        for (task, next, end) in &worker.restores {
            let text = "is being read from the state topic, up to offset";
            verdict.notes.push(format!("worker `{name}`: the state of task {task} {text} {next} of {end}"));
        }
        // Several tasks may wait for the same.
        let asks: BTreeSet<&String> = worker.asks.iter().collect();
        verdict.notes.extend(asks.into_iter().map(|command| format!("hint: {command}")));
    }
    verdict
}

#[cfg(test)]
mod tests;
