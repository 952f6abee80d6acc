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
use crate::core::class::{Class, Reason};
use crate::core::closed::{self, Place};
use crate::core::envelope::{DeliveryId, Envelope, Life};
use crate::core::event::{Dropped, Target, Write};
use crate::core::guard::judge::{self, Judgement};
use crate::core::guard::{Entry, KeyHash, fingerprint};
use crate::core::invariant::InvariantId;
use crate::core::lane::{Disposition, Effect, LaneState, Pending, Presence, Settled, Stage};
use crate::core::outcome::Verdict;
use crate::core::policy::{Guard, OrderPolicy};
use crate::core::position::{Lane, Partition};
use crate::core::state::{Applied, applied_key};
use crate::core::task::{Staged, Task};
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
    pub(super) fn take_turn(&mut self, id: DeliveryId, now: Now) -> Turn {
        if self.policy.order.guard == Guard::None {
            return Turn::Taken;
        }
        let policy = Arc::clone(&self.policy);
        let Guard::Latest(rules) = &policy.order.guard else { return Turn::Taken };
        let Some(task) = self.tasks.get_mut(&id.partition).filter(|task| task.executes()) else {
            return Turn::Taken;
        };
        let Some(guarded) = task.guarded.as_deref() else { return Turn::Taken };
        let entry = task.lanes.get_mut(id.lane.index()).and_then(|lane| lane.entry(id.offset));
        let Some(Stage::Queued(pending)) = entry.map(|entry| &mut entry.stage) else { return Turn::Taken };
        let Some(key) = pending.key else { return Turn::Taken };

        let (newest, follows) = guarded.newest(key, (id.lane, id.offset));
        pending.follows = follows;
        let before = pending.envelope.life.clone();
        let envelope = &pending.envelope;
        let judgement = judge::latest(rules, newest, envelope.version, envelope.value.as_deref());
        let fate = match judgement {
            Judgement::Admitted { version } => {
                if envelope.version != Some(version) {
                    Arc::make_mut(&mut pending.envelope).version = Some(version);
                }
                return Turn::Taken;
            }
            Judgement::Duplicate => Disposition::Drop(Dropped::Duplicate),
            Judgement::Stale => Disposition::Drop(Dropped::Stale),
            Judgement::Conflict { version } => {
                let detail = format!("version `{version}` is applied with another value");
                let verdict = Verdict { class: Class::Permanent, reason: Reason::VersionConflict };
                self.quarantine(id, verdict, detail, now)
            }
            Judgement::NoVersion => {
                let detail =
                    format!("it counts as the version after `{}`, which is the largest there is", i64::MAX);
                let verdict = Verdict { class: Class::Permanent, reason: Reason::NoVersion };
                self.quarantine(id, verdict, detail, now)
            }
        };
        self.decide(id, fate, before, now);
        Turn::Passed
    }

    /// Writes into a queued record why it is a dead letter that no handler saw.
    fn quarantine(&mut self, id: DeliveryId, verdict: Verdict, detail: String, now: Now) -> Disposition {
        let lane = self.word(id.lane);
        if let Some(pending) = self.queued(id) {
            note_failure(Arc::make_mut(&mut pending.envelope), &verdict, detail, &lane, now.wall);
        }
        Disposition::DeadLetter(verdict)
    }

    fn decide(&mut self, id: DeliveryId, fate: Disposition, before: Life, now: Now) {
        let lane = self.tasks.get_mut(&id.partition).and_then(|task| task.lane(id.lane));
        let Some(entry) = lane.and_then(|lane| lane.entry(id.offset)) else { return };
        match std::mem::replace(&mut entry.stage, Stage::Moving) {
            Stage::Queued(pending) => {
                let judged = Some(Box::new(before));
                self.put(id, Pending { judged, ..pending }, fate, now);
            }
            other @ (Stage::Running(_) | Stage::Pausing(_) | Stage::Settled(_) | Stage::Moving) => {
                entry.stage = other;
            }
        }
    }

    fn queued(&mut self, id: DeliveryId) -> Option<&mut Pending> {
        let lane = self.tasks.get_mut(&id.partition)?.lane(id.lane)?;
        match &mut lane.entry(id.offset)?.stage {
            Stage::Queued(pending) => Some(pending),
            Stage::Running(_) | Stage::Pausing(_) | Stage::Settled(_) | Stage::Moving => None,
        }
    }

    /// What a settled record changes of its key once it is committed.
    pub(super) fn effect_of(
        &self,
        envelope: &Envelope,
        fate: &Disposition,
        key: Option<KeyHash>,
    ) -> Option<Effect> {
        if matches!(self.policy.order.guard, Guard::None) || !matches!(fate, Disposition::Emit(_)) {
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
                    let crosses = usize::from(settled.follows.is_some());
                    guarded.crossings = guarded.crossings.saturating_sub(crosses);
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

    /// What a record changes of its key is committed.
    pub(super) fn apply(&mut self, partition: Partition, committed: &Committed) {
        let task = self.tasks.get_mut(&partition);
        let Some(guarded) = task.and_then(|task| task.guarded.as_deref_mut()) else { return };
        let Committed { at, effect, crosses } = *committed;
        guarded.crossings = guarded.crossings.saturating_sub(usize::from(crosses == Crosses::Lanes));
        let Some(Effect { key, newest }) = effect else { return };
        let before = guarded.applied.get(key);
        guarded.applied.set(key, newest);
        if guarded.staged.get(&key).is_some_and(|staged| staged.at == at) {
            guarded.staged.remove(&key);
        }
        if let Some(before) = before.filter(|before| before.version > newest.version) {
            let (lane, offset) = at;
            let (before, after) = (before.version, newest.version);
            let detail = format!(
                "{lane:?} of task {partition}: {offset} takes its key from version {before} to {after}"
            );
            self.broken(InvariantId::R5, detail);
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
                if let Some(grown) = task.grown(counts.clone()) {
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

/// What is left of a committed record to be noted of its key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Committed {
    at: Place,
    effect: Option<Effect>,
    crosses: Crosses,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Crosses {
    Lanes,
    Nothing,
}

impl Committed {
    /// `None` where nothing is to be noted.
    pub(super) fn of(settled: &Settled) -> Option<Self> {
        let crosses = if settled.follows.is_some() { Crosses::Lanes } else { Crosses::Nothing };
        let at = (settled.id.lane, settled.id.offset);
        (settled.effect.is_some() || settled.follows.is_some()).then_some(Self {
            at,
            effect: settled.effect,
            crosses,
        })
    }
}

/// The newest effect of each key of each task among what a transaction takes: only that is written to the state topic.
#[derive(Debug, Default)]
pub(super) struct NewestEffects(HashMap<(Partition, KeyHash), u64, FixedState>);

impl NewestEffects {
    /// `taken` in the order in which it was settled.
    pub(super) fn of(taken: &[&Settled]) -> Self {
        let key = |settled: &Settled| Some((settled.id.partition, settled.effect?.key));
        let effects = taken.iter().filter_map(|settled| Some((key(settled)?, settled.order)));
        Self(effects.collect())
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
    Write {
        target: Target::State,
        partition: settled.id.partition,
        timestamp: Some(now),
        key: Some(applied_key(order.key_of(envelope).unwrap_or_default())),
        value: Some(applied.to_bytes()),
        headers: Vec::new(),
    }
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
