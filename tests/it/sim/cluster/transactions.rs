//! The transaction coordinator: producer epochs, open transactions, markers, offsets inside transactions.

use std::collections::{BTreeMap, BTreeSet};

use redrive::core::record::Record;

use super::group::{Membership, Refused};
use super::{Cluster, Committed, Place};

/// The number of a transaction of the whole cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Serial(usize);

/// A transactional id: which worker, which of its producers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TransactionalId {
    pub(crate) slot: usize,
    pub(crate) turn: usize,
}

/// A producer's number for the lives of its transactional id; an older one is fenced.
pub(crate) type ProducerEpoch = u32;

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Open,
    Committed,
    Aborted,
}

/// Why the broker refuses a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The transactional id has a newer epoch.
    Fenced,
    /// The id's last transaction still writes its markers: ask again.
    Concurrent,
    /// The group does not know this member or this generation.
    Group(Refused),
}

/// One transaction.
#[derive(Clone, Debug)]
pub(crate) struct Txn {
    pub(crate) id: Option<TransactionalId>,
    pub(crate) ending: Ending,
    pub(crate) writes: Vec<(Place, i64)>,
    pub(crate) offsets: Vec<(Place, i64, String)>,
    order: u64,
    unmarked: BTreeSet<Place>,
    offsets_pending: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Id {
    epoch: ProducerEpoch,
    /// The open transaction, or the ended one that still writes markers.
    current: Option<Serial>,
}

/// All transactions and ids.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    all: Vec<Txn>,
    ids: BTreeMap<TransactionalId, Id>,
    sent: u64,
}

impl Transactions {
    pub(crate) fn of(&self, serial: Serial) -> &Txn {
        &self.all[serial.0]
    }

    fn new_txn(&mut self, id: Option<TransactionalId>) -> Serial {
        self.all.push(Txn {
            id,
            ending: Ending::Open,
            writes: Vec::new(),
            offsets: Vec::new(),
            order: 0,
            unmarked: BTreeSet::new(),
            offsets_pending: false,
        });
        Serial(self.all.len() - 1)
    }

    /// The open transaction of an id.
    pub(crate) fn open(&self, id: TransactionalId) -> Option<Serial> {
        let serial = self.ids.get(&id)?.current?;
        (self.of(serial).ending == Ending::Open).then_some(serial)
    }

    /// How many transactions the producers of one worker have open.
    pub(crate) fn open_of(&self, slot: usize) -> usize {
        self.ids.keys().filter(|id| id.slot == slot && self.open(**id).is_some()).count()
    }

    pub(crate) fn any_open(&self) -> bool {
        self.ids.values().any(|id| id.current.is_some())
    }

    /// Whether the id's last transaction has written all its markers.
    pub(crate) fn is_settled(&self, id: TransactionalId) -> bool {
        self.ids.get(&id).is_none_or(|id| id.current.is_none())
    }

    /// Whether an epoch is still the newest of its id.
    pub(crate) fn is_current(&self, id: TransactionalId, epoch: ProducerEpoch) -> bool {
        self.ids.get(&id).is_some_and(|known| known.epoch == epoch)
    }
}

impl Cluster {
    /// First half of `init_transactions`: fences every older producer of the id and aborts what it left open. The
    /// second half waits until [`Transactions::is_settled`]. Returns the new epoch and the aborted transaction.
    pub(crate) fn fence(&mut self, id: TransactionalId) -> (ProducerEpoch, Option<Serial>) {
        let open = self.transactions.open(id);
        if let Some(serial) = open {
            self.decide(serial, Ending::Aborted);
        }
        let known = self.transactions.ids.entry(id).or_default();
        known.epoch += 1;
        (known.epoch, open)
    }

    /// The open transaction of this producer, begun here if there is none.
    fn join_transaction(&mut self, id: TransactionalId, epoch: ProducerEpoch) -> Result<Serial, Refusal> {
        let known = self.transactions.ids.get(&id).copied().unwrap_or_default();
        if known.epoch != epoch {
            return Err(Refusal::Fenced);
        }
        match known.current {
            Some(serial) if self.ending(serial) == Ending::Open => Ok(serial),
            Some(_) => Err(Refusal::Concurrent),
            None => {
                let serial = self.transactions.new_txn(Some(id));
                self.transactions.ids.entry(id).or_default().current = Some(serial);
                Ok(serial)
            }
        }
    }

    /// Appends a record in the producer's transaction; the first append or offset begins it at the broker.
    pub(crate) fn append(
        &mut self,
        (id, epoch): (TransactionalId, ProducerEpoch),
        place: Place,
        record: Record,
    ) -> Result<Serial, Refusal> {
        let serial = self.join_transaction(id, epoch)?;
        self.append_to(serial, place, record);
        Ok(serial)
    }

    fn append_to(&mut self, serial: Serial, place: Place, record: Record) {
        let offset = self.log_mut(place).append(record, Some(serial));
        let txn = &mut self.transactions.all[serial.0];
        txn.writes.push((place, offset));
        txn.unmarked.insert(place);
        self.readable += 1;
    }

    /// Sends offsets into the producer's transaction. As the broker does, this checks the member and the generation,
    /// not who owns the partitions, and takes offsets without any membership as they come.
    pub(crate) fn send_offsets(
        &mut self,
        (id, epoch): (TransactionalId, ProducerEpoch),
        membership: Option<Membership>,
        offsets: Vec<(Place, i64, String)>,
    ) -> Result<Serial, Refusal> {
        let serial = self.join_transaction(id, epoch)?;
        if let Some(membership) = membership {
            self.group.check(membership).map_err(Refusal::Group)?;
        }
        self.transactions.sent += 1;
        let order = self.transactions.sent;
        for (place, _, _) in &offsets {
            *self.pending.entry(*place).or_insert(0) += 1;
        }
        let txn = &mut self.transactions.all[serial.0];
        txn.offsets = offsets;
        txn.order = order;
        txn.offsets_pending = true;
        Ok(serial)
    }

    /// Ends the producer's transaction; `None` where it had begun nothing at the broker.
    pub(crate) fn end(
        &mut self,
        (id, epoch): (TransactionalId, ProducerEpoch),
        ending: Ending,
    ) -> Result<Option<Serial>, Refusal> {
        if !self.transactions.is_current(id, epoch) {
            return Err(Refusal::Fenced);
        }
        let open = self.transactions.open(id);
        if let Some(serial) = open {
            self.decide(serial, ending);
        }
        Ok(open)
    }

    /// The broker gives up a transaction that is too old, and fences its producer.
    pub(crate) fn time_out(&mut self, serial: Serial) -> bool {
        let txn = self.transactions.of(serial);
        let Some(id) = txn.id.filter(|_| txn.ending == Ending::Open) else { return false };
        self.decide(serial, Ending::Aborted);
        self.transactions.ids.entry(id).or_default().epoch += 1;
        true
    }

    fn decide(&mut self, serial: Serial, ending: Ending) {
        self.transactions.all[serial.0].ending = ending;
        self.settle(serial);
    }

    /// Where the end of a transaction still has to be written: its logs, and whether its offsets wait.
    pub(crate) fn unmarked(&self, serial: Serial) -> (Vec<Place>, bool) {
        let txn = self.transactions.of(serial);
        (txn.unmarked.iter().copied().collect(), txn.offsets_pending)
    }

    /// Writes the marker of an ended transaction into one log.
    pub(crate) fn write_marker(&mut self, serial: Serial, place: Place) {
        if self.transactions.all[serial.0].unmarked.remove(&place) {
            self.log_mut(place).mark(serial);
            self.readable += 1;
        }
        self.settle(serial);
    }

    /// Applies or drops the offsets of an ended transaction.
    pub(crate) fn settle_offsets(&mut self, serial: Serial) {
        let txn = &mut self.transactions.all[serial.0];
        if std::mem::take(&mut txn.offsets_pending) {
            let (ending, order, offsets) = (txn.ending, txn.order, txn.offsets.clone());
            for (place, offset, metadata) in offsets {
                if let Some(count) = self.pending.get_mut(&place) {
                    *count -= 1;
                    if *count == 0 {
                        self.pending.remove(&place);
                    }
                }
                let is_newer = self.committed.get(&place).is_none_or(|known| known.order < order);
                if ending == Ending::Committed && is_newer {
                    self.committed.insert(place, Committed { offset, metadata, order });
                }
            }
        }
        self.settle(serial);
    }

    fn settle(&mut self, serial: Serial) {
        let txn = self.transactions.of(serial);
        let done = txn.unmarked.is_empty() && !txn.offsets_pending;
        if let Some(id) = txn.id.filter(|_| done) {
            let known = self.transactions.ids.entry(id).or_default();
            if known.current == Some(serial) {
                known.current = None;
            }
        }
    }

    /// What no broker does: makes the records of an aborted transaction readable.
    pub(crate) fn reveal(&mut self, serial: Serial) {
        for (place, offset) in self.transactions.of(serial).writes.clone() {
            if let Some(record) = self.log(place).at(offset).map(|stored| stored.record.clone()) {
                self.append_plain(place, record);
            }
        }
    }

    /// A transaction of somebody else who writes the source topic.
    pub(crate) fn begin_foreign(&mut self, writes: Vec<(Place, Record)>) -> Serial {
        let serial = self.transactions.new_txn(None);
        for (place, record) in writes {
            self.append_to(serial, place, record);
        }
        serial
    }

    /// Ends it.
    pub(crate) fn end_foreign(&mut self, serial: Serial, ending: Ending) {
        self.decide(serial, ending);
        for place in self.unmarked(serial).0 {
            self.write_marker(serial, place);
        }
    }
}
