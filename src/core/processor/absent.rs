//! Lanes whose topics are gone: their tasks go on without them.
//!
//! Were their offsets committed all the same:
//!
//! 1. a topic is deleted under a lane that rests,
//! 2. its offset, which is to be kept from expiring, goes into a transaction with the work of all tasks,
//! 3. the broker knows no such topic, and the transaction is aborted, for ever.

use super::Processor;
use crate::core::lane::Presence;
use crate::core::position::Lane;

impl Processor {
    /// The topic of a lane has gone, or is back.
    pub(super) fn is_now(&mut self, lane: Lane, presence: Presence) {
        if lane == Lane::Source {
            // Every commit says where the source stands: without it nothing can be committed.
            return;
        }
        for (partition, task) in &mut self.tasks {
            if let Some(state) = task.lane(lane) {
                state.presence = presence;
                self.touched.insert(*partition);
            }
        }
        self.recount();
    }
}
