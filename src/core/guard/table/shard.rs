//! One small table: an array with gaps, sorted by hash.
//!
//! A hash has its home where it would stand if all were spread evenly; it stands there or, where others are in the way, soon
//! behind. Since it is sorted, a search ends at the first greater hash or gap, and growing is one pass from front to back.

use crate::core::guard::hash::KeyHash;
use crate::core::guard::table::{Entry, SHARD_BITS};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    key: KeyHash,
    entry: Entry,
}

/// A gap takes no byte of its own: no hash is zero.
const SLOT_BYTES: usize = 32;
const _: () = assert!(size_of::<Option<Slot>>() == SLOT_BYTES);

/// One small table.
#[derive(Clone, Debug, Default)]
pub(super) struct Shard {
    /// First the homes, then some slots for those that find their homes at the end taken.
    slots: Box<[Option<Slot>]>,
    homes: u32,
    len: u32,
}

impl Shard {
    pub(super) fn get(&self, key: KeyHash) -> Option<Entry> {
        let slot = self.slots.get(self.find(key).ok()?)?;
        slot.map(|slot| slot.entry)
    }

    /// What was there before.
    pub(super) fn set(&mut self, key: KeyHash, entry: Entry) -> Option<Entry> {
        let slot = Slot { key, entry };
        if let Some(place) = self.find(key).ok().and_then(|at| self.slots.get_mut(at)) {
            return place.replace(slot).map(|was| was.entry);
        }
        let len = self.len.saturating_add(1);
        if len > most_in(self.homes) {
            self.resize(larger(self.homes));
        }
        while !self.insert(slot) {
            self.resize(larger(self.homes));
        }
        self.len = len;
        None
    }

    pub(super) fn remove(&mut self, key: KeyHash) -> Option<Entry> {
        let at = self.find(key).ok()?;
        let (place, behind) = self.slots.get_mut(at..)?.split_first_mut()?;
        let removed = place.take()?;
        // Whatever does not stand at its home moves up.
        let homes = self.homes;
        let moves = |(slot, at): (&Option<Slot>, usize)| slot.is_some_and(|slot| home(slot.key, homes) < at);
        let moved = behind.iter().zip(at.saturating_add(1)..).take_while(|&it| moves(it)).count();
        if let Some(run) = self.slots.get_mut(at..=at.saturating_add(moved)) {
            run.rotate_left(1);
        }
        self.len = self.len.saturating_sub(1);
        if self.len < least_in(self.homes) {
            self.resize(smaller(self.homes));
        }
        Some(removed.entry)
    }

    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.slots)
    }

    /// Where a hash stands, or else where it would.
    fn find(&self, key: KeyHash) -> Result<usize, usize> {
        let from = home(key, self.homes);
        let slots = self.slots.get(from..).unwrap_or_default();
        let before = |slot: &&Option<Slot>| slot.is_some_and(|slot| slot.key < key);
        let at = slots.iter().take_while(before).count();
        let found = matches!(slots.get(at), Some(Some(slot)) if slot.key == key);
        let at = from.saturating_add(at);
        if found { Ok(at) } else { Err(at) }
    }

    /// Whether there was a gap for a hash that is not there yet.
    fn insert(&mut self, slot: Slot) -> bool {
        let (Ok(at) | Err(at)) = self.find(slot.key);
        let behind = self.slots.get_mut(at..).unwrap_or_default();
        let gap = behind.iter().position(Option::is_none);
        let Some(run) = gap.and_then(|gap| behind.get_mut(..=gap)) else { return false };
        run.rotate_right(1);
        if let Some(place) = run.first_mut() {
            *place = Some(slot);
        }
        true
    }

    /// Makes it one of at least so many homes.
    fn resize(&mut self, mut homes: u32) {
        *self = loop {
            match self.with_homes(homes) {
                Some(resized) => break resized,
                None => homes = larger(homes),
            }
        };
    }

    /// The same with so many homes; `None` where the slots behind them do not suffice.
    fn with_homes(&self, homes: u32) -> Option<Self> {
        let mut slots = vec![None; slots_of(homes)].into_boxed_slice();
        let mut free = 0;
        for slot in self.slots.iter().flatten() {
            let at = home(slot.key, homes).max(free);
            *slots.get_mut(at)? = Some(*slot);
            free = at.saturating_add(1);
        }
        Some(Self { slots, homes, len: self.len })
    }
}

/// The place among so many homes that is a hash's own: the greater the hash, the further behind.
fn home(key: KeyHash, homes: u32) -> usize {
    let home = (u64::from(key.bits_behind(SHARD_BITS)) * u64::from(homes)) >> u32::BITS;
    usize::try_from(home).unwrap_or(usize::MAX)
}

/// With one hash to four homes or more, one in three is searched past a few; towards one to one it would be many.
fn most_in(homes: u32) -> u32 {
    homes / 5 * 4 + homes % 5 * 4 / 5
}

/// So few that the memory of those that left is given back.
fn least_in(homes: u32) -> u32 {
    homes / 5 * 2
}

/// By a quarter: a smaller step would move every hash more often, a larger one leave more gaps.
fn larger(homes: u32) -> u32 {
    homes.saturating_add(homes / 4).max(4)
}

/// As full as after growing.
fn smaller(homes: u32) -> u32 {
    homes / 8 * 5
}

/// More behind the homes as there are more, up to 32: at four hashes to five homes a run over the end that is longer is
/// met once in a million.
fn slots_of(homes: u32) -> usize {
    let behind = if homes == 0 { 0 } else { (homes / 16).clamp(1, 32) };
    usize::try_from(homes.saturating_add(behind)).unwrap_or(usize::MAX)
}

/// By what they hold, however large they are.
impl PartialEq for Shard {
    fn eq(&self, other: &Self) -> bool {
        self.slots.iter().flatten().eq(other.slots.iter().flatten())
    }
}

impl Eq for Shard {}
