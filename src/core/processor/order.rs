//! The guard in a task: a record's verdict when its turn comes, and what a commit makes of it.
//!
//! A verdict goes by the newest version whose effect is committed or is settled and will be committed first. Nothing is noted as
//! applied before its commit, so a record that failed, was aborted or was lost with its task is never taken for its own
//! duplicate.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::Processor;
use super::blocks::{Carries, Purpose};
use super::look::note_failure;
use super::write::entry;
use crate::core::class::{Class, Reason};
use crate::core::closed::{self, Place};
use crate::core::envelope::{DeliveryId, Envelope};
use crate::core::event::{Dropped, Target, Write};
use crate::core::guard::judge::{self, Judgement};
use crate::core::guard::{Entry, KeyHash, Version, fingerprint};
use crate::core::invariant::InvariantId;
use crate::core::lane::{Disposition, Effect, LaneState, Pending, Presence, Settled, Stage};
use crate::core::outcome::Verdict;
use crate::core::policy::{Guard, OrderPolicy};
use crate::core::position::{Lane, Partition};
use crate::core::state::{Applied, applied_key};
use crate::core::task::{Guarded, Staged, Task};
use crate::core::time::{Now, Timestamp};

/// Whether a record whose turn has come goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// To the handler.
    Taken,
    /// Its fate is decided, and the next record of its key has the turn.
    Passed,
}

impl Processor {
    /// Judges a queued record of a guarded order whose turn it is, and settles it where the handler is not to see it.
    pub(super) fn take_turn(&mut self, key: KeyHash, id: DeliveryId, now: Now) -> Turn {
        if !self.policy.order.is_guarded() {
            return Turn::Taken;
        }
        let policy = Arc::clone(&self.policy);
        let Guard::Latest(rules) = &policy.order.guard else { return Turn::Taken };
        let Some(task) = self.tasks.get_mut(&id.partition).filter(|task| task.executes()) else {
            return Turn::Taken;
        };
        let Some(guarded) = task.guarded.as_deref() else { return Turn::Taken };
        let entry = task.lanes.get_mut(id.lane.index()).and_then(|lane| lane.entry(id.offset));
        let Some(entry) = entry else { return Turn::Taken };
        let mut pending = match std::mem::replace(&mut entry.stage, Stage::Moving) {
            Stage::Queued(pending) => pending,
            other @ (Stage::Running(_) | Stage::Pausing(_) | Stage::Settled(_) | Stage::Moving) => {
                entry.stage = other;
                return Turn::Taken;
            }
        };
        let (newest, follows) = guarded.newest(key, (id.lane, id.offset));
        pending.follows = follows;
        let envelope = &pending.envelope;
        let dead = |reason| Disposition::DeadLetter(Verdict { class: Class::Permanent, reason });
        let (fate, detail) = match judge::latest(rules, newest, envelope.version, envelope.value.as_deref()) {
            Judgement::Admitted { version } => {
                if envelope.version != Some(version) {
                    Arc::make_mut(&mut pending.envelope).version = Some(version);
                }
                entry.stage = Stage::Queued(pending);
                return Turn::Taken;
            }
            Judgement::Duplicate => (Disposition::Drop(Dropped::Duplicate), String::new()),
            Judgement::Stale => (Disposition::Drop(Dropped::Stale), String::new()),
            Judgement::Conflict { version } => {
                let detail = format!("version `{version}` is applied with another value");
                (dead(Reason::VersionConflict), detail)
            }
            Judgement::NoVersion => {
                let last = i64::MAX;
                let detail =
                    format!("it counts as the version after `{last}`, which is the largest there is");
                (dead(Reason::NoVersion), detail)
            }
        };
        pending.judged = Some(Box::new(pending.envelope.life.clone()));
        if let Disposition::DeadLetter(verdict) = &fate {
            let envelope = Arc::make_mut(&mut pending.envelope);
            note_failure(envelope, verdict, detail, &self.word(id.lane), now.wall);
        }
        self.put(id, pending, fate, now);
        Turn::Passed
    }

    /// What a settled record changes of its key once it is committed.
    pub(super) fn effect_of(
        &self,
        envelope: &Envelope,
        fate: &Disposition,
        key: Option<KeyHash>,
    ) -> Option<Effect> {
        if !self.policy.order.is_guarded() || !matches!(fate, Disposition::Emit(_)) {
            return None;
        }
        let (key, version) = (key?, envelope.version?);
        Some(Effect { key, newest: Entry { version, tag: fingerprint(envelope.value.as_deref()) } })
    }

    /// A settled record cannot be written and becomes a dead letter: it has no effect, and what the guard let have none because of
    /// it is judged anew.
    pub(super) fn take_back(&mut self, id: DeliveryId, effect: &Effect, order: u64, now: Now) {
        let Some(task) = self.tasks.get_mut(&id.partition) else { return };
        let Some(guarded) = task.guarded.as_deref_mut() else { return };
        let key = effect.key;
        match newest_settled(&task.lanes, key) {
            Some(staged) => drop(guarded.staged.insert(key, staged)),
            None => drop(guarded.staged.remove(&key)),
        }
        let mut again: Vec<(u64, Place)> = Vec::new();
        for (index, lane) in task.lanes.iter_mut().enumerate() {
            for (place, entry) in lane.window.iter_mut().enumerate() {
                let Some(settled) = entry.stage.settled() else { continue };
                let judged = settled.key == Some(key) && settled.judged.is_some();
                if judged && settled.order > order {
                    again.push((settled.order, (Lane::at(index), entry.offset)));
                    guarded.leaves(settled);
                    entry.stage = Stage::Queued(Pending::again(settled));
                    lane.settled = lane.settled.min(place);
                }
            }
        }
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

/// What committed records of a task change of their keys is applied. R5: none of them takes its key back.
pub(super) fn apply(
    guarded: &mut Guarded,
    partition: Partition,
    mut effects: Vec<(u64, Place, Effect)>,
) -> Vec<(InvariantId, String)> {
    // In the order in which they were settled, whatever lane they are from.
    effects.sort_unstable_by_key(|(order, ..)| *order);
    let back = |((lane, offset), before, after): (Place, Version, Version)| {
        let detail =
            format!("{lane:?} of task {partition}: {offset} takes its key from version {before} to {after}");
        (InvariantId::R5, detail)
    };
    let applied = effects.into_iter().filter_map(|(_, at, effect)| {
        let before = guarded.apply(at, effect)?.version;
        (before > effect.newest.version).then_some((at, before, effect.newest.version))
    });
    applied.map(back).collect()
}

/// The newest effect of each key of each task among what a transaction takes: only that is written to the state topic.
#[derive(Debug, Default)]
pub(super) struct NewestEffects(HashMap<(Partition, KeyHash), u64, FixedState>);

impl NewestEffects {
    /// `taken` in the order in which it was settled.
    pub(super) fn of(taken: &[&Settled]) -> Self {
        let key = |settled: &Settled| Some((settled.id.partition, settled.effect?.key));
        let effects = taken.iter().filter_map(|settled| Some((key(settled)?, settled.order)));
        let mut newest = Self::default();
        newest.0.reserve(taken.iter().filter(|settled| settled.effect.is_some()).count());
        newest.0.extend(effects);
        newest
    }

    /// The effect of a record, where it is the newest of its key.
    pub(super) fn effect<'a>(&self, settled: &'a Settled) -> Option<&'a Effect> {
        let of = |effect: &&Effect| self.0.get(&(settled.id.partition, effect.key)) == Some(&settled.order);
        settled.effect.as_ref().filter(of)
    }
}

/// The entry of the state topic for what a record makes of its key.
pub(super) fn effect_write(settled: &Settled, effect: &Effect, order: &OrderPolicy, now: Timestamp) -> Write {
    let envelope = &*settled.envelope;
    let applied = Applied {
        version: effect.newest.version,
        first: None,
        fingerprint: effect.newest.tag,
        at: now,
        topic: envelope.origin.topic.as_str(),
        partition: envelope.origin.partition,
        offset: envelope.origin.offset,
    };
    let key = applied_key(order.key_of(envelope).unwrap_or_default());
    entry(Target::State, settled.id.partition, Some(key), applied.to_bytes(), now)
}

/// The newest settled effect of a key that is not committed.
fn newest_settled(lanes: &[LaneState], key: KeyHash) -> Option<Staged> {
    let settled = lanes.iter().flat_map(|lane| &lane.window).filter_map(|entry| entry.stage.settled());
    let of_key = settled.filter_map(|settled| {
        let effect = settled.effect.filter(|effect| effect.key == key)?;
        Some((settled.order, Staged { at: (settled.id.lane, settled.id.offset), newest: effect.newest }))
    });
    of_key.max_by_key(|(order, _)| *order).map(|(_, staged)| staged)
}
