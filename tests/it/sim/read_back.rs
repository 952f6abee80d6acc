//! The simulated read-back: a new producer first, then the stable marks of the tasks of the transaction in doubt.

use std::time::Duration;

use redrive::core::event::Event;
use redrive::core::position::{CommitMark, Lane, Partition, Sequence};

use super::cluster::Place;
use super::plan::Micro;
use super::planted::Bug;
use super::reached::Situation;
use super::slot::Doubt;
use super::world::{WorkerStep, World};

impl World {
    pub(crate) fn read_back(&mut self, slot: usize, doubt: Doubt) {
        if self.holds(slot, Micro::ReadBack, || WorkerStep::ReadBack(doubt.clone())) {
            return;
        }
        if self.stalled_until > self.now {
            let wait = self.latency();
            return self.worker_after(slot, wait, WorkerStep::ReadBack(doubt));
        }
        if self.bug == Some(Bug::ReadBackBeforeInit) {
            self.answer_marks(slot, &doubt);
            if let Some(turn) = self.slots[slot].doubtful.take() {
                self.fence(slot, turn);
            }
            return;
        }
        if let Some(turn) = self.slots[slot].doubtful {
            self.fence(slot, turn);
        }
        let wait = self.latency();
        self.worker_after(slot, wait, WorkerStep::ReadMarks(doubt));
    }

    pub(crate) fn read_marks(&mut self, slot: usize, doubt: Doubt) {
        let settled = self.slots[slot].doubtful.is_none_or(|turn| {
            let id = self.slots[slot].id(turn);
            self.cluster.transactions.is_settled(id)
        });
        let is_pending = doubt.partitions.iter().any(|partition| {
            let place = Place::lane(Lane::Source, *partition);
            self.cluster.has_pending_offsets(place)
        });
        if !settled || is_pending || self.stalled_until > self.now {
            let wait = self.latency() + Duration::from_millis(20);
            return self.worker_after(slot, wait, WorkerStep::ReadMarks(doubt));
        }
        self.slots[slot].doubtful = None;
        self.answer_marks(slot, &doubt);
    }

    fn answer_marks(&mut self, slot: usize, doubt: &Doubt) {
        let first = doubt.partitions.first().and_then(|partition| self.mark(*partition));
        let is_ours = first.is_some() && first == doubt.mark;
        self.reached.insert(if is_ours { Situation::ReadBackCommitted } else { Situation::ReadBackAborted });
        let marks = doubt.partitions.iter().map(|partition| (Partition(*partition), self.mark(*partition)));
        let marks: Vec<_> = match self.bug {
            Some(Bug::MarkOffByOne) => marks
                .map(|(partition, mark)| {
                    let raised =
                        mark.map(|mark| CommitMark { sequence: Sequence(mark.sequence.0 + 1), ..mark });
                    (partition, raised)
                })
                .collect(),
            Some(_) | None => marks.collect(),
        };
        let event = Event::ReadBack { transaction: doubt.transaction, marks };
        let wait = self.latency();
        self.worker_after(slot, wait, WorkerStep::Deliver(Box::new(event)));
    }

    /// The mark at the committed source offset of a task.
    pub(crate) fn mark(&self, partition: i32) -> Option<CommitMark> {
        self.cluster.committed(Place::lane(Lane::Source, partition))?.metadata.parse().ok()
    }
}
