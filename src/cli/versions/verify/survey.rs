//! What is wrong in a state topic, found in one pass with a hash of 16 bytes for each key.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::cli::versions::gather::key_of;
use crate::core::guard::{KeyHash, KeyHasher, Version};
use crate::core::policy::{Contiguous, First, Guard, OrderKey, OrderPolicy};
use crate::core::position::{Offset, Partition};
use crate::core::state::{BadStateEntry, StateEntry};
use crate::kafka::state_log::Logged;

/// Where an entry stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) partition: Partition,
    pub(super) offset: Offset,
}

/// Something that a task cannot go by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// Entries of one key on several partitions: the newest of each.
    Apart { key: KeyHash, places: Vec<(Place, Option<Version>)> },
    /// An entry that cannot be read.
    Unreadable { place: Place, problem: String },
    /// A record whose key no version of redrive writes.
    Foreign { place: Place },
    /// A held record whose version is not after what is applied.
    Passed { key: KeyHash, place: Place, version: Version, applied: Version },
    /// A held record of a key whose count has not begun.
    Uncounted { key: KeyHash, place: Place, version: Version },
}

impl Flaw {
    /// Its word for scripts.
    pub(super) const fn word(&self) -> &'static str {
        match self {
            Self::Apart { .. } => "two-partitions",
            Self::Unreadable { .. } => "unreadable",
            Self::Foreign { .. } => "foreign",
            Self::Passed { .. } => "held-and-passed",
            Self::Uncounted { .. } => "held-and-uncounted",
        }
    }

    /// The key that it is about.
    pub(super) const fn key(&self) -> Option<KeyHash> {
        match self {
            Self::Apart { key, .. } | Self::Passed { key, .. } | Self::Uncounted { key, .. } => Some(*key),
            Self::Unreadable { .. } | Self::Foreign { .. } => None,
        }
    }

    /// What to do about it.
    pub(super) const fn next_step(&self) -> &'static str {
        match self {
            Self::Apart { .. } => {
                "find out why records of this key are on several partitions of the source (another partitioner, or partitions \
                 that were added): a guard on one knows nothing of the others"
            }
            Self::Unreadable { .. } => {
                "its task does not begin while this stands there: run the newer redrive that wrote it, or write this entry anew"
            }
            Self::Foreign { .. } => {
                "it is passed over; find out who writes to this topic beside the owners of its tasks"
            }
            Self::Passed { .. } => {
                "it ends as stale or as a duplicate where its task runs; look again once a worker has had it"
            }
            Self::Uncounted { .. } => {
                "`redrive versions KEY` shows what is held behind it; it is a dead letter once its gap is over"
            }
        }
    }
}

/// Everything that flaws are found by.
#[derive(Debug)]
pub(super) struct Survey {
    hasher: KeyHasher,
    /// Whether places of held records are versions.
    counts: bool,
    /// Whether a count begins with the first version that is admitted.
    begins_anywhere: bool,
    /// Whether a partition is one key.
    by_partition: bool,
    /// Each key on the partition where it was met first.
    keys: HashMap<KeyHash, Known, RandomState>,
    /// The same on further ones.
    apart: BTreeMap<(KeyHash, Partition), Known>,
    held: BTreeMap<(KeyHash, Partition, i64), Offset>,
    /// Entries that cannot be read, by the hash of their keys: a later one may replace them.
    unreadable: BTreeMap<(Partition, KeyHash), (Offset, String)>,
    foreign: Vec<Place>,
}

/// What is known of a key on one partition.
#[derive(Clone, Copy, Debug)]
struct Known {
    partition: Partition,
    /// So many of its records are held.
    held: u32,
    blocked: bool,
    /// Whether `version` is applied.
    applies: bool,
    version: Version,
    /// Its newest entry that is no deletion.
    newest: Offset,
}

/// How many bytes are kept of a key, beside its hash.
#[cfg(test)]
pub(super) const BYTES_OF_KEY: usize = size_of::<Known>();

impl Known {
    const fn is_live(&self) -> bool {
        self.held > 0 || self.blocked || self.applies
    }

    /// The version that is applied.
    fn applied(&self) -> Option<Version> {
        self.applies.then_some(self.version)
    }

    const fn place(&self) -> Place {
        Place { partition: self.partition, offset: self.newest }
    }
}

impl Survey {
    pub(super) fn new(hasher: KeyHasher, order: &OrderPolicy) -> Self {
        let rules = match &order.guard {
            Guard::Contiguous(rules) => Some(rules),
            Guard::None | Guard::Latest(_) => None,
        };
        Self {
            hasher,
            counts: rules.is_some(),
            begins_anywhere: matches!(rules, Some(Contiguous { first: First::Any, .. })),
            by_partition: order.key == OrderKey::Partition,
            keys: HashMap::default(),
            apart: BTreeMap::new(),
            held: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            foreign: Vec::new(),
        }
    }

    /// Takes in one entry.
    pub(super) fn take(&mut self, logged: &Logged<'_>) {
        let Logged { partition, offset, key, value, .. } = *logged;
        let of_entry = (partition, self.hasher.hash(key.unwrap_or_default()));
        if !self.unreadable.is_empty() {
            self.unreadable.remove(&of_entry);
        }
        match StateEntry::read(key, value) {
            Ok(StateEntry::Applied { key, applied }) => {
                let known = self.known(key, logged, applied.is_some());
                known.applies = applied.is_some();
                known.version = applied.map_or(known.version, |applied| applied.version);
            }
            Ok(StateEntry::Blockers { key, blockers }) => {
                self.known(key, logged, blockers.is_some()).blocked = blockers.is_some();
            }
            Ok(StateEntry::Held { key, place, held }) => {
                let problem = held.and_then(|held| held.envelope((logged.headers)()).err());
                let hash = self.hasher.hash(key);
                let at = (hash, partition, place);
                let (before, now) = match held {
                    Some(_) => (self.held.insert(at, offset), 1),
                    None => (self.held.remove(&at), 0),
                };
                let known = self.known(key, logged, held.is_some());
                known.held = known.held.saturating_add(now).saturating_sub(u32::from(before.is_some()));
                if let Some(problem) = problem {
                    let problem =
                        BadStateEntry::Held { key: key.to_vec(), place, problem: problem.to_string() };
                    self.unreadable.insert(of_entry, (offset, problem.to_string()));
                }
            }
            Ok(StateEntry::Position { .. } | StateEntry::Clock(_) | StateEntry::Unknown) => {}
            // Without a value it is nobody's.
            Err(BadStateEntry::Key) if value.is_none() => {}
            Err(BadStateEntry::Key) => self.foreign.push(Place { partition, offset }),
            Err(bad) => drop(self.unreadable.insert(of_entry, (offset, bad.to_string()))),
        }
    }

    fn known(&mut self, key: &[u8], logged: &Logged<'_>, says: bool) -> &mut Known {
        let (hash, partition) = (self.hasher.hash(key), logged.partition);
        let none = Known {
            partition,
            held: 0,
            blocked: false,
            applies: false,
            version: Version(0),
            newest: logged.offset,
        };
        let first = self.keys.entry(hash).or_insert(none);
        let known = match first.partition == partition {
            true => first,
            false => self.apart.entry((hash, partition)).or_insert(none),
        };
        if says {
            known.newest = logged.offset;
        }
        known
    }

    /// How many keys there are.
    pub(super) fn keys(&self) -> usize {
        let apart = self.apart.iter().filter(|((key, _), known)| known.is_live() && !self.is_live(*key));
        let apart: BTreeSet<KeyHash> = apart.map(|((key, _), _)| *key).collect();
        self.keys.values().filter(|known| known.is_live()).count().saturating_add(apart.len())
    }

    fn is_live(&self, key: KeyHash) -> bool {
        self.keys.get(&key).is_some_and(Known::is_live)
    }

    /// Everything that is wrong, in the order of places.
    pub(super) fn flaws(&self) -> Vec<Flaw> {
        let mut flaws: Vec<(Place, Flaw)> = Vec::new();
        if !self.by_partition {
            let apart: BTreeSet<KeyHash> = self.apart.keys().map(|(key, _)| *key).collect();
            flaws.extend(apart.into_iter().filter_map(|key| self.apart(key)));
        }
        for ((partition, _), (offset, problem)) in &self.unreadable {
            let place = Place { partition: *partition, offset: *offset };
            flaws.push((place, Flaw::Unreadable { place, problem: problem.clone() }));
        }
        flaws.extend(self.foreign.iter().map(|place| (*place, Flaw::Foreign { place: *place })));
        for ((key, partition, version), offset) in self.held.iter().filter(|_| self.counts) {
            let (key, version) = (*key, Version(*version));
            let place = Place { partition: *partition, offset: *offset };
            let first = self.keys.get(&key).filter(|known| known.partition == *partition);
            let known = first.or_else(|| self.apart.get(&(key, *partition)));
            match known.and_then(Known::applied) {
                Some(applied) if version <= applied => {
                    flaws.push((place, Flaw::Passed { key, place, version, applied }));
                }
                None if self.begins_anywhere => {
                    flaws.push((place, Flaw::Uncounted { key, place, version }));
                }
                Some(_) | None => {}
            }
        }
        flaws.sort_by_key(|(place, _)| *place);
        flaws.into_iter().map(|(_, flaw)| flaw).collect()
    }

    fn apart(&self, key: KeyHash) -> Option<(Place, Flaw)> {
        let of_key = self.apart.range((key, Partition(i32::MIN))..=(key, Partition(i32::MAX)));
        let all = self.keys.get(&key).into_iter().chain(of_key.map(|(_, known)| known));
        let live = all.filter(|known| known.is_live());
        let mut places: Vec<_> = live.map(|known| (known.place(), known.applied())).collect();
        places.sort_unstable();
        let (first, _) = *places.first().filter(|_| places.len() > 1)?;
        Some((first, Flaw::Apart { key, places }))
    }
}

/// The keys that flaws are about, by their hashes.
#[derive(Debug)]
pub(super) struct Names {
    hasher: KeyHasher,
    names: BTreeMap<KeyHash, Option<Vec<u8>>>,
}

impl Names {
    pub(super) fn of<'a>(hasher: KeyHasher, flaws: impl Iterator<Item = &'a Flaw>) -> Self {
        Self { hasher, names: flaws.filter_map(Flaw::key).map(|key| (key, None)).collect() }
    }

    /// Whether no name is missing.
    pub(super) fn is_complete(&self) -> bool {
        self.names.values().all(Option::is_some)
    }

    /// Takes in one entry.
    pub(super) fn take(&mut self, logged: &Logged<'_>) {
        let entry = StateEntry::read(logged.key, logged.value);
        let Some(key) = key_of(&entry) else { return };
        if let Some(name @ None) = self.names.get_mut(&self.hasher.hash(key)) {
            *name = Some(key.to_vec());
        }
    }

    /// A key by its hash; empty where it was deleted meanwhile.
    pub(super) fn get(&self, key: KeyHash) -> &[u8] {
        self.names.get(&key).and_then(Option::as_deref).unwrap_or_default()
    }
}
