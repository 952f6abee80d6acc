//! The handler's calls: R3 (never early), R4 (attempts), R6 (results kept), R7 (bytes), R9 (one per key).

use std::sync::Arc;
use std::time::Duration;

use redrive::core::envelope::DeliveryId;
use redrive::core::event::Delivery;
use redrive::core::invariant::{Breach, InvariantId};
use redrive::core::outcome::Outcome;
use redrive::core::position::{Epoch, Lane};

use super::super::cluster::group::Process;
use super::super::cluster::log::Stored;
use super::super::cluster::{Cluster, Place, Topic};
use super::super::holding::count;
use super::super::lineage::{self, Root};
use super::super::slot::{Slot, true_millis};
use super::copies::same_bytes;
use super::{Author, Checker, Holding, broken};

/// One delivery of one process.
pub(super) type CallKey = (Process, i32, Lane, i64, Epoch);

/// All executions of one delivery.
#[derive(Clone, Debug)]
pub(super) struct Call {
    executions: u32,
    pub(super) is_running: bool,
    pub(super) answer: Option<Answer>,
    key: Option<Vec<u8>>,
}

/// What the handler said last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Done,
    Failed,
    /// With a time before which it is of no use.
    FailedUntil,
}

fn key_of(process: Process, id: DeliveryId) -> CallKey {
    (process, id.partition.0, id.lane, id.offset.0, id.epoch)
}

impl Checker {
    pub(crate) fn handler_starts(
        &mut self,
        cluster: &Cluster,
        slot: &Slot,
        delivery: &Delivery,
        now: Duration,
    ) -> Result<(), Breach> {
        let id = delivery.id;
        let process = slot.process();
        let holding = (process, id.partition.0, id.epoch);
        let origin = &delivery.envelope.origin;
        let root = Root::new(origin.topic.as_str(), origin.partition.0.into(), origin.offset.0);
        let found = match (id.lane, root) {
            (Lane::Held, Some(root)) => {
                self.holds.calls.insert((process, id.partition.0, id.epoch, root), key_of(process, id));
                self.held_record(cluster, id.partition.0, root)
            }
            (Lane::Held, None) => None,
            _ => {
                let place = Place::lane(id.lane, id.partition.0);
                let stored = cluster.log(place).at(id.offset.0).filter(|stored| cluster.counts(stored.by));
                if let Some(stored) = stored {
                    self.never_early(slot, holding, id.lane, place, stored, now)?;
                }
                stored.cloned()
            }
        };
        let Some(stored) = found else {
            return broken(InvariantId::R1, format!("handled a record that is none: {id:?}"));
        };
        let stored = &stored;
        let before = match id.lane {
            Lane::Source | Lane::Control => 0,
            Lane::Held | Lane::Tier(_) => {
                lineage::number(&stored.record.headers, "redrive-attempt").unwrap_or(0)
            }
        };
        let most = self.policy.ladder.most_attempts();
        if i64::from(delivery.attempt) != before + 1 || delivery.attempt > most {
            let detail = format!("{id:?} is attempt {} after {before}, of {most}", delivery.attempt);
            return broken(InvariantId::R4, detail);
        }
        let envelope = &delivery.envelope;
        same_bytes(stored, &envelope.key, &envelope.value, &envelope.foreign)?;
        self.once(holding, process, delivery)?;
        self.one_per_key(holding, delivery)
    }

    fn never_early(
        &self,
        slot: &Slot,
        holding: Holding,
        lane: Lane,
        place: Place,
        stored: &Stored,
        now: Duration,
    ) -> Result<(), Breach> {
        let Some(delay) = self.policy.lane_delay(lane) else { return Ok(()) };
        let offset = stored.record.offset.0;
        let Some((seen_at, skew)) = self.seen.get(&(holding, lane, offset)).copied() else {
            return broken(
                InvariantId::R1,
                format!("handled a record that was not handed over: {place:?} {offset}"),
            );
        };
        // All in true milliseconds, by the clock of the reader when it saw the record.
        let delay = delay.as_millis() as i64;
        let written = true_millis(stored.record.timestamp.as_millis(), skew);
        let lane_due = written.min(seen_at.as_millis() as i64) + delay;
        let is_at = now.as_millis() as i64 + 1;
        if is_at < lane_due {
            let detail = format!("{place:?} {offset} is handled {} ms before its lane due", lane_due - is_at);
            return broken(InvariantId::R3, detail);
        }
        let writer_skew = self.due_skews.get(&(place, offset)).copied().unwrap_or(0);
        let most = slot.largest_skew(seen_at).max(writer_skew);
        let due = lineage::number(&stored.record.headers, "redrive-due").unwrap_or(i64::MAX);
        let due = true_millis(due, most);
        if is_at < due {
            let detail = format!("{place:?} {offset} is handled {} ms before it is due", due - is_at);
            return broken(InvariantId::R3, detail);
        }
        Ok(())
    }

    fn once(&mut self, holding: Holding, process: Process, delivery: &Delivery) -> Result<(), Breach> {
        let id = delivery.id;
        let formed = self.formed.get(&(holding, id.lane)).copied().unwrap_or(0);
        // One that a guard dropped for an output that was refused may be handled after all.
        let first = self.policy.order.keeps_state() && !self.calls.contains_key(&key_of(process, id));
        if id.offset.0 < formed && first {
            self.formed.insert((holding, id.lane), id.offset.0);
        } else if id.offset.0 < formed {
            let detail = format!("{id:?} is handled again after its transaction was formed");
            return broken(InvariantId::R6, detail);
        }
        let call = self.calls.entry(key_of(process, id)).or_insert_with(|| Call {
            executions: 0,
            is_running: false,
            answer: None,
            key: self.policy.order.key_of(&delivery.envelope).map(<[u8]>::to_vec),
        });
        // Where versions are counted, one that was handled is handled again behind another record of the version before it, whose
        // first one is dead: its output was refused.
        let again = call.answer == Some(Answer::Done) && delivery.execution == 1 && !call.is_running;
        if again && count(&self.policy.order).is_some() {
            (call.executions, call.answer) = (0, None);
        }
        if call.is_running {
            return broken(InvariantId::R9, format!("{id:?}: two executions at a time"));
        }
        if delivery.execution != call.executions + 1 || call.answer == Some(Answer::Done) {
            let detail = format!("{id:?}: execution {} follows {call:?}", delivery.execution);
            return broken(InvariantId::R6, detail);
        }
        if delivery.execution > self.policy.in_place.executions {
            return broken(InvariantId::R4, format!("{id:?}: execution {}", delivery.execution));
        }
        call.executions += 1;
        call.is_running = true;
        call.answer = None;
        Ok(())
    }

    fn one_per_key(&mut self, holding: Holding, delivery: &Delivery) -> Result<(), Breach> {
        let policy = Arc::clone(&self.policy);
        let Some(key) = policy.order.key_of(&delivery.envelope) else { return Ok(()) };
        let id = delivery.id;
        if !self.running_keys.insert((holding, key.to_vec())) {
            return broken(InvariantId::R9, format!("{id:?}: a record with its key is being handled"));
        }
        if delivery.execution == 1 {
            let version = delivery.envelope.version;
            let last = self.last_started.insert((holding, id.lane, key.to_vec()), (id.offset.0, version));
            // An older version may be handled late that was dropped for an output that was refused.
            if last.is_some_and(|(last, newer)| last >= id.offset.0 && (version.is_none() || newer < version))
            {
                return broken(InvariantId::R9, format!("{id:?} is handled after {last:?} of its key"));
            }
        }
        Ok(())
    }

    pub(crate) fn handler_answers(&mut self, process: Process, id: DeliveryId, outcome: &Outcome) {
        if let Some(call) = self.calls.get_mut(&key_of(process, id)) {
            call.answer = Some(match outcome {
                Outcome::Done(_) => Answer::Done,
                Outcome::Failed(failure) if failure.retry_after.is_some() => Answer::FailedUntil,
                Outcome::Failed(_) => Answer::Failed,
            });
        }
    }

    pub(crate) fn handler_ends(&mut self, process: Process, id: DeliveryId) {
        let Some(call) = self.calls.get_mut(&key_of(process, id)) else { return };
        call.is_running = false;
        if let Some(key) = call.key.clone() {
            self.running_keys.remove(&((process, id.partition.0, id.epoch), key));
        }
    }

    /// What the handler said last to the author of a transaction of the record at this place.
    pub(super) fn answer_of(&self, by: &Author<'_>, place: Place, offset: i64, root: Root) -> Option<Answer> {
        let (_, epoch) = by.tasks.iter().find(|(partition, _)| *partition == place.partition)?;
        if place.topic == Topic::State {
            let call = self.holds.calls.get(&(by.process, place.partition, *epoch, root))?;
            return self.calls.get(call)?.answer;
        }
        let lane = match place.topic {
            Topic::Tier(tier) => Lane::Tier(tier),
            Topic::Control => Lane::Control,
            Topic::Source
            | Topic::Output
            | Topic::StaleOutput
            | Topic::DeadLetter
            | Topic::State
            | Topic::Cases
            | Topic::Audit => Lane::Source,
        };
        self.calls.get(&(by.process, place.partition, lane, offset, *epoch))?.answer
    }
}
