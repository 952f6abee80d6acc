//! What the state topic says of keys, gathered from its entries one after another: the last of each counts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::core::guard::Version;
use crate::core::position::{Origin, Partition};
use crate::core::state::{Applied, BadStateEntry, Blockers, Held, StateEntry, TaskClock};
use crate::core::time::Timestamp;
use crate::kafka::state_log::Logged;

/// Of which keys something is kept, and how much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Everything of these.
    Keys(BTreeSet<Vec<u8>>),
    /// Of all that have something held or waiting: so much.
    Held,
}

/// What is gathered so far.
#[derive(Debug)]
pub(super) struct Gathered {
    wanted: Wanted,
    /// By order key and task.
    pub(super) keys: BTreeMap<(Vec<u8>, Partition), OfKey>,
    /// What the clock of each task showed when it was noted last.
    pub(super) clocks: BTreeMap<Partition, Duration>,
}

/// What is known of one key in one task.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct OfKey {
    pub(super) applied: Option<AppliedVersion>,
    /// By place.
    pub(super) held: BTreeMap<i64, HeldAt>,
    pub(super) blockers: Blockers,
    /// When what holds it up changed last.
    pub(super) blocked_since: Option<Timestamp>,
    /// Entries that cannot be read, by their keys.
    pub(super) unreadable: BTreeMap<Vec<u8>, String>,
}

/// What of a key is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AppliedVersion {
    pub(super) version: Version,
    pub(super) first: Option<Version>,
    pub(super) at: Timestamp,
    pub(super) origin: Origin,
}

/// One held record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HeldAt {
    /// When its entry was written.
    pub(super) since: Timestamp,
    /// When its gap is over at the earliest, by the clock of its task.
    pub(super) due: Duration,
    /// The source record; `None` where it was not asked for.
    pub(super) origin: Option<Origin>,
}

impl OfKey {
    /// Whether nothing is known of it.
    fn is_empty(&self) -> bool {
        self.applied.is_none()
            && self.held.is_empty()
            && self.blockers.is_empty()
            && self.unreadable.is_empty()
    }

    /// What an entry said that was replaced by one that cannot be read.
    fn forget(&mut self, bad: &BadStateEntry) {
        match bad {
            BadStateEntry::Applied { .. } => self.applied = None,
            BadStateEntry::Held { place, .. } => drop(self.held.remove(place)),
            BadStateEntry::Blockers { .. } => self.blockers = Blockers::default(),
            BadStateEntry::Key | BadStateEntry::Position { .. } | BadStateEntry::Clock { .. } => {}
        }
    }

    /// Whether something of it is held or waits in a tier.
    pub(super) fn holds(&self) -> bool {
        !self.held.is_empty() || !self.blockers.waiting.is_empty()
    }

    /// Since when something of it is held or waits.
    pub(super) fn since(&self) -> Option<Timestamp> {
        let waiting = self.blocked_since.filter(|_| !self.blockers.waiting.is_empty());
        self.held.values().map(|held| held.since).chain(waiting).min()
    }
}

impl Gathered {
    pub(super) fn new(wanted: Wanted) -> Self {
        Self { wanted, keys: BTreeMap::new(), clocks: BTreeMap::new() }
    }

    /// Takes in one entry.
    pub(super) fn take(&mut self, logged: &Logged<'_>) {
        let (entry_key, partition) = (logged.key.unwrap_or_default(), logged.partition);
        let entry = StateEntry::read(logged.key, logged.value);
        if let Ok(StateEntry::Clock(clock)) = entry {
            self.clocks.insert(partition, clock.map_or(Duration::ZERO, |TaskClock(clock)| clock));
            return;
        }
        let Some(key) = key_of(&entry) else { return };
        let whole = match &self.wanted {
            Wanted::Keys(wanted) if !wanted.contains(key) => return,
            Wanted::Keys(_) => true,
            Wanted::Held => false,
        };
        if !whole && matches!(entry, Ok(StateEntry::Applied { .. }) | Err(_)) {
            return;
        }
        let at = (key.to_vec(), partition);
        let of_key = self.keys.entry(at.clone()).or_default();
        of_key.unreadable.remove(entry_key);
        match entry {
            Ok(StateEntry::Applied { applied, .. }) => of_key.applied = applied.as_ref().map(applied_version),
            Ok(StateEntry::Held { place, held: Some(held), .. }) => match held_at(&held, logged, whole) {
                Ok(held) => drop(of_key.held.insert(place, held)),
                Err(problem) => {
                    of_key.held.remove(&place);
                    of_key.unreadable.insert(entry_key.to_vec(), problem);
                }
            },
            Ok(StateEntry::Held { place, held: None, .. }) => drop(of_key.held.remove(&place)),
            Ok(StateEntry::Blockers { blockers, .. }) => {
                of_key.blocked_since = blockers.is_some().then_some(logged.at);
                of_key.blockers = blockers.unwrap_or_default();
            }
            Ok(StateEntry::Position { .. } | StateEntry::Clock(_) | StateEntry::Unknown) => {}
            Err(bad) => {
                of_key.forget(&bad);
                of_key.unreadable.insert(entry_key.to_vec(), bad.to_string());
            }
        }
        if of_key.is_empty() {
            self.keys.remove(&at);
        }
    }
}

/// The order key that an entry is about, be it readable or not.
pub(super) fn key_of<'a>(entry: &'a Result<StateEntry<'a>, BadStateEntry>) -> Option<&'a [u8]> {
    match entry {
        Ok(
            StateEntry::Applied { key, .. } | StateEntry::Held { key, .. } | StateEntry::Blockers { key, .. },
        ) => Some(key),
        Err(
            BadStateEntry::Applied { key, .. }
            | BadStateEntry::Held { key, .. }
            | BadStateEntry::Blockers { key, .. },
        ) => Some(key),
        Ok(StateEntry::Position { .. } | StateEntry::Clock(_) | StateEntry::Unknown)
        | Err(BadStateEntry::Key | BadStateEntry::Position { .. } | BadStateEntry::Clock { .. }) => None,
    }
}

fn applied_version(applied: &Applied<'_>) -> AppliedVersion {
    let Applied { version, first, at, .. } = *applied;
    AppliedVersion { version, first, at, origin: applied.origin() }
}

fn held_at(held: &Held<'_>, logged: &Logged<'_>, whole: bool) -> Result<HeldAt, String> {
    let origin = match whole {
        true => Some(held.envelope((logged.headers)()).map_err(|bad| bad.to_string())?.origin),
        false => None,
    };
    Ok(HeldAt { since: logged.at, due: held.due, origin })
}
