//! What the workers note about themselves, and what that means for a probe.
//!
//! Workers write, probes read; neither waits for the other. What a state means is decided by pure functions of a
//! snapshot.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::core::time::Monotonic;
use crate::telemetry::blocked::BlockedBy;

/// A worker that has not finished a turn of its loop for this long is stuck. Its loop waits 100 ms at most.
const LONGEST_TURN: Duration = Duration::from_secs(10);

/// A worker may be without an assignment for this long, as during a rebalance, and still count as ready.
const LONGEST_UNASSIGNED: Duration = Duration::from_secs(60);

/// The health of this process; clones share it.
#[derive(Clone, Debug)]
pub struct Health(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    workers: Vec<Notes>,
    fatal: OnceLock<String>,
}

/// What a worker notes. `membership` is written after what it speaks of and read before it; the others stand alone.
#[derive(Debug)]
struct Notes {
    name: String,
    beat: AtomicU64,
    producers: AtomicBool,
    tasks: AtomicUsize,
    membership: AtomicU8,
    outside_since: AtomicU64,
    blocked: AtomicU8,
}

/// Where one worker notes its health.
#[derive(Clone, Debug)]
pub struct WorkerHealth {
    shared: Arc<Shared>,
    index: usize,
}

impl Health {
    /// For the workers of these names, as people read them: `payments/0`. They count as alive from `now` on.
    pub fn new(workers: impl IntoIterator<Item = String>, now: Monotonic) -> Self {
        let notes = |name| Notes {
            name,
            beat: AtomicU64::new(millis(now)),
            producers: AtomicBool::new(false),
            tasks: AtomicUsize::new(0),
            membership: AtomicU8::new(JOINING),
            outside_since: AtomicU64::new(millis(now)),
            blocked: AtomicU8::new(0),
        };
        Self(Arc::new(Shared { workers: workers.into_iter().map(notes).collect(), fatal: OnceLock::new() }))
    }

    /// Where the worker at this place of the list notes its health; `None` behind the list's end.
    pub fn worker(&self, index: usize) -> Option<WorkerHealth> {
        (index < self.0.workers.len()).then(|| WorkerHealth { shared: Arc::clone(&self.0), index })
    }

    /// A fatal error that ends the process; the first one is kept.
    pub fn fatal(&self, why: &str) {
        let _ = self.0.fatal.set(why.to_owned());
    }

    /// What is noted now.
    pub fn snapshot(&self) -> Snapshot {
        let workers = self.0.workers.iter().map(Notes::read).collect();
        Snapshot { workers, fatal: self.0.fatal.get().cloned() }
    }
}

const JOINING: u8 = 0;
const MEMBER: u8 = 1;
const OUTSIDE: u8 = 2;

impl WorkerHealth {
    /// A turn of the loop ended.
    pub fn beat(&self, now: Monotonic) {
        self.note(|notes| notes.beat.store(millis(now), Ordering::Relaxed));
    }

    /// Both producers are initialised.
    pub fn producers_ready(&self) {
        self.note(|notes| notes.producers.store(true, Ordering::Relaxed));
    }

    /// The group has given this worker so many tasks in all; none is an assignment, too.
    pub fn assigned(&self, tasks: usize) {
        self.note(|notes| {
            notes.tasks.store(tasks, Ordering::Relaxed);
            notes.membership.store(MEMBER, Ordering::Release);
        });
    }

    /// The worker is outside the group until it is assigned again: it lost its tasks, or it is leaving.
    pub fn outside(&self, now: Monotonic) {
        self.note(|notes| {
            notes.tasks.store(0, Ordering::Relaxed);
            notes.outside_since.store(millis(now), Ordering::Relaxed);
            notes.membership.store(OUTSIDE, Ordering::Release);
        });
    }

    /// Something keeps tasks, or all of the worker, from going on.
    pub fn blocked(&self, by: BlockedBy) {
        self.note(|notes| {
            notes.blocked.fetch_or(bit(by), Ordering::Relaxed);
        });
    }

    /// It no longer does.
    pub fn unblocked(&self, by: BlockedBy) {
        self.note(|notes| {
            notes.blocked.fetch_and(!bit(by), Ordering::Relaxed);
        });
    }

    fn note(&self, write: impl FnOnce(&Notes)) {
        if let Some(notes) = self.shared.workers.get(self.index) {
            write(notes);
        }
    }
}

impl Notes {
    fn read(&self) -> Worker {
        let blocked = self.blocked.load(Ordering::Relaxed);
        Worker {
            name: self.name.clone(),
            beat: moment(self.beat.load(Ordering::Relaxed)),
            producers_ready: self.producers.load(Ordering::Relaxed),
            membership: match self.membership.load(Ordering::Acquire) {
                MEMBER => Membership::Member { tasks: self.tasks.load(Ordering::Relaxed) },
                OUTSIDE => Membership::Outside { since: moment(self.outside_since.load(Ordering::Relaxed)) },
                _ => Membership::Joining,
            },
            blocked: BlockedBy::ALL.into_iter().filter(|by| blocked & bit(*by) != 0).collect(),
        }
    }
}

const fn bit(by: BlockedBy) -> u8 {
    match by {
        BlockedBy::Output => 1,
        BlockedBy::Tier => 2,
        BlockedBy::DeadLetter => 4,
        BlockedBy::Broker => 8,
    }
}

fn millis(moment: Monotonic) -> u64 {
    u64::try_from(moment.since(Monotonic::default()).as_millis()).unwrap_or(u64::MAX)
}

const fn moment(millis: u64) -> Monotonic {
    Monotonic::from_start(Duration::from_millis(millis))
}

/// The health of a process at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Its workers.
    pub workers: Vec<Worker>,
    /// The error that ends it.
    pub fatal: Option<String>,
}

/// The health of a worker at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Its name.
    pub name: String,
    /// When the last turn of its loop ended.
    pub beat: Monotonic,
    /// Whether both producers are initialised.
    pub producers_ready: bool,
    /// Its place in the group.
    pub membership: Membership,
    /// What keeps its tasks from going on.
    pub blocked: Vec<BlockedBy>,
}

/// A worker's place in the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// It has never had an assignment.
    Joining,
    /// It has one.
    Member {
        /// Of so many tasks.
        tasks: usize,
    },
    /// It had one and is outside the group.
    Outside {
        /// Since then.
        since: Monotonic,
    },
}

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

/// Whether every worker's loop turns. If not, only a restart helps.
pub fn live(snapshot: &Snapshot, now: Monotonic) -> Verdict {
    let mut verdict = Verdict::default();
    for worker in &snapshot.workers {
        let silent = now.since(worker.beat);
        if silent > LONGEST_TURN {
            let (name, seconds) = (&worker.name, silent.as_secs());
            verdict
                .against
                .push(format!("worker `{name}` has not finished a turn of its loop for {seconds} s"));
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
        for by in &worker.blocked {
            match by {
                BlockedBy::Broker => verdict.against.push(format!("worker `{name}` reaches no broker")),
                BlockedBy::Output | BlockedBy::Tier | BlockedBy::DeadLetter => {
                    let by = by.as_str();
                    verdict
                        .notes
                        .push(format!("worker `{name}` has tasks that wait: `{by}` cannot be written"));
                }
            }
        }
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Monotonic {
        Monotonic::from_start(Duration::from_secs(seconds))
    }

    /// Two workers, begun at 100 s; the first is a whole member.
    fn two() -> (Health, WorkerHealth, WorkerHealth) {
        let health = Health::new(["payments/0", "payments/1"].map(str::to_owned), at(100));
        let (first, second) = (health.worker(0).unwrap(), health.worker(1).unwrap());
        first.producers_ready();
        first.assigned(3);
        (health, first, second)
    }

    #[test]
    fn a_process_is_live_while_every_loop_turns() {
        let (health, first, second) = two();
        assert!(live(&health.snapshot(), at(110)).is_good(), "a start takes time");
        first.beat(at(112));
        let verdict = live(&health.snapshot(), at(111));
        assert_eq!(verdict.to_string(), "worker `payments/1` has not finished a turn of its loop for 11 s\n");
        second.beat(at(112));
        assert_eq!(live(&health.snapshot(), at(122)).to_string(), "ok\n");
    }

    #[test]
    fn a_process_is_ready_when_every_worker_has_producers_and_an_assignment() {
        let (health, _, second) = two();
        assert_eq!(
            ready(&health.snapshot(), at(100)).to_string(),
            "worker `payments/1` has not initialised its producers yet\n\
             worker `payments/1` has had no assignment from its group yet\n"
        );
        second.producers_ready();
        assert!(!ready(&health.snapshot(), at(100)).is_good());
        second.assigned(0);
        assert!(ready(&health.snapshot(), at(100)).is_good(), "an assignment of none is one");
    }

    #[test]
    fn a_worker_may_be_outside_its_group_for_a_minute() {
        let (health, first, second) = two();
        second.producers_ready();
        second.assigned(1);
        first.outside(at(200));
        assert!(ready(&health.snapshot(), at(260)).is_good());
        let verdict = ready(&health.snapshot(), at(261));
        assert_eq!(verdict.to_string(), "worker `payments/0` has been outside its group for 61 s\n");
        first.assigned(2);
        assert!(ready(&health.snapshot(), at(261)).is_good());
    }

    #[test]
    fn a_lost_broker_is_not_ready_and_a_blocked_task_is_only_noted() {
        let (health, first, second) = two();
        second.producers_ready();
        second.assigned(1);
        first.blocked(BlockedBy::Broker);
        first.blocked(BlockedBy::DeadLetter);
        assert_eq!(
            ready(&health.snapshot(), at(100)).to_string(),
            "worker `payments/0` reaches no broker\n\
             worker `payments/0` has tasks that wait: `dlq` cannot be written\n"
        );
        first.unblocked(BlockedBy::Broker);
        let verdict = ready(&health.snapshot(), at(100));
        assert!(verdict.is_good() && verdict.notes.len() == 1, "{verdict}");
        first.unblocked(BlockedBy::DeadLetter);
        assert_eq!(ready(&health.snapshot(), at(100)).to_string(), "ok\n");
    }

    #[test]
    fn a_fatal_error_is_not_ready_and_the_first_is_told() {
        let (health, _, second) = two();
        second.producers_ready();
        second.assigned(1);
        health.fatal("group authorization failed");
        health.fatal("something after it");
        assert_eq!(
            ready(&health.snapshot(), at(100)).to_string(),
            "fatal error: group authorization failed\n"
        );
    }
}
