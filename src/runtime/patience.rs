//! Waiting for brokers before anything can begin: for as long as it takes, visibly, and no longer than the process is wanted.
//!
//! An outage is no reason to end: whoever starts the process again would meet the same outage, and each new start would
//! wait longer than the one before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};

use crate::core::time::Monotonic;
use crate::kafka::admin::{AdminError, Inquiry, Verified, VerifyError};
use crate::kafka::transaction::Patience;
use crate::runtime::account::Account;
use crate::runtime::clock::Clock;
use crate::runtime::ended::RunError;
use crate::runtime::shutdown::Shutdown;
use crate::topology::model::Topology;

/// One try: told to end, the process ends within this.
const TRY: Duration = Duration::from_millis(500);
/// Between two tries that failed at once.
const PAUSE: Duration = Duration::from_millis(500);
/// Brokers that are there answer within this, on a busy machine, too. Then people are told.
const TOLD_AFTER: Duration = Duration::from_secs(5);

/// Asks about the topics until brokers answer. `None`: told to end before they did.
pub(super) fn until_verified(
    topology: &Topology,
    accounts: &mut [Account],
    clock: Clock,
    shutdown: &Shutdown,
) -> Result<Option<Verified>, RunError> {
    let inquiry = Inquiry::of(topology)?;
    let ended = told_to_end(shutdown);
    let mut wait = Wait::begin(clock);
    loop {
        let detail = match inquiry.attempt(TRY) {
            Ok(verified) => {
                wait.over(accounts);
                return Ok(Some(verified));
            }
            Err(VerifyError::Admin(AdminError::Unreachable { detail })) => detail,
            Err(
                error @ (VerifyError::Admin(_) | VerifyError::Topics { .. } | VerifyError::Session { .. }),
            ) => return Err(error.into()),
        };
        wait.goes_on(accounts, &detail);
        match ended.recv_timeout(PAUSE) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return Ok(None),
        }
    }
}

/// What a worker that starts does while the coordinator of its producers does not answer.
pub(super) struct Starting<'a> {
    account: &'a mut Account,
    ending: Arc<AtomicBool>,
    wait: Wait,
}

impl<'a> Starting<'a> {
    pub(super) fn begin(account: &'a mut Account, clock: Clock, ending: Arc<AtomicBool>) -> Self {
        Self { account, ending, wait: Wait::begin(clock) }
    }

    /// Still no answer.
    pub(super) fn goes_on(&mut self, detail: &str) -> Patience {
        self.wait.goes_on(std::slice::from_mut(self.account), detail);
        if self.ending.load(Ordering::Relaxed) { Patience::GiveUp } else { Patience::TryAgain }
    }

    /// An answer came.
    pub(super) fn over(mut self) {
        self.wait.over(std::slice::from_mut(self.account));
    }
}

/// A wait that people are told of once.
#[derive(Debug)]
struct Wait {
    clock: Clock,
    since: Monotonic,
    told: Told,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    No,
    Yes,
}

impl Wait {
    fn begin(clock: Clock) -> Self {
        Self { clock, since: clock.now().mono, told: Told::No }
    }

    fn goes_on(&mut self, accounts: &mut [Account], detail: &str) {
        accounts.iter_mut().for_each(Account::starting);
        if self.told == Told::No && self.clock.now().mono.since(self.since) >= TOLD_AFTER {
            self.told = Told::Yes;
            accounts.iter().for_each(|account| account.broker_lost(detail));
        }
    }

    fn over(&mut self, accounts: &mut [Account]) {
        if self.told == Told::Yes {
            self.told = Told::No;
            accounts.iter().for_each(Account::broker_found);
        }
    }
}

/// Is closed when the process is told to end.
fn told_to_end(shutdown: &Shutdown) -> Receiver<()> {
    let (ending, ended) = bounded(0);
    shutdown.on_drain(move || drop(ending));
    ended
}
