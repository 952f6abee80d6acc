//! The positions in the state topic against the logs: R1 must hold for whoever goes on from them.

use redrive::core::invariant::{Breach, InvariantId};
use redrive::core::state::{LanePosition, Standing, StateEntry};

use super::super::cluster::transactions::Serial;
use super::super::cluster::{Cluster, Place, Topic};
use super::{Checker, broken};

impl Checker {
    /// Takes in what a committed transaction notes, then looks at all notes: an exact one has no record between it and
    /// the committed offset, any other is not ahead of it.
    pub(super) fn notes(&mut self, cluster: &Cluster, serial: Serial) -> Result<(), Breach> {
        for (place, offset, stored) in cluster.written(serial, Topic::State) {
            let record = &stored.record;
            let read = StateEntry::read(record.key.as_deref(), record.value.as_deref());
            let of_keys = |entry: &StateEntry<'_>| {
                matches!(
                    entry,
                    StateEntry::Applied { .. }
                        | StateEntry::Held { .. }
                        | StateEntry::Blockers { .. }
                        | StateEntry::Clock(Some(_))
                )
            };
            if read.as_ref().is_ok_and(of_keys) {
                continue;
            }
            let Ok(StateEntry::Position { lane, position: Some(position) }) = read else {
                return broken(InvariantId::R1, format!("{place:?} {offset} is {read:?}"));
            };
            let lane = self.policy.lanes().find(|known| self.policy.word(*known) == lane);
            let Some(lane) = lane else {
                return broken(InvariantId::R1, format!("{place:?} {offset} is of no lane"));
            };
            self.noted.insert(Place::lane(lane, place.partition), position);
        }
        self.noted.iter().try_for_each(|(place, position)| self.note(cluster, *place, position))
    }

    fn note(&self, cluster: &Cluster, place: Place, position: &LanePosition) -> Result<(), Breach> {
        let committed = self.committed.get(&place).copied().unwrap_or(0);
        let noted = position.offset.0;
        let missed = match position.standing {
            Standing::AtLeast => None,
            Standing::Exact => {
                let mut passed = cluster.log(place).data(noted, committed);
                passed.find(|(_, stored)| cluster.counts(stored.by)).map(|(offset, _)| offset)
            }
        };
        if noted > committed || missed.is_some() {
            let detail =
                format!("{place:?} is noted as {position:?}, its offset is {committed}, between: {missed:?}");
            return broken(InvariantId::R1, detail);
        }
        Ok(())
    }
}
