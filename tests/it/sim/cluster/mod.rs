//! A Kafka cluster in memory: logs, transactions, one consumer group with its offsets.
//!
//! It answers requests at once and knows no time beyond what it is told: when a request arrives, when markers are
//! written and when a session expires is the world's business.

pub(crate) mod group;
pub(crate) mod log;
pub(crate) mod transactions;

use std::collections::BTreeMap;

use redrive::core::event::Target;
use redrive::core::position::{Lane, TierIndex};
use redrive::core::record::Record;

use self::group::Group;
use self::log::{Isolation, Log, Stored};
use self::transactions::{Ending, Serial, Transactions};

/// A topic by its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Topic {
    Source,
    Control,
    Tier(TierIndex),
    Output,
    StaleOutput,
    DeadLetter,
    State,
    Cases,
    Audit,
}

impl From<Lane> for Topic {
    fn from(lane: Lane) -> Self {
        match lane {
            Lane::Source => Self::Source,
            Lane::Control => Self::Control,
            Lane::Tier(tier) => Self::Tier(tier),
            Lane::Held => panic!("what was held is read from no topic"),
        }
    }
}

impl From<Target> for Topic {
    fn from(target: Target) -> Self {
        match target {
            Target::Output | Target::Named(_) => Self::Output,
            Target::StaleOutput => Self::StaleOutput,
            Target::Tier(tier) => Self::Tier(tier),
            Target::DeadLetter => Self::DeadLetter,
            Target::State => Self::State,
            Target::Cases => Self::Cases,
            Target::Audit => Self::Audit,
        }
    }
}

/// One partition of one topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) topic: Topic,
    pub(crate) partition: i32,
}

impl Place {
    pub(crate) fn lane(lane: Lane, partition: i32) -> Self {
        Self { topic: lane.into(), partition }
    }
}

/// The offset that the group has committed for a lane of a task.
#[derive(Clone, Debug)]
pub(crate) struct Committed {
    pub(crate) offset: i64,
    pub(crate) metadata: String,
    /// Place in the offsets topic: of two transactions the one sent later wins, whichever ended last.
    order: u64,
}

/// The cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    partitions: i32,
    lanes: usize,
    logs: Vec<Log>,
    pub(crate) transactions: Transactions,
    pub(crate) group: Group,
    committed: BTreeMap<Place, Committed>,
    /// How many transactions hold offsets of a place that are neither applied nor dropped.
    pending: BTreeMap<Place, usize>,
    /// Raised whenever a reader may see more than before.
    readable: u64,
}

impl Cluster {
    pub(crate) fn new(partitions: i32, tiers: usize) -> Self {
        let lanes = Lane::Tier(TierIndex::at(tiers)).index();
        let topics = lanes + 6;
        Self {
            partitions,
            lanes,
            logs: (0..topics * partitions as usize).map(|_| Log::default()).collect(),
            transactions: Transactions::default(),
            group: Group::new(partitions),
            committed: BTreeMap::new(),
            pending: BTreeMap::new(),
            readable: 0,
        }
    }

    pub(crate) fn partitions(&self) -> i32 {
        self.partitions
    }

    pub(crate) fn lanes(&self) -> impl Iterator<Item = Lane> + use<> {
        (0..self.lanes).map(Lane::at).filter(|lane| *lane != Lane::Held)
    }

    fn slot(&self, place: Place) -> usize {
        let topic = match place.topic {
            Topic::Source => Lane::Source.index(),
            Topic::Control => Lane::Control.index(),
            Topic::Tier(tier) => Lane::Tier(tier).index(),
            Topic::Output => self.lanes,
            Topic::DeadLetter => self.lanes + 1,
            Topic::State => self.lanes + 2,
            Topic::Cases => self.lanes + 3,
            Topic::Audit => self.lanes + 4,
            Topic::StaleOutput => self.lanes + 5,
        };
        topic * self.partitions as usize + place.partition as usize
    }

    pub(crate) fn log(&self, place: Place) -> &Log {
        &self.logs[self.slot(place)]
    }

    fn log_mut(&mut self, place: Place) -> &mut Log {
        let slot = self.slot(place);
        &mut self.logs[slot]
    }

    /// Appends outside of any transaction.
    pub(crate) fn append_plain(&mut self, place: Place, record: Record) -> i64 {
        self.readable += 1;
        self.log_mut(place).append(record, None)
    }

    pub(crate) fn read(&self, place: Place, from: i64, most: usize, isolation: Isolation) -> Vec<Record> {
        self.log(place).read(from, most, isolation, |serial| self.ending(serial))
    }

    /// What a transaction writes to the partitions of a topic, in order.
    pub(crate) fn written(
        &self,
        serial: Serial,
        topic: Topic,
    ) -> impl Iterator<Item = (Place, i64, &Stored)> {
        let writes = self.transactions.of(serial).writes.iter().copied();
        let there = writes.filter(move |(place, _)| place.topic == topic);
        there.filter_map(|(place, offset)| Some((place, offset, self.log(place).at(offset)?)))
    }

    pub(crate) fn ending(&self, serial: Serial) -> Ending {
        self.transactions.of(serial).ending
    }

    /// Whether a stored record counts: written outside of a transaction, or by one that was committed.
    pub(crate) fn counts(&self, by: Option<Serial>) -> bool {
        by.is_none_or(|serial| self.ending(serial) == Ending::Committed)
    }

    pub(crate) fn committed(&self, place: Place) -> Option<&Committed> {
        self.committed.get(&place)
    }

    /// The group has an offset of a source partition that redrive did not commit.
    pub(crate) fn commit_before(&mut self, partition: i32) {
        let committed = Committed { offset: 0, metadata: String::new(), order: 0 };
        self.committed.insert(Place::lane(Lane::Source, partition), committed);
    }

    /// Whether a stable fetch of this place's offset has to wait.
    pub(crate) fn has_pending_offsets(&self, place: Place) -> bool {
        self.pending.contains_key(&place)
    }

    pub(crate) fn readable_version(&self) -> u64 {
        self.readable
    }
}
