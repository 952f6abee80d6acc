//! One task: partition *p* of a pipeline's lanes, and how far its take-over or hand-over has come.

use std::collections::VecDeque;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::core::clock::Clock;
use crate::core::closed::{self, Place};
use crate::core::event::{Part, Target};
use crate::core::guard::{Entry, KeyHash, KeyHasher, VersionTable};
use crate::core::held::Held;
use crate::core::lane::{Effect, LaneState, Presence, Settled};
use crate::core::policy::{Guard, OrderPolicy};
use crate::core::position::{Epoch, Founding, Lane, OffsetRange, Sequence, TierIndex, TopicId};
use crate::core::state::{HeldRecord, Keys};
use crate::core::time::Monotonic;

/// How far a task has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Kafka is asked where it stands.
    Restoring,
    /// Its start is being committed, before anything is read.
    Starting,
    /// Its records are processed.
    Running,
    /// Kafka takes it back, or the worker stops: what runs may end until then.
    GivingBack { until: Monotonic },
}

/// Why a part of a task does not go on by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// What cannot be written.
    pub(crate) target: Target,
    /// When its transaction is tried again.
    pub(crate) retry_at: Monotonic,
    /// How often it was tried in vain.
    pub(crate) failures: u32,
}

/// When a task's positions are noted in the state topic.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Notes {
    /// The next transaction notes them.
    pub(crate) due: bool,
    /// A timer is set for the next time.
    pub(crate) timed: bool,
    /// The start of the task is committed, and so there is something to note.
    pub(crate) begun: bool,
}

/// A task whose positions may be old.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stale {
    /// These records may be repeated; nobody has accepted that yet.
    Asked(Vec<OffsetRange>),
    /// It was accepted, and is to be committed.
    Accepted,
}

/// What is known of a task's keys.
#[derive(Debug)]
pub(crate) struct Guarded {
    /// The newest version of each key whose effect is committed.
    pub(crate) applied: Box<VersionTable>,
    /// The newest version of each key whose effect is settled and not committed.
    pub(crate) staged: HashMap<KeyHash, Staged, FixedState>,
    /// How many settled records follow one that does not stand ahead of them in their lane.
    pub(crate) crossings: usize,
    /// What is held behind keys; empty where nothing ever is.
    pub(crate) held: Held,
    /// Whether the guard counts, and whether records are held at all.
    pub(crate) mode: Mode,
    pub(crate) clock: Clock,
    /// The next transaction notes what the clock shows.
    pub(crate) clock_due: bool,
    /// A timer is set for the next time that it is noted.
    pub(crate) clock_timed: bool,
    /// Whether the worker holds as many bytes as it may.
    pub(crate) is_full: bool,
    /// Whether the end of the source is being asked for.
    pub(crate) finds_end: bool,
    /// When the timer of gaps wakes.
    pub(crate) wakes_at: Option<Monotonic>,
}

/// What is kept of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The newest version.
    Newest,
    /// The order in which its records arrived.
    Arrival,
    /// The count of its versions.
    Count,
}

impl Mode {
    /// Whether records are held, so that those of a key are committed in the order in which they are settled.
    pub(crate) const fn holds(self) -> bool {
        match self {
            Self::Newest => false,
            Self::Arrival | Self::Count => true,
        }
    }
}

/// The last settled record of a key that is not committed, as far as later ones depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Staged {
    pub(crate) at: Place,
    /// The newest settled effect of the key, where one is not committed.
    pub(crate) newest: Option<Entry>,
}

impl Guarded {
    /// As the state topic has it.
    pub(crate) fn new(keys: Keys, order: &OrderPolicy, seed: u64) -> Self {
        let mode = match order.guard {
            Guard::Contiguous(_) => Mode::Count,
            Guard::None | Guard::Latest(_) if order.parks().is_some() => Mode::Arrival,
            Guard::None | Guard::Latest(_) => Mode::Newest,
        };
        let Keys { versions, held: records, blockers, clock, .. } = keys;
        let mut held = Held::new(seed, (mode == Mode::Arrival).then_some(order.held.per_key));
        if mode.holds() {
            for ((key, place), HeldRecord { envelope, due }) in records {
                let due = (mode == Mode::Count).then_some(due);
                held.restore(versions.hash(&key), place, envelope, due);
            }
            for (key, blockers) in blockers {
                held.restore_blockers(versions.hash(&key), blockers);
            }
        }
        Self {
            applied: Box::new(versions),
            staged: HashMap::with_hasher(FixedState::with_seed(seed)),
            crossings: 0,
            held,
            mode,
            clock: Clock::standing_at(clock),
            is_full: false,
            clock_due: false,
            clock_timed: false,
            finds_end: false,
            wakes_at: None,
        }
    }

    /// Whether no more records of the source are taken on until some are released.
    pub(crate) fn stops_source(&self) -> bool {
        // Where versions are counted, the missing ones may still be to come.
        self.mode == Mode::Arrival && (self.is_full || self.held.is_full())
    }

    /// Whether one more record may be held behind a key that holds `per_key` at most.
    pub(crate) fn has_room(&self, key: KeyHash, per_key: usize) -> bool {
        let held = self.held.get(key).map_or(0, |of_key| of_key.records.len());
        !self.is_full && held < per_key
    }

    /// Takes note of a record that is settled.
    pub(crate) fn settled(&mut self, settled: &Settled) {
        self.crossings = self.crossings.saturating_add(usize::from(settled.follows.is_some()));
        let at = (settled.id.lane, settled.id.offset);
        if let Some(key) = settled.key.filter(|_| self.mode.holds()) {
            let newest = settled.effect.map(|effect| effect.newest).or_else(|| self.staged.get(&key)?.newest);
            self.staged.insert(key, Staged { at, newest });
            self.held.settled(key, settled, self.mode == Mode::Count);
        } else if let Some(Effect { key, newest }) = settled.effect {
            self.staged.insert(key, Staged { at, newest: Some(newest) });
        }
    }

    /// Takes note of a record that is not settled any more: it is committed, or is judged anew.
    pub(crate) fn leaves(&mut self, settled: &Settled) {
        self.crossings = self.crossings.saturating_sub(usize::from(settled.follows.is_some()));
    }

    /// What the committed record at a place changes of its key; what was applied before.
    pub(crate) fn apply(&mut self, at: Place, Effect { key, newest }: Effect) -> Option<Entry> {
        let before = self.applied.set(key, newest);
        self.forget_staged(key, at);
        before
    }

    /// The record at a place is committed.
    pub(crate) fn forget_staged(&mut self, key: KeyHash, at: Place) {
        if self.staged.get(&key).is_some_and(|staged| staged.at == at) {
            self.staged.remove(&key);
        }
    }

    /// The newest version of a key that the record at this place is judged by, and whatever must be committed with that record
    /// or before it: what stands ahead of it in its own lane is anyway.
    pub(crate) fn newest(&self, key: KeyHash, (lane, offset): Place) -> (Option<Entry>, Option<Place>) {
        match self.staged.get(&key) {
            Some(Staged { at, newest }) => {
                let is_ahead = at.0 == lane && at.1 < offset;
                (newest.or_else(|| self.applied.get(key)), (!is_ahead).then_some(*at))
            }
            None => (self.applied.get(key), None),
        }
    }
}

/// One task.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) epoch: Epoch,
    pub(crate) phase: Phase,
    /// By [`Lane::index`]; empty while restoring.
    pub(crate) lanes: Vec<LaneState>,
    /// The highest number that a transaction of this task has used.
    pub(crate) sequence: Sequence,
    pub(crate) founding: Founding,
    /// The keys that are being handled, each with the records that wait for it.
    pub(crate) keys: HashMap<KeyHash, VecDeque<Place>, FixedState>,
    hasher: KeyHasher,
    /// The versions of its keys, where the pipeline has a guard.
    pub(crate) guarded: Option<Box<Guarded>>,
    /// Records that a handler has, or that wait for their next execution.
    pub(crate) running: usize,
    /// Why the records of its source and tiers do not go on.
    pub(crate) block: Option<Block>,
    /// Why requests are not answered.
    pub(crate) mute: Option<Block>,
    /// The id of each lane's topic, by [`Lane::index`], where the broker told one.
    pub(crate) topics: Vec<Option<TopicId>>,
    pub(crate) notes: Notes,
    /// What a person has to accept before anything but the control lane is read.
    pub(crate) stale: Option<Stale>,
}

impl Task {
    pub(crate) fn new(epoch: Epoch, seed: u64) -> Self {
        Self {
            epoch,
            phase: Phase::Restoring,
            lanes: Vec::new(),
            sequence: Sequence(0),
            founding: Founding::default(),
            keys: HashMap::with_hasher(FixedState::with_seed(seed)),
            hasher: KeyHasher::new(seed),
            guarded: None,
            running: 0,
            block: None,
            mute: None,
            topics: Vec::new(),
            notes: Notes::default(),
            stale: None,
        }
    }

    /// The hash of the key of an order.
    pub(crate) fn hash(&self, key: &[u8]) -> KeyHash {
        match &self.guarded {
            Some(guarded) => guarded.applied.hash(key),
            None => self.hasher.hash(key),
        }
    }

    pub(crate) fn lane(&mut self, lane: Lane) -> Option<&mut LaneState> {
        self.lanes.get_mut(lane.index())
    }

    /// The lanes with their names.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = (Lane, &LaneState)> {
        self.lanes.iter().enumerate().map(|(index, state)| (Lane::at(index), state))
    }

    /// Why a part of it does not go on. Where the state topic cannot be written, neither does: what moves a lane notes it there.
    pub(crate) fn block_of(&self, part: Part) -> Option<&Block> {
        match part {
            Part::Records => self.block.as_ref(),
            Part::Requests => {
                let stateless = self.block.as_ref().filter(|block| block.target == Target::State);
                self.mute.as_ref().or(stateless)
            }
        }
    }

    /// As [`Self::block_of`], to change it.
    pub(crate) const fn block_mut(&mut self, part: Part) -> &mut Option<Block> {
        match part {
            Part::Records => &mut self.block,
            Part::Requests => &mut self.mute,
        }
    }

    /// Whether records of a lane may be taken on.
    pub(crate) fn processes(&self, lane: Lane) -> bool {
        let open = self.stale.is_none() || lane == Lane::Control;
        // There is room again once what is held is released, which waits for nothing behind the source.
        let full =
            lane == Lane::Source && self.guarded.as_ref().is_some_and(|guarded| guarded.stops_source());
        self.phase == Phase::Running && self.block_of(Part::of(lane)).is_none() && open && !full
    }

    /// Whether a handler may be called once more for a record that is already admitted.
    pub(crate) fn executes(&self) -> bool {
        self.phase == Phase::Running
    }

    /// How many more records a lane may have in flight. Source and tiers each leave a quarter of the window to the
    /// other, so that neither new records nor retries that hang stop the rest.
    pub(crate) fn room(&self, lane: Lane, window: usize) -> usize {
        let in_flight = |lane: Lane| self.lanes.get(lane.index()).map_or(0, LaneState::in_flight);
        let tiers = self.lanes.get(Lane::Tier(TierIndex(0)).index()..).unwrap_or_default();
        let share = if tiers.is_empty() { window } else { window.saturating_sub(window / 4) };
        // What was held has waited, like what comes from the tiers.
        let waited = tiers.iter().map(LaneState::in_flight).sum::<usize>();
        let (source, tiers) = (in_flight(Lane::Source), waited.saturating_add(in_flight(Lane::Held)));
        let own = match lane {
            Lane::Source => source,
            Lane::Tier(_) | Lane::Held => tiers,
            // Requests run no handler and are few.
            Lane::Control => return window.saturating_sub(in_flight(Lane::Control)),
        };
        window.saturating_sub(source.saturating_add(tiers)).min(share.saturating_sub(own))
    }

    /// Whether a lane has passed offsets without any record that are not committed.
    pub(crate) fn has_passed(&self) -> bool {
        self.lanes
            .iter()
            .any(|lane| lane.presence == Presence::There && lane.offset_after(0) > lane.committed)
    }

    /// Records that could be committed, were everything that they write there.
    pub(crate) fn settled(&self) -> usize {
        let mut counts: Vec<usize> = self.lanes.iter().map(|lane| lane.settled).collect();
        self.close(&mut counts);
        counts.iter().sum()
    }

    /// Records that the next transaction can take.
    pub(crate) fn ready(&self) -> usize {
        self.takes(|_, state| state.ready()).map(|(_, count)| count).sum()
    }

    /// How many records of each lane the next transaction can take where it may take `most` of them by themselves.
    pub(crate) fn takes(
        &self,
        most: impl Fn(Lane, &LaneState) -> usize,
    ) -> impl Iterator<Item = (&LaneState, usize)> {
        let taken = |(lane, state): (Lane, &LaneState)| {
            let writable = state.presence == Presence::There && self.block_of(Part::of(lane)).is_none();
            state.in_transaction.saturating_add(if writable { most(lane, state) } else { 0 })
        };
        let mut counts: Vec<usize> = self.lanes().map(taken).collect();
        self.close(&mut counts);
        self.lanes
            .iter()
            .zip(counts)
            .map(|(state, count)| (state, count.saturating_sub(state.in_transaction)))
    }

    /// Whether a record is settled, with whatever must be committed with it.
    pub(crate) fn is_whole(&self, (lane, offset): Place) -> bool {
        let place = |(at, state): (Lane, &LaneState)| if at == lane { state.place_behind(offset) } else { 0 };
        let counts = closed::grow(&self.lanes, self.lanes().map(place).collect());
        counts.is_some_and(|counts| self.lanes.iter().zip(counts).all(|(lane, count)| count <= lane.settled))
    }

    /// Whether a settled record follows one that does not stand ahead of it in its lane.
    pub(crate) fn crosses(&self) -> bool {
        self.guarded.as_ref().is_some_and(|guarded| guarded.crossings > 0)
    }

    /// Leaves out of the first so many records of each lane what cannot be committed without something that is left out.
    pub(crate) fn close(&self, counts: &mut [usize]) {
        if self.crosses() {
            closed::shrink(&self.lanes, counts);
        }
    }
}
