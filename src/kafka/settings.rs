//! The properties of every Kafka client: defaults, then the user's, then those that carry the guarantees.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::error::KafkaError;

use crate::kafka::desk::WRITTEN_WITHIN;
use crate::topology::model::{Kafka, Membership, Pipeline, Protocol, Shown};

/// The client's own bound for the time between two polls. A worker polls every 100 ms; the client refuses a bound that is
/// shorter than the session.
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(300);

/// A client cannot be made from these settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SettingsError {
    /// The client refuses a property, or its value.
    #[error(
        "the Kafka client refuses the property `{property}`: {detail}\nhint: correct it under [kafka.properties]"
    )]
    Property {
        /// The property.
        property: String,
        /// The client's words, secrets masked.
        detail: String,
    },
    /// The client refuses the properties together.
    #[error("the Kafka client cannot be made: {detail}\nhint: look at [kafka.properties]")]
    Together {
        /// The client's words, secrets masked.
        detail: String,
    },
}

/// The consumer that subscribes to the source and is the group's member. `name` is the same after a restart, and no other
/// living worker's.
pub(super) fn source_consumer(kafka: &Kafka, pipeline: &Pipeline, name: &str) -> ClientConfig {
    let session = pipeline.workers.session_timeout;
    let layers = Layers::of(kafka, &pipeline.group)
        .consumer_defaults()
        // Per partition, since queues are split: enough to hide one fetch, little enough for many partitions.
        .default("queued.min.messages", "1000")
        .default("queued.max.messages.kbytes", "4096")
        .user(kafka)
        .consumer(&pipeline.group)
        .ours("max.poll.interval.ms", &millis(session.max(MAX_POLL_INTERVAL)));
    let layers = match pipeline.workers.membership {
        Membership::Dynamic => layers,
        Membership::Static => layers.ours("group.instance.id", name),
    };
    match kafka.protocol {
        Protocol::Classic => layers
            .ours("partition.assignment.strategy", "cooperative-sticky")
            .ours("session.timeout.ms", &millis(session))
            .ours("heartbeat.interval.ms", &millis(session / 5)),
        // The client refuses the three above: they are the brokers' (KIP-848).
        Protocol::Consumer => layers.ours("group.protocol", "consumer"),
    }
    .done(kafka)
}

/// The consumer that reads the lanes: of the same group, never subscribed.
pub(super) fn lane_consumer(kafka: &Kafka, pipeline: &Pipeline) -> ClientConfig {
    Layers::of(kafka, &pipeline.group)
        .consumer_defaults()
        // Waiting records fill these queues for as long as they wait.
        .default("queued.min.messages", "100")
        .default("queued.max.messages.kbytes", "1024")
        .user(kafka)
        .consumer(&pipeline.group)
        .done(kafka)
}

/// As [`lane_consumer`], for what is read from its start to its end.
pub(super) fn state_consumer(kafka: &Kafka, pipeline: &Pipeline) -> ClientConfig {
    let mut config = lane_consumer(kafka, pipeline);
    config.set("enable.partition.eof", "true");
    // Enough that the broker is never waited for: one partition at a time is read, and then no more of this is held.
    config.set("queued.min.messages", "100000").set("queued.max.messages.kbytes", "16384");
    // Its end is told by an answer without records: a broker is not to hold that back for more.
    config.set("fetch.wait.max.ms", "10");
    config
}

/// As [`lane_consumer`], for questions that must not wait until no transaction is open, as stable offsets and ends do.
pub(super) fn impatient_consumer(kafka: &Kafka, pipeline: &Pipeline) -> ClientConfig {
    let mut config = lane_consumer(kafka, pipeline);
    config.set("isolation.level", "read_uncommitted");
    config
}

/// A transactional producer.
pub(super) fn transactional_producer(
    kafka: &Kafka,
    pipeline: &Pipeline,
    transactional_id: &str,
    batch_bytes: usize,
) -> ClientConfig {
    let transaction = pipeline.policy.flow.transaction_timeout;
    Layers::of(kafka, &pipeline.group)
        .user(kafka)
        .ours("transactional.id", transactional_id)
        .ours("transaction.timeout.ms", &millis(transaction))
        // Must not exceed the transaction's, or creation fails; shorter, so that a lost record is known in time to abort.
        .ours("message.timeout.ms", &millis(message_timeout(pipeline)))
        .ours("enable.idempotence", "true")
        .ours("acks", "all")
        // A transaction is committed only when nothing is in flight: waiting for company would delay each one.
        .ours("linger.ms", "0")
        // As Java's producers do, so that records of a key meet in one partition whoever wrote them.
        .ours("partitioner", "murmur2_random")
        // The broker decides what is too large, by topic; under its `socket.request.max.bytes` of 100 MiB, beyond
        // which it closes the connection instead of an answer.
        .ours("message.max.bytes", "100000000")
        .ours("batch.size", &batch_bytes.to_string())
        .ours("delivery.report.only.error", "false")
        // How long a topic that the broker does not know may still be on its way to it (30 s).
        .ours("topic.metadata.propagation.max.ms", "2000")
        // Offsets wait, beyond any timeout, for a coordinator that three answers did not name; the client looks for it
        // again only when a connection changes (https://github.com/confluentinc/librdkafka/issues/5456). A producer that
        // waits uses none of its connections: they change once they have been idle for so long that nothing is lost.
        .ours("connections.max.idle.ms", &millis(transaction))
        .done(kafka)
}

/// A producer for requests of operators: each is written once, whatever the client repeats.
pub(super) fn request_producer(kafka: &Kafka, pipeline: &Pipeline) -> ClientConfig {
    Layers::of(kafka, &pipeline.group)
        .user(kafka)
        .ours("enable.idempotence", "true")
        .ours("acks", "all")
        .ours("linger.ms", "0")
        .ours("message.timeout.ms", &millis(WRITTEN_WITHIN))
        .ours("topic.metadata.propagation.max.ms", "2000")
        .done(kafka)
}

/// A client for questions and topics, of no group.
pub(super) fn admin(kafka: &Kafka, name: &str) -> ClientConfig {
    Layers::of(kafka, name).user(kafka).done(kafka)
}

/// How long a record may be on its way to the broker.
pub(super) fn message_timeout(pipeline: &Pipeline) -> Duration {
    pipeline.policy.flow.transaction_timeout * 4 / 5
}

/// Makes a client; the error names the property and hides secrets.
pub(super) fn create<X, C>(config: &ClientConfig, context: X, kafka: &Kafka) -> Result<C, SettingsError>
where
    X: ClientContext,
    C: FromClientConfigAndContext<X>,
{
    config.create_with_context(context).map_err(|error| {
        if let KafkaError::ClientConfig(_, detail, property, _) = error {
            SettingsError::Property { property, detail: masked(detail, kafka) }
        } else {
            SettingsError::Together { detail: masked(error.to_string(), kafka) }
        }
    })
}

/// The client quotes values in its words.
fn masked(detail: String, kafka: &Kafka) -> String {
    kafka
        .properties
        .values()
        .filter(|text| text.shown == Shown::Masked && !text.plain.is_empty())
        .fold(detail, |detail, secret| detail.replace(&secret.plain, "***"))
}

fn millis(duration: Duration) -> String {
    duration.as_millis().to_string()
}

/// Properties that are other names of those that we set; the client takes whichever it meets last, in no order.
const ALIASES: [&str; 5] = [
    "metadata.broker.list",
    "queue.buffering.max.ms",
    "request.required.acks",
    "delivery.timeout.ms",
    "auto.commit.enable",
];

/// The three layers, one over the other.
struct Layers(ClientConfig);

impl Layers {
    fn of(kafka: &Kafka, name: &str) -> Self {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", kafka.bootstrap.join(","));
        Self(config)
            .default("client.id", &format!("redrive.{name}"))
            .default("socket.keepalive.enable", "true")
            // A topic that comes back, or grows, is seen within this (5 min).
            .default("topic.metadata.refresh.interval.ms", "30000")
            // A broker that comes back is found within this (10 s).
            .default("reconnect.backoff.max.ms", "2000")
    }

    fn consumer_defaults(self) -> Self {
        // A full queue sleeps this long before it is refilled; the client's own 1 s costs three quarters of the throughput.
        self.default("fetch.queue.backoff.ms", "5")
            // An idle fetch holds back the others of its connection this long (500 ms).
            .default("fetch.wait.max.ms", "100")
            .default("fetch.error.backoff.ms", "100")
    }

    fn consumer(self, group: &str) -> Self {
        self.ours("group.id", group)
            // Offsets are committed in transactions only.
            .ours("enable.auto.commit", "false")
            .ours("enable.auto.offset.store", "false")
            // A lost position is seen, counted and told, never jumped over.
            .ours("auto.offset.reset", "error")
            // Also makes the fetch of committed offsets wait for pending transactions (KIP-447).
            .ours("isolation.level", "read_committed")
            .ours("enable.partition.eof", "false")
    }

    fn default(self, property: &str, value: &str) -> Self {
        self.ours(property, value)
    }

    fn user(mut self, kafka: &Kafka) -> Self {
        for (property, value) in &kafka.properties {
            if !ALIASES.contains(&property.as_str()) {
                self.0.set(property, &value.plain);
            }
        }
        self
    }

    fn ours(mut self, property: &str, value: &str) -> Self {
        self.0.set(property, value);
        self
    }

    fn done(self, kafka: &Kafka) -> ClientConfig {
        self.ours("bootstrap.servers", &kafka.bootstrap.join(","))
            // A misspelled topic is an error, never a new topic.
            .ours("allow.auto.create.topics", "false")
            .0
    }
}

#[cfg(test)]
mod tests;
