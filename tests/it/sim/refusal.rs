//! Records that the simulated brokers refuse as they are, and whom the client names for it.

use redrive::core::event::{AbortCause, Flaw, Suspects, Target, Write};
use redrive::core::record::{Header, Record};

use super::cluster::Place;
use super::lineage::{self, Root};
use super::source::temper;
use super::world::{Faults, World};

/// What brokers refuse of a record, whenever it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bulk {
    Fits,
    /// Its copies and its dead letter while they tell of its failures.
    Texts,
    /// Its copies.
    Copies,
    /// Its copies, and its dead letter while that carries the value.
    Value,
    /// Its output.
    Output,
    /// Its copies and its dead letter, in any form, for as long as there are faults.
    Everything,
}

impl Bulk {
    fn of(seed: u64, root: Root) -> Self {
        match temper(seed, root, 3) % 100 {
            0..=2 => Self::Texts,
            3..=4 => Self::Copies,
            5..=7 => Self::Value,
            8..=10 => Self::Output,
            11 => Self::Everything,
            _ => Self::Fits,
        }
    }

    fn refuses(self, target: Target, record: &Record, faults: Faults) -> bool {
        match (self, target) {
            (Self::Texts, Target::Tier(_) | Target::DeadLetter) => tells(&record.headers),
            (Self::Copies | Self::Value, Target::Tier(_) | Target::StaleOutput)
            | (Self::Output, Target::Output) => true,
            (Self::Value, Target::DeadLetter) => record.value.is_some(),
            (Self::Everything, Target::Tier(_) | Target::DeadLetter) => faults == Faults::Strike,
            _ => false,
        }
    }
}

/// Whether brokers take whatever is written for a record, as far as that is due to itself.
pub(crate) fn is_taken(seed: u64, root: Root) -> bool {
    Bulk::of(seed, root) == Bulk::Fits
}

/// Whether a copy or dead letter tells of failures in texts.
pub(crate) fn tells(headers: &[Header]) -> bool {
    ["redrive-detail", "redrive-history"].iter().any(|name| lineage::text(headers, name).is_some())
}

impl World {
    /// Why the `index`-th write of a transaction is refused, if it is.
    pub(crate) fn refusal(
        &mut self,
        slot: usize,
        (index, write): (usize, &Write),
        (place, record): (Place, &Record),
    ) -> Option<AbortCause> {
        let root = lineage::origin_of(record);
        let bulk = root.map_or(Bulk::Fits, |root| Bulk::of(self.plan.seed, root));
        let always = self.refused.contains_key(&write.target);
        if !always && !bulk.refuses(write.target, record, self.faults) {
            return None;
        }
        let invalid = root.is_some_and(|root| temper(self.plan.seed, root, 4).is_multiple_of(5));
        let flaw = if invalid { Flaw::Invalid } else { Flaw::TooLarge };
        if let Some(root) = root {
            self.checker.note_refused(root, place.topic, record);
        }
        let suspects = if self.random.chance(30) {
            Suspects::Each(vec![index])
        } else {
            Suspects::OneOf(self.batch_of(slot, index, place))
        };
        Some(AbortCause::Refused {
            target: write.target,
            partition: write.partition,
            flaw,
            suspects,
            detail: "as planned".to_owned(),
        })
    }

    /// The writes that were sent in one batch with this one.
    fn batch_of(&mut self, slot: usize, index: usize, place: Place) -> Vec<usize> {
        let Some(job) = &self.slots[slot].job else { return vec![index] };
        let writes = job.transaction.writes.iter().enumerate();
        let there: Vec<usize> = writes
            .filter(|(_, write)| self.to_send(slot, write).0 == place)
            .map(|(place, _)| place)
            .collect();
        let at = there.iter().position(|place| *place == index).expect("it goes there itself");
        let (first, last) = (self.random.index(at + 1), at + self.random.index(there.len() - at));
        there[first..=last].to_vec()
    }
}
