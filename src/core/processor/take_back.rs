//! What becomes of a key when one of its settled records gets another fate: what went by the first one is judged anew.

use std::collections::{BTreeSet, VecDeque};

use super::Processor;
use super::blocks::{Carries, Purpose};
use crate::core::closed::{self, Place};
use crate::core::envelope::DeliveryId;
use crate::core::guard::{Entry, KeyHash};
use crate::core::lane::{Disposition, Effect, LaneState, Pending, Presence, Settled, Stage};
use crate::core::policy::{First, Guard};
use crate::core::position::{Lane, Partition};
use crate::core::task::{Mode, Staged, Task};
use crate::core::time::Now;

impl Processor {
    /// A settled record cannot be written and is a dead letter instead: it has no effect, and what the guard let have none, or
    /// let through, because of it is judged anew.
    pub(super) fn take_back(
        &mut self,
        id: DeliveryId,
        (key, order): (KeyHash, u64),
        effect: Option<Effect>,
        now: Now,
    ) {
        let first = match &self.policy.order.guard {
            Guard::Contiguous(rules) => Some(rules.first),
            Guard::None | Guard::Latest(_) => None,
        };
        let Some(task) = self.tasks.get_mut(&id.partition) else { return };
        let Some(guarded) = task.guarded.as_deref_mut() else { return };
        let counts = guarded.mode == Mode::Count;
        let mut again: Vec<(u64, Place)> = Vec::new();
        // What had no effect had no part in a verdict.
        let lanes = task.lanes.iter_mut().filter(|_| effect.is_some());
        for (index, lane) in lanes.enumerate() {
            for (place, entry) in lane.window.iter_mut().enumerate() {
                let Some(settled) = entry.stage.settled() else { continue };
                // Where versions are counted, what was let through goes by it too.
                let judged = settled.judged.is_some() || counts && settled.effect.is_some();
                // What an operator asked for stands, whatever becomes of others.
                let judged = judged && !matches!(settled.fate, Disposition::Obeyed(_));
                if settled.key == Some(key) && judged && settled.order > order {
                    again.push((settled.order, (Lane::at(index), entry.offset)));
                    guarded.leaves(settled);
                    if let Disposition::Hold { place, .. } = settled.fate {
                        guarded.held.unhold(key, place);
                    }
                    entry.stage = Stage::Queued(Pending::again(settled));
                    lane.settled = lane.settled.min(place);
                }
            }
        }
        if guarded.mode.holds() {
            start_count(&mut task.lanes, id, first, guarded.applied.get(key), key);
            let mut left: Vec<&Settled> = of_key(&task.lanes, key).collect();
            left.sort_unstable_by_key(|settled| settled.order);
            guarded.held.again(key, left.into_iter());
        }
        match last_settled(&task.lanes, key, guarded.mode) {
            Some(staged) => drop(guarded.staged.insert(key, staged)),
            None => drop(guarded.staged.remove(&key)),
        }
        self.touched.insert(id.partition);
        if again.is_empty() {
            return;
        }
        again.sort_unstable();
        let mut waiting: VecDeque<Place> = again.into_iter().map(|(_, place)| place).collect();
        match task.keys.get_mut(&key) {
            // Another record of the key has the turn.
            Some(behind) => {
                waiting.append(behind);
                *behind = waiting;
            }
            None => {
                task.keys.insert(key, waiting);
                self.next_of(key, id, now);
            }
        }
    }

    /// Leaves out of what the next transaction takes of a task whatever cannot be committed without something that is left out,
    /// or adds that to what it must take.
    pub(super) fn make_whole(
        &self,
        (partition, task): (Partition, &Task),
        purpose: &Purpose,
        carries: Carries,
        counts: &mut Vec<usize>,
        tried: &mut BTreeSet<DeliveryId>,
        alone: Alone,
    ) {
        let epoch = task.epoch;
        match purpose {
            Purpose::Search | Purpose::Probe(..) if !tried.is_empty() => {
                if let Some(grown) = closed::grow(&task.lanes, counts.clone()) {
                    *counts = grown;
                    // What is taken with them is tried with them.
                    let taken = task.lanes().zip(counts.iter()).filter_map(|((lane, state), count)| {
                        let last = state.window.get(count.checked_sub(1)?)?.offset;
                        Some((lane, last))
                    });
                    for (lane, last) in taken {
                        tried.extend(self.search.up_to(DeliveryId { partition, epoch, lane, offset: last }));
                    }
                } else {
                    task.close(counts);
                }
            }
            Purpose::Search | Purpose::Probe(..) | Purpose::Everything => {
                task.close(counts);
                // What belongs together goes whole, however much that is.
                if alone == Alone::Yes && counts.iter().all(|count| *count == 0) {
                    let most = |(lane, state): (Lane, &LaneState)| {
                        let open = state.presence == Presence::There && carries.takes(lane);
                        if open { self.search.free(partition, epoch, (lane, state)) } else { 0 }
                    };
                    *counts = closed::smallest(&task.lanes, &task.lanes().map(most).collect::<Vec<_>>());
                }
            }
        }
    }
}

/// Whether a transaction holds nothing yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alone {
    Yes,
    No,
}

/// A record that would have been applied as the first of its key is dead: the count starts with it all the same.
fn start_count(
    lanes: &mut [LaneState],
    id: DeliveryId,
    first: Option<First>,
    applied: Option<Entry>,
    key: KeyHash,
) {
    let earlier = of_key(lanes, key).any(|settled| settled.id != id && settled.effect.is_some());
    let (Some(first), None, false) = (first, applied, earlier) else { return };
    let entry = lanes.get_mut(id.lane.index()).and_then(|lane| lane.entry(id.offset));
    let Some(Stage::Settled(settled)) = entry.map(|entry| &mut entry.stage) else { return };
    let Some(version) = settled.envelope.version.filter(|_| settled.admitted) else { return };
    settled.effect = Entry::begun_with(first.or(version)).map(|newest| Effect { key, newest });
}

/// The settled records of a key that are not committed.
fn of_key(lanes: &[LaneState], key: KeyHash) -> impl Iterator<Item = &Settled> {
    let settled = lanes.iter().flat_map(|lane| &lane.window).filter_map(|entry| entry.stage.settled());
    settled.filter(move |settled| settled.key == Some(key))
}

/// The last settled record of a key that is not committed, as far as later ones depend on it.
fn last_settled(lanes: &[LaneState], key: KeyHash, mode: Mode) -> Option<Staged> {
    let newest = of_key(lanes, key).filter(|settled| settled.effect.is_some());
    let newest = newest.max_by_key(|settled| settled.order);
    let last = match mode.holds() {
        true => of_key(lanes, key).max_by_key(|settled| settled.order),
        false => newest,
    }?;
    let at = (last.id.lane, last.id.offset);
    let newest = newest.and_then(|settled| settled.effect).map(|effect| effect.newest);
    Some(Staged { at, newest })
}
