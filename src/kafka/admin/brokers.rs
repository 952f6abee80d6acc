//! Questions and orders to the brokers about topics, one after another.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use rdkafka::admin::{
    AdminClient, AdminOptions, ConfigResource, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication,
    TopicResult,
};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{ClientContext, Offset, TopicPartitionList};

use crate::core::position::TopicName;
use crate::kafka::admin::AdminError;
use crate::kafka::admin::plan::{Found, New};
use crate::kafka::settings;
use crate::kafka::stopwatch::Stopwatch;
use crate::topology::model::{Kafka, Pipeline, Topology};

/// One question. The first one also connects.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// Between two questions of which the first came too early.
const PAUSE: Duration = Duration::from_millis(100);

/// What one look at a topic gave.
enum Seen {
    Fully(Found),
    /// It is there, but not everywhere yet; with the broker's words.
    InTheMaking(String),
}

/// Whether an order is only tried: the brokers check it and change nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trial {
    Yes,
    No,
}

/// Connections to the brokers.
pub(super) struct Brokers {
    client: AdminClient<Refusals>,
    /// Asks first, and hears why it is turned away: nobody takes an admin client's errors off its queue.
    listener: BaseConsumer<Refusals>,
}

impl Brokers {
    pub(super) fn connect(topology: &Topology) -> Result<Self, AdminError> {
        let config = settings::admin(&topology.kafka, &topology.app);
        let client = settings::create(&config, Refusals::default(), &topology.kafka)?;
        Ok(Self { client, listener: settings::create(&config, Refusals::default(), &topology.kafka)? })
    }

    /// Whether any broker answers a question within `bound`; about this topic, since a cluster may have many.
    pub(super) fn reach(&self, topic: Option<&TopicName>, bound: Duration) -> Result<(), AdminError> {
        let asked = self.listener.fetch_metadata(topic.map(TopicName::as_str), bound);
        asked.map(drop).map_err(|error| self.unreachable(error))
    }

    /// What the brokers show of a topic. One that is just being made is waited for.
    pub(super) fn look(&self, topic: &TopicName) -> Result<Found, AdminError> {
        let clock = Stopwatch::start();
        loop {
            match self.look_once(topic)? {
                Seen::Fully(found) => return Ok(found),
                Seen::InTheMaking(_) if clock.left_of(ANSWER_WITHIN).is_some() => thread::sleep(PAUSE),
                Seen::InTheMaking(detail) => return Ok(Found::Hidden { detail }),
            }
        }
    }

    fn look_once(&self, topic: &TopicName) -> Result<Seen, AdminError> {
        let metadata = self
            .listener
            .fetch_metadata(Some(topic.as_str()), ANSWER_WITHIN)
            .map_err(|error| self.unreachable(error))?;
        let Some(found) = metadata.topics().iter().find(|found| found.name() == topic.as_str()) else {
            return Ok(Seen::Fully(Found::Missing));
        };
        match found.error().map(RDKafkaErrorCode::from) {
            None => {}
            Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
                return Ok(Seen::Fully(Found::Missing));
            }
            Some(making @ RDKafkaErrorCode::LeaderNotAvailable) => {
                return Ok(Seen::InTheMaking(making.to_string()));
            }
            Some(other) => return Ok(Seen::Fully(Found::Hidden { detail: other.to_string() })),
        }
        let partitions = found.partitions().len();
        let replicas =
            found.partitions().iter().map(|partition| partition.replicas().len()).min().unwrap_or(0);
        Ok(match self.describe(ResourceSpecifier::Topic(topic.as_str()))? {
            Ok(resource) => {
                let entries = resource.entries.into_iter();
                let config = entries.filter_map(|entry| Some((entry.name, entry.value?))).collect();
                Seen::Fully(Found::Present { partitions, replicas, config })
            }
            // The broker that answered has not heard of it yet.
            Err(making @ RDKafkaErrorCode::UnknownTopicOrPartition) => Seen::InTheMaking(making.to_string()),
            Err(detail) => Seen::Fully(Found::Hidden { detail: detail.to_string() }),
        })
    }

    /// The names of all topics that we may see.
    pub(super) fn topics(&self) -> Result<BTreeSet<String>, AdminError> {
        let metadata =
            self.listener.fetch_metadata(None, ANSWER_WITHIN).map_err(|error| self.unreachable(error))?;
        Ok(metadata.topics().iter().map(|topic| topic.name().to_owned()).collect())
    }

    /// How many records of a topic the group of a pipeline has not read, at most: markers of transactions count.
    pub(super) fn waiting(
        &self,
        kafka: &Kafka,
        pipeline: &Pipeline,
        topic: &str,
        partitions: usize,
    ) -> Result<u64, AdminError> {
        let config = settings::impatient_consumer(kafka, pipeline);
        let group: BaseConsumer<Refusals> = settings::create(&config, Refusals::default(), kafka)?;
        let unreachable = |error| self.unreachable(error);
        let mut list = TopicPartitionList::with_capacity(partitions);
        for partition in (0..).take(partitions) {
            list.add_partition(topic, partition);
        }
        // Read first: an end that is read later is never before them.
        let clock = Stopwatch::start();
        let committed = loop {
            match group.committed_offsets(list.clone(), ANSWER_WITHIN) {
                Ok(committed) => break committed,
                // The group's coordinator may just be moving, or coming to be.
                Err(_) if clock.left_of(ANSWER_WITHIN).is_some() => thread::sleep(PAUSE),
                Err(error) => return Err(self.unreachable(error)),
            }
        };
        let mut waiting = 0_u64;
        for element in committed.elements() {
            element.error().map_err(unreachable)?;
            let (start, end) =
                group.fetch_watermarks(topic, element.partition(), ANSWER_WITHIN).map_err(unreachable)?;
            let from = if let Offset::Offset(offset) = element.offset() { offset.max(start) } else { start };
            waiting = waiting.saturating_add(u64::try_from(end.saturating_sub(from)).unwrap_or(0));
        }
        Ok(waiting)
    }

    /// Makes a topic. One that is there meanwhile is as good as made: it is looked at again.
    pub(super) fn create(&self, topic: &str, new: &New, trial: Trial) -> Result<(), AdminError> {
        let partitions = i32::try_from(new.partitions).unwrap_or(i32::MAX);
        // -1: the broker's default.
        let replication = TopicReplication::Fixed(new.replication.map_or(-1, i32::from));
        let order =
            new.config.iter().fold(NewTopic::new(topic, partitions, replication), |order, (name, value)| {
                order.set(name, value)
            });
        let answer = block_on(self.client.create_topics([&order], &options(trial)));
        self.judge(topic, answer, &[RDKafkaErrorCode::TopicAlreadyExists])
    }

    /// Gives a topic more partitions.
    pub(super) fn grow(&self, topic: &str, to: usize, trial: Trial) -> Result<(), AdminError> {
        let answer =
            block_on(self.client.create_partitions([&NewPartitions::new(topic, to)], &options(trial)));
        self.judge(topic, answer, &[])
    }

    /// `offsets.retention.minutes` of a broker; `None` where it does not say or we may not ask. Whatever the question is
    /// about, its answer names the brokers; it is about this topic, since a cluster may have many.
    pub(super) fn offsets_retention(
        &self,
        topic: Option<&TopicName>,
    ) -> Result<Option<Duration>, AdminError> {
        let metadata = self
            .listener
            .fetch_metadata(topic.map(TopicName::as_str), ANSWER_WITHIN)
            .map_err(|error| self.unreachable(error))?;
        let Some(broker) = metadata.brokers().first() else {
            return Ok(None);
        };
        let Ok(resource) = self.describe(ResourceSpecifier::Broker(broker.id()))? else {
            return Ok(None);
        };
        let minutes = resource
            .get("offsets.retention.minutes")
            .and_then(|entry| entry.value.as_ref())
            .and_then(|value| value.parse::<u64>().ok());
        Ok(minutes.map(|minutes| Duration::from_secs(minutes.saturating_mul(60))))
    }

    /// After which silence a group that the brokers lead (KIP-848) gives a member up; `None` where they do not say or we
    /// may not ask.
    pub(super) fn group_session(&self, group: &str) -> Result<Option<Duration>, AdminError> {
        let Ok(resource) = self.describe(ResourceSpecifier::Group(group))? else {
            return Ok(None);
        };
        let millis = resource
            .get("consumer.session.timeout.ms")
            .and_then(|entry| entry.value.as_ref())
            .and_then(|value| value.parse().ok());
        Ok(millis.map(Duration::from_millis))
    }

    fn describe(
        &self,
        resource: ResourceSpecifier<'_>,
    ) -> Result<Result<ConfigResource, RDKafkaErrorCode>, AdminError> {
        let answer = block_on(self.client.describe_configs([&resource], &options(Trial::No)))
            .map_err(|error| self.unreachable(error))?;
        Ok(answer.into_iter().next().unwrap_or(Err(RDKafkaErrorCode::Fail)))
    }

    fn judge(
        &self,
        topic: &str,
        answer: Result<Vec<TopicResult>, KafkaError>,
        fine: &[RDKafkaErrorCode],
    ) -> Result<(), AdminError> {
        for result in answer.map_err(|error| self.unreachable(error))? {
            match result {
                Ok(_) => {}
                Err((_, code)) if fine.contains(&code) => {}
                Err((_, code)) => {
                    return Err(AdminError::Refused { topic: topic.to_owned(), detail: code.to_string() });
                }
            }
        }
        Ok(())
    }

    fn unreachable(&self, source: KafkaError) -> AdminError {
        unreachable(&self.listener, &source)
    }
}

/// Why a question got no answer, by what the client that asked has heard.
pub(in crate::kafka) fn unreachable(listener: &BaseConsumer<Refusals>, source: &KafkaError) -> AdminError {
    // An error that waits there is handed to the context when it is taken.
    while listener.poll(Duration::from_millis(10)).is_some() {}
    let Words { authentication, last } = listener.context().words();
    match (authentication, last) {
        (Some(detail), _) => AdminError::Authentication { detail },
        (None, Some(last)) => AdminError::Unreachable { detail: format!("{source}: {last}") },
        (None, None) => AdminError::Unreachable { detail: source.to_string() },
    }
}

fn options(trial: Trial) -> AdminOptions {
    let options =
        AdminOptions::new().request_timeout(Some(ANSWER_WITHIN)).operation_timeout(Some(ANSWER_WITHIN));
    match trial {
        Trial::Yes => options.validate_only(true),
        Trial::No => options,
    }
}

/// Waits for an answer on this thread; the client's own thread wakes it. Needs no runtime, so it can be called from within
/// one and without one.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => thread::park(),
        }
    }
}

/// Remembers why the brokers turned us away, or were not reached: the calls themselves only run out of time.
#[derive(Debug, Default)]
pub(in crate::kafka) struct Refusals(Mutex<Words>);

/// The client's words.
#[derive(Clone, Debug, Default)]
struct Words {
    /// Why the brokers do not believe who we say we are.
    authentication: Option<String>,
    /// Of the last error of a connection.
    last: Option<String>,
}

impl Refusals {
    fn words(&self) -> Words {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ConsumerContext for Refusals {}

impl ClientContext for Refusals {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, text: &str) {
        tracing::debug!(client = "admin", facility, "{text}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(client = "admin", %error, "{reason}");
        let mut words = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::Authentication | RDKafkaErrorCode::SaslAuthenticationFailed) => {
                words.authentication = Some(reason.to_owned());
            }
            // Says only how many are gone, after each of them has said why.
            Some(RDKafkaErrorCode::AllBrokersDown) => {}
            Some(_) | None => words.last = Some(reason.to_owned()),
        }
    }
}
