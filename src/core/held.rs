//! What is held behind the keys of a task, and what holds those keys up.
//!
//! One mechanism for records that came before their version and for those that are parked behind a failing one. A held record
//! has a place among those of its key: its version where the guard counts, else the order of arrival. It stands in the state
//! topic from the commit that holds it to the commit of its fate; in between it may be released into `Lane::Held` any number
//! of times.
//!
//! What holds a key up is followed twice: as settled, which decides what becomes of the next record of the key, and as
//! committed, from which the entry of the state topic is made by the records that a transaction takes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::core::class::Reason;
use crate::core::envelope::Envelope;
use crate::core::guard::{KeyHash, Version, fingerprint};
use crate::core::lane::{Disposition, Settled};
use crate::core::position::{Offset, Origin};
use crate::core::state::{Blocker, Blockers, DeadPredecessor};

/// Everything that is held in a task, and what holds its keys up.
#[derive(Debug)]
pub(crate) struct Held {
    keys: HashMap<KeyHash, OfKey, FixedState>,
    /// When the gaps of held records are over at the earliest, by the task's clock.
    dues: BTreeSet<(Duration, KeyHash, i64)>,
    /// Held records whose gap is over once the source is read as far as it was when that was asked for.
    closing: BTreeMap<(KeyHash, i64), Option<Offset>>,
    /// Keys of which a record may be released.
    ready: BTreeSet<KeyHash>,
    /// Keys with as many records behind them as may be; those that are in the window then are held all the same.
    full: BTreeSet<KeyHash>,
    /// How many that is; `None` where nothing must wait for that.
    per_key: Option<usize>,
    /// About how many bytes the held records take.
    bytes: usize,
    /// The next offset of `Lane::Held`.
    next: Offset,
}

/// What is known of one key.
#[derive(Debug, Default)]
pub(crate) struct OfKey {
    pub(crate) records: BTreeMap<i64, HeldRecord>,
    /// What holds it up as everything stands that is settled.
    pub(crate) blockers: Blockers,
    /// The same as the state topic has it.
    pub(crate) committed: Blockers,
}

/// A held record.
#[derive(Clone, Debug)]
pub(crate) struct HeldRecord {
    pub(crate) stage: HeldStage,
    pub(crate) envelope: Arc<Envelope>,
    /// The [`fingerprint`] of its value.
    pub(crate) tag: u64,
    /// When its gap is over at the earliest, by the task's clock.
    pub(crate) due: Duration,
    /// Its gap is over.
    pub(crate) over: bool,
}

/// How far a held record has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldStage {
    /// Its hold is settled and not committed.
    Settled,
    /// It stands in the state topic.
    Held,
    /// It was released into `Lane::Held` at this offset, and its fate is not committed.
    Released(Offset),
}

/// What is to be released next of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The record at this place goes to its turn.
    Turn(i64),
    /// The record at this place follows a dead one.
    Follows(i64),
}

impl OfKey {
    fn is_empty(&self) -> bool {
        self.records.is_empty() && self.blockers.is_empty() && self.committed.is_empty()
    }

    /// Whether a record waits in a tier.
    pub(crate) fn waits(&self, origin: &Origin) -> bool {
        self.blockers.waiting.iter().any(|blocker| blocker.origin == *origin)
    }

    /// Whether anything is held that is not released.
    pub(crate) fn holds(&self) -> bool {
        // They are released in the order of their places.
        let last = self.records.last_key_value();
        last.is_some_and(|(_, record)| !matches!(record.stage, HeldStage::Released(_)))
    }

    /// The place of a further record that is held in the order of arrival.
    pub(crate) fn next_place(&self) -> i64 {
        self.records.last_key_value().map_or(0, |(last, _)| last.saturating_add(1))
    }

    /// Whether a version that could fill the gap between the newest applied one and this one waits in a tier.
    pub(crate) fn awaits(&self, newest: Option<Version>, version: Version) -> bool {
        let missing = |found: Version| newest.is_none_or(|newest| found > newest) && found < version;
        self.blockers.waiting.iter().any(|blocker| blocker.version.is_some_and(missing))
    }
}

/// What a record that is settled makes of what holds its key up.
pub(crate) fn step(blockers: &mut Blockers, settled: &Settled) {
    let envelope = &*settled.envelope;
    match &settled.fate {
        Disposition::Retry { .. } => {
            let origin = &envelope.origin;
            if blockers.waiting.iter().all(|blocker| blocker.origin != *origin) {
                let (origin, version) = (origin.clone(), envelope.version);
                blockers.waiting.push(Blocker { origin, version });
            }
        }
        // It waits on as it waited.
        Disposition::Hop { .. } if settled.judged.is_none() => {}
        Disposition::Obeyed(_) => {}
        // A version for which there was no room is waited for no more than one that is held: it waits itself.
        Disposition::Hop { .. }
        | Disposition::Emit(_)
        | Disposition::DeadLetter(_)
        | Disposition::Drop(_)
        | Disposition::Hold { .. } => {
            blockers.waiting.retain(|blocker| blocker.origin != envelope.origin);
        }
    }
    if let Some(dead) = &settled.dead {
        blockers.dead = Some((**dead).clone());
        return;
    }
    let done = |dead: &DeadPredecessor| match &settled.fate {
        // Applied, or skipped.
        Disposition::Emit(_) | Disposition::Obeyed(_) => {
            dead.version.is_some() && dead.version <= envelope.version
        }
        Disposition::DeadLetter(verdict) if verdict.reason == Reason::PredecessorDead => {
            dead.followed_to.is_some() && dead.followed_to == settled.held
        }
        Disposition::DeadLetter(_)
        | Disposition::Retry { .. }
        | Disposition::Hop { .. }
        | Disposition::Hold { .. }
        | Disposition::Drop(_) => false,
    };
    if blockers.dead.as_ref().is_some_and(done) {
        blockers.dead = None;
    }
}

impl Held {
    pub(crate) fn new(seed: u64, per_key: Option<usize>) -> Self {
        Self {
            keys: HashMap::with_hasher(FixedState::with_seed(seed)),
            dues: BTreeSet::new(),
            closing: BTreeMap::new(),
            ready: BTreeSet::new(),
            full: BTreeSet::new(),
            per_key,
            bytes: 0,
            next: Offset(0),
        }
    }

    /// A record that stands in the state topic.
    pub(crate) fn restore(&mut self, key: KeyHash, place: i64, envelope: Envelope, due: Option<Duration>) {
        let tag = fingerprint(envelope.value.as_deref());
        self.dues.extend(due.map(|due| (due, key, place)));
        let record = HeldRecord {
            stage: HeldStage::Held,
            envelope: Arc::new(envelope),
            tag,
            due: due.unwrap_or_default(),
            over: false,
        };
        self.bytes = self.bytes.saturating_add(weight_of(&record.envelope));
        self.keys.entry(key).or_default().records.insert(place, record);
        self.ready.insert(key);
        self.prune(key);
    }

    /// What the state topic says holds a key up.
    pub(crate) fn restore_blockers(&mut self, key: KeyHash, blockers: Blockers) {
        let of_key = self.keys.entry(key).or_default();
        of_key.committed = blockers.clone();
        of_key.blockers = blockers;
        self.ready.insert(key);
    }

    pub(crate) fn get(&self, key: KeyHash) -> Option<&OfKey> {
        self.keys.get(&key)
    }

    /// Takes note of a record of a key that is settled.
    pub(crate) fn settled(&mut self, key: KeyHash, settled: &Settled, counts: bool) {
        if let Disposition::Hold { place, due } = settled.fate {
            let tag = fingerprint(settled.envelope.value.as_deref());
            let envelope = Arc::clone(&settled.envelope);
            let record = HeldRecord { stage: HeldStage::Settled, envelope, tag, due, over: false };
            self.bytes = self.bytes.saturating_add(weight_of(&record.envelope));
            let of_key = self.keys.entry(key).or_default();
            if let Some(before) = of_key.records.insert(place, record) {
                self.forget_record(key, place, &before);
            }
            if counts {
                self.dues.insert((due, key, place));
            }
        }
        let waits = matches!(settled.fate, Disposition::Retry { .. });
        if waits || settled.dead.is_some() || self.keys.contains_key(&key) {
            step(&mut self.keys.entry(key).or_default().blockers, settled);
            self.prune(key);
        }
    }

    /// What holds a key up once records of it are committed, in the order in which they were settled; `None` where the state
    /// topic has that already.
    pub(crate) fn after<'a>(
        &self,
        key: KeyHash,
        settled: impl Iterator<Item = &'a Settled>,
    ) -> Option<Blockers> {
        let empty = Blockers::default();
        let committed = self.keys.get(&key).map_or(&empty, |of_key| &of_key.committed);
        let mut after = committed.clone();
        settled.for_each(|settled| step(&mut after, settled));
        (after != *committed).then_some(after)
    }

    /// Takes note of a committed record of a key.
    pub(crate) fn committed(&mut self, key: KeyHash, settled: &Settled) {
        // Where a later record has settled what this one began, the key may be forgotten already.
        let of_key = self.keys.entry(key).or_default();
        step(&mut of_key.committed, settled);
        if let Some(place) = settled.held {
            let released = HeldStage::Released(settled.id.offset);
            if of_key.records.get(&place).is_some_and(|record| record.stage == released)
                && let Some(record) = of_key.records.remove(&place)
            {
                self.forget_record(key, place, &record);
            }
        }
        let Some(of_key) = self.keys.get_mut(&key) else { return };
        if let Disposition::Hold { place, .. } = settled.fate
            && let Some(record) = of_key.records.get_mut(&place)
            && record.stage == HeldStage::Settled
        {
            record.stage = HeldStage::Held;
        }
        self.ready.insert(key);
        self.prune(key);
    }

    /// Sets what holds a key up anew: the fate of one of its settled records has changed. `settled`: those that are not
    /// committed, in their order.
    pub(crate) fn again<'a>(&mut self, key: KeyHash, settled: impl Iterator<Item = &'a Settled>) {
        let Some(of_key) = self.keys.get_mut(&key) else { return };
        let mut blockers = of_key.committed.clone();
        settled.for_each(|settled| step(&mut blockers, settled));
        of_key.blockers = blockers;
        self.ready.insert(key);
        self.prune(key);
    }

    /// The hold of a record is taken back.
    pub(crate) fn unhold(&mut self, key: KeyHash, place: i64) {
        if let Some(of_key) = self.keys.get_mut(&key)
            && of_key.records.get(&place).is_some_and(|record| record.stage == HeldStage::Settled)
            && let Some(record) = of_key.records.remove(&place)
        {
            self.forget_record(key, place, &record);
            self.prune(key);
        }
    }

    /// A record is held no more.
    fn forget_record(&mut self, key: KeyHash, place: i64, record: &HeldRecord) {
        self.dues.remove(&(record.due, key, place));
        self.closing.remove(&(key, place));
        self.bytes = self.bytes.saturating_sub(weight_of(&record.envelope));
    }

    /// About how many bytes the held records take.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets a key that holds nothing up any more, and sees whether there is room behind it.
    fn prune(&mut self, key: KeyHash) {
        let held = self.keys.get(&key).map_or(0, |of_key| of_key.records.len());
        if self.per_key.is_some_and(|most| held >= most) {
            self.full.insert(key);
        } else {
            self.full.remove(&key);
        }
        if self.keys.get(&key).is_some_and(OfKey::is_empty) {
            self.keys.remove(&key);
            self.ready.remove(&key);
        }
    }

    /// A record of a key may be to be released.
    pub(crate) fn look_at(&mut self, key: KeyHash) {
        if self.keys.contains_key(&key) {
            self.ready.insert(key);
        }
    }

    /// The next key of which a record may be released.
    pub(crate) fn pop_ready(&mut self) -> Option<KeyHash> {
        self.ready.pop_first()
    }

    /// What of a key is to be released next: `next` is the version that it may be, where the guard counts.
    pub(crate) fn next_of(&self, key: KeyHash, counts: bool, next: Option<Version>) -> Option<Next> {
        let of_key = self.keys.get(&key)?;
        let mut held = of_key.records.iter().filter(|(_, record)| record.stage == HeldStage::Held);
        if counts {
            let (place, record) = held.next()?;
            let is_next = next.is_none_or(|next| *place <= next.0);
            if is_next || record.over {
                return Some(Next::Turn(*place));
            }
            return held.find(|(_, record)| record.over).map(|(place, _)| Next::Turn(*place));
        }
        // Strictly one after another: the first must be committed before any other can be released.
        let is_first = |record: &HeldRecord| !matches!(record.stage, HeldStage::Released(_));
        let (place, record) = of_key.records.iter().find(|(_, record)| is_first(record))?;
        if record.stage != HeldStage::Held {
            return None;
        }
        let followed_to = of_key.blockers.dead.as_ref().and_then(|dead| dead.followed_to);
        if followed_to.is_some_and(|last| *place <= last) {
            return Some(Next::Follows(*place));
        }
        of_key.blockers.waiting.is_empty().then_some(Next::Turn(*place))
    }

    /// Releases a held record: its offset in `Lane::Held`.
    pub(crate) fn release(&mut self, key: KeyHash, place: i64) -> Option<(Offset, HeldRecord)> {
        let offset = self.next;
        let record = self.record(key, place)?;
        record.stage = HeldStage::Released(offset);
        let record = record.clone();
        self.next = offset.next();
        Some((offset, record))
    }

    fn record(&mut self, key: KeyHash, place: i64) -> Option<&mut HeldRecord> {
        self.keys.get_mut(&key)?.records.get_mut(&place)
    }

    /// A released record is held again, as it was.
    pub(crate) fn unrelease(&mut self, key: KeyHash, place: i64) {
        let record = self.record(key, place);
        if let Some(record) = record.filter(|record| matches!(record.stage, HeldStage::Released(_))) {
            record.stage = HeldStage::Held;
        }
    }

    /// The gap of a record was over, and is not any more: what could fill it waits again.
    pub(crate) fn reopen(&mut self, key: KeyHash, place: i64, due: Duration) {
        if let Some(record) = self.record(key, place).filter(|record| record.over) {
            record.over = false;
            self.set_due(key, place, due);
        }
    }

    /// Whether as many records as may be are held behind a key, and the source must wait.
    pub(crate) fn is_full(&self) -> bool {
        !self.full.is_empty()
    }

    /// When the first gap may be over.
    pub(crate) fn first_due(&self) -> Option<Duration> {
        self.dues.first().map(|(due, ..)| *due)
    }

    /// Takes a record whose gap may be over at `now`.
    pub(crate) fn pop_due(&mut self, now: Duration) -> Option<(KeyHash, i64)> {
        let (due, key, place) = self.dues.first().copied().filter(|(due, ..)| *due <= now)?;
        self.dues.remove(&(due, key, place));
        Some((key, place))
    }

    /// The gap of a record is over at `due` at the earliest.
    pub(crate) fn set_due(&mut self, key: KeyHash, place: i64, due: Duration) {
        if let Some(record) = self.record(key, place) {
            record.due = due;
            self.dues.insert((due, key, place));
        }
    }

    /// The gap of a record is over once the source is read as far as it is now.
    pub(crate) fn closes(&mut self, key: KeyHash, place: i64) {
        self.closing.insert((key, place), None);
    }

    /// Whether a gap waits for the end of the source to be known.
    pub(crate) fn needs_end(&self) -> bool {
        self.closing.values().any(Option::is_none)
    }

    /// The end of the source now.
    pub(crate) fn found_end(&mut self, end: Offset) {
        self.closing.values_mut().for_each(|behind| *behind = behind.or(Some(end)));
    }

    /// The source is read up to `next`: the gaps that are over with that.
    pub(crate) fn close_up_to(&mut self, next: Offset) -> Vec<(KeyHash, i64)> {
        let over = |behind: &Option<Offset>| behind.is_some_and(|behind| behind <= next);
        self.closing.extract_if(.., |_, behind| over(behind)).map(|(record, _)| record).collect()
    }

    /// The gap of a record is over.
    pub(crate) fn is_over(&mut self, key: KeyHash, place: i64) {
        if let Some(record) = self.record(key, place) {
            record.over = true;
            self.ready.insert(key);
        }
    }
}

/// About how many bytes a held record takes.
fn weight_of(envelope: &Envelope) -> usize {
    /// Everything that has no length of its own.
    const FIXED: usize = 512;
    let length = |bytes: &Option<bytes::Bytes>| bytes.as_ref().map_or(0, bytes::Bytes::len);
    let headers = envelope.foreign.iter().map(|header| length(&header.value).saturating_add(FIXED / 8));
    headers.sum::<usize>().saturating_add(length(&envelope.key)).saturating_add(length(&envelope.value))
        + FIXED
}
