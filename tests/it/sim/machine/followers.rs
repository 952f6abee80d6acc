//! A planted bug: a record that follows another of its key, which was read from another lane, is committed before it.
//!
//! What a lane has in a transaction is left for the next one of its task, where a record of another lane follows it.

use std::collections::BTreeMap;

use redrive::core::event::{
    AbortCause, Delivery, Event, Suspects, Target, TaskCommit, Transaction, TransactionResult, Write,
};
use redrive::core::position::{CommitMark, Epoch, Lane, Offset, Partition};
use redrive::core::state::StateEntry;

use super::super::lineage::{self, Root};
use super::super::refusal::is_taken;

/// What was left of a task.
#[derive(Debug)]
struct Left {
    partition: Partition,
    epoch: Epoch,
    lane: Lane,
    /// Up to where its records were read.
    to: Offset,
    writes: Vec<Write>,
    stage: Stage,
    /// Of the transaction that is under way.
    mark: CommitMark,
}

/// How far what was left has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The transaction that it was left out of is under way.
    Leaving,
    /// That is committed.
    Left,
    /// The transaction that it was put into is under way.
    Coming,
}

/// Where the lanes of each task stand, and what was left of one.
#[derive(Debug)]
pub(super) struct Followers {
    seed: u64,
    /// Where each lane stands.
    next: BTreeMap<(Partition, Epoch, Lane), Offset>,
    /// Where each record was read that a handler was given.
    handed: BTreeMap<(Epoch, Root), (Lane, Offset)>,
    left: Option<Left>,
    /// Where the core has the writes of the transaction that is under way, where that is another one than its own.
    places: Option<Vec<usize>>,
}

impl Followers {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, next: BTreeMap::new(), handed: BTreeMap::new(), left: None, places: None }
    }

    /// The lanes of a task are opened here.
    pub(super) fn opened(&mut self, partition: Partition, epoch: Epoch, lanes: &[(Lane, Offset)]) {
        self.next.extend(lanes.iter().map(|(lane, next)| ((partition, epoch, *lane), *next)));
    }

    /// A handler is given a record.
    pub(super) fn handed(&mut self, delivery: &Delivery) {
        let Delivery { id, envelope, .. } = delivery;
        let origin = &envelope.origin;
        let root = Root::new(origin.topic.as_str(), origin.partition.0.into(), origin.offset.0);
        self.handed.extend(root.map(|root| ((id.epoch, root), (id.lane, id.offset))));
    }

    /// Hears how the last transaction ended.
    pub(super) fn hear(&mut self, event: &mut Event) {
        if let Event::Transacted { result: TransactionResult::Aborted(cause), .. } = event
            && let Some(places) = self.places.take()
        {
            blame_own(cause, &places);
        }
        let Some(left) = &mut self.left else { return };
        let is_committed = match event {
            // Its marks tell.
            Event::Transacted { result: TransactionResult::Unknown, .. } => return,
            Event::Transacted { result, .. } => *result == TransactionResult::Committed,
            Event::ReadBack { marks, .. } => marks.contains(&(left.partition, Some(left.mark))),
            _ => return,
        };
        match (left.stage, is_committed) {
            (Stage::Leaving, false) | (Stage::Coming, true) => self.left = None,
            (Stage::Leaving, true) | (Stage::Coming | Stage::Left, false) => left.stage = Stage::Left,
            (Stage::Left, true) => {}
        }
    }

    /// Puts in what was left, or leaves something.
    pub(super) fn spoil(&mut self, transaction: &mut Transaction) {
        self.places = None;
        match &mut self.left {
            Some(left) => {
                let of =
                    |task: &&mut TaskCommit| task.partition == left.partition && task.epoch == left.epoch;
                if let Some(task) = transaction.tasks.iter_mut().find(of) {
                    if task.offsets.iter().all(|(lane, _)| *lane != left.lane) {
                        task.offsets.push((left.lane, left.to));
                    }
                    (left.stage, left.mark) = (Stage::Coming, task.mark);
                    self.places = Some((0..transaction.writes.len()).collect());
                    transaction.writes.extend(left.writes.clone());
                }
            }
            None => self.leave(transaction),
        }
        for task in &transaction.tasks {
            let next = task.offsets.iter().map(|(lane, next)| ((task.partition, task.epoch, *lane), *next));
            self.next.extend(next);
        }
    }

    fn leave(&mut self, transaction: &mut Transaction) {
        for index in 0..transaction.tasks.len() {
            let task = &transaction.tasks[index];
            let Some(lane) = self.followed(task, &transaction.writes) else { continue };
            let (partition, epoch, mark) = (task.partition, task.epoch, task.mark);
            let writes = std::mem::take(&mut transaction.writes);
            let of_lane: Vec<bool> =
                writes.iter().map(|write| self.lane_of(task, write) == Some(lane)).collect();
            let kept = of_lane.iter().enumerate().filter(|(_, leaves)| !**leaves);
            self.places = Some(kept.map(|(place, _)| place).collect());
            let (mut left, mut kept) = (Vec::new(), Vec::new());
            for (write, leaves) in writes.into_iter().zip(of_lane) {
                if leaves { left.push(write) } else { kept.push(write) }
            }
            transaction.writes = kept;
            let from = self.next[&(partition, epoch, lane)];
            let mut offsets = transaction.tasks[index].offsets.iter_mut();
            let Some((_, to)) = offsets.find(|(of, _)| *of == lane) else { return };
            let to = std::mem::replace(to, from);
            let stage = Stage::Leaving;
            self.left = Some(Left { partition, epoch, lane, to, writes: left, stage, mark });
            return;
        }
    }

    /// A lane of which a record is followed by one of another lane, where all its writes are known and nobody refuses them.
    fn followed(&self, task: &TaskCommit, writes: &[Write]) -> Option<Lane> {
        let own: Vec<&Write> = writes.iter().filter(|write| write.partition == task.partition).collect();
        let fates = own.iter().filter(|write| !matches!(write.target, Target::Cases | Target::Audit));
        let lanes: Option<Vec<Lane>> = fates.map(|write| self.lane_of(task, write)).collect();
        let outputs: Vec<(&Write, Lane)> =
            own.iter().copied().zip(lanes?).filter(|(write, _)| write.target == Target::Output).collect();
        let (_, lane) = outputs.iter().enumerate().find_map(|(place, (first, lane))| {
            let mut behind = outputs.iter().skip(place);
            behind.any(|(write, of)| write.key == first.key && of != lane).then_some((first, *lane))
        })?;
        // What is left is put into another transaction, of which the core would accuse its own.
        let mut left = own.iter().filter(|write| self.lane_of(task, write) == Some(lane));
        left.all(|write| root_of(write).is_some_and(|root| is_taken(self.seed, root))).then_some(lane)
    }

    /// The lane from which the record of a write was read.
    fn lane_of(&self, task: &TaskCommit, write: &Write) -> Option<Lane> {
        let root = root_of(write).filter(|_| write.partition == task.partition)?;
        let within = |lane: Lane, offset: i64| {
            let from = self.next.get(&(task.partition, task.epoch, lane));
            let to = task.offsets.iter().find(|(of, _)| *of == lane).map(|(_, to)| to);
            from.zip(to).is_some_and(|(from, to)| (from.0..to.0).contains(&offset))
        };
        if root == Root::source(task.partition.0, root.offset) && within(Lane::Source, root.offset) {
            return Some(Lane::Source);
        }
        let (lane, offset) = self.handed.get(&(task.epoch, root)).copied()?;
        within(lane, offset.0).then_some(lane)
    }
}

/// Names the core's own writes, where any of them is refused.
fn blame_own(cause: &mut AbortCause, places: &[usize]) {
    let AbortCause::Refused { suspects: Suspects::Each(suspects) | Suspects::OneOf(suspects), .. } = cause
    else {
        return;
    };
    *suspects = suspects.iter().filter_map(|place| places.get(*place).copied()).collect();
    if suspects.is_empty() {
        *cause = AbortCause::Passing { detail: "what was left is refused".to_owned() };
    }
}

/// The record that a write comes of.
fn root_of(write: &Write) -> Option<Root> {
    if write.target == Target::State {
        let read = StateEntry::read(write.key.as_deref(), write.value.as_deref());
        let Ok(StateEntry::Applied { applied: Some(applied), .. }) = read else { return None };
        return Root::new(applied.topic, applied.partition.0.into(), applied.offset.0);
    }
    lineage::origin_of_write(&write.headers, write.value.as_ref())
}
