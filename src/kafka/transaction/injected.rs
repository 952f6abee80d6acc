//! Every error that brokers may answer a transaction with, injected by the client's mock cluster, and what follows from it.
//!
//! The mock answers the calls of a transaction and keeps none of its promises: aborted records are visible, offsets are not
//! kept, nobody is fenced. So only the branch is asserted that the recipe takes, and that the transaction after it is
//! committed. What a branch is worth is proved on a real Kafka.
#![expect(
    unsafe_code,
    reason = "the safe interface neither delays one answer nor tells whether an error was given"
)]

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use rdkafka::bindings;
use rdkafka::consumer::{BaseConsumer, Consumer, DefaultConsumerContext};
use rdkafka::mocking::MockCluster;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use super::*;
use crate::core::event::{AbortCause, Generation, Target, TaskCommit, Write};
use crate::core::position::{Epoch, Founding, Going, Lane, Offset, Sequence, TierIndex, WriterId};
use crate::kafka::{fixture, settings};
use crate::telemetry::metrics::Metrics;

mod calls;
mod table;

use table::{Ends, LISTED, Occasion, Row, rows};

const TASK: Partition = Partition(1);
const EPOCH: Epoch = Epoch(1);
const TIER: Target = Target::Tier(TierIndex(0));
/// Ten times what the slowest row takes on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(120);
/// So many answers that the client's own patience ends first.
const FOR_EVER: usize = 1_000;
/// Rows wait most of their time.
const AT_ONCE: usize = 12;

/// The one that the errors come from.
const BROKER: i32 = 1;

/// Brokers that answer as they are told, and a pipeline's topics on them.
struct Rig {
    bootstrap: String,
    pipeline: Arc<Pipeline>,
    epochs: Arc<Epochs>,
    /// Owns the brokers. Of the group, and no member of it.
    outsider: BaseConsumer<DefaultConsumerContext>,
    metrics: Metrics,
}

/// A transactor, and what it answers.
struct Running {
    transactor: Transactor,
    answers: Receiver<Answer>,
}

impl Rig {
    fn new() -> Self {
        Self::of_brokers(1)
    }

    fn of_brokers(count: i32) -> Self {
        let mut pipeline = fixture::pipeline("mock");
        // The client waits half a second before it asks a coordinator again.
        pipeline.policy.flow.transaction_timeout = Duration::from_millis(2_500);
        let pipeline = Arc::new(pipeline);
        let unused = fixture::kafka("127.0.0.1:1");
        let mut config = settings::lane_consumer(&unused, &pipeline);
        config.set("test.mock.num.brokers", count.to_string());
        let outsider: BaseConsumer<_> = settings::create(&config, DefaultConsumerContext, &unused).unwrap();
        let cluster = outsider.client().mock_cluster().unwrap();
        let output = pipeline.output.as_ref().unwrap();
        let tiers = pipeline.tiers.iter().map(|tier| &tier.topic.name);
        for topic in tiers.chain([&pipeline.source, output, &pipeline.dead_letter.name]) {
            cluster.create_topic(topic.as_str(), 3, 1).unwrap();
        }
        let bootstrap = cluster.bootstrap_servers();
        drop(cluster);
        let epochs = Arc::new(Epochs::default());
        epochs.set(TASK, EPOCH);
        Self { bootstrap, pipeline, epochs, outsider, metrics: Metrics::new("t") }
    }

    fn cluster(&self) -> MockCluster<'_, DefaultConsumerContext> {
        self.outsider.client().mock_cluster().unwrap()
    }

    fn kafka(&self) -> Kafka {
        fixture::kafka(&self.bootstrap)
    }

    fn start(&self) -> Result<Running, TransactorError> {
        let settings = TransactorSettings {
            kafka: self.kafka(),
            pipeline: Arc::clone(&self.pipeline),
            audit: crate::core::position::TopicName::new("t.audit"),
            transactional_id: "t.mock.0.0".to_owned(),
            batch_bytes: 1_000_000,
        };
        let telemetry = Arc::new(Telemetry::new(&self.metrics, &self.pipeline, 0));
        let (sender, answers) = channel();
        let transactor = Transactor::start(
            settings,
            Arc::clone(&self.epochs),
            telemetry,
            &mut |_| Patience::TryAgain,
            move |answer| {
                let _ = sender.send(answer);
            },
        )?;
        Ok(Running { transactor, answers })
    }

    fn inject(&self, request: RDKafkaApiKey, error: RDKafkaRespErr, times: usize) {
        if times == FOR_EVER {
            self.cluster().request_errors(request, &vec![error; times]);
        } else {
            (0..times).for_each(|_| self.answer(request, error, Duration::ZERO));
        }
    }

    /// What was injected for ever ends.
    fn heal(&self, request: RDKafkaApiKey) {
        self.cluster().clear_request_errors(request);
    }

    /// Has the next such request answered like this, after this long.
    fn answer(&self, request: RDKafkaApiKey, error: RDKafkaRespErr, after: Duration) {
        let after = i32::try_from(after.as_millis()).unwrap();
        // SAFETY: the brokers live as long as the client that owns them; one error and its delay follow, as announced.
        let pushed = unsafe {
            let cluster = bindings::rd_kafka_handle_mock_cluster(self.outsider.client().native_ptr());
            bindings::rd_kafka_mock_broker_push_request_error_rtts(
                cluster,
                BROKER,
                request.into(),
                1,
                error,
                after,
            )
        };
        assert_eq!(pushed, RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR);
    }

    /// How many of the answers to such requests were not given yet.
    fn not_given(&self, request: RDKafkaApiKey) -> usize {
        let mut count = 0;
        // SAFETY: as above; `count` outlives the call.
        let asked = unsafe {
            let cluster = bindings::rd_kafka_handle_mock_cluster(self.outsider.client().native_ptr());
            bindings::rd_kafka_mock_broker_error_stack_cnt(cluster, BROKER, request.into(), &raw mut count)
        };
        assert_eq!(asked, RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR);
        count
    }

    fn transact(&self, running: &Running, number: u64, values: &[&[u8]]) -> Answer {
        let group =
            GroupMetadata { snapshot: self.outsider.group_metadata().unwrap(), generation: Generation(1) };
        running.transactor.transact(Box::new(transaction(number, values)), group);
        running.answers.recv_timeout(PATIENCE).unwrap()
    }

    /// How many producers were made anew, for any cause.
    fn remade(&self) -> u64 {
        let told = self.metrics.text();
        let counts = told.lines().filter(|line| line.starts_with("redrive_producer_reinits_total"));
        counts.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }
}

fn transaction(number: u64, values: &[&[u8]]) -> Transaction {
    let offset = Offset(i64::try_from(number).unwrap());
    let mark = CommitMark {
        sequence: Sequence(number),
        writer: WriterId(0xab),
        founding: Founding::default(),
        topic: None,
        going: Going::On,
    };
    let offsets = vec![(Lane::Source, offset), (Lane::Tier(TierIndex(0)), offset)];
    let tasks = vec![TaskCommit { partition: TASK, epoch: EPOCH, offsets, mark, topics: Vec::new() }];
    let write = |value: &&[u8]| Write {
        target: TIER,
        partition: TASK,
        timestamp: None,
        key: Some(Bytes::from_static(b"key")),
        value: Some(Bytes::copy_from_slice(value)),
        headers: Vec::new(),
    };
    let writes: Vec<Write> = values.iter().map(write).collect();
    Transaction { id: TransactionId(number), tasks, records: writes.len(), writes, probe: None }
}

/// How a row of the table ended.
fn ending(rig: &Rig, row: &Row) -> Ends {
    let Row { request, error, times, occasion, .. } = *row;
    if occasion == Occasion::Start {
        rig.inject(request, error, times);
    }
    let running = match rig.start() {
        Ok(running) => running,
        Err(TransactorError::Refused { .. }) => return Ends::RefusedAtStart,
        Err(other) => panic!("{row:?}: {other}"),
    };
    let written: &[&[u8]] = &[b"value"];
    match occasion {
        Occasion::Start => {}
        Occasion::Commit => rig.inject(request, error, times),
        Occasion::Abort => {
            rig.inject(request, error, times);
            rig.epochs.set(TASK, EPOCH.next());
        }
        Occasion::Remake => {
            rig.inject(RDKafkaApiKey::Produce, RDKafkaRespErr::RD_KAFKA_RESP_ERR_INVALID_TXN_STATE, 1);
            rig.inject(request, error, times);
        }
    }
    let answer = rig.transact(&running, 1, written);
    let ends = match (answer, occasion) {
        (Answer::Transacted { .. }, Occasion::Remake) if times == FOR_EVER => {
            let answer = rig.transact(&running, 1, written);
            assert!(matches!(answer, Answer::Fatal { .. }), "{row:?}: {answer:?}");
            return Ends::Fatal;
        }
        (Answer::Transacted { result, .. }, _) => ends(rig, &running, result, request),
        (other, _) => panic!("{row:?}: {other:?}"),
    };
    assert_eq!(rig.not_given(request), 0, "{row:?}: the error was not met");
    rig.heal(request);
    rig.epochs.set(TASK, EPOCH);
    // Both producers are to work.
    for number in 2..=3 {
        let answer = rig.transact(&running, number, written);
        let Answer::Transacted { result: TransactionResult::Committed, .. } = answer else {
            panic!("{row:?}: transaction {number} after it: {answer:?}");
        };
    }
    if ends == Ends::Fenced {
        assert_eq!(rig.remade(), 1, "{row:?}");
    }
    ends
}

fn ends(rig: &Rig, running: &Running, result: TransactionResult, request: RDKafkaApiKey) -> Ends {
    match (result, rig.remade()) {
        (TransactionResult::Committed, 0) => Ends::Committed,
        (TransactionResult::Aborted(AbortCause::Passing { .. }), 0) => Ends::Passing,
        (TransactionResult::Aborted(AbortCause::Passing { .. }), 1) => Ends::PassingAndRemade,
        (TransactionResult::Aborted(AbortCause::Unwritable { target, .. }), made) => {
            assert_eq!(target, TIER);
            if made == 0 { Ends::Unwritable } else { Ends::UnwritableAndRemade }
        }
        (TransactionResult::Aborted(AbortCause::Refused { target, partition, .. }), made) => {
            assert_eq!((target, partition), (TIER, TASK));
            if made == 0 { Ends::Refused } else { Ends::RefusedAndRemade }
        }
        // Whoever was fenced takes its identity back only for the next transaction.
        (TransactionResult::Fenced { .. }, 0) => Ends::Fenced,
        (TransactionResult::Unknown, 0) => {
            rig.heal(request);
            running.transactor.read_back(TransactionId(1), vec![TASK]);
            let answer = running.answers.recv_timeout(PATIENCE).unwrap();
            assert!(matches!(answer, Answer::ReadBack { .. }), "{answer:?}");
            assert_eq!(rig.remade(), 1, "before its marks are read");
            Ends::UnknownAndReadBack
        }
        (other, made) => panic!("{other:?} with {made} producers made anew"),
    }
}

#[test]
fn every_injected_error_ends_in_its_branch_of_the_recipe() {
    let open = Mutex::new(rows());
    let wrong = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(row) = { open.lock().unwrap().pop() } {
                    let found = ending(&Rig::new(), &row);
                    if found != row.ends {
                        wrong.lock().unwrap().push(format!("{row:?}, but it is {found:?}"));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_error_is_missing_from_the_table() {
    let rows = rows();
    for (kind, requests, errors) in LISTED {
        for (request, error) in
            requests.iter().flat_map(|request| errors.iter().map(move |error| (request, error)))
        {
            let found = rows.iter().filter(|row| row.request == *request && row.error == *error);
            let fits = found.filter(|row| row.ends.is_of(kind)).count();
            assert!(fits > 0, "no row says that {request:?} answered by {error:?} is {kind:?}");
        }
    }
}
