//! One lane of a task: records read and not yet committed, in offset order, and the prefix of them that is settled.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::core::closed::Place;
use crate::core::control::Reply;
use crate::core::envelope::{DeliveryId, Envelope, Life};
use crate::core::event::{Dropped, FateKind};
use crate::core::guard::{Entry as Newest, KeyHash};
use crate::core::outcome::{Output, Verdict};
use crate::core::position::{Offset, TierIndex};
use crate::core::record::Record;
use crate::core::state::DeadPredecessor;
use crate::core::time::{Monotonic, Timestamp};

/// The fate of a record, decided and not yet committed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Disposition {
    /// Handled: these are its output.
    Emit(Vec<Output>),
    /// Failed: waits in a tier until `due`, at the earliest the tier's delay after the copy is written.
    Retry { tier: TierIndex, due: Timestamp, verdict: Verdict },
    /// Must wait on: goes to another tier, without an attempt.
    Hop { tier: TierIndex, due: Timestamp },
    /// Waits behind its key, in the state topic: at this place among those of the key, and until `due` by the task's clock at
    /// least, where a gap before it can be over.
    Hold { place: i64, due: Duration },
    /// Ends here.
    DeadLetter(Verdict),
    /// Without any effect: the guard lets nothing older than what is applied through, nor the same again.
    Drop(Dropped),
    /// An operator's request, carried out or refused: this is told of it.
    Obeyed(Box<Reply>),
}

impl Disposition {
    /// Its place among those held behind its key, where it is to be held.
    pub(crate) const fn holds_at(&self) -> Option<i64> {
        match self {
            Self::Hold { place, .. } => Some(*place),
            Self::Emit(_)
            | Self::Retry { .. }
            | Self::Hop { .. }
            | Self::DeadLetter(_)
            | Self::Drop(_)
            | Self::Obeyed(_) => None,
        }
    }
}

impl From<&Disposition> for FateKind {
    fn from(fate: &Disposition) -> Self {
        match fate {
            Disposition::Emit(_) => Self::Emit,
            Disposition::Retry { verdict, .. } => Self::Retry(verdict.clone()),
            Disposition::Hop { .. } => Self::Hop,
            Disposition::Hold { .. } => Self::Hold,
            Disposition::DeadLetter(verdict) => Self::DeadLetter(verdict.clone()),
            Disposition::Drop(why) => Self::Drop(*why),
            Disposition::Obeyed(_) => Self::Obeyed,
        }
    }
}

/// What a committed success changes of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Effect {
    pub(crate) key: KeyHash,
    pub(crate) newest: Newest,
}

/// How much of its record a copy or a dead letter carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Form {
    /// Everything.
    Whole,
    /// All but `redrive-detail` and `redrive-history`.
    Bare,
    /// As bare, and the value stays at the origin.
    Reference,
}

/// A record whose delivery has not ended.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) envelope: Arc<Envelope>,
    /// The hash of its key; `None` for a null key, which has no order.
    pub(crate) key: Option<KeyHash>,
    /// The record of its key that must be committed with it or before it, and does not stand ahead of it in its own lane.
    pub(crate) follows: Option<Place>,
    /// When it was due; `None` on the source lane.
    pub(crate) due: Option<Timestamp>,
    /// When its lane could hand it on; `None` at once.
    pub(crate) release: Option<Monotonic>,
    /// When its first execution in this delivery began.
    pub(crate) began: Option<Monotonic>,
    /// Executions of this delivery that were begun.
    pub(crate) executions: u32,
    /// What had happened to it before the guard let it have no effect.
    pub(crate) judged: Option<Box<Life>>,
    /// Its place among those held behind its key, where it was released from there.
    pub(crate) held: Option<i64>,
    /// A guard that counts has let it through as the next of its key.
    pub(crate) admitted: bool,
}

impl Pending {
    /// A record that nothing has happened to in this delivery.
    pub(crate) fn new(envelope: Arc<Envelope>, key: Option<KeyHash>) -> Self {
        Self {
            envelope,
            key,
            follows: None,
            due: None,
            release: None,
            began: None,
            executions: 0,
            judged: None,
            held: None,
            admitted: false,
        }
    }

    /// A record whose fate is taken back, as it was before.
    pub(crate) fn again(settled: &Settled) -> Self {
        let mut envelope = Arc::clone(&settled.envelope);
        if let Some(life) = settled.judged.as_deref().filter(|life| **life != envelope.life) {
            Arc::make_mut(&mut envelope).life = life.clone();
        }
        Self { due: settled.due, held: settled.held, ..Self::new(envelope, settled.key) }
    }
}

/// A record whose fate is decided.
#[derive(Clone, Debug)]
pub(crate) struct Settled {
    pub(crate) id: DeliveryId,
    pub(crate) envelope: Arc<Envelope>,
    pub(crate) fate: Disposition,
    pub(crate) form: Form,
    /// As it was when it was pending.
    pub(crate) key: Option<KeyHash>,
    pub(crate) follows: Option<Place>,
    pub(crate) due: Option<Timestamp>,
    pub(crate) judged: Option<Box<Life>>,
    pub(crate) held: Option<i64>,
    pub(crate) admitted: bool,
    /// What becomes of its key by it; only where a guard keeps that.
    pub(crate) effect: Option<Effect>,
    /// That it is dead, where others are held behind it or may be.
    pub(crate) dead: Option<Box<DeadPredecessor>>,
    /// The place among everything this worker settled: writes leave in this order.
    pub(crate) order: u64,
    pub(crate) at: Monotonic,
}

/// How far a record has come.
#[derive(Clone, Debug)]
pub(crate) enum Stage {
    /// Waits until the record of its key that is being handled has ended.
    Queued(Pending),
    /// The handler has it.
    Running(Pending),
    /// Waits for its next execution.
    Pausing(Pending),
    /// Waits for its transaction, or is in it.
    Settled(Settled),
    /// Between two stages, inside one call only.
    Moving,
}

impl Stage {
    /// The record, where its fate is decided.
    pub(crate) const fn settled(&self) -> Option<&Settled> {
        match self {
            Self::Settled(settled) => Some(settled),
            Self::Queued(_) | Self::Running(_) | Self::Pausing(_) | Self::Moving => None,
        }
    }
}

/// A record in the window.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) offset: Offset,
    pub(crate) stage: Stage,
}

/// A record that was read and not yet looked at.
#[derive(Clone, Debug)]
pub(crate) struct Unread {
    pub(crate) record: Record,
    /// When the lane may hand it on; `None` at once.
    pub(crate) release: Option<Monotonic>,
}

/// What the state topic says of a lane, as far as this owner of its task knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Noted {
    /// Whatever an earlier owner noted last.
    Unknown,
    /// Where it stands, and that it stands exactly there.
    Exact,
    /// Where it stands; it may go on without another note.
    AtLeast,
    /// As before, and the lane has gone on since.
    Behind,
}

/// Whether the topic of a lane is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    There,
    /// An offset of it in a transaction would abort all of that.
    Absent,
}

/// One lane of a task.
#[derive(Clone, Debug)]
pub(crate) struct LaneState {
    /// Everything below this offset is committed.
    pub(crate) committed: Offset,
    /// When an offset of this lane was last committed; `None` where the group has none.
    pub(crate) committed_at: Option<Monotonic>,
    /// No record below this offset is expected any more.
    pub(crate) next_read: Offset,
    /// What lies before this offset and was not handed over is no record: the end of a transaction, or the like.
    pub(crate) passed: Offset,
    /// What the state topic says of this lane.
    pub(crate) noted: Noted,
    /// Whether its topic is there.
    pub(crate) presence: Presence,
    /// Read, not admitted. A waiting record stands at its front and holds the lane.
    pub(crate) unread: VecDeque<Unread>,
    /// Admitted, not committed, in offset order.
    pub(crate) window: VecDeque<Entry>,
    /// How many entries at the front of the window are settled, the open transaction's included.
    pub(crate) settled: usize,
    /// How many entries at the front of the window are in the open transaction.
    pub(crate) in_transaction: usize,
    /// Whether the shell has been asked for records and has not answered.
    pub(crate) fetching: bool,
    /// The timer that is set for the record at the front of `unread`.
    pub(crate) wakes_at: Option<Monotonic>,
}

impl LaneState {
    pub(crate) fn new(committed: Offset, committed_at: Option<Monotonic>) -> Self {
        Self {
            committed,
            committed_at,
            next_read: committed,
            passed: committed,
            noted: Noted::Unknown,
            presence: Presence::There,
            unread: VecDeque::new(),
            window: VecDeque::new(),
            settled: 0,
            in_transaction: 0,
            fetching: false,
            wakes_at: None,
        }
    }

    /// A lane whose topic is gone, in a task that goes on without it.
    pub(crate) fn absent() -> Self {
        Self { presence: Presence::Absent, ..Self::new(Offset(0), None) }
    }

    /// When the record at the front may be handed on, if that is still to come.
    pub(crate) fn held_until(&self, now: Monotonic) -> Option<Monotonic> {
        self.unread.front()?.release.filter(|release| *release > now)
    }

    /// Records that count against the window: admitted and not in the open transaction.
    pub(crate) fn in_flight(&self) -> usize {
        self.window.len().saturating_sub(self.in_transaction)
    }

    /// Records that the next transaction can take.
    pub(crate) fn ready(&self) -> usize {
        self.settled.saturating_sub(self.in_transaction)
    }

    /// The entry of an offset, if it is in the window.
    pub(crate) fn entry(&mut self, offset: Offset) -> Option<&mut Entry> {
        let first = self.window.front()?.offset;
        let guess = usize::try_from(offset.0.checked_sub(first.0)?).ok()?;
        // Offsets are dense but for markers and compaction: the guess is mostly right, else a little too far.
        let place = match self.window.get(guess) {
            Some(entry) if entry.offset == offset => guess,
            Some(_) | None => self.window.binary_search_by_key(&offset, |entry| entry.offset).ok()?,
        };
        self.window.get_mut(place)
    }

    /// How many entries of the window stand before or at an offset.
    pub(crate) fn place_behind(&self, offset: Offset) -> usize {
        self.window.partition_point(|entry| entry.offset <= offset)
    }

    /// Counts the settled entries at the front anew, after an entry was settled. Returns by how many they grew.
    pub(crate) fn extend_settled(&mut self) -> usize {
        let more = self.window.range(self.settled..).take_while(|entry| entry.stage.settled().is_some());
        let grown = more.count();
        self.settled = self.settled.saturating_add(grown);
        grown
    }

    /// The offset behind the first `count` records.
    pub(crate) fn behind(&self, count: usize) -> Offset {
        let last = count.checked_sub(1).and_then(|last| self.window.get(last));
        last.map_or(self.committed, |last| last.offset.next())
    }

    /// The offset that a commit of the first `count` records commits: behind them, and as far as the lane has passed
    /// before the first record that is left.
    pub(crate) fn offset_after(&self, count: usize) -> Offset {
        let unread = || self.unread.front().map(|unread| unread.record.offset);
        let left = self.window.get(count).map(|entry| entry.offset).or_else(unread);
        self.behind(count).max(left.map_or(self.passed, |left| left.min(self.passed)))
    }

    /// Everything before `next` that is a record was handed over.
    pub(crate) fn pass(&mut self, next: Offset) {
        self.passed = self.passed.max(next);
        self.next_read = self.next_read.max(next);
    }

    /// Drops what was read and not admitted; the lane has not passed that.
    pub(crate) fn drop_unread(&mut self) {
        if let Some(first) = self.unread.front() {
            self.passed = self.passed.min(first.record.offset);
        }
        self.unread.clear();
    }

    /// Whether nothing that was read of it waits for a handler or a commit behind its first `count` records. What waits
    /// for its time does not count.
    pub(crate) fn rests_after(&self, count: usize, now: Monotonic) -> bool {
        self.window.len() == count && (self.unread.is_empty() || self.held_until(now).is_some())
    }

    /// The settled records that the next transaction takes.
    pub(crate) fn ready_records(&self) -> impl Iterator<Item = &Settled> {
        let ready = self.window.range(self.in_transaction.min(self.settled)..self.settled);
        ready.filter_map(|entry| entry.stage.settled())
    }

    /// Takes the entries of the open transaction out: it was committed up to `offset`.
    pub(crate) fn commit(&mut self, offset: Offset, now: Monotonic) -> impl Iterator<Item = Entry> + '_ {
        let count = self.in_transaction.min(self.window.len());
        self.settled = self.settled.saturating_sub(count);
        self.in_transaction = 0;
        self.committed = offset;
        self.committed_at = Some(now);
        self.window.drain(..count)
    }
}
