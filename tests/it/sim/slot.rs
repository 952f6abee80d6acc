//! One worker's place in the simulation: the process that runs there now, and what its shell knows.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use redrive::core::event::{Event, Transaction, TransactionId};
use redrive::core::position::{CommitMark, Epoch, Lane};
use redrive::core::state::Keys;
use redrive::core::time::{Monotonic, Now, Timestamp};

use super::cluster::group::{Membership, Process};
use super::cluster::transactions::{ProducerEpoch, TransactionalId};
use super::machine::Machine;
use super::plan::{LostVerdict, Micro, Strike};
use super::transactor::Stage;

/// The calendar at the start of every simulation.
const CALENDAR: i64 = 1_700_000_000_000;

/// How a lane of an open task is read.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) epoch: Epoch,
    pub(crate) position: i64,
    /// The most records the core waits for.
    pub(crate) asked: Option<usize>,
    /// The answer is under way.
    pub(crate) answering: bool,
    /// It is looked at soon, whether it gives nothing more.
    pub(crate) watched: bool,
}

/// The transaction in the transactor's hands.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) transaction: Box<Transaction>,
    pub(crate) turn: usize,
    /// Taken when the batch was formed.
    pub(crate) membership: Option<Membership>,
    pub(crate) begun: Duration,
    pub(crate) stage: Stage,
    /// An epoch was old when the shell was to check.
    pub(crate) stale: bool,
    /// The broker took its offsets.
    pub(crate) offsets_taken: bool,
}

/// A read-back in the transactor's hands.
#[derive(Clone, Debug)]
pub(crate) struct Doubt {
    pub(crate) transaction: TransactionId,
    pub(crate) partitions: Vec<i32>,
    /// What the mark of the first of them is if it was committed.
    pub(crate) mark: Option<CommitMark>,
}

/// One worker.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) index: usize,
    /// Whose transactional ids it has: its own, or by mistake those of another one.
    pub(crate) identity: usize,
    /// Which process, counted from 1; what an older one left on the agenda is void.
    pub(crate) life: u32,
    /// The process runs while it has a core.
    pub(crate) machine: Option<Machine>,
    pub(crate) born: Duration,
    /// How far its calendar is ahead of true time, with the time from which that held.
    pub(crate) skews: Vec<(Duration, i64)>,
    pub(crate) paused_until: Duration,
    /// Since when its heartbeats have stopped.
    pub(crate) silent_since: Option<Duration>,
    pub(crate) membership: Option<Membership>,
    /// What the client believes is assigned to it.
    pub(crate) assigned: BTreeSet<i32>,
    /// A rebalance's news is on its way.
    pub(crate) awaits_news: bool,
    pub(crate) revoking: BTreeSet<i32>,
    /// New partitions that are told once the revoked ones are back.
    pub(crate) adding: Vec<i32>,
    /// Epochs that the transactor takes for valid.
    pub(crate) epochs: BTreeMap<i32, Epoch>,
    pub(crate) readers: BTreeMap<(i32, Lane), Reader>,
    /// The versions of each task as they were first read; only a planted bug goes by them.
    pub(crate) kept: BTreeMap<i32, Box<Keys>>,
    /// Events that the worker's thread has not taken; the first is being taken or is held.
    pub(crate) inbox: VecDeque<Event>,
    pub(crate) producers: [ProducerEpoch; 2],
    /// Those that were fenced and have not been made anew.
    pub(crate) discarded: [bool; 2],
    pub(crate) turn: usize,
    pub(crate) job: Option<Job>,
    /// The producer of the transaction in doubt.
    pub(crate) doubtful: Option<usize>,
    /// The mark that tells whether it was committed.
    pub(crate) doubtful_mark: Option<CommitMark>,
    pub(crate) tick: u64,
    /// The next commit gets no verdict.
    pub(crate) lose_verdict: Option<LostVerdict>,
    pub(crate) armed: Vec<(Micro, Strike)>,
    pub(crate) draining: bool,
    /// When it starts again after its end.
    pub(crate) restart: Duration,
}

impl Slot {
    pub(crate) fn new(index: usize) -> Self {
        Self {
            index,
            identity: index,
            life: 0,
            machine: None,
            born: Duration::ZERO,
            skews: vec![(Duration::ZERO, 0)],
            paused_until: Duration::ZERO,
            silent_since: None,
            membership: None,
            assigned: BTreeSet::new(),
            awaits_news: false,
            revoking: BTreeSet::new(),
            adding: Vec::new(),
            epochs: BTreeMap::new(),
            readers: BTreeMap::new(),
            kept: BTreeMap::new(),
            inbox: VecDeque::new(),
            producers: [0; 2],
            discarded: [false; 2],
            turn: 0,
            job: None,
            doubtful: None,
            doubtful_mark: None,
            tick: 0,
            lose_verdict: None,
            armed: Vec::new(),
            draining: false,
            restart: Duration::from_millis(100),
        }
    }

    /// The process is gone, and with it all that it knew.
    pub(crate) fn die(&mut self) {
        let fresh = Self::new(self.index);
        let old = std::mem::replace(self, fresh);
        self.identity = old.identity;
        self.life = old.life + 1;
        self.skews = old.skews;
        self.tick = old.tick;
        self.armed = old.armed;
    }

    pub(crate) fn process(&self) -> Process {
        Process { slot: self.index, life: self.life }
    }

    pub(crate) fn id(&self, turn: usize) -> TransactionalId {
        TransactionalId { slot: self.identity, turn }
    }

    pub(crate) fn skew(&self) -> i64 {
        self.skews.last().map_or(0, |(_, skew)| *skew)
    }

    /// The largest skew that held at some time from `since` to now.
    pub(crate) fn largest_skew(&self, since: Duration) -> i64 {
        let before = self.skews.iter().rev().find(|(at, _)| *at <= since);
        let later = self.skews.iter().filter(|(at, _)| *at > since);
        before.into_iter().chain(later).map(|(_, skew)| *skew).max().unwrap_or(0)
    }

    pub(crate) fn wall(&self, now: Duration) -> Timestamp {
        Timestamp::from_millis(CALENDAR + now.as_millis() as i64 + self.skew())
    }

    pub(crate) fn clocks(&self, now: Duration) -> Now {
        let elapsed = now.saturating_sub(self.born);
        Now { wall: self.wall(now), mono: Monotonic::from_start(elapsed) }
    }
}

/// A calendar time of a clock with this skew, as true time in milliseconds.
pub(crate) fn true_millis(wall: i64, skew: i64) -> i64 {
    wall - CALENDAR - skew
}
