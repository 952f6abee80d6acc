//! One partition's log: data, control markers, and how far a reader of committed records may read.

use std::collections::BTreeMap;

use redrive::core::position::Offset;
use redrive::core::record::Record;

use super::transactions::{Ending, Serial};
use crate::sim::lineage::{self, Root};

/// A record as the broker keeps it, with what only the simulation knows of its writing.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) record: Record,
    /// The transaction that wrote it; `None`: written outside of any.
    pub(crate) by: Option<Serial>,
    /// The record that it leads back to, where it is a copy or an output.
    pub(crate) origin: Option<Root>,
}

/// What stands at an offset.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    Data(Box<Stored>),
    /// The end of a transaction: takes an offset, is never handed to a reader.
    Marker,
}

/// Which records a reader sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isolation {
    Committed,
    /// What the real consumer never asks for; a planted bug does.
    Uncommitted,
}

/// The log of one partition. Offsets are dense, markers included.
#[derive(Debug, Default)]
pub(crate) struct Log {
    entries: Vec<Entry>,
    /// First offset of each transaction whose marker is not written yet.
    open: BTreeMap<Serial, i64>,
}

impl Log {
    pub(crate) fn end(&self) -> i64 {
        self.entries.len() as i64
    }

    /// Appends a record and returns its offset.
    pub(crate) fn append(&mut self, mut record: Record, by: Option<Serial>) -> i64 {
        let offset = self.end();
        record.offset = Offset(offset);
        let origin = lineage::origin_of(&record);
        self.entries.push(Entry::Data(Box::new(Stored { record, by, origin })));
        if let Some(serial) = by {
            self.open.entry(serial).or_insert(offset);
        }
        offset
    }

    /// Writes the marker that ends a transaction here.
    pub(crate) fn mark(&mut self, serial: Serial) {
        self.open.remove(&serial);
        self.entries.push(Entry::Marker);
    }

    /// Readers of committed records see nothing from here on.
    pub(crate) fn last_stable(&self) -> i64 {
        self.open.values().copied().min().unwrap_or(self.end())
    }

    pub(crate) fn at(&self, offset: i64) -> Option<&Stored> {
        match self.entries.get(usize::try_from(offset).ok()?)? {
            Entry::Data(stored) => Some(stored),
            Entry::Marker => None,
        }
    }

    /// The data from `from` up to `to`, whatever became of its transaction.
    pub(crate) fn data(&self, from: i64, to: i64) -> impl Iterator<Item = (i64, &Stored)> {
        (from.max(0)..to.min(self.end())).filter_map(|offset| Some((offset, self.at(offset)?)))
    }

    /// Up to `most` records from `from` that a reader sees.
    pub(crate) fn read(
        &self,
        from: i64,
        most: usize,
        isolation: Isolation,
        ending: impl Fn(Serial) -> Ending,
    ) -> Vec<Record> {
        let end = match isolation {
            Isolation::Committed => self.last_stable(),
            Isolation::Uncommitted => self.end(),
        };
        let seen = self.data(from, end).filter(|(_, stored)| match (isolation, stored.by) {
            (Isolation::Uncommitted, _) | (_, None) => true,
            (Isolation::Committed, Some(serial)) => ending(serial) == Ending::Committed,
        });
        seen.take(most).map(|(_, stored)| stored.record.clone()).collect()
    }
}
