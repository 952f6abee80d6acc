//! The search for a record that is refused as it is, among those that fell with it.
//!
//! A broker measures and checks whole batches, so an error often names many records of which one is to blame. They are
//! tried again in ever smaller parts, each part the beginning of what is left in its lanes, until one alone is refused.
//! Transactions of everything else take turns with those of the search. What becomes of the record that is found is not
//! decided here ([`super::refused`]).

use std::collections::{BTreeMap, BTreeSet};

use super::Processor;
use super::blocks::Purpose;
use crate::core::envelope::DeliveryId;
use crate::core::event::{Flaw, Part, Suspects, Target};
use crate::core::lane::{LaneState, Settled};
use crate::core::position::{Epoch, Lane, Offset, Partition};
use crate::core::task::Task;
use crate::core::time::Now;

/// The records of a worker that something was refused with.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// Settled records, in the order in which they are tried.
    suspects: BTreeSet<DeliveryId>,
    /// One of so many at their beginning is to blame, as far as that is known.
    span: usize,
    turn: Turn,
}

/// Whose transaction is next while a search is on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Turn {
    #[default]
    Others,
    Search,
}

/// What an abort for a refused record came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The search goes on, or what it found can be written in another form.
    GoesOn,
    /// Nothing of these parts of tasks can be left out any more: they stop.
    NoOtherForm(BTreeSet<(Partition, Part)>),
    /// The error names no record that a task still has.
    NoRecord,
}

/// Which record of a transaction made which of its writes.
#[derive(Debug, Default)]
pub(super) struct Writers(Vec<(DeliveryId, usize)>);

impl Writers {
    /// Notes that all writes from the last record's up to the `end`-th are those of `id`.
    pub(super) fn add(&mut self, id: DeliveryId, end: usize) {
        self.0.push((id, end));
    }

    /// Whose write stands at `place`.
    fn of(&self, place: usize) -> Option<DeliveryId> {
        let index = self.0.partition_point(|(_, end)| *end <= place);
        self.0.get(index).map(|(id, _)| *id)
    }
}

impl Search {
    pub(super) fn is_empty(&self) -> bool {
        self.suspects.is_empty()
    }

    /// The first suspect of a lane: only the search takes it, and what stands behind it.
    pub(super) fn first(&self, partition: Partition, epoch: Epoch, lane: Lane) -> Option<Offset> {
        let at = |offset| DeliveryId { partition, epoch, lane, offset };
        self.suspects.range(at(Offset(i64::MIN))..=at(Offset(i64::MAX))).next().map(|id| id.offset)
    }

    /// The suspects of a lane up to one offset.
    pub(super) fn up_to(&self, last: DeliveryId) -> impl Iterator<Item = DeliveryId> + '_ {
        let first = DeliveryId { offset: Offset(i64::MIN), ..last };
        self.suspects.range(first..=last).copied()
    }

    /// How many settled records of a lane the next transaction can take without a search.
    pub(super) fn free(
        &self,
        partition: Partition,
        epoch: Epoch,
        (lane, state): (Lane, &LaneState),
    ) -> usize {
        match self.first(partition, epoch, lane) {
            None => state.ready(),
            Some(first) => state.ready_records().take_while(|settled| settled.id.offset < first).count(),
        }
    }

    /// Whose turn it is next.
    pub(super) fn gives_way(&mut self) {
        self.turn = Turn::Others;
    }

    pub(super) fn takes_turn(&mut self) {
        self.turn = Turn::Search;
    }

    pub(super) fn is_next(&self) -> bool {
        self.turn == Turn::Search
    }

    /// Records were committed: everything of a lane below `offset`.
    pub(super) fn committed(&mut self, partition: Partition, lane: Lane, offset: Offset) {
        if !self.is_empty() {
            self.suspects.retain(|id| id.partition != partition || id.lane != lane || id.offset >= offset);
        }
    }

    /// A part of the search could be written: what is looked for is in the rest.
    pub(super) fn narrowed(&mut self, tried: &BTreeSet<DeliveryId>) {
        self.span = match self.span.saturating_sub(tried.len()) {
            // None of those; the others fell with them and may be to blame for another batch.
            0 => self.suspects.len(),
            span => span,
        };
    }

    /// How many of them are tried next.
    const fn step(&self) -> usize {
        match self.span {
            0 | 1 => 1,
            span => span / 2,
        }
    }

    /// A task is gone.
    pub(super) fn forget(&mut self, partition: Partition) {
        self.suspects.retain(|id| id.partition != partition);
    }

    /// A part of what was tried was refused: the rest of it is innocent.
    fn refused(&mut self, tried: &BTreeSet<DeliveryId>, accused: &BTreeSet<DeliveryId>) {
        if self.suspects.is_empty() || !tried.is_empty() {
            self.span = accused.len();
        }
        self.suspects.retain(|id| !tried.contains(id));
        self.suspects.extend(accused);
    }
}

impl Processor {
    /// The suspects that the next transaction of the search tries; empty where there is nothing to search now.
    pub(super) fn sought(&self) -> BTreeSet<DeliveryId> {
        let next = self.search.suspects.iter().filter(|id| self.can_be_tried(id));
        next.take(self.search.step()).copied().collect()
    }

    /// The first suspect of a part of a task that is stopped, to be tried whether it can be written at last.
    pub(super) fn stopped_at(&self, partition: Partition, part: Part) -> BTreeSet<DeliveryId> {
        let here = |id: &&DeliveryId| id.partition == partition && Part::of(id.lane) == part;
        self.search.suspects.iter().find(here).copied().into_iter().collect()
    }

    /// Whether the next transaction can belong to the search.
    pub(super) fn searches(&self) -> bool {
        self.search.suspects.iter().any(|id| self.can_be_tried(id))
    }

    /// Whether a suspect can be written now: its task is not stopped, and whatever must be committed with it is settled.
    fn can_be_tried(&self, id: &DeliveryId) -> bool {
        // Without a guard nothing that was settled is taken back.
        let whole = |task: &Task| task.guarded.is_none() || task.is_whole((id.lane, id.offset));
        !is_stopped(&self.tasks, id) && self.tasks.get(&id.partition).is_none_or(whole)
    }

    /// A transaction that tried these suspects was aborted since records are refused.
    pub(super) fn accuse(
        &mut self,
        (writers, tried): (&Writers, &BTreeSet<DeliveryId>),
        suspects: &Suspects,
        refusal: (Target, Flaw, &str),
        now: Now,
    ) -> Found {
        let (Suspects::Each(places) | Suspects::OneOf(places)) = suspects;
        let accused: BTreeSet<DeliveryId> = places
            .iter()
            .filter_map(|place| writers.of(*place))
            .filter(|id| self.settled(*id).is_some())
            .collect();
        let is_certain = match suspects {
            Suspects::Each(_) => true,
            Suspects::OneOf(_) => accused.len() == 1,
        };
        if accused.is_empty() {
            return Found::NoRecord;
        }
        if !is_certain {
            self.search.refused(tried, &accused);
            return Found::GoesOn;
        }
        // Found: the search is over for all others. Those stay that a task stopped for.
        let tasks = &self.tasks;
        self.search.suspects.retain(|id| is_stopped(tasks, id));
        self.search.suspects.extend(&accused);
        self.search.span = 1;
        // What stands before it goes first.
        self.search.gives_way();
        // What has an effect first: what the guard judged by it is judged anew, and may not be written at all.
        let (effects, others): (Vec<_>, Vec<_>) = accused
            .into_iter()
            .partition(|id| self.settled(*id).is_some_and(|settled| settled.effect.is_some()));
        let stuck: BTreeSet<(Partition, Part)> = effects
            .into_iter()
            .chain(others)
            .filter(|id| self.settled(*id).is_some() && !self.give_way(*id, refusal, now))
            .map(|id| (id.partition, Part::of(id.lane)))
            .collect();
        if stuck.is_empty() { Found::GoesOn } else { Found::NoOtherForm(stuck) }
    }

    /// Records of a task that the next transaction can take without a search.
    pub(super) fn free(&self, partition: Partition, task: &Task) -> usize {
        self.takes(partition, task).map(|(_, count)| count).sum()
    }

    /// How many records of each lane of a task the next transaction can take without a search.
    pub(super) fn takes<'a>(
        &'a self,
        partition: Partition,
        task: &'a Task,
    ) -> impl Iterator<Item = (&'a LaneState, usize)> {
        task.takes(move |lane, state| self.search.free(partition, task.epoch, (lane, state)))
    }

    /// Below which offset a transaction takes the settled records of a lane; `None`: all.
    pub(super) fn reach(
        &self,
        purpose: &Purpose,
        tried: &BTreeSet<DeliveryId>,
        (partition, epoch, lane): (Partition, Epoch, Lane),
    ) -> Option<Offset> {
        let here = |id: &&DeliveryId| id.partition == partition && id.epoch == epoch && id.lane == lane;
        let last_tried = tried.iter().rev().find(here).map(|id| id.offset.next());
        match purpose {
            Purpose::Search => last_tried.or(Some(Offset(i64::MIN))),
            Purpose::Everything | Purpose::Probe(..) => {
                last_tried.or_else(|| self.search.first(partition, epoch, lane))
            }
        }
    }

    fn settled(&mut self, id: DeliveryId) -> Option<&Settled> {
        let task = self.tasks.get_mut(&id.partition).filter(|task| task.epoch == id.epoch)?;
        task.lane(id.lane)?.entry(id.offset)?.stage.settled()
    }
}

/// Whether the part of its task that a record belongs to is stopped.
fn is_stopped(tasks: &BTreeMap<Partition, Task>, id: &DeliveryId) -> bool {
    tasks.get(&id.partition).is_some_and(|task| task.block_of(Part::of(id.lane)).is_some())
}
