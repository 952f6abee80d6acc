//! How a worker comes to be.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::codec::Codec;
use crate::core::guard::KeyHasher;
use crate::core::processor::Processor;
use crate::fail_point::fail_point;
use crate::handler::AnyHandler;
use crate::kafka::epochs::Epochs;
use crate::kafka::lookup::Lookup;
use crate::kafka::reader::{Reader, Wake};
use crate::kafka::source::Source;
use crate::kafka::transaction::Transactor;
use crate::runtime::account::Account;
use crate::runtime::clock::Clock;
use crate::runtime::deliveries::Deliveries;
use crate::runtime::inbox::{Channel, Note, Wakes};
use crate::runtime::panic::AbortOnPanic;
use crate::runtime::patience::Starting;
use crate::runtime::reading::Reading;
use crate::runtime::worker::{Reach, Watch, Worker, WorkerError, WorkerSettings};

/// What a worker is given besides its settings.
#[derive(Debug)]
pub(crate) struct Parts {
    /// The handler of its pipeline.
    pub(crate) handler: AnyHandler,
    /// Where handlers run that are not ready at once.
    pub(crate) runtime: tokio::runtime::Handle,
    /// The process's clock.
    pub(crate) clock: Clock,
    /// Where it tells of its life.
    pub(crate) account: Account,
    /// Both ends of its channel.
    pub(crate) channel: Channel,
    /// Set once the process is told to end: before the worker turns nobody takes what its channel brings.
    pub(crate) ending: Arc<AtomicBool>,
}

impl Worker {
    /// Makes the clients. Blocks until the brokers have ended what this worker's past left open, or it is told to end; only
    /// then is the source subscribed.
    pub(crate) fn start(settings: WorkerSettings, parts: Parts) -> Result<Self, WorkerError> {
        let Parts { handler, runtime, clock, mut account, channel: Channel { notes, inbox }, ending } = parts;
        let (kafka, pipeline) = (&settings.transactor.kafka, &settings.transactor.pipeline);
        let epochs = Arc::new(Epochs::default());
        let (answers, abort) = (notes.clone(), AbortOnPanic);
        let (settled, telemetry) = (settings.transactor.clone(), account.telemetry());
        let mut starting = Starting::begin(&mut account, clock, ending);
        let mut waits = |detail: &str| starting.goes_on(detail);
        let transactor =
            Transactor::start(settled, Arc::clone(&epochs), telemetry, &mut waits, move |answer| {
                // Owned by the transactor's thread and dropped with it: this worker would wait for ever for one that is gone.
                let _ = &abort;
                // A worker that is gone waits for no answer.
                let _ = answers.send(Note::Transactor(answer));
            })?;
        starting.over();
        let (answers, abort) = (notes.clone(), AbortOnPanic);
        let lookup = Lookup::start(kafka, pipeline, KeyHasher::new(settings.seed), move |found| {
            // As above.
            let _ = &abort;
            let _ = answers.send(Note::Looked(found));
        })?;
        let wakes = Wakes::new(notes.clone());
        let wake = || -> Arc<dyn Wake> { wakes.clone() };
        let tiers = Reader::of_tiers(kafka, pipeline, wake())?;
        fail_point!(BeforeSubscribe);
        let source = Source::subscribe(kafka, pipeline, &settings.transactor.transactional_id, wake())?;
        account.started(&settings.transactor.transactional_id);
        let policy = Arc::new(pipeline.policy.clone());
        Ok(Self {
            processor: Processor::new(policy, settings.writer, settings.seed),
            due: VecDeque::new(),
            deliveries: Deliveries::new(handler, runtime, notes, account.telemetry(), clock),
            lookup,
            transactor,
            reading: Reading::new(source, tiers, Codec::new(pipeline)),
            epochs,
            revoked: None,
            misplaced: BTreeSet::new(),
            served: clock.now().mono,
            clock,
            inbox,
            wakes,
            settings,
            account,
            under_way: None,
            watch: Watch::default(),
            reach: Reach::Found,
        })
    }
}
