//! The transactor: a thread that carries out the transactions of one worker, whole and one after another.
//!
//! Owns the worker's two transactional producers and takes them in turn, which hides the time that one of them waits for
//! the markers of its last transaction. Decides nothing: what a transaction holds is the core's, and so is what follows
//! from its result. Producers are initialised before the first transaction, so that what this worker's past left open
//! is ended before anything is read.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::core::event::{Transaction, TransactionId, TransactionResult};
use crate::core::position::{CommitMark, Partition, TopicName};
use crate::kafka::epochs::Epochs;
use crate::kafka::group::GroupMetadata;
use crate::kafka::settings::SettingsError;
use crate::telemetry::Telemetry;
use crate::topology::model::{Kafka, Pipeline};

/// Between two tries to learn an outcome, of which the first failed at once.
const PAUSE: Duration = Duration::from_secs(1);

mod fault;
mod marks;
mod recipe;
mod slots;

use marks::{Marks, MarksError};
pub(crate) use slots::Patience;
use slots::{HealError, Slots};

/// What a transactor needs to know.
#[derive(Clone, Debug)]
pub(crate) struct TransactorSettings {
    /// Where Kafka is.
    pub(crate) kafka: Kafka,
    /// The pipeline whose topics it writes.
    pub(crate) pipeline: Arc<Pipeline>,
    /// The topic that tells what operators did.
    pub(crate) audit: TopicName,
    /// What its transactional ids begin with: `<app>.<pipeline>.<instance>.<thread>`; the producer's slot is added.
    pub(crate) transactional_id: String,
    /// The smallest `max.message.bytes` of the topics it writes: the most bytes that go out in one batch, since the
    /// broker measures batches, not records.
    pub(crate) batch_bytes: usize,
}

/// What a transactor answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// To [`Transactor::transact`].
    Transacted {
        /// Which transaction.
        transaction: TransactionId,
        /// How it ended.
        result: TransactionResult,
    },
    /// To [`Transactor::read_back`], before its answer: it was tried in vain, and is tried again.
    NotYet {
        /// Which transaction is in doubt.
        transaction: TransactionId,
    },
    /// To [`Transactor::read_back`].
    ReadBack {
        /// Which transaction was in doubt.
        transaction: TransactionId,
        /// The mark of each of its tasks as committed now.
        marks: Vec<(Partition, Option<CommitMark>)>,
    },
    /// It cannot go on and has ended; the process must, too.
    Fatal {
        /// Why.
        detail: String,
    },
}

/// A transactor cannot be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TransactorError {
    /// The client refuses its settings.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The brokers refuse who we say we are.
    #[error(
        "the brokers refuse the login: {detail}\nhint: look at `sasl.*` and `ssl.*` under [kafka.properties]"
    )]
    Authentication {
        /// The client's words.
        detail: String,
    },
    /// The transactional id may not be used as configured.
    #[error(
        "the transactional id `{id}` cannot be used: {detail}\nhint: it needs WRITE and DESCRIBE on transactional ids"
    )]
    Refused {
        /// The id.
        id: String,
        /// The client's words.
        detail: String,
    },
    /// No broker answered in time.
    #[error(
        "no producer `{id}` within `{seconds}` s: {detail}\nhint: are the brokers of `bootstrap` up and reachable?"
    )]
    Unreachable {
        /// The id.
        id: String,
        /// How long it was tried.
        seconds: u64,
        /// The client's words.
        detail: String,
    },
    /// The system gives no thread.
    #[error("no thread for the transactor: {detail}")]
    Thread {
        /// The system's words.
        detail: String,
    },
}

/// The handle of a running transactor.
pub(crate) struct Transactor {
    jobs: Option<Sender<Job>>,
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

enum Job {
    Transact(Box<Transaction>, GroupMetadata),
    ReadBack(TransactionId, Vec<Partition>),
}

impl Transactor {
    /// Initialises both producers, which fences what this worker's past left behind, and starts the thread. Blocks until
    /// the brokers answered, or `waits`, asked twice a second with the client's words, gives up.
    pub(crate) fn start(
        settings: TransactorSettings,
        epochs: Arc<Epochs>,
        telemetry: Arc<Telemetry>,
        waits: &mut dyn FnMut(&str) -> Patience,
        answer: impl Fn(Answer) + Send + 'static,
    ) -> Result<Self, TransactorError> {
        let settings = Arc::new(settings);
        let slots = Slots::start(Arc::clone(&settings), telemetry, waits)?;
        let marks = Marks::new(&settings)?;
        let (jobs, inbox) = channel();
        let ending = Arc::new(AtomicBool::new(false));
        let work = Work { settings, slots, marks, epochs, ending: Arc::clone(&ending) };
        let thread = thread::Builder::new()
            .name("transactor".to_owned())
            .spawn(move || work.run(&inbox, &answer))
            .map_err(|error| TransactorError::Thread { detail: error.to_string() })?;
        Ok(Self { jobs: Some(jobs), ending, thread: Some(thread) })
    }

    /// Has one transaction carried out, with the group's metadata as captured when it was formed. Answered by
    /// [`Answer::Transacted`].
    pub(crate) fn transact(&self, transaction: Box<Transaction>, group: GroupMetadata) {
        self.order(Job::Transact(transaction, group));
    }

    /// After [`TransactionResult::Unknown`]: has the producer made anew and then the committed marks fetched. Tried until
    /// it succeeds. Answered by [`Answer::ReadBack`].
    pub(crate) fn read_back(&self, transaction: TransactionId, partitions: Vec<Partition>) {
        self.order(Job::ReadBack(transaction, partitions));
    }

    /// Carries out what was ordered and ends. A read-back that does not succeed is given up.
    pub(crate) fn end(self) {
        drop(self);
    }

    /// A transactor that has ended said so with [`Answer::Fatal`]; nobody waits for another answer.
    fn order(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            let _ended = jobs.send(job);
        }
    }
}

impl Drop for Transactor {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic there was reported by the panic hook.
            let _panicked = thread.join();
        }
    }
}

impl fmt::Debug for Transactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transactor").finish_non_exhaustive()
    }
}

/// What the transactor's thread owns.
struct Work {
    settings: Arc<TransactorSettings>,
    slots: Slots,
    marks: Marks,
    epochs: Arc<Epochs>,
    ending: Arc<AtomicBool>,
}

impl Work {
    fn run(mut self, inbox: &Receiver<Job>, answer: &dyn Fn(Answer)) {
        for job in inbox {
            let answered = match job {
                Job::Transact(transaction, group) => self
                    .carry_out(&transaction, &group)
                    .map(|result| Answer::Transacted { transaction: transaction.id, result }),
                Job::ReadBack(transaction, partitions) => {
                    match self.marks_of(&partitions, &mut || answer(Answer::NotYet { transaction })) {
                        Ok(Some(marks)) => Ok(Answer::ReadBack { transaction, marks }),
                        Ok(None) => return,
                        Err(fatal) => Err(fatal),
                    }
                }
            };
            match answered {
                Ok(answered) => answer(answered),
                Err(Fatal(detail)) => {
                    answer(Answer::Fatal { detail });
                    return;
                }
            }
        }
    }

    /// `None`: told to end before it was known.
    #[expect(clippy::type_complexity, reason = "the shape of the answer, maybe missing, maybe fatal")]
    fn marks_of(
        &mut self,
        partitions: &[Partition],
        not_yet: &mut dyn FnMut(),
    ) -> Result<Option<Vec<(Partition, Option<CommitMark>)>>, Fatal> {
        loop {
            // The order matters: a producer made anew has ended the transaction in doubt, one way or the other, and only
            // then do the committed offsets say which.
            let detail = match self.slots.heal(&self.ending) {
                Ok(()) => match self.marks.committed(partitions) {
                    Ok(marks) => return Ok(Some(marks)),
                    Err(MarksError::Again(detail)) => detail,
                    Err(MarksError::Foreign(detail)) => return Err(Fatal(detail)),
                },
                Err(HealError::Again(detail)) => detail,
                Err(HealError::Never(detail)) => return Err(Fatal(detail)),
            };
            tracing::warn!(detail, "the outcome of a transaction is not known yet");
            if self.ending.load(Ordering::Relaxed) {
                return Ok(None);
            }
            not_yet();
            thread::sleep(PAUSE);
        }
    }
}

/// The transactor cannot go on.
struct Fatal(String);

#[cfg(test)]
mod injected;
#[cfg(test)]
#[cfg(feature = "broker-tests")]
mod tests;
