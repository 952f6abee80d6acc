//! The worker as a member of its group: serving the consumers, taking tasks over and giving them back.

use std::collections::BTreeSet;

use crate::core::event::Event;
use crate::core::position::Partition;
use crate::fail_point::fail_point;
use crate::kafka::GroupChange;
use crate::kafka::reader::LaneId;
use crate::runtime::reading::Met;
use crate::runtime::worker::{Reach, Revoked, SERVE_EVERY, Worker, WorkerError};

impl Worker {
    /// Serves both consumers where that is due.
    pub(super) fn serve(&mut self) -> Result<(), WorkerError> {
        let now = self.clock.now().mono;
        if !self.wakes.take_consumer() && now.since(self.served) < SERVE_EVERY {
            return Ok(());
        }
        self.served = now;
        self.meet_demands()?;
        self.reading.tiers.serve()?;
        for change in self.reading.source.serve()? {
            self.changed(change)?;
        }
        if let Some(taken) = self.reading.source.take_name_taken() {
            self.account.name_taken(&taken);
        }
        for detail in [self.reading.source.take_refusals(), self.reading.tiers.take_refusals()].concat() {
            self.account.access_refused(&detail);
        }
        // Letting a partition go answers whatever the group asks at that moment: not before that is due.
        while self.revoked.is_none()
            && let Some(lane) = self.misplaced.pop_first()
        {
            self.begin_anew(lane)?;
        }
        self.look_for_brokers();
        Ok(())
    }

    /// Tries to meet every demand, and tells how far the lanes have come that gave nothing.
    pub(super) fn meet_demands(&mut self) -> Result<(), WorkerError> {
        let mut idle = Vec::new();
        // A queue that the client left something in does not wake; what is missed that way waits this long at most.
        for lane in self.reading.demanded() {
            let met = self.reading.try_meet(lane);
            if matches!(met, Met::Nothing) {
                idle.push(lane);
            }
            self.met(lane, met);
        }
        for (LaneId { partition, lane }, epoch, next) in self.reading.passed(&idle)? {
            self.due.push_back(Event::Passed { partition, epoch, lane, next });
        }
        Ok(())
    }

    /// The client tells when it has lost all brokers, but not when one is back: that is asked for.
    fn look_for_brokers(&mut self) {
        let outage = [self.reading.source.take_outage(), self.reading.tiers.take_outage()]
            .into_iter()
            .flatten()
            .next();
        if let (Some(detail), Reach::Found) = (outage, self.reach) {
            self.reach = Reach::Lost;
            self.account.broker_lost(&detail);
            self.lookup.reach();
        }
    }

    fn changed(&mut self, change: GroupChange) -> Result<(), WorkerError> {
        match change {
            GroupChange::Assigned(partitions) => {
                fail_point!(Assigned);
                self.account.assigned(&partitions);
                self.due.push_back(Event::Assigned(partitions));
            }
            GroupChange::Revoked(partitions) => {
                fail_point!(Revoked);
                self.account.revoked(&partitions);
                let all: BTreeSet<_> = partitions.iter().copied().collect();
                self.revoked = Some(Revoked { open: all.clone(), all });
                self.due.push_back(Event::Revoked(partitions));
                self.answer_if_given()?;
            }
            GroupChange::Lost(partitions) => {
                fail_point!(Lost);
                self.account.lost(&partitions);
                for partition in &partitions {
                    self.close(*partition)?;
                }
                self.reading.source.answer(&partitions.iter().copied().collect())?;
                if let Some(revoked) = self.revoked.as_mut() {
                    revoked.open.retain(|partition| !partitions.contains(partition));
                }
                self.answer_if_given()?;
                self.due.push_back(Event::Lost(partitions));
            }
        }
        Ok(())
    }

    /// Begins the task of a lane anew that stands behind the end of its log. Were it left alone:
    ///
    /// 1. a tier is made anew, and its lane stands at an offset that is not there yet,
    /// 2. the task writes its retries to that tier,
    /// 3. the log grows beyond the lane's place, the lane goes on, and what lies before it is never read.
    ///
    /// With the topic the broker has forgotten the group's offset: then the lane begins at the beginning. Where it has not,
    /// the task stays stopped as a whole, so that the log does not grow.
    ///
    /// Nor is a task left alone whose lanes are not open yet: where they begin may have been found out before.
    fn begin_anew(&mut self, LaneId { partition, lane: _ }: LaneId) -> Result<(), WorkerError> {
        if !self.epochs.owns(partition) {
            return Ok(());
        }
        self.close(partition)?;
        self.reading.source.answer(&BTreeSet::from([partition]))?;
        self.account.taken_anew(partition);
        self.due.extend([Event::Lost(vec![partition]), Event::Assigned(vec![partition])]);
        Ok(())
    }

    /// The core has done with a task.
    pub(super) fn give_back(&mut self, partition: Partition) -> Result<(), WorkerError> {
        self.close(partition)?;
        fail_point!(LanesEnded);
        if let Some(revoked) = self.revoked.as_mut() {
            revoked.open.remove(&partition);
        }
        self.answer_if_given()
    }

    /// Lets the group have what it asked back, once the core has given all of it: the group takes one answer.
    fn answer_if_given(&mut self) -> Result<(), WorkerError> {
        if let Some(revoked) = self.revoked.take_if(|revoked| revoked.open.is_empty()) {
            self.reading.source.answer(&revoked.all)?;
            fail_point!(GivenBack);
        }
        Ok(())
    }

    /// Ends everything that works for a task, its epoch first.
    fn close(&mut self, partition: Partition) -> Result<(), WorkerError> {
        self.epochs.invalidate(partition);
        self.lookup.forget(partition);
        self.deliveries.give_up(partition);
        self.reading.give_up(partition)?;
        self.account.closed(partition);
        Ok(())
    }
}
