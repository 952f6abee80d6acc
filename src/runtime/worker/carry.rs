//! What the core wants done, done.

use crate::core::event::{AbortCause, Action, Event, Transaction, TransactionResult};
use crate::core::position::{Epoch, Offset, Partition};
use crate::kafka::reader::LaneId;
use crate::runtime::report::Happening;
use crate::runtime::worker::{Step, Worker, WorkerError};

impl Worker {
    /// Does one thing; answers that are there at once become events.
    pub(super) fn carry_out(&mut self, action: Action) -> Result<Step, WorkerError> {
        match action {
            Action::Restore { partition, epoch } => {
                self.epochs.set(partition, epoch);
                self.lookup.restore(partition, epoch);
            }
            Action::Open { partition, epoch, lanes } => self.open(partition, epoch, &lanes)?,
            Action::Fetch { partition, epoch, lane, most } => {
                let id = LaneId { partition, lane };
                let met = self.reading.demand(id, epoch, most);
                self.met(id, met);
            }
            Action::Handle(delivery) => self.due.extend(self.deliveries.begin(*delivery)),
            Action::Transact(transaction) => self.transact(transaction),
            Action::ReadBack { transaction, partitions } => {
                self.transactor.read_back(transaction, partitions)
            }
            Action::GiveBack { partition, epoch: _ } => self.give_back(partition)?,
            Action::Report(report) => self.reporter.tell(&Happening::Core(&report)),
            Action::Stop(reason) => {
                self.reporter.tell(&Happening::Stopped(&reason));
                return Ok(Step::Stop(reason));
            }
        }
        Ok(Step::On)
    }

    fn open(&mut self, partition: Partition, epoch: Epoch, lanes: &[Offset]) -> Result<(), WorkerError> {
        // The task may have been lost while this was under way.
        if self.epochs.is_current(partition, epoch) {
            self.reading.open(&self.settings.transactor.pipeline, partition, lanes)?;
            self.reporter.tell(&Happening::Opened(partition));
        }
        Ok(())
    }

    /// The group's metadata is captured here, where group changes are served, so that it fits the batch.
    fn transact(&mut self, transaction: Box<Transaction>) {
        if let Some(group) = self.reading.source.metadata() {
            self.transactor.transact(transaction, group);
        } else {
            let detail = "this worker is no member of the group at the moment".to_owned();
            let result = TransactionResult::Aborted(AbortCause::Passing { detail });
            self.due.push_back(Event::Transacted { transaction: transaction.id, result });
        }
    }

    fn give_back(&mut self, partition: Partition) -> Result<(), WorkerError> {
        self.close(partition)?;
        if let Some(revoked) = self.revoked.as_mut() {
            revoked.open.remove(&partition);
        }
        self.answer_if_given()
    }

    /// Lets the group have what it asked back, once the core has given all of it: the group takes one answer.
    pub(super) fn answer_if_given(&mut self) -> Result<(), WorkerError> {
        if let Some(revoked) = self.revoked.take_if(|revoked| revoked.open.is_empty()) {
            self.reading.source.answer(&revoked.all)?;
        }
        Ok(())
    }

    /// Ends everything that works for a task, its epoch first.
    pub(super) fn close(&mut self, partition: Partition) -> Result<(), WorkerError> {
        self.epochs.invalidate(partition);
        self.lookup.forget(partition);
        self.deliveries.give_up(partition);
        self.reading.give_up(partition)?;
        self.reporter.tell(&Happening::Closed(partition));
        Ok(())
    }
}
