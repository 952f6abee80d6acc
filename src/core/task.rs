//! One task: partition *p* of a pipeline's lanes, and how far its take-over or hand-over has come.

use std::collections::VecDeque;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::core::event::{Part, Target};
use crate::core::lane::{LaneState, Presence};
use crate::core::position::{Epoch, Founding, Lane, Offset, OffsetRange, Sequence, TierIndex, TopicId};
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
    pub(crate) keys: HashMap<u64, VecDeque<(Lane, Offset)>, FixedState>,
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
            running: 0,
            block: None,
            mute: None,
            topics: Vec::new(),
            notes: Notes::default(),
            stale: None,
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
        self.phase == Phase::Running && self.block_of(Part::of(lane)).is_none() && open
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
        let (source, tiers) =
            (in_flight(Lane::Source), tiers.iter().map(LaneState::in_flight).sum::<usize>());
        let own = match lane {
            Lane::Source => source,
            Lane::Tier(_) => tiers,
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

    /// Records that the next transaction can take.
    pub(crate) fn ready(&self) -> usize {
        self.writable().map(|(_, state)| state.ready()).sum()
    }

    /// The lanes whose records the next transaction can take.
    pub(crate) fn writable(&self) -> impl Iterator<Item = (Lane, &LaneState)> {
        self.lanes().filter(|(lane, state)| {
            state.presence == Presence::There && self.block_of(Part::of(*lane)).is_none()
        })
    }
}
