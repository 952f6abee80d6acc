//! All source records by their origin, and the ways from an event id to one of them.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use super::life::Life;
use super::{Rules, Seen, print};

/// Partition and offset of a source record.
pub(crate) type Origin = (i32, i64);

/// All source records.
#[derive(Debug, Default)]
pub(crate) struct Lives {
    /// In the order of their offsets.
    partitions: BTreeMap<i32, Vec<Life>>,
    /// By event ids that are not the origin.
    ids: HashMap<u64, Origin>,
}

/// Another source record has the same event id.
pub(crate) struct Ambiguous;

impl Lives {
    pub(crate) fn add(&mut self, rules: &Rules, source: &Seen, life: Life) -> Result<(), Ambiguous> {
        let origin = (source.partition, source.offset);
        let by_origin = print::of(rules.place_of(source).as_str()) == life.id;
        let known = !by_origin && self.ids.insert(life.id, origin).is_some();
        let lives = self.partitions.entry(source.partition).or_default();
        let place = lives.partition_point(|other| other.offset < life.offset);
        lives.insert(place, life);
        if known { Err(Ambiguous) } else { Ok(()) }
    }

    pub(crate) fn at(&self, (partition, offset): Origin) -> Option<&Life> {
        let lives = self.partitions.get(&partition)?;
        lives.get(index(lives, offset)?)
    }

    pub(crate) fn at_mut(&mut self, (partition, offset): Origin) -> Option<&mut Life> {
        let lives = self.partitions.get_mut(&partition)?;
        let place = index(lives, offset)?;
        lives.get_mut(place)
    }

    /// The source record with this event id.
    pub(crate) fn origin(&self, rules: &Rules, id: &str) -> Option<Origin> {
        let print = print::of(id);
        let named = parse(rules, id).filter(|origin| self.at(*origin).is_some_and(|life| life.id == print));
        named.or_else(|| self.ids.get(&print).copied())
    }

    /// With the partition of each, in the order of partitions and offsets.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (i32, &Life)> {
        self.partitions.iter().flat_map(|(partition, lives)| lives.iter().map(move |life| (*partition, life)))
    }

    pub(crate) fn partitions(&self) -> impl Iterator<Item = i32> {
        self.partitions.keys().copied()
    }

    /// Those in this range of places of a partition, as far as there are some.
    pub(crate) fn range(&self, partition: i32, places: Range<usize>) -> &[Life] {
        let lives = self.partitions.get(&partition).map(Vec::as_slice).unwrap_or_default();
        lives.get(places.start.min(lives.len())..places.end.min(lives.len())).unwrap_or_default()
    }

    /// How many of a partition lie before this offset.
    pub(crate) fn before(&self, partition: i32, offset: i64) -> usize {
        self.partitions.get(&partition).map_or(0, |lives| lives.partition_point(|life| life.offset < offset))
    }
}

fn index(lives: &[Life], offset: i64) -> Option<usize> {
    lives.binary_search_by_key(&offset, |life| life.offset).ok()
}

/// An event id that is an origin of the source: `topic/partition/offset`.
pub(crate) fn parse(rules: &Rules, id: &str) -> Option<Origin> {
    let (partition, offset) = id.strip_prefix(&rules.source)?.strip_prefix('/')?.split_once('/')?;
    Some((partition.parse().ok()?, offset.parse().ok()?))
}
