//! When the next transaction is formed, and how much it may hold.

use std::collections::BTreeSet;

use super::Processor;
use super::twin::Twin;
use super::write::weight_of;
use crate::core::lane::Settled;
use crate::core::position::Partition;
use crate::core::time::Monotonic;

/// The most records of one transaction: larger ones gain nothing and make an abort dear.
pub(super) const MOST_RECORDS: usize = 10_000;
/// The most bytes of one transaction: what a broker takes within a fraction of the shortest transaction timeout.
pub(super) const MOST_BYTES: usize = 32 << 20;

/// What decides when the next transaction is formed.
#[derive(Debug)]
pub(super) struct Pace {
    /// Settled records that the next transaction can take, blocked tasks' left out.
    pub(super) ready: usize,
    /// When the oldest of them was settled.
    pub(super) oldest: Option<Monotonic>,
    /// Both are to be counted anew before they are looked at: once for everything that an event settles.
    pub(super) uncounted: bool,
    /// Tasks whose offsets are to be committed though nothing moved: a start, or idle lanes.
    pub(super) wanted: BTreeSet<Partition>,
    /// Tasks that may have a position to commit or to note, and are left out where they have not.
    pub(super) hinted: BTreeSet<Partition>,
    /// Aborts in a row.
    pub(super) aborts: u32,
    /// No transaction before this.
    pub(super) not_before: Monotonic,
    /// Another worker with this one's identity.
    pub(super) twin: Twin,
    /// Where the next transaction begins to collect, so that no task is left behind.
    pub(super) rotor: Option<Partition>,
    /// The most bytes of the next transaction: halved by an abort, since what is too much for the broker's time is too much
    /// again, and doubled by a commit.
    pub(super) most_bytes: usize,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            ready: 0,
            oldest: None,
            uncounted: false,
            wanted: BTreeSet::new(),
            hinted: BTreeSet::new(),
            aborts: 0,
            not_before: Monotonic::default(),
            twin: Twin::default(),
            rotor: None,
            most_bytes: MOST_BYTES,
        }
    }
}

impl Pace {
    pub(super) fn grew(&mut self, by: usize, now: Monotonic) {
        self.ready = self.ready.saturating_add(by);
        self.oldest.get_or_insert(now);
    }
}

/// How much one transaction may still take. It begins above zero, so that one record always goes.
pub(super) struct Budget {
    records: usize,
    bytes: usize,
}

impl Budget {
    /// A whole transaction.
    pub(super) const fn of(pace: &Pace) -> Self {
        Self { records: MOST_RECORDS, bytes: pace.most_bytes }
    }

    /// Whether one more record goes in; it is counted if so.
    pub(super) fn takes(&mut self, settled: &Settled) -> bool {
        let goes = self.records > 0 && self.bytes > 0;
        if goes {
            self.records = self.records.saturating_sub(1);
            self.bytes = self.bytes.saturating_sub(weight_of(settled));
        }
        goes
    }
}

impl Processor {
    pub(super) fn oldest_is_due(&self, now: Monotonic) -> bool {
        self.pace.oldest.is_some_and(|oldest| oldest.plus(self.policy.flow.commit_interval) <= now)
    }

    /// When a transaction may be due without another event.
    pub(super) fn next_commit_at(&self) -> Option<Monotonic> {
        if self.open.is_some() {
            return None;
        }
        let pace = &self.pace;
        let asked = !(pace.wanted.is_empty() && pace.hinted.is_empty());
        let wanted = asked.then_some(pace.not_before);
        let oldest = pace.oldest.map(|oldest| match self.running == 0 || self.giving_back() {
            true => pace.not_before,
            false => oldest.plus(self.policy.flow.commit_interval).max(pace.not_before),
        });
        let probe = self.blocks().map(|(_, _, block)| block.retry_at.max(pace.not_before)).min();
        let search = self.searches().then_some(pace.not_before);
        [wanted, oldest, probe, search].into_iter().flatten().min()
    }
}
