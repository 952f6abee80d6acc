//! A worker: one thread of one pipeline, from which the core learns what happens and which does what the core wants.
//!
//! Owns both consumers, the processor, the running deliveries, and the handles of the transactor and the lookup. Waits on
//! one channel. Decides nothing: which record is read, handled, written or given back is the core's.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::RecvTimeoutError;

use crate::core::event::{Event, StopReason, TransactionId, TransactionResult};
use crate::core::position::{Lane, Partition, WriterId};
use crate::core::processor::Processor;
use crate::core::time::Monotonic;
use crate::fail_point::fail_point;
use crate::kafka::epochs::Epochs;
use crate::kafka::error::ClientError;
use crate::kafka::lookup::{Found, Lookup};
use crate::kafka::reader::LaneId;
use crate::kafka::transaction::{Answer, Transactor, TransactorError, TransactorSettings};
use crate::runtime::account::Account;
use crate::runtime::clock::Clock;
use crate::runtime::deliveries::Deliveries;
use crate::runtime::inbox::{Inbox, Note, Wakes};
use crate::runtime::panic::AbortOnPanic;
use crate::runtime::reading::{Met, Reading};

mod carry;
mod group;
mod lanes;
mod start;
mod watch;

pub(super) use start::Parts;
use watch::{Ended, Watch};

/// The consumers are served at least this often, well within every timeout of the group's protocol.
const SERVE_EVERY: Duration = Duration::from_millis(100);
/// How many events are handled before others get a turn: notes, the group, the clock.
const BURST: usize = 64;
/// How long leaving the group may take; the session ends there on its own.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);

/// What a worker is made of.
#[derive(Clone, Debug)]
pub(crate) struct WorkerSettings {
    /// Clients, pipeline and transactional id of its transactor, and of itself.
    pub(crate) transactor: TransactorSettings,
    /// The name it commits under: differs from that of every worker that ever lived.
    pub(crate) writer: WriterId,
    /// For jitter and hashing.
    pub(crate) seed: u64,
}

/// A worker cannot start or go on. What is not committed is done again by whoever gets its tasks.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkerError {
    /// A consumer.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The transactor could not be started.
    #[error(transparent)]
    Transactor(#[from] TransactorError),
    /// The transactor ended.
    #[error("the transactor cannot go on: {detail}")]
    TransactorEnded {
        /// Its words.
        detail: String,
    },
}

/// Whether the loop goes on.
enum Step {
    On,
    Stop(StopReason),
}

/// The state of a worker's thread. Fields are dropped in order: what uses the consumers first, then these.
#[derive(Debug)]
pub(crate) struct Worker {
    processor: Processor,
    due: VecDeque<Event>,
    deliveries: Deliveries,
    lookup: Lookup,
    transactor: Transactor,
    reading: Reading,
    epochs: Arc<Epochs>,
    /// What the group asked back together, and what of it the core has not yet given.
    revoked: Option<Revoked>,
    /// Lanes behind the end of their log whose tasks are to begin anew.
    misplaced: BTreeSet<LaneId>,
    served: Monotonic,
    clock: Clock,
    inbox: Inbox,
    wakes: Arc<Wakes>,
    settings: WorkerSettings,
    account: Account,
    /// The transaction that the transactor has.
    under_way: Option<UnderWay>,
    watch: Watch,
    reach: Reach,
}

/// Whether a broker answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Found,
    Lost,
}

#[derive(Clone, Copy, Debug)]
struct UnderWay {
    id: TransactionId,
    records: usize,
    since: Monotonic,
}

#[derive(Debug)]
struct Revoked {
    all: BTreeSet<Partition>,
    open: BTreeSet<Partition>,
}

impl Worker {
    /// Works until the core stops, then leaves the group in order.
    pub(crate) fn run(mut self) -> Result<StopReason, WorkerError> {
        // Dropped before `self`.
        let _abort = AbortOnPanic;
        match self.work() {
            Ok(reason) => {
                fail_point!(Drained);
                self.account.stopped(&reason);
                self.leave()?;
                Ok(reason)
            }
            Err(error) => {
                self.account.fatal(&error.to_string());
                Err(error)
            }
        }
    }

    fn work(&mut self) -> Result<StopReason, WorkerError> {
        loop {
            if let Step::Stop(reason) = self.settle()? {
                return Ok(reason);
            }
            match self.inbox.recv_timeout(self.patience()) {
                Ok(note) => {
                    self.take(note)?;
                    // The others that wait are taken with it: one turn of everything else per batch, not per note.
                    for note in self.inbox.try_iter().take(BURST).collect::<Vec<_>>() {
                        self.take(note)?;
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            self.serve()?;
            self.account.turn();
            self.watch_transaction();
            if self.processor.poll_timeout(self.clock.now()) == Some(Duration::ZERO) {
                self.due.push_back(Event::Tick);
            }
        }
    }

    fn patience(&self) -> Duration {
        if !self.due.is_empty() {
            return Duration::ZERO;
        }
        let now = self.clock.now();
        let serve = SERVE_EVERY.saturating_sub(now.mono.since(self.served));
        self.processor.poll_timeout(now).map_or(serve, |timeout| timeout.min(serve))
    }

    /// Hands events to the core and does what it wants, until there is nothing more or others must get a turn.
    fn settle(&mut self) -> Result<Step, WorkerError> {
        for _ in 0..BURST {
            let Some(event) = self.due.pop_front() else { break };
            self.processor.handle(event, self.clock.now());
            while let Some(action) = self.processor.poll_action() {
                if let Step::Stop(reason) = self.carry_out(action)? {
                    return Ok(Step::Stop(reason));
                }
            }
        }
        Ok(Step::On)
    }

    fn take(&mut self, note: Note) -> Result<(), WorkerError> {
        match note {
            Note::Wake => {
                for lane in self.wakes.take_lanes() {
                    let met = self.reading.try_meet(lane);
                    self.met(lane, met);
                }
            }
            Note::Handled(delivery, outcome) => {
                self.deliveries.ended(delivery);
                self.due.push_back(Event::Handled { delivery, outcome });
            }
            Note::Transactor(Answer::Transacted { transaction, result }) => {
                fail_point!(ResultArrived);
                self.transacted(transaction, result);
            }
            Note::Transactor(Answer::NotYet { transaction: _ }) => self.goes_on(),
            Note::Transactor(Answer::ReadBack { transaction, marks }) => {
                self.ended(Ended::Answered);
                self.due.push_back(Event::ReadBack { transaction, marks });
            }
            Note::Transactor(Answer::Fatal { detail }) => {
                return Err(WorkerError::TransactorEnded { detail });
            }
            Note::Looked(found) => self.looked(found)?,
            Note::Drain => {
                fail_point!(Draining);
                // What the lanes have passed is committed with the last of what is.
                self.meet_demands()?;
                self.due.push_back(Event::Drain);
            }
        }
        Ok(())
    }

    fn met(&mut self, id: LaneId, met: Met) {
        match met {
            Met::Records { epoch, records } => {
                let LaneId { partition, lane } = id;
                self.account.fetched(lane, &records);
                self.due.push_back(Event::Fetched { partition, epoch, lane, records });
            }
            Met::Nothing => {}
            Met::OutOfRange { epoch, topic, next } => self.lookup.lost_position(id, topic, next, epoch),
        }
    }

    fn looked(&mut self, found: Found) -> Result<(), WorkerError> {
        match found {
            Found::Task { partition, epoch, found, losses, remade } => {
                if self.epochs.is_current(partition, epoch) {
                    self.account.has_partitions(partition);
                    remade.into_iter().for_each(|(id, left)| self.account.remade(id, left));
                    losses.into_iter().for_each(|loss| self.account.records_lost(loss));
                    self.account.versions(partition, &found);
                    self.due.push_back(Event::Restored { partition, epoch, found });
                }
            }
            Found::Position { epoch, loss } => {
                // Asked again while the answer was under way, it is answered again: the lane has gone on by then.
                let stands = self.reading.position(loss.id).is_some_and(|(_, next)| next == loss.from);
                // Beginning the source anew would answer what the group asks back, before that is given: asked again, it is
                // answered again.
                let free = self.revoked.is_none() || loss.id.lane != Lane::Source;
                if stands && free && self.epochs.is_current(loss.id.partition, epoch) {
                    self.account.records_lost(loss);
                    self.reading.begin_anew(loss.id, loss.to)?;
                    // Committed even if nothing comes behind it, or the next owner would count the same loss again.
                    let LaneId { partition, lane } = loss.id;
                    self.due.push_back(Event::Passed { partition, epoch, lane, next: loss.to });
                }
            }
            Found::End { partition, epoch, end } => {
                self.due.push_back(Event::End { partition, epoch, end });
            }
            Found::TooFewPartitions { partition, detail } => {
                self.account.too_few_partitions(partition, &detail);
            }
            Found::BehindEnd { id, next, end } => {
                self.account.behind_end(id, next, end);
                self.misplaced.insert(id);
            }
            Found::Vanished { lane } => self.vanished(lane),
            Found::Back { lane } => self.back(lane),
            Found::Remade { lane } => self.misplace(lane),
            Found::Restores(progress) => self.account.restores(progress),
            Found::Waits { partition, detail } => self.account.waits(partition, &detail),
            Found::Broker => {
                self.reach = Reach::Found;
                self.account.broker_found();
            }
            Found::Failed(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn transacted(&mut self, transaction: TransactionId, result: TransactionResult) {
        if let Some(UnderWay { records, since, .. }) =
            self.under_way.take_if(|under_way| under_way.id == transaction)
        {
            self.account.transacted(&result, records, self.clock.now().mono.since(since));
        }
        match result {
            // Its marks are read next.
            TransactionResult::Unknown => self.goes_on(),
            TransactionResult::Committed => self.ended(Ended::Answered),
            TransactionResult::Aborted(_) | TransactionResult::Fenced { .. } => self.ended(Ended::GivenUp),
        }
        self.due.push_back(Event::Transacted { transaction, result });
    }

    /// Everything is committed and nothing runs: ends what uses the group's membership, then gives that up.
    fn leave(self) -> Result<(), WorkerError> {
        let Self { deliveries, lookup, transactor, reading: Reading { source, tiers, .. }, .. } = self;
        drop(deliveries);
        drop(lookup);
        transactor.end();
        drop(tiers);
        fail_point!(BeforeLeave);
        Ok(source.leave(LEAVE_WITHIN)?)
    }
}
