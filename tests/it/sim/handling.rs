//! The simulated handlers, and whoever writes the records.

use redrive::core::envelope::DeliveryId;
use redrive::core::event::{Delivery, Event};
use redrive::core::outcome::Outcome;
use redrive::core::record::Record;

use super::cluster::transactions::Ending;
use super::cluster::{Place, Topic};
use super::holding;
use super::lineage::Root;
use super::planted::Bug;
use super::source;
use super::world::{Step, WorkerStep, World};

impl World {
    pub(crate) fn handle(&mut self, slot: usize, delivery: Delivery) {
        self.counts.handled += 1;
        let process = self.slots[slot].process();
        let started = self.checker.handler_starts(&self.cluster, &self.slots[slot], &delivery, self.now);
        self.check(started);
        let id = delivery.id;
        let (outcome, takes) = source::answer(&self.plan, self.mood.0, &delivery, &mut self.random);
        if self.bug == Some(Bug::AnswerBeforeEnd) {
            let event = Event::Handled { delivery: id, outcome: outcome.clone() };
            self.checker.handler_answers(process, id, &outcome);
            self.worker_after(slot, takes / 4, WorkerStep::Deliver(Box::new(event)));
        }
        self.worker_after(slot, takes, WorkerStep::HandlerEnds(id, Box::new(outcome)));
    }

    pub(crate) fn handler_ends(&mut self, slot: usize, delivery: DeliveryId, outcome: Outcome) {
        let process = self.slots[slot].process();
        self.checker.handler_answers(process, delivery, &outcome);
        self.checker.handler_ends(process, delivery);
        if self.bug != Some(Bug::AnswerBeforeEnd) {
            self.feed(slot, Event::Handled { delivery, outcome });
        }
    }

    pub(crate) fn write_source(&mut self, place: Place, mut record: Record) {
        if holding::count(&self.plan.policy.order).is_some() {
            self.counters.0.add(place.partition, &mut record, &mut self.counters.1);
        }
        // Now and then the producer is transactional, and its transaction may be aborted.
        if place.topic == Topic::Source && self.random.chance(15) {
            let serial = self.cluster.begin_foreign(vec![(place, record)]);
            let ending = if self.random.chance(40) { Ending::Aborted } else { Ending::Committed };
            let wait = self.random.millis(0, 200);
            if ending == Ending::Committed {
                let (place, offset) = self.cluster.transactions.of(serial).writes[0];
                self.checker.root_written(Root { place, offset }, &self.plan);
            }
            self.after(wait, Step::ForeignEnds(serial, ending));
        } else {
            let offset = self.cluster.append_plain(place, record);
            self.checker.root_written(Root { place, offset }, &self.plan);
        }
        self.counts.records += 1;
    }
}
