//! How a simulated shell takes over a task and reads its lanes.

use redrive::core::event::{Event, LaneStart, Restored};
use redrive::core::position::{Epoch, Founding, Lane, Offset, Partition};

use super::cluster::Place;
use super::cluster::log::Isolation;
use super::plan::Micro;
use super::planted::Bug;
use super::slot::Reader;
use super::world::{WorkerStep, World};

impl World {
    /// Fetches what Kafka knows of a task, once no transaction is pending on it.
    pub(crate) fn restore(&mut self, slot: usize, partition: i32, epoch: Epoch) {
        if self.holds(slot, Micro::Restore, || WorkerStep::Restore(partition, epoch)) {
            return;
        }
        if self.slots[slot].epochs.get(&partition) != Some(&epoch) {
            return;
        }
        let Some(lanes) = self.lanes_of(slot) else { return };
        let places: Vec<Place> = lanes.into_iter().map(|lane| Place::lane(lane, partition)).collect();
        let is_pending = places.iter().any(|place| self.cluster.has_pending_offsets(*place));
        let reads_keys = self.plan.policy.order.keeps_state();
        let waits = is_pending && self.bug != Some(Bug::UnstableRestore)
            || reads_keys && !self.state_is_stable(partition);
        if waits || self.stalled_until > self.now {
            let wait = self.latency() + self.random.millis(5, 50);
            return self.worker_after(slot, wait, WorkerStep::Restore(partition, epoch));
        }
        let lanes = places
            .iter()
            .map(|place| match self.cluster.committed(*place) {
                Some(committed) => LaneStart::Committed(Offset(committed.offset)),
                None => LaneStart::Fresh(Offset(0)),
            })
            .collect();
        let founding = Founding(self.plan.partitions as u32);
        let (mark, keys) = (self.mark(partition), self.keys(slot, partition));
        let found = Restored { mark, founding, lanes, topics: Vec::new(), keys };
        let partition = Partition(partition);
        let wait = self.latency();
        let event = Event::Restored { partition, epoch, found };
        self.worker_after(slot, wait, WorkerStep::Deliver(Box::new(event)));
    }

    pub(crate) fn open_task(
        &mut self,
        slot: usize,
        partition: Partition,
        epoch: Epoch,
        lanes: &[(Lane, Offset)],
    ) {
        self.checker.task_opened(self.slots[slot].process(), partition, epoch, self.now);
        for (lane, offset) in lanes.iter().copied() {
            let too_far = i64::from(self.bug == Some(Bug::RecordSkippedAtOpen) && lane == Lane::Source);
            let position = offset.0 + too_far;
            let reader = Reader { epoch, position, asked: None, answering: false, watched: false };
            self.slots[slot].readers.insert((partition.0, lane), reader);
        }
    }

    /// The end of a task's source, open transactions included.
    pub(crate) fn find_end(&mut self, slot: usize, partition: Partition, epoch: Epoch) {
        let end = self.cluster.log(Place::lane(Lane::Source, partition.0)).end();
        let wait = self.latency();
        let event = Event::End { partition, epoch, end: Offset(end) };
        self.worker_after(slot, wait, WorkerStep::Deliver(Box::new(event)));
    }

    /// The lanes of the policy that the process of a slot has.
    fn lanes_of(&self, slot: usize) -> Option<Vec<Lane>> {
        self.slots[slot].machine.as_ref().map(|machine| machine.policy().lanes().collect())
    }

    pub(crate) fn ask_records(
        &mut self,
        slot: usize,
        partition: Partition,
        epoch: Epoch,
        lane: Lane,
        most: usize,
    ) {
        let Some(reader) = self.slots[slot].readers.get_mut(&(partition.0, lane)) else { return };
        assert!(reader.epoch == epoch, "fetch of an epoch that is not open");
        assert!(reader.asked.is_none(), "two fetches of one lane");
        assert!(most > 0, "a fetch of nothing");
        reader.asked = Some(most);
        self.pump(slot);
    }

    fn isolation(&self) -> Isolation {
        match self.bug {
            Some(Bug::ReadUncommitted) => Isolation::Uncommitted,
            Some(_) | None => Isolation::Committed,
        }
    }

    /// Begins to answer every fetch for which there are records.
    pub(crate) fn pump(&mut self, slot: usize) {
        let isolation = self.isolation();
        let (mut ready, mut idle) = (Vec::new(), Vec::new());
        for ((partition, lane), reader) in &mut self.slots[slot].readers {
            if reader.asked.is_none() || reader.answering {
                continue;
            }
            let place = Place::lane(*lane, *partition);
            if !self.cluster.read(place, reader.position, 1, isolation).is_empty() {
                reader.answering = true;
                ready.push((*partition, reader.epoch, *lane));
            } else if !reader.watched && self.cluster.log(place).last_stable() > reader.position {
                reader.watched = true;
                idle.push((*partition, reader.epoch, *lane));
            }
        }
        for (partition, epoch, lane) in idle {
            let wait = self.random.millis(1, 100);
            self.worker_after(slot, wait, WorkerStep::Watch(partition, epoch, lane));
        }
        for (partition, epoch, lane) in ready {
            let wait = self.latency();
            self.worker_after(slot, wait, WorkerStep::FetchReady(partition, epoch, lane));
        }
    }

    /// A lane whose records are asked for may have nothing to give but ends of transactions.
    pub(crate) fn watch(&mut self, slot: usize, partition: Partition, epoch: Epoch, lane: Lane) {
        let isolation = self.isolation();
        let place = Place::lane(lane, partition.0);
        let Some(reader) = self.slots[slot].readers.get_mut(&(partition.0, lane)) else { return };
        if reader.epoch != epoch {
            return;
        }
        reader.watched = false;
        let next = self.cluster.log(place).last_stable();
        if self.bug == Some(Bug::EndAsked) {
            // The end of the log, whatever the lane has been given.
            return self.feed(slot, Event::Passed { partition, epoch, lane, next: Offset(next) });
        }
        let gives = !self.cluster.read(place, reader.position, 1, isolation).is_empty();
        if reader.asked.is_some() && !reader.answering && !gives && next > reader.position {
            reader.position = next;
            self.feed(slot, Event::Passed { partition, epoch, lane, next: Offset(next) });
        }
    }

    pub(crate) fn fetch_ready(&mut self, slot: usize, partition: Partition, epoch: Epoch, lane: Lane) {
        if self.stalled_until > self.now {
            let wait = self.latency();
            return self.worker_after(slot, wait, WorkerStep::FetchReady(partition.0, epoch, lane));
        }
        let isolation = self.isolation();
        let Some(reader) = self.slots[slot].readers.get_mut(&(partition.0, lane)) else { return };
        if reader.epoch != epoch {
            return;
        }
        let Some(most) = reader.asked.take() else { return };
        reader.answering = false;
        let some = self.random.between(1, most.min(32) as u64) as usize;
        let records = self.cluster.read(Place::lane(lane, partition.0), reader.position, some, isolation);
        let Some(last) = records.last() else { return };
        reader.position = last.offset.0 + 1;
        self.feed(slot, Event::Fetched { partition, epoch, lane, records });
    }
}
