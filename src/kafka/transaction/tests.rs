//! The transactor against a real Kafka.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use bytes::Bytes;
use rdkafka::consumer::{BaseConsumer, Consumer, DefaultConsumerContext};

use super::{Answer, Patience, Transactor, TransactorSettings};
use crate::core::event::{
    Generation, Target, TaskCommit, Transaction, TransactionId, TransactionResult, Write,
};
use crate::core::position::{
    CommitMark, Epoch, Founding, Going, Lane, Offset, Partition, Sequence, TierIndex, TopicName, WriterId,
};
use crate::core::record::{Header, HeaderName};
use crate::kafka::broker::{self, PATIENCE};
use crate::kafka::epochs::Epochs;
use crate::kafka::group::GroupMetadata;
use crate::kafka::{fixture, settings};
use crate::telemetry::Telemetry;
use crate::telemetry::metrics::Metrics;
use crate::topology::model::{Kafka, Pipeline, Protocol};

mod commit;
mod fencing;
mod membership;
mod outage;
mod read_back;
mod refusal;
mod throughput;

const TASK: Partition = Partition(1);
const EPOCH: Epoch = Epoch(1);
const TIER: Target = Target::Tier(TierIndex(0));

/// A pipeline with its topics, one member of its group, and a transactor.
struct Rig {
    broker: &'static broker::Kafka,
    kafka: Kafka,
    pipeline: Arc<Pipeline>,
    epochs: Arc<Epochs>,
    member: BaseConsumer<DefaultConsumerContext>,
    metrics: Metrics,
    transactor: Transactor,
    answers: Receiver<Answer>,
}

impl Rig {
    fn new() -> Self {
        Self::with(broker::Kafka::shared(), |_| {})
    }

    fn with(broker: &'static broker::Kafka, change: impl FnOnce(&mut Pipeline)) -> Self {
        Self::of(broker, Protocol::Classic, change)
    }

    fn of(broker: &'static broker::Kafka, protocol: Protocol, change: impl FnOnce(&mut Pipeline)) -> Self {
        let kafka = Kafka { protocol, ..fixture::kafka(broker.bootstrap()) };
        let mut pipeline = fixture::pipeline(&broker.name("tx"));
        change(&mut pipeline);
        let pipeline = Arc::new(pipeline);
        let output = pipeline.output.as_ref().unwrap();
        let tiers = pipeline.tiers.iter().map(|tier| &tier.topic.name);
        for topic in tiers.chain([&pipeline.source, output, &pipeline.dead_letter.name]) {
            broker.create(topic.as_str(), 3, &[]);
        }
        let member = member(&kafka, &pipeline);
        let epochs = Arc::new(Epochs::default());
        epochs.set(TASK, EPOCH);
        let metrics = Metrics::new("t");
        let (transactor, answers) = start(&kafka, &pipeline, &epochs, &metrics);
        Self { broker, kafka, pipeline, epochs, member, metrics, transactor, answers }
    }

    fn group(&self) -> GroupMetadata {
        GroupMetadata { snapshot: self.member.group_metadata().unwrap(), generation: Generation(1) }
    }

    fn transact(&self, transaction: Transaction) -> TransactionResult {
        self.transactor.transact(Box::new(transaction), self.group());
        result(&self.answers)
    }

    fn read_back(&self) -> Vec<(Partition, Option<CommitMark>)> {
        self.transactor.read_back(TransactionId(0), vec![TASK]);
        marks(&self.answers)
    }

    fn topic(&self, target: Target) -> &str {
        match target {
            Target::Output => self.pipeline.output.as_ref().unwrap().as_str(),
            Target::Named(place) => self.pipeline.policy.outputs.named[usize::from(place)].1.as_str(),
            Target::StaleOutput => self.pipeline.policy.order.stale_output().unwrap().as_str(),
            Target::Tier(tier) => self.pipeline.tiers[tier.index()].topic.name.as_str(),
            Target::DeadLetter => self.pipeline.dead_letter.name.as_str(),
            Target::State => self.pipeline.state.name.as_str(),
            Target::Cases => self.pipeline.cases.name.as_str(),
            Target::Audit => "t.audit",
        }
    }

    /// The values that a reader of committed records finds.
    fn values(&self, target: Target) -> Vec<String> {
        texts(self.broker.read(self.topic(target)))
    }
}

fn texts(found: Vec<broker::Found>) -> Vec<String> {
    found.into_iter().map(|found| String::from_utf8(found.value.unwrap_or_default()).unwrap()).collect()
}

/// A member of the pipeline's group that owns all partitions.
fn member(kafka: &Kafka, pipeline: &Pipeline) -> BaseConsumer<DefaultConsumerContext> {
    let config = settings::source_consumer(kafka, pipeline, "t.p.0.0");
    let member: BaseConsumer<_> = settings::create(&config, DefaultConsumerContext, kafka).unwrap();
    member.subscribe(&[pipeline.source.as_str()]).unwrap();
    while member.assignment().unwrap().count() == 0 {
        // Nothing is committed, and the lost position is told as an error.
        let _ = member.poll(Duration::from_millis(100));
    }
    member
}

fn start(
    kafka: &Kafka,
    pipeline: &Arc<Pipeline>,
    epochs: &Arc<Epochs>,
    metrics: &Metrics,
) -> (Transactor, Receiver<Answer>) {
    let (sender, answers) = channel();
    let (settings, telemetry) = (settings_of(kafka, pipeline), telemetry(metrics, pipeline));
    let transactor = Transactor::start(
        settings,
        Arc::clone(epochs),
        telemetry,
        &mut |_| Patience::TryAgain,
        move |answer| {
            let _ = sender.send(answer);
        },
    );
    (transactor.unwrap(), answers)
}

fn telemetry(metrics: &Metrics, pipeline: &Pipeline) -> Arc<Telemetry> {
    Arc::new(Telemetry::new(metrics, pipeline, 0))
}

fn settings_of(kafka: &Kafka, pipeline: &Arc<Pipeline>) -> TransactorSettings {
    TransactorSettings {
        kafka: kafka.clone(),
        pipeline: Arc::clone(pipeline),
        audit: TopicName::new("t.audit"),
        transactional_id: format!("{}.0.0", pipeline.group),
        batch_bytes: 1_000_000,
    }
}

fn result(answers: &Receiver<Answer>) -> TransactionResult {
    let answer = answers.recv_timeout(PATIENCE).unwrap();
    let Answer::Transacted { result, .. } = answer else { panic!("{answer:?}") };
    result
}

fn marks(answers: &Receiver<Answer>) -> Vec<(Partition, Option<CommitMark>)> {
    let answer = answers.recv_timeout(PATIENCE).unwrap();
    let Answer::ReadBack { marks, .. } = answer else { panic!("{answer:?}") };
    marks
}

/// The `number`-th transaction of [`TASK`].
fn transaction(number: u64, writes: Vec<Write>) -> Transaction {
    let offset = Offset(i64::try_from(number).unwrap());
    let tasks = vec![TaskCommit {
        partition: TASK,
        epoch: EPOCH,
        offsets: vec![(Lane::Source, offset), (Lane::Tier(TierIndex(0)), offset.next())],
        mark: mark(number),
        topics: Vec::new(),
    }];
    Transaction { id: TransactionId(number), tasks, records: writes.len(), writes, probe: None }
}

fn mark(number: u64) -> CommitMark {
    CommitMark {
        sequence: Sequence(number),
        writer: WriterId(0xab),
        founding: Founding(1),
        topic: None,
        going: Going::On,
    }
}

fn write(target: Target, value: impl Into<Bytes>) -> Write {
    Write {
        target,
        partition: TASK,
        timestamp: None,
        key: Some(Bytes::from_static(b"key")),
        value: Some(value.into()),
        headers: vec![Header { name: HeaderName::from_static("h"), value: Some(Bytes::from_static(b"v")) }],
    }
}
