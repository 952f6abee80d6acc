//! The simulated producers of a worker: fenced by whoever takes their id, and made anew when work goes on.

use std::time::Duration;

use redrive::core::event::{Generation, Slot, TransactionResult};

use super::cluster::transactions::Ending;
use super::plan::Micro;
use super::planted::Bug;
use super::transactor::Stage;
use super::world::{WorkerStep, World};

impl World {
    /// The producer is fenced and the commit was not sent. A new one is made when the core wants to go on.
    pub(crate) fn fenced(&mut self, slot: usize) {
        let after = self.now.saturating_sub(self.job(slot).begun);
        let turn = self.job(slot).turn;
        let formed_in = self.job(slot).membership.map_or(0, |membership| membership.generation);
        let generation = Generation(i32::try_from(formed_in).unwrap_or(i32::MAX));
        let result = TransactionResult::Fenced { slot: [Slot::First, Slot::Second][turn], after, generation };
        match self.bug {
            // It takes the id back whatever the core makes of it.
            Some(Bug::TwinTakesIdBack) => self.fence(slot, turn),
            Some(_) | None => self.slots[slot].discarded[turn] = true,
        }
        self.worker_after(slot, Duration::ZERO, WorkerStep::Answer(result));
    }

    /// First half of making a producer anew.
    pub(crate) fn fence(&mut self, slot: usize, turn: usize) {
        let id = self.slots[slot].id(turn);
        let (epoch, aborted) = self.cluster.fence(id);
        self.slots[slot].producers[turn] = epoch;
        self.slots[slot].discarded[turn] = false;
        if let Some(serial) = aborted {
            self.ended(serial, Ending::Aborted);
        }
    }

    /// Second half: the transaction that waits for it begins once what the id left open has ended.
    pub(crate) fn renewed(&mut self, slot: usize, turn: usize) {
        if self.holds(slot, Micro::Renew, || WorkerStep::Renewed(turn)) {
            return;
        }
        let id = self.slots[slot].id(turn);
        if !self.cluster.transactions.is_settled(id) {
            return self.worker_after(slot, Duration::from_millis(20), WorkerStep::Renewed(turn));
        }
        self.next_stage(slot, Stage::Begin);
    }
}
