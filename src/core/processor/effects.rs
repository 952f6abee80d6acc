//! What settled records change of their keys: how that is written, and what a commit makes of it.

use std::collections::BTreeMap;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::Processor;
use super::write::entry;
use crate::core::class::Reason;
use crate::core::closed::Place;
use crate::core::envelope::Envelope;
use crate::core::event::{Target, Write};
use crate::core::guard::{Entry, KeyHash, Version, fingerprint};
use crate::core::invariant::InvariantId;
use crate::core::lane::{Disposition, Effect, Pending, Settled};
use crate::core::policy::{Guard, OnExhausted, OrderPolicy};
use crate::core::position::Partition;
use crate::core::state::{
    Applied, DeadPredecessor, TaskClock, applied_key, blockers_key, clock_key, held_key,
};
use crate::core::task::{Guarded, Task};
use crate::core::time::{Now, Timestamp};

impl Processor {
    /// What a settled record changes of its key once it is committed.
    pub(super) fn effect_of(
        &self,
        task: &Task,
        pending: &Pending,
        fate: &Disposition,
        at: Place,
    ) -> Option<Effect> {
        let (key, envelope) = (pending.key?, &pending.envelope);
        match &self.policy.order.guard {
            Guard::None => None,
            Guard::Latest(_) => {
                let version = envelope.version.filter(|_| matches!(fate, Disposition::Emit(_)))?;
                Some(Effect { key, newest: Entry { version, tag: fingerprint(envelope.value.as_deref()) } })
            }
            Guard::Contiguous(rules) => {
                let version = envelope.version.filter(|_| pending.admitted)?;
                let (known, _) = task.guarded.as_deref()?.newest(key, at);
                let first = known.map_or_else(|| rules.first.or(version), Entry::first);
                let newest = match fate {
                    Disposition::Emit(_) => Entry { version, tag: first.as_tag() },
                    // What is skipped was never applied: it is stale if it comes after all.
                    Disposition::Obeyed(_) => Entry { version, tag: version.next()?.as_tag() },
                    // The count starts with the first that is admitted, whatever becomes of it.
                    Disposition::Retry { .. } | Disposition::DeadLetter(_) if known.is_none() => {
                        Entry::begun_with(first)?
                    }
                    Disposition::Retry { .. }
                    | Disposition::Hop { .. }
                    | Disposition::Hold { .. }
                    | Disposition::DeadLetter(_)
                    | Disposition::Drop(_) => return None,
                };
                Some(Effect { key, newest })
            }
        }
    }

    /// That a record is dead, where others of its key are held behind it or may be.
    pub(super) fn dead_of(
        &self,
        task: &Task,
        (key, held, admitted): (Option<KeyHash>, Option<i64>, bool),
        envelope: &Envelope,
        fate: &Disposition,
    ) -> Option<Box<DeadPredecessor>> {
        let Disposition::DeadLetter(verdict) = fate else { return None };
        let of_key = task.guarded.as_deref()?.held.get(key?);
        let dead = |followed_to| {
            let (origin, version) = (envelope.origin.clone(), envelope.version);
            Some(Box::new(DeadPredecessor { origin, version, followed_to }))
        };
        if admitted {
            return dead(None);
        }
        let follow = self.policy.order.parks() == Some(OnExhausted::Follow)
            && verdict.reason != Reason::PredecessorDead;
        let (last, _) = of_key?.records.last_key_value().filter(|_| follow)?;
        (held.is_none_or(|held| held < *last)).then(|| dead(Some(*last)))?
    }

    /// Adds what holds keys up, once a transaction that takes these records is committed, to its writes.
    pub(super) fn write_blockers(&self, taken: &[&Settled], now: Now, writes: &mut Vec<Write>) {
        if !self.policy.order.holds() {
            return;
        }
        let mut keys: BTreeMap<(Partition, KeyHash), Vec<&Settled>> = BTreeMap::new();
        for settled in taken {
            if let Some(key) = settled.key {
                keys.entry((settled.id.partition, key)).or_default().push(settled);
            }
        }
        for ((partition, key), settled) in keys {
            let guarded = self.tasks.get(&partition).and_then(|task| task.guarded.as_deref());
            let blockers = guarded.and_then(|guarded| guarded.held.after(key, settled.iter().copied()));
            let Some(blockers) = blockers else { continue };
            let envelope = settled.first().map(|settled| &settled.envelope);
            let order_key = envelope.and_then(|envelope| self.policy.order.key_of(envelope));
            let value = (!blockers.is_empty()).then(|| blockers.to_bytes());
            let key = Some(blockers_key(order_key.unwrap_or_default()));
            let timestamp = Some(now.wall);
            writes.push(Write {
                target: Target::State,
                partition,
                timestamp,
                key,
                value,
                headers: Vec::new(),
            });
        }
    }

    /// What the clock of a task shows, as an entry of the state topic.
    pub(super) fn clock_write(&self, partition: Partition, now: Now) -> Option<Write> {
        let guarded = self.tasks.get(&partition)?.guarded.as_deref()?;
        let clock = TaskClock(guarded.clock.at(now.mono)).to_bytes();
        Some(entry(Target::State, partition, Some(clock_key()), clock, now.wall))
    }
}

/// Whether a transaction notes what the clock of a task shows: where something goes by it, with whatever is committed.
pub(super) fn notes_clock(guarded: &Guarded, takes: bool) -> bool {
    guarded.clock_due || takes && guarded.held.first_due().is_some()
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

/// Records of keys that may hold others are committed.
pub(super) fn commit_keys(guarded: &mut Guarded, mut committed: Vec<Settled>) {
    committed.sort_unstable_by_key(|settled| settled.order);
    for settled in &committed {
        if let Some(key) = settled.key {
            guarded.forget_staged(key, (settled.id.lane, settled.id.offset));
            guarded.held.committed(key, settled);
        }
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
    let (first, fingerprint) = match order.guard {
        Guard::Contiguous(_) => {
            let done = envelope.version == Some(effect.newest.version);
            let tag = if done { fingerprint(envelope.value.as_deref()) } else { 0 };
            (Some(effect.newest.first()), tag)
        }
        Guard::None | Guard::Latest(_) => (None, effect.newest.tag),
    };
    let applied = Applied {
        version: effect.newest.version,
        first,
        fingerprint,
        at: now,
        topic: envelope.origin.topic.as_str(),
        partition: envelope.origin.partition,
        offset: envelope.origin.offset,
    };
    let key = applied_key(order.key_of(envelope).unwrap_or_default());
    entry(Target::State, settled.id.partition, Some(key), applied.to_bytes(), now)
}

/// The end of the entry of a record that was held and has its fate now.
pub(super) fn release_write(settled: &Settled, order: &OrderPolicy, now: Timestamp) -> Option<Write> {
    let place = settled.held.filter(|_| settled.fate.holds_at().is_none())?;
    let key = Some(held_key(order.key_of(&settled.envelope).unwrap_or_default(), place));
    let (partition, timestamp) = (settled.id.partition, Some(now));
    Some(Write { target: Target::State, partition, timestamp, key, value: None, headers: Vec::new() })
}
