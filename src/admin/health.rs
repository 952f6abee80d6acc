//! What the workers note about themselves.
//!
//! Workers write, probes read; neither waits for the other. What a state means for a probe is decided in [`probe`].
//!
//! [`probe`]: crate::admin::probe

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::core::position::{Offset, Partition};
use crate::core::time::Monotonic;
use crate::telemetry::blocked::BlockedBy;

/// The health of this process; clones share it.
#[derive(Clone, Debug)]
pub struct Health(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    workers: Vec<Notes>,
    fatal: OnceLock<String>,
}

/// What a worker notes. `begun` and `membership` are written after what they speak of and read before it; the others
/// stand alone.
#[derive(Debug)]
struct Notes {
    name: String,
    begun: AtomicBool,
    beat: AtomicU64,
    producers: AtomicBool,
    tasks: AtomicUsize,
    membership: AtomicU8,
    outside_since: AtomicU64,
    blocked: AtomicU32,
    name_until: AtomicU64,
    /// Held only to copy, once per transaction.
    transacting: Mutex<Option<Transacting>>,
    /// What tasks ask a person to type. Rarely written, and held only to copy.
    asks: Mutex<BTreeMap<Partition, String>>,
    /// How far the state of tasks is read that takes long. Written every few seconds.
    restores: Mutex<BTreeMap<Partition, (Offset, Offset)>>,
}

/// Where one worker notes its health.
#[derive(Clone, Debug)]
pub struct WorkerHealth {
    shared: Arc<Shared>,
    index: usize,
}

impl Health {
    /// For the workers of these names, as people read them: `payments/0`. Their start begins `now`.
    pub fn new(workers: impl IntoIterator<Item = String>, now: Monotonic) -> Self {
        let notes = |name| Notes {
            name,
            begun: AtomicBool::new(false),
            beat: AtomicU64::new(millis(now)),
            producers: AtomicBool::new(false),
            tasks: AtomicUsize::new(0),
            membership: AtomicU8::new(JOINING),
            outside_since: AtomicU64::new(millis(now)),
            blocked: AtomicU32::new(0),
            name_until: AtomicU64::new(0),
            transacting: Mutex::new(None),
            asks: Mutex::new(BTreeMap::new()),
            restores: Mutex::new(BTreeMap::new()),
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
        self.note(|notes| {
            notes.beat.store(millis(now), Ordering::Relaxed);
            notes.begun.store(true, Ordering::Release);
        });
    }

    /// The start goes on: brokers are waited for.
    pub fn starting(&self, now: Monotonic) {
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

    /// It waits for its name in the group until then; to be told with [`BlockedBy::MemberName`].
    pub fn waits_for_name(&self, until: Monotonic) {
        self.note(|notes| notes.name_until.store(millis(until), Ordering::Relaxed));
    }

    /// What the worker's transactor is at; `None`: nothing.
    pub fn transacting(&self, at: Option<Transacting>) {
        self.note(|notes| *notes.transacting.lock().unwrap_or_else(PoisonError::into_inner) = at);
    }

    /// A task waits until a person types this command.
    pub fn asks(&self, task: Partition, command: String) {
        self.note(|notes| drop(notes.asks().insert(task, command)));
    }

    /// It waits no more, or is somebody else's.
    pub fn asks_nothing(&self, task: Partition) {
        self.note(|notes| drop(notes.asks().remove(&task)));
    }

    /// The state of a task is being read: where, and up to where.
    pub fn restores(&self, task: Partition, progress: (Offset, Offset)) {
        self.note(|notes| {
            notes.restores().insert(task, progress);
        });
    }

    /// It is read, or the task is somebody else's.
    pub fn restored(&self, task: Partition) {
        self.note(|notes| {
            notes.restores().remove(&task);
        });
    }

    fn note(&self, write: impl FnOnce(&Notes)) {
        if let Some(notes) = self.shared.workers.get(self.index) {
            write(notes);
        }
    }
}

impl Notes {
    fn asks(&self) -> MutexGuard<'_, BTreeMap<Partition, String>> {
        self.asks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn restores(&self) -> MutexGuard<'_, BTreeMap<Partition, (Offset, Offset)>> {
        self.restores.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> Worker {
        let begun = self.begun.load(Ordering::Acquire);
        let beat = moment(self.beat.load(Ordering::Relaxed));
        let blocked = self.blocked.load(Ordering::Relaxed);
        Worker {
            name: self.name.clone(),
            pulse: if begun { Pulse::Turning { last: beat } } else { Pulse::Starting { last: beat } },
            producers_ready: self.producers.load(Ordering::Relaxed),
            membership: match self.membership.load(Ordering::Acquire) {
                MEMBER => Membership::Member { tasks: self.tasks.load(Ordering::Relaxed) },
                OUTSIDE => Membership::Outside { since: moment(self.outside_since.load(Ordering::Relaxed)) },
                _ => Membership::Joining,
            },
            blocked: BlockedBy::ALL.into_iter().filter(|by| blocked & bit(*by) != 0).collect(),
            name_until: moment(self.name_until.load(Ordering::Relaxed)),
            transacting: *self.transacting.lock().unwrap_or_else(PoisonError::into_inner),
            asks: self.asks().values().cloned().collect(),
            restores: self.restores().iter().map(|(task, (next, end))| (*task, *next, *end)).collect(),
        }
    }
}

const fn bit(by: BlockedBy) -> u32 {
    1 << by.index()
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
    /// Whether its loop turns.
    pub pulse: Pulse,
    /// Whether both producers are initialised.
    pub producers_ready: bool,
    /// Its place in the group.
    pub membership: Membership,
    /// What keeps its tasks from going on.
    pub blocked: Vec<BlockedBy>,
    /// Until when it waits for its name, where that blocks it.
    pub name_until: Monotonic,
    /// What its transactor is at.
    pub transacting: Option<Transacting>,
    /// The commands that its tasks wait for.
    pub asks: Vec<String>,
    /// The tasks whose state is being read for long: the offset of the state topic that is next, and that of its end.
    pub restores: Vec<(Partition, Offset, Offset)>,
}

/// A transaction that a worker's transactor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transacting {
    /// Since then.
    pub since: Monotonic,
    /// When the transactor last said that its calls of the client return.
    pub heard: Monotonic,
    /// `transaction-timeout` of the pipeline.
    pub timeout: Duration,
}

impl Transacting {
    /// Older than this it is told: the broker has given it up long before.
    pub const fn late_after(&self) -> Duration {
        self.timeout.saturating_mul(2)
    }
}

/// Whether a worker's loop turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pulse {
    /// It has not begun: clients are made, and the brokers end what the worker's past left open.
    Starting {
        /// When it last said that it goes on.
        last: Monotonic,
    },
    /// It does.
    Turning {
        /// When the last turn ended.
        last: Monotonic,
    },
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
