//! A worker: one thread of one pipeline, from which the core learns what happens and which does what the core wants.
//!
//! Owns both consumers, the processor, the running deliveries, and the handles of the transactor and the lookup. Waits on
//! one channel. Decides nothing: which record is read, handled, written or given back is the core's.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender};

use crate::core::event::{Event, Restored, StopReason};
use crate::core::position::{Epoch, Partition, WriterId};
use crate::core::processor::Processor;
use crate::core::time::Monotonic;
use crate::handler::AnyHandler;
use crate::kafka::GroupChange;
use crate::kafka::epochs::Epochs;
use crate::kafka::error::ClientError;
use crate::kafka::lookup::{Found, Lookup, Loss};
use crate::kafka::reader::{LaneId, Reader, Wake};
use crate::kafka::source::Source;
use crate::kafka::start::Standing;
use crate::kafka::transaction::{Answer, Transactor, TransactorError, TransactorSettings};
use crate::runtime::clock::Clock;
use crate::runtime::deliveries::Deliveries;
use crate::runtime::inbox::{Inbox, Note, Wakes};
use crate::runtime::panic::AbortOnPanic;
use crate::runtime::reading::{Met, Reading};
use crate::runtime::report::{Happening, Reporter};

mod carry;

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
    /// What the group knew before this process joined it.
    pub(crate) standing: Standing,
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
    served: Monotonic,
    clock: Clock,
    inbox: Inbox,
    wakes: Arc<Wakes>,
    settings: WorkerSettings,
    reporter: Reporter,
}

#[derive(Debug)]
struct Revoked {
    all: BTreeSet<Partition>,
    open: BTreeSet<Partition>,
}

impl Worker {
    /// Makes the clients. Blocks until the brokers have ended what this worker's past left open; only then is the source
    /// subscribed.
    pub(crate) fn start(
        settings: WorkerSettings,
        handler: AnyHandler,
        runtime: tokio::runtime::Handle,
        clock: Clock,
        reporter: Reporter,
        channel: (Sender<Note>, Inbox),
    ) -> Result<Self, WorkerError> {
        let (notes, inbox) = channel;
        let (kafka, pipeline) = (&settings.transactor.kafka, &settings.transactor.pipeline);
        let epochs = Arc::new(Epochs::default());
        let answers = notes.clone();
        let transactor =
            Transactor::start(settings.transactor.clone(), Arc::clone(&epochs), move |answer| {
                let _ = answers.send(Note::Transactor(answer));
            })?;
        let answers = notes.clone();
        let lookup = Lookup::start(kafka, pipeline, settings.standing, move |found| {
            let _ = answers.send(Note::Looked(found));
        })?;
        let wakes = Wakes::new(notes.clone());
        let wake = || -> Arc<dyn Wake> { wakes.clone() };
        let tiers = Reader::of_tiers(kafka, pipeline, wake())?;
        let source = Source::subscribe(kafka, pipeline, wake())?;
        let policy = Arc::new(pipeline.policy.clone());
        Ok(Self {
            processor: Processor::new(policy, settings.writer, settings.seed),
            due: VecDeque::new(),
            deliveries: Deliveries::new(handler, runtime, notes),
            lookup,
            transactor,
            reading: Reading::new(source, tiers),
            epochs,
            revoked: None,
            served: clock.now().mono,
            clock,
            inbox,
            wakes,
            settings,
            reporter,
        })
    }

    /// Works until the core stops, then leaves the group in order.
    pub(crate) fn run(mut self) -> Result<StopReason, WorkerError> {
        // Dropped before `self`.
        let _abort = AbortOnPanic;
        loop {
            if let Step::Stop(reason) = self.settle()? {
                self.leave()?;
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
                self.due.push_back(Event::Transacted { transaction, result });
            }
            Note::Transactor(Answer::ReadBack { transaction, marks }) => {
                self.due.push_back(Event::ReadBack { transaction, marks });
            }
            Note::Transactor(Answer::Fatal { detail }) => {
                return Err(WorkerError::TransactorEnded { detail });
            }
            Note::Looked(found) => self.looked(found)?,
            Note::Drain => self.due.push_back(Event::Drain),
        }
        Ok(())
    }

    fn met(&mut self, id: LaneId, met: Met) {
        match met {
            Met::Records(event) => self.due.push_back(event),
            Met::Nothing => {}
            Met::OutOfRange { epoch, topic, next } => self.lookup.lost_position(id, topic, next, epoch),
        }
    }

    fn looked(&mut self, found: Found) -> Result<(), WorkerError> {
        match found {
            Found::Task { partition, epoch, found, losses } => {
                if self.epochs.is_current(partition, epoch) {
                    self.restored(partition, epoch, found, &losses);
                }
            }
            Found::Position { epoch, loss } => {
                if self.epochs.is_current(loss.id.partition, epoch) {
                    if loss.from < loss.to {
                        self.reporter.tell(&Happening::Loss(loss));
                    }
                    self.reading.begin_anew(loss.id, loss.to)?;
                }
            }
            Found::BehindEnd { id, next, end } => self.reporter.tell(&Happening::BehindEnd { id, next, end }),
            Found::Failed(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn restored(&mut self, partition: Partition, epoch: Epoch, found: Restored, losses: &[Loss]) {
        for loss in losses {
            self.reporter.tell(&Happening::Loss(*loss));
        }
        self.due.push_back(Event::Restored { partition, epoch, found });
    }

    /// Serves both consumers where that is due.
    fn serve(&mut self) -> Result<(), WorkerError> {
        let now = self.clock.now().mono;
        if !self.wakes.take_consumer() && now.since(self.served) < SERVE_EVERY {
            return Ok(());
        }
        self.served = now;
        // A queue that the client left something in does not wake; what is missed that way waits this long at most.
        for lane in self.reading.demanded() {
            let met = self.reading.try_meet(lane);
            self.met(lane, met);
        }
        self.reading.tiers.serve()?;
        for change in self.reading.source.serve()? {
            self.changed(change)?;
        }
        Ok(())
    }

    fn changed(&mut self, change: GroupChange) -> Result<(), WorkerError> {
        match change {
            GroupChange::Assigned(partitions) => {
                self.reporter.tell(&Happening::Assigned(&partitions));
                self.due.push_back(Event::Assigned(partitions));
            }
            GroupChange::Revoked(partitions) => {
                self.reporter.tell(&Happening::Revoked(&partitions));
                let all: BTreeSet<_> = partitions.iter().copied().collect();
                self.revoked = Some(Revoked { open: all.clone(), all });
                self.due.push_back(Event::Revoked(partitions));
                self.answer_if_given()?;
            }
            GroupChange::Lost(partitions) => {
                self.reporter.tell(&Happening::Lost(&partitions));
                for partition in &partitions {
                    self.close(*partition)?;
                }
                self.reading.source.answer(&partitions.iter().copied().collect())?;
                if let Some(revoked) = self.revoked.as_mut() {
                    revoked.open.retain(|partition| !partitions.contains(partition));
                }
                self.answer_if_given()?;
                self.due.push_back(Event::Lost(partitions));
            }
        }
        Ok(())
    }

    /// Everything is committed and nothing runs: ends what uses the group's membership, then gives that up.
    fn leave(self) -> Result<(), WorkerError> {
        let Self { deliveries, lookup, transactor, reading: Reading { source, tiers, .. }, .. } = self;
        drop(deliveries);
        drop(lookup);
        transactor.end();
        drop(tiers);
        Ok(source.leave(LEAVE_WITHIN)?)
    }
}
