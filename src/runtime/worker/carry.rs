//! What the core wants done, done.

use crate::core::event::{AbortCause, Action, Transaction, TransactionResult};
use crate::core::position::{Epoch, Lane, Offset, Partition};
use crate::fail_point::fail_point;
use crate::kafka::reader::LaneId;
use crate::runtime::worker::{Step, UnderWay, Worker, WorkerError};

impl Worker {
    /// Does one thing; answers that are there at once become events.
    ///
    /// Nothing is begun for a task that was lost meanwhile:
    ///
    /// 1. records of a task wait to be told to the core;
    /// 2. the group takes the task, and everything that works for it is ended;
    /// 3. the core, which has not been told of 2 yet, wants the records of 1 handled, and more of them.
    pub(super) fn carry_out(&mut self, action: Action) -> Result<Step, WorkerError> {
        match action {
            Action::Restore { partition, epoch } => {
                self.epochs.set(partition, epoch);
                self.lookup.restore(partition, epoch);
            }
            Action::Open { partition, epoch, lanes } => self.open(partition, epoch, &lanes)?,
            Action::Fetch { partition, epoch, lane, most } => {
                if self.epochs.is_current(partition, epoch) {
                    let id = LaneId { partition, lane };
                    let met = self.reading.demand(id, epoch, most);
                    self.met(id, met);
                }
            }
            Action::FindEnd { partition, epoch } => {
                if self.epochs.is_current(partition, epoch) {
                    self.lookup.find_end(partition, epoch);
                }
            }
            Action::Handle(delivery) => {
                if self.epochs.is_current(delivery.id.partition, delivery.id.epoch) {
                    self.due.extend(self.deliveries.begin(*delivery));
                }
            }
            Action::Transact(transaction) => self.transact(transaction),
            Action::ReadBack { transaction, partitions } => {
                self.transactor.read_back(transaction, partitions)
            }
            Action::GiveBack { partition, epoch: _ } => self.give_back(partition)?,
            Action::Report(report) => self.account.reported(report),
            Action::Stop(reason) => return Ok(Step::Stop(reason)),
        }
        Ok(Step::On)
    }

    fn open(
        &mut self,
        partition: Partition,
        epoch: Epoch,
        lanes: &[(Lane, Offset)],
    ) -> Result<(), WorkerError> {
        if self.epochs.is_current(partition, epoch) {
            fail_point!(BeforeOpen);
            self.reading.open(&self.settings.transactor.pipeline, partition, lanes)?;
            fail_point!(AfterOpen);
            self.account.opened(partition);
        }
        Ok(())
    }

    /// The group's metadata is captured here, where group changes are served, so that it fits the batch.
    fn transact(&mut self, transaction: Box<Transaction>) {
        let (id, records) = (transaction.id, transaction.records);
        let since = self.clock.now().mono;
        self.under_way = Some(UnderWay { id, records, since });
        self.begun(since);
        if let Some(group) = self.reading.source.metadata() {
            fail_point!(Formed);
            self.transactor.transact(transaction, group);
        } else {
            let detail = "this worker is no member of the group at the moment".to_owned();
            let result = TransactionResult::Aborted(AbortCause::Passing { detail });
            self.transacted(id, result);
        }
    }
}
