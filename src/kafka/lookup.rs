//! Questions to the broker that may take long, asked beside the worker's loop: where a task goes on, where a log begins.
//!
//! Owns one thread and a consumer of the group that never joins it. Committed offsets are fetched stable, so the answer
//! waits for transactions that are still open; each question is therefore asked in short tries, in turn with the others,
//! until it is answered or forgotten.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;

use crate::core::event::Restored;
use crate::core::guard::KeyHasher;
use crate::core::position::{Epoch, Founding, Lane, Offset, Partition, TopicName};
use crate::kafka::context::Context;
use crate::kafka::error::ClientError;
use crate::kafka::reader::LaneId;
use crate::kafka::settings;
use crate::kafka::start::{self, LogRange, Resolver};
use crate::kafka::stopwatch::Stopwatch;
use crate::topology::model::{Kafka, Pipeline};

mod noted;
mod restore;
mod states;
mod topic;

pub(crate) use states::Progress;
pub(super) use states::ends_reading;
use states::{Client, States, TELL_EVERY};
use topic::Watched;

/// How long one question may hold up the others.
const TRY: Duration = Duration::from_millis(500);
/// Between two rounds of tries that gave nothing.
const PAUSE: Duration = Duration::from_millis(100);
/// People are told of a question that is open for so long: a take-over waits for one pending transaction at most, 10 s
/// where the topology says nothing else, and for the broker's own check of it.
const LONG: Duration = Duration::from_secs(30);

/// What a lookup found.
#[derive(Debug)]
pub(crate) enum Found {
    /// Answer to [`Lookup::restore`].
    Task {
        /// The task.
        partition: Partition,
        /// The epoch of the question.
        epoch: Epoch,
        /// Where its lanes go on.
        found: Restored,
        /// What retention deleted before it was read.
        losses: Vec<Loss>,
        /// Lanes whose topics were made anew, with the offset at which the old one was left.
        remade: Vec<(LaneId, Offset)>,
    },
    /// Answer to [`Lookup::lost_position`]: the lane goes on at `loss.to`.
    Position {
        /// The epoch of the question.
        epoch: Epoch,
        /// What is missing; nothing where `from` and `to` are the same.
        loss: Loss,
    },
    /// Answer to [`Lookup::find_end`].
    End {
        /// The task.
        partition: Partition,
        /// The epoch of the question.
        epoch: Epoch,
        /// The end of its partition of the source.
        end: Offset,
    },
    /// The source has grown, and topics of redrive's own have not followed: the task cannot begin. Told once, while the
    /// question stays open.
    TooFewPartitions {
        /// The task.
        partition: Partition,
        /// Which topics, with the partitions that they have.
        detail: String,
    },
    /// A lane stands behind the end of its log: the topic was made anew, or has lost its end. Going on at the start would
    /// repeat, going on at the end would lose; a person knows. Told once, while the question stays open.
    BehindEnd {
        /// The lane.
        id: LaneId,
        /// Where it stands.
        next: Offset,
        /// The end of the log.
        end: Offset,
    },
    /// The topic of a lane is not there any more.
    Vanished {
        /// The lane.
        lane: Lane,
    },
    /// It is there again.
    Back {
        /// The lane.
        lane: Lane,
    },
    /// The topic of a lane was made anew: every offset of it is of the one before.
    Remade {
        /// The lane.
        lane: Lane,
    },
    /// The state of a task is being read for long, so far to here. Told every few seconds.
    Restores(Progress),
    /// What a task must know to go on has been asked for long. Told once, while the question stays open.
    Waits {
        /// The task.
        partition: Partition,
        /// The client's words.
        detail: String,
    },
    /// Answer to [`Lookup::reach`]: a broker answers.
    Broker,
    /// The lookup thread cannot go on.
    Failed(ClientError),
}

/// Offsets that were deleted before they were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loss {
    /// The lane.
    pub(crate) id: LaneId,
    /// The first that is missing.
    pub(crate) from: Offset,
    /// Where it goes on.
    pub(crate) to: Offset,
}

/// The thread that asks.
#[derive(Debug)]
pub(crate) struct Lookup {
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Question {
    Task { partition: Partition, epoch: Epoch },
    Position { id: LaneId, topic: TopicName, next: Offset, epoch: Epoch },
    End { partition: Partition, epoch: Epoch },
    Reach,
}

enum Order {
    Ask(Question),
    Forget(Partition),
}

/// What a question is about; a new one takes the place of the old.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum About {
    Broker,
    Task(Partition),
    Lane(LaneId),
    End(Partition),
}

impl About {
    fn is_of(self, partition: Partition) -> bool {
        match self {
            Self::Broker => false,
            Self::Task(of) | Self::End(of) | Self::Lane(LaneId { partition: of, .. }) => of == partition,
        }
    }

    /// What people are told of a question that has been open for long; an outage is told on its own.
    fn waits(self, detail: String) -> Option<Found> {
        match self {
            Self::Broker => None,
            Self::Task(partition) | Self::End(partition) | Self::Lane(LaneId { partition, .. }) => {
                Some(Found::Waits { partition, detail })
            }
        }
    }
}

impl Lookup {
    /// Starts the thread; `answer` is called from it.
    pub(crate) fn start(
        kafka: &Kafka,
        pipeline: &Pipeline,
        hasher: KeyHasher,
        answer: impl Fn(Found) + Send + 'static,
    ) -> Result<Self, ClientError> {
        let config = settings::lane_consumer(kafka, pipeline);
        let consumer = settings::create(&config, Context::new("lookup"), kafka)?;
        let (orders, inbox) = crossbeam_channel::unbounded();
        let asker = Asker {
            consumer,
            kafka: kafka.clone(),
            pipeline: pipeline.clone(),
            hasher,
            founding: Cell::new(None),
            impatient: RefCell::new(None),
            states: RefCell::default(),
            watched: RefCell::new(Watched::new()),
        };
        let spawned = thread::Builder::new()
            .name(format!("{}-lookup", pipeline.name))
            .spawn(move || asker.run(&inbox, &answer));
        let thread = spawned.map_err(|source: io::Error| ClientError::Thread { client: "lookup", source })?;
        Ok(Self { orders: Some(orders), thread: Some(thread) })
    }

    /// Asks where the lanes of a task go on.
    pub(crate) fn restore(&self, partition: Partition, epoch: Epoch) {
        self.order(Order::Ask(Question::Task { partition, epoch }));
    }

    /// Asks where a lane goes on that found nothing at `next`.
    pub(crate) fn lost_position(&self, id: LaneId, topic: TopicName, next: Offset, epoch: Epoch) {
        self.order(Order::Ask(Question::Position { id, topic, next, epoch }));
    }

    /// Asks where a task's partition of the source ends now, records of open transactions included.
    pub(crate) fn find_end(&self, partition: Partition, epoch: Epoch) {
        self.order(Order::Ask(Question::End { partition, epoch }));
    }

    /// Asks for any answer of a broker.
    pub(crate) fn reach(&self) {
        self.order(Order::Ask(Question::Reach));
    }

    /// Drops all questions about a task.
    pub(crate) fn forget(&self, partition: Partition) {
        self.order(Order::Forget(partition));
    }

    fn order(&self, order: Order) {
        // The thread ends before its lookup only after it has said why.
        let _ = self.orders.as_ref().map(|orders| orders.send(order));
    }
}

impl Drop for Lookup {
    fn drop(&mut self) {
        self.orders = None;
        // It ends within one try. A panic there has been told by the panic hook.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct Asker {
    consumer: BaseConsumer<Context>,
    kafka: Kafka,
    pipeline: Pipeline,
    /// Of the keys whose versions are read.
    hasher: KeyHasher,
    founding: Cell<Option<Founding>>,
    /// Asks for ends without regard to open transactions; made when it is first needed.
    impatient: RefCell<Option<Client>>,
    /// The state partitions that are being read.
    states: RefCell<States>,
    /// The topics of the lanes, as they were when they were last looked at.
    watched: RefCell<Watched>,
}

type Open = BTreeMap<About, Asked>;

struct Asked {
    question: Question,
    since: Stopwatch,
    told: Told,
}

/// Whether people know why there is no answer yet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    No,
    Yes,
}

enum Tried {
    Answered(Found),
    /// The question stays open, and people should know why.
    Stuck(Found),
    /// The question stays open, with the client's words.
    NotYet(String),
}

impl Asker {
    fn run(self, inbox: &Receiver<Order>, answer: &impl Fn(Found)) {
        let mut open = Open::new();
        'asking: loop {
            if open.is_empty() {
                match inbox.recv_timeout(self.watched.borrow().left()) {
                    Ok(order) => self.take(&mut open, order),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            self.watch(answer);
            // Serves the client's logs; this consumer is given no records.
            let _ = self.consumer.poll(Duration::ZERO);
            let _ = self.impatient.borrow().as_ref().map(Client::serve);
            self.read_states(answer);
            let round: Vec<About> = open.keys().copied().collect();
            let mut answered = 0_usize;
            for about in round {
                // While brokers are away a round takes long: meanwhile questions are forgotten, and all of them at the end.
                loop {
                    match inbox.try_recv() {
                        Ok(order) => self.take(&mut open, order),
                        Err(TryRecvError::Empty) => break,
                        Err(TryRecvError::Disconnected) => break 'asking,
                    }
                }
                let Some(asked) = open.remove(&about) else { continue };
                match self.ask(about, asked, answer) {
                    Some(asked) => drop(open.insert(about, asked)),
                    None => answered = answered.saturating_add(1),
                }
            }
            if answered == 0 && !open.is_empty() && !self.states.borrow().is_reading() {
                thread::sleep(PAUSE);
            }
        }
        self.consumer.context().end();
    }

    /// Reads the state topic on, and tells how far it is where that takes long.
    fn read_states(&self, answer: &impl Fn(Found)) {
        let mut states = self.states.borrow_mut();
        states.read_on(self.pipeline.state.name.as_str());
        states.progress(TELL_EVERY).into_iter().for_each(|progress| answer(Found::Restores(progress)));
    }

    fn take(&self, open: &mut Open, order: Order) {
        let question = match order {
            Order::Ask(question) => question,
            Order::Forget(partition) => {
                self.states.borrow_mut().forget(partition, self.pipeline.state.name.as_str());
                return open.retain(|about, _| !about.is_of(partition));
            }
        };
        let about = match &question {
            Question::Reach => About::Broker,
            Question::Task { partition, .. } => About::Task(*partition),
            Question::Position { id, .. } => About::Lane(*id),
            Question::End { partition, .. } => About::End(*partition),
        };
        // The same question again is as old, and has been told already.
        if open.get(&about).is_none_or(|asked| asked.question != question) {
            open.insert(about, Asked { question, since: Stopwatch::start(), told: Told::No });
        }
    }

    /// Tries once; gives the question back where it stays open.
    fn ask(&self, about: About, mut asked: Asked, answer: &impl Fn(Found)) -> Option<Asked> {
        let why = match self.attempt(&asked.question) {
            Ok(Tried::Answered(found)) => {
                answer(found);
                return None;
            }
            Ok(Tried::Stuck(found)) => Some(found),
            Ok(Tried::NotYet(detail)) if asked.since.elapsed() >= LONG => about.waits(detail),
            Ok(Tried::NotYet(_)) => None,
            Err(error) => {
                answer(Found::Failed(error));
                return None;
            }
        };
        if let (Some(why), Told::No) = (why, asked.told) {
            asked.told = Told::Yes;
            answer(why);
        }
        Some(asked)
    }

    fn attempt(&self, question: &Question) -> Result<Tried, ClientError> {
        match question {
            Question::Task { partition, epoch } => self.task(*partition, *epoch),
            Question::Position { id, topic, next, epoch } => Ok(match self.log(topic, id.partition) {
                Ok(log) if *next > log.end => {
                    Tried::Stuck(Found::BehindEnd { id: *id, next: *next, end: log.end })
                }
                Ok(log) => {
                    let loss = Loss { id: *id, from: *next, to: log.start.max(*next) };
                    Tried::Answered(Found::Position { epoch: *epoch, loss })
                }
                Err(error) => not_yet(&error),
            }),
            Question::End { partition, epoch } => self.end(*partition, *epoch),
            Question::Reach => {
                Ok(match self.consumer.fetch_metadata(Some(self.pipeline.source.as_str()), TRY) {
                    Ok(_) => Tried::Answered(Found::Broker),
                    Err(error) => not_yet(&error),
                })
            }
        }
    }

    fn end(&self, partition: Partition, epoch: Epoch) -> Result<Tried, ClientError> {
        let source = self.pipeline.source.as_str();
        let mut slot = self.impatient.borrow_mut();
        let impatient = match &mut *slot {
            Some(impatient) => impatient,
            none => {
                let config = settings::impatient_consumer(&self.kafka, &self.pipeline);
                none.insert(Client::new(&config, &self.kafka)?)
            }
        };
        Ok(match impatient.end(source, partition) {
            Ok(end) => Tried::Answered(Found::End { partition, epoch, end }),
            Err(error) => not_yet(&error),
        })
    }

    /// Asked for once: it never changes while the group has offsets, and what appears after this was asked is new.
    fn founding(&self) -> Result<Founding, ClientError> {
        if let Some(founding) = self.founding.get() {
            return Ok(founding);
        }
        let founding = start::founding(&self.kafka, &self.pipeline, TRY)?;
        self.founding.set(Some(founding));
        Ok(founding)
    }

    fn resolver(&self, founding: Founding) -> Resolver<'_> {
        let Self { consumer, kafka, pipeline, .. } = self;
        Resolver { consumer, kafka, pipeline, founding, patience: TRY }
    }

    fn log(&self, topic: &TopicName, partition: Partition) -> Result<LogRange, KafkaError> {
        let (start, end) = self.consumer.fetch_watermarks(topic.as_str(), partition.0, TRY)?;
        Ok(LogRange { start: Offset(start), end: Offset(end) })
    }
}

fn not_yet(error: &KafkaError) -> Tried {
    tracing::debug!(%error, "not known yet, asking again");
    Tried::NotYet(error.to_string())
}
