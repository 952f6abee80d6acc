//! What becomes of the lanes when their topics are gone, back, or made anew.

use crate::core::event::Event;
use crate::core::position::Lane;
use crate::kafka::reader::LaneId;
use crate::runtime::worker::Worker;
use crate::telemetry::blocked::unread;

impl Worker {
    /// The topic of a lane is gone.
    pub(super) fn vanished(&mut self, lane: Lane) {
        let policy = &self.settings.transactor.pipeline.policy;
        let keeps_state = policy.order.keeps_state();
        self.account.vanished(lane, unread(policy, lane));
        self.due.push_back(Event::Absent { lane });
        if keeps_state {
            // What is settled of it may hold up others of its keys, or may be committed long after them if it comes back.
            self.misplace(lane);
        }
    }

    /// It is there again.
    pub(super) fn back(&mut self, lane: Lane) {
        let policy = &self.settings.transactor.pipeline.policy;
        let needed = policy.needs(lane);
        self.account.back(lane, unread(policy, lane));
        self.due.push_back(Event::Present { lane });
        if !needed {
            // Tasks that were taken over without it have no place in it.
            self.misplace(lane);
        }
    }

    /// Has all tasks begin anew where this lane is.
    pub(super) fn misplace(&mut self, lane: Lane) {
        let tasks: Vec<_> = self.processor.tasks().collect();
        self.misplaced.extend(tasks.into_iter().map(|partition| LaneId { partition, lane }));
    }
}
