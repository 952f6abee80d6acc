//! The order of keys: a record's verdict when its turn comes.
//!
//! A verdict goes by the newest version whose effect is committed or is settled and will be committed first. Nothing is noted as
//! applied before its commit, so a record that failed, was aborted or was lost with its task is never taken for its own
//! duplicate.

use std::sync::Arc;
use std::time::Duration;

use super::Processor;
use super::look::note_failure;
use crate::core::class::{Class, Reason};
use crate::core::envelope::DeliveryId;
use crate::core::event::Dropped;
use crate::core::guard::judge::{self, Counted, Judgement};
use crate::core::guard::{Entry, KeyHash, Version, fingerprint};
use crate::core::held::{HeldRecord, HeldStage, OfKey};
use crate::core::lane::{Disposition, Pending, Stage};
use crate::core::outcome::Verdict;
use crate::core::policy::{Contiguous, Guard, Latest, OrderPolicy, Policy};
use crate::core::position::{Lane, TierIndex};
use crate::core::task::{Guarded, Mode};
use crate::core::time::Now;

/// Whether a record whose turn has come goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// To the handler.
    Taken,
    /// Not to the handler, and the next record of its key has the turn.
    Passed,
}

/// What the order of its key makes of a record whose turn has come.
enum Decision {
    /// The handler has it, as this version.
    Goes(Option<Version>),
    /// Its fate is decided.
    Ends(Disposition, String),
    /// It was released and is held again.
    Returns(i64),
}

impl Processor {
    /// Judges a queued record whose turn it is, where its order asks for that, and settles it where the handler is not to see it.
    pub(super) fn take_turn(&mut self, key: KeyHash, id: DeliveryId, now: Now) -> Turn {
        if !self.policy.order.keeps_state() {
            return Turn::Taken;
        }
        let policy = Arc::clone(&self.policy);
        let Some(task) = self.tasks.get_mut(&id.partition).filter(|task| task.executes()) else {
            return Turn::Taken;
        };
        let Some(guarded) = task.guarded.as_deref_mut() else { return Turn::Taken };
        let lane = task.lanes.get_mut(id.lane.index());
        let Some(entry) = lane.and_then(|lane| lane.entry(id.offset)) else { return Turn::Taken };
        let mut pending = match std::mem::replace(&mut entry.stage, Stage::Moving) {
            Stage::Queued(pending) => pending,
            other @ (Stage::Running(_) | Stage::Pausing(_) | Stage::Settled(_) | Stage::Moving) => {
                entry.stage = other;
                return Turn::Taken;
            }
        };
        let (newest, follows) = guarded.newest(key, (id.lane, id.offset));
        pending.follows = follows;
        let (fate, detail) = match decide(&policy, guarded, (key, id), &pending, newest, now) {
            Decision::Goes(version) => {
                if version.is_some() && pending.envelope.version != version {
                    Arc::make_mut(&mut pending.envelope).version = version;
                }
                pending.admitted = guarded.mode == Mode::Count;
                entry.stage = Stage::Queued(pending);
                return Turn::Taken;
            }
            Decision::Returns(place) => {
                guarded.held.unrelease(key, place);
                let due = guarded.clock.at(now.mono).saturating_add(gap_timeout(&policy.order));
                guarded.held.reopen(key, place, due);
                self.leave_window(id);
                return Turn::Passed;
            }
            Decision::Ends(fate, detail) => (fate, detail),
        };
        pending.judged = Some(Box::new(pending.envelope.life.clone()));
        let hops = matches!(fate, Disposition::Hop { .. });
        if hops && pending.envelope.gap_due.is_none() {
            // Its gap goes on where it waits.
            let due = due_of(&policy, guarded, &pending, now);
            Arc::make_mut(&mut pending.envelope).gap_due = Some(due);
        }
        if let Disposition::DeadLetter(verdict) = &fate {
            let envelope = Arc::make_mut(&mut pending.envelope);
            note_failure(envelope, verdict, detail, &self.word(id.lane), now.wall);
        }
        self.put(id, pending, fate, now);
        Turn::Passed
    }

    /// Whether a record that a guard which counts has let through is not the next of its key any more.
    pub(super) fn is_late(&self, key: KeyHash, id: DeliveryId, pending: &Pending) -> bool {
        let Guard::Contiguous(rules) = &self.policy.order.guard else { return false };
        let guarded = self.tasks.get(&id.partition).and_then(|task| task.guarded.as_deref());
        let (Some(guarded), Some(version)) = (guarded, pending.envelope.version) else { return false };
        let (newest, _) = guarded.newest(key, (id.lane, id.offset));
        pending.admitted && judge::contiguous(rules.first, newest, version) != Counted::Admitted
    }

    /// A released record that is held again leaves the window.
    fn leave_window(&mut self, id: DeliveryId) {
        let Some(lane) = self.tasks.get_mut(&id.partition).and_then(|task| task.lane(id.lane)) else {
            return;
        };
        if let Ok(place) = lane.window.binary_search_by_key(&id.offset, |entry| entry.offset) {
            lane.window.remove(place);
            lane.settled = lane.settled.min(place);
            lane.extend_settled();
            self.pace.uncounted = true;
        }
        self.touched.insert(id.partition);
    }
}

fn decide(
    policy: &Policy,
    guarded: &Guarded,
    (key, id): (KeyHash, DeliveryId),
    pending: &Pending,
    newest: Option<Entry>,
    now: Now,
) -> Decision {
    if policy.order.parks().is_some()
        && let Some(decision) = parked(policy, guarded, (key, id.lane), pending, now)
    {
        return decision;
    }
    match &policy.order.guard {
        Guard::None => Decision::Goes(None),
        Guard::Latest(rules) => by_latest(rules, newest, pending),
        Guard::Contiguous(rules) => by_count(policy, rules, guarded, key, newest, pending, now),
    }
}

/// A record of a key of which others wait or are held joins the end of those; `None` where it does not wait.
fn parked(
    policy: &Policy,
    guarded: &Guarded,
    (key, lane): (KeyHash, Lane),
    pending: &Pending,
    now: Now,
) -> Option<Decision> {
    let of_key = guarded.held.get(key)?;
    if let Some(place) = pending.held {
        return (!of_key.blockers.waiting.is_empty()).then_some(Decision::Returns(place));
    }
    if of_key.waits(&pending.envelope.origin) || (of_key.blockers.waiting.is_empty() && !of_key.holds()) {
        return None;
    }
    let hold = Disposition::Hold { place: of_key.next_place(), due: Duration::ZERO };
    let has_room = guarded.has_room(key, policy.order.held.per_key);
    let fate = match lane {
        Lane::Tier(_) if !has_room => full(policy, now).unwrap_or(hold),
        // Where there is no room the source is read no further, but what has been read of it is held: if it stayed, so would
        // everything behind it, and what its key waits for might follow one of those.
        Lane::Source | Lane::Control | Lane::Held | Lane::Tier(_) => hold,
    };
    Some(ends(fate))
}

/// A record for which there is no room behind its key goes to the first tier; `None` where there are no tiers.
fn full(policy: &Policy, now: Now) -> Option<Disposition> {
    let tier = TierIndex(0);
    let due = now.wall.plus(policy.ladder.delay(tier)?);
    Some(Disposition::Hop { tier, due })
}

/// A fate of which there is nothing to tell.
const fn ends(fate: Disposition) -> Decision {
    Decision::Ends(fate, String::new())
}

fn dead(reason: Reason, detail: String) -> Decision {
    Decision::Ends(Disposition::DeadLetter(Verdict { class: Class::Permanent, reason }), detail)
}

fn by_latest(rules: &Latest, newest: Option<Entry>, pending: &Pending) -> Decision {
    let envelope = &pending.envelope;
    match judge::latest(rules, newest, envelope.version, envelope.value.as_deref()) {
        Judgement::Admitted { version } => Decision::Goes(Some(version)),
        Judgement::Duplicate => ends(Disposition::Drop(Dropped::Duplicate)),
        Judgement::Stale => ends(Disposition::Drop(Dropped::Stale)),
        Judgement::Conflict { version } => {
            dead(Reason::VersionConflict, format!("version `{version}` is applied with another value"))
        }
        Judgement::NoVersion => {
            let last = i64::MAX;
            let detail = format!("it counts as the version after `{last}`, which is the largest there is");
            dead(Reason::NoVersion, detail)
        }
    }
}

fn by_count(
    policy: &Policy,
    rules: &Contiguous,
    guarded: &Guarded,
    key: KeyHash,
    newest: Option<Entry>,
    pending: &Pending,
    now: Now,
) -> Decision {
    let envelope = &pending.envelope;
    // Looked at when it was read.
    let Some(version) = envelope.version else { return Decision::Goes(None) };
    match judge::contiguous(rules.first, newest, version) {
        Counted::Admitted => Decision::Goes(Some(version)),
        Counted::Duplicate => ends(Disposition::Drop(Dropped::Duplicate)),
        Counted::Stale => ends(Disposition::Drop(Dropped::Stale)),
        Counted::NoVersion => {
            let detail = format!("no count begins with version `{version}`, which is the smallest there is");
            dead(Reason::NoVersion, detail)
        }
        Counted::Deferred => deferred(policy, guarded, key, newest, (pending, version), now),
    }
}

/// What becomes of a version of which some before it are missing.
fn deferred(
    policy: &Policy,
    guarded: &Guarded,
    key: KeyHash,
    newest: Option<Entry>,
    (pending, version): (&Pending, Version),
    now: Now,
) -> Decision {
    let of_key = guarded.held.get(key);
    let applied = newest.map(|newest| newest.version);
    let is_awaited = || of_key.is_some_and(|of_key| of_key.awaits(applied, version));
    let held = |place: i64| of_key.and_then(|of_key| of_key.records.get(&place));
    if let Some(place) = pending.held {
        return match held(place) {
            Some(record) if record.over && !is_awaited() => {
                dead(Reason::VersionGap, gap(newest, of_key, version))
            }
            Some(_) | None => Decision::Returns(place),
        };
    }
    let is_held = |record: &&HeldRecord| !matches!(record.stage, HeldStage::Released(_));
    if let Some(record) = held(version.0).filter(is_held) {
        return if record.tag == fingerprint(pending.envelope.value.as_deref()) {
            ends(Disposition::Drop(Dropped::Duplicate))
        } else {
            dead(Reason::VersionConflict, format!("version `{version}` is held with another value"))
        };
    }
    if !guarded.has_room(key, policy.order.held.per_key)
        && let Some(fate) = full(policy, now)
    {
        return ends(fate);
    }
    ends(Disposition::Hold { place: version.0, due: due_of(policy, guarded, pending, now) })
}

fn gap_timeout(order: &OrderPolicy) -> Duration {
    match &order.guard {
        Guard::Contiguous(Contiguous { gap_timeout, .. }) => *gap_timeout,
        Guard::None | Guard::Latest(_) => Duration::ZERO,
    }
}

/// When the gap before a record is over at the earliest, by the clock of its task.
fn due_of(policy: &Policy, guarded: &Guarded, pending: &Pending, now: Now) -> Duration {
    let latest = guarded.clock.at(now.mono).saturating_add(gap_timeout(&policy.order));
    pending.envelope.gap_due.map_or(latest, |due| due.min(latest))
}

/// What is missing before a version, for people.
fn gap(newest: Option<Entry>, of_key: Option<&OfKey>, version: Version) -> String {
    let next = newest.and_then(|newest| newest.version.next());
    let missing = match (next, version.before()) {
        (Some(next), Some(last)) if next < last => format!("versions `{next}` to `{last}`"),
        (Some(next), _) => format!("version `{next}`"),
        (None, _) => "the first version".to_owned(),
    };
    let mut detail = format!("{missing} of its key did not come in time");
    let dead = of_key.and_then(|of_key| of_key.blockers.dead.as_ref());
    if let Some((dead, found)) = dead.and_then(|dead| Some((dead, dead.version?)))
        && found < version
    {
        detail = format!("{detail}: version `{found}` is the dead letter `{}#1`", dead.origin);
    }
    detail
}
