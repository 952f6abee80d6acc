//! Whether the transactor's calls of the client return.
//!
//! One that never does stops all tasks of the worker while its loop goes on turning: nobody else would tell.

use crate::admin::health::Transacting;
use crate::core::time::Monotonic;
use crate::runtime::worker::Worker;

/// The transaction that the transactor is at, until what became of it is known.
#[derive(Debug)]
pub(super) struct Watch {
    at: Option<Transacting>,
    told: Told,
}

/// Whether people know that transactions take long: told once, while an outage lasts each of them does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    No,
    Yes,
}

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The brokers have said.
    Answered,
    /// It was given up, for whatever reason.
    GivenUp,
}

impl Default for Watch {
    fn default() -> Self {
        Self { at: None, told: Told::No }
    }
}

impl Worker {
    /// The transactor is given a transaction.
    pub(super) fn begun(&mut self, since: Monotonic) {
        let timeout = self.settings.transactor.pipeline.policy.flow.transaction_timeout;
        self.note_transaction(Some(Transacting { since, heard: since, timeout }));
    }

    /// It says that it is still at it.
    pub(super) fn goes_on(&mut self) {
        let heard = self.clock.now().mono;
        self.note_transaction(self.watch.at.map(|at| Transacting { heard, ..at }));
    }

    /// It is known what became of the transaction.
    pub(super) fn ended(&mut self, ended: Ended) {
        self.note_transaction(None);
        match ended {
            Ended::Answered => self.watch.told = Told::No,
            Ended::GivenUp => {}
        }
    }

    /// Tells once of a transaction that takes long.
    pub(super) fn watch_transaction(&mut self) {
        let (Some(transacting), Told::No) = (self.watch.at, self.watch.told) else { return };
        let age = self.clock.now().mono.since(transacting.since);
        if age > transacting.late_after() {
            self.watch.told = Told::Yes;
            self.account.transaction_late(age);
        }
    }

    fn note_transaction(&mut self, at: Option<Transacting>) {
        self.watch.at = at;
        self.account.transacting(at);
    }
}
