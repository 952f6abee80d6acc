//! The compiled topology. Only the compiler makes one, so whatever holds one may rely on it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::core::policy::Policy;
use crate::core::position::{Lane, TierIndex, TopicName};
use crate::core::record::HeaderName;
use crate::core::time::Timestamp;

/// One deployment: where Kafka is, and the pipelines.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Topology {
    /// First part of every topic, group and transactional id that redrive owns.
    pub app: String,
    /// Where Kafka is.
    pub kafka: Kafka,
    /// Probes and metrics.
    pub http: Http,
    /// What operators did, of all pipelines; one partition.
    pub audit: OwnTopic,
    /// The pipelines, in the order of the file.
    pub pipelines: Vec<Pipeline>,
}

/// Where Kafka is and how to talk to it.
#[derive(Clone, Debug)]
pub struct Kafka {
    /// `host:port` of the brokers to begin with.
    pub bootstrap: Vec<String>,
    /// How the members of a group agree who gets which partitions.
    pub protocol: Protocol,
    /// Further properties of the client; none that carries a guarantee.
    pub properties: BTreeMap<String, Text>,
}

/// How the members of a group agree who gets which partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Among themselves, all at a time; each says how long it may be silent.
    Classic,
    /// The broker decides for each by itself (KIP-848), and says how long each may be silent.
    Consumer,
}

/// A string of the topology that may be secret; its `Debug` and `Display` hide it where it is.
#[derive(Clone, PartialEq, Eq)]
pub struct Text {
    /// The text itself.
    pub plain: String,
    /// Whether it may be shown.
    pub shown: Shown,
}

/// Whether a text may be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// As it is.
    Plain,
    /// As `***`.
    Masked,
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shown {
            Shown::Plain => f.write_str(&self.plain),
            Shown::Masked => f.write_str("***"),
        }
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// Where probes and metrics listen.
#[derive(Clone, Debug)]
pub struct Http {
    /// Probes, metrics.
    pub listen: SocketAddr,
}

/// One source topic, one handler, an optional output, one consumer group, and its own topics.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// Its name in the file.
    pub name: String,
    /// The consumer group: `<app>.<name>`.
    pub group: String,
    /// The topic it reads.
    pub source: TopicName,
    /// Where it starts where nothing is committed.
    pub start: Start,
    /// The topic of its output.
    pub output: Option<TopicName>,
    /// Further outputs by name, for handlers written in Rust.
    pub outputs: BTreeMap<String, TopicName>,
    /// What the values of its source are.
    pub decode: Format,
    /// Its handler.
    pub handler: HandlerSpec,
    /// What the core decides by.
    pub policy: Policy,
    /// Its tiers, in the ladder's order, as many as `policy.ladder` has delays.
    pub tiers: Vec<Tier>,
    /// Tiers that the ladder does not have and whose topics have names of their own. They are drained where they exist.
    pub retired: Vec<Tier>,
    /// Tiers that the ladder does not have and that exist: read, never written. Only Kafka knows them; see
    /// [`Pipeline::draining`].
    pub drained: Vec<Tier>,
    /// Its dead letter topic.
    pub dead_letter: OwnTopic,
    /// Its state topic.
    pub state: OwnTopic,
    /// Its control lane.
    pub control: OwnTopic,
    /// What happened to its dead letters, and the answers to operators.
    pub cases: OwnTopic,
    /// How its own topics are made.
    pub topics: TopicSettings,
    /// Its threads and timeouts.
    pub workers: Workers,
}

/// One tier of the ladder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tier {
    /// The lane's word: `retry.5s`.
    pub label: String,
    /// How long a record waits in it.
    pub delay: Duration,
    /// Its topic.
    pub topic: OwnTopic,
}

/// A topic that redrive owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnTopic {
    /// Its name in Kafka.
    pub name: TopicName,
    /// What becomes of its old records.
    pub cleanup: Cleanup,
}

/// What becomes of the old records of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleanup {
    /// They are deleted, not earlier than this.
    Delete(Duration),
    /// The newest of each key stays.
    Compact,
    /// The newest of each key stays, and is deleted, not earlier than this.
    CompactDelete(Duration),
}

/// How topics are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicSettings {
    /// Replicas; `None`: the broker's default.
    pub replication: Option<u16>,
    /// `min.insync.replicas`; `None`: the broker's default.
    pub min_isr: Option<u16>,
}

/// Where a pipeline starts where its group has no committed offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the log's start.
    Earliest,
    /// At the log's end, resolved once.
    Latest,
    /// At the first record at or after this time.
    At(Timestamp),
    /// Where this consumer group stands.
    Group(String),
}

/// What the values of a source are, as far as redrive looks into them. They are carried as they are whatever this says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Bytes, into which nobody looks.
    Bytes,
    /// JSON documents (RFC 8259).
    Json,
}

/// Which handler, and how.
#[derive(Clone, Debug)]
pub enum HandlerSpec {
    /// An HTTP endpoint.
    Http(Box<HttpHandler>),
    /// Hands the value on, with rules to fail for tests and demos.
    Passthrough(Passthrough),
    /// A handler written in Rust, registered under this name.
    Rust {
        /// The name.
        name: String,
    },
}

/// Headers of a call that say what the record is, in lower case; so does every `redrive-*`. Nothing else may set them.
pub const IDENTITY_HEADERS: [&str; 6] =
    ["ce-specversion", "ce-id", "ce-source", "ce-type", "ce-time", "idempotency-key"];

/// Headers that frame a call (RFC 9110, section 7.6.1), in lower case. From a record they would let its writer smuggle a
/// second one.
pub const FRAMING_HEADERS: [&str; 11] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// An HTTP endpoint that is called once per execution.
#[derive(Clone, Debug)]
pub struct HttpHandler {
    /// Where to POST.
    pub url: String,
    /// The longest that one call may take.
    pub timeout: Duration,
    /// The most calls at a time, per worker.
    pub concurrency: usize,
    /// Headers sent with every call.
    pub headers: Vec<(String, Text)>,
    /// Bearer token, and where it comes from, so that it can be read again when it was refused.
    pub token: Option<Token>,
    /// Further certificate authorities, PEM.
    pub ca_file: Option<PathBuf>,
    /// Foreign headers that are handed on.
    pub forward_headers: Vec<HeaderName>,
}

/// A bearer token.
#[derive(Clone, Debug)]
pub enum Token {
    /// Given once, at start.
    Fixed(Text),
    /// The content of this file, read again when the handler answers 401.
    File(PathBuf),
}

/// The handler for tests and demos: output = value.
#[derive(Clone, Debug, Default)]
pub struct Passthrough {
    /// Rules to fail, first match wins.
    pub fail: Vec<FailRule>,
}

/// Makes some deliveries fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailRule {
    /// Only records whose key starts with this; empty: all.
    pub key_prefix: Vec<u8>,
    /// Up to and including this attempt; `None`: always.
    pub attempts: Option<u32>,
    /// With this class.
    pub class: crate::core::class::Class,
    /// And this reason.
    pub reason: crate::core::class::ReasonName,
    /// After this long.
    pub after: Duration,
}

/// Threads and timeouts of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workers {
    /// Worker threads in this process.
    pub threads: usize,
    /// After so long a silence a member is given up. With [`Protocol::Consumer`] what brokers take that are not told
    /// otherwise, until they are asked.
    pub session_timeout: Duration,
    /// What a worker is to its group after a restart.
    pub membership: Membership,
}

/// What a worker is to its group after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// A new member; what the one before it had waits for that one's session to end, or for its leave.
    Dynamic,
    /// The same member (KIP-345): it has at once what it had.
    Static,
}

impl Pipeline {
    /// The word of a lane of this pipeline: `source`, `control`, `retry.5s`.
    pub fn lane_label(&self, lane: Lane) -> &str {
        match lane {
            Lane::Source => "source",
            Lane::Control => "control",
            Lane::Held => "held",
            Lane::Tier(tier) => self.tier(tier).map_or("retry", |tier| &tier.label),
        }
    }

    /// The topic of a lane of this pipeline.
    pub fn lane_topic(&self, lane: Lane) -> &TopicName {
        match lane {
            Lane::Source | Lane::Held => &self.source,
            Lane::Control => &self.control.name,
            Lane::Tier(tier) => self.tier(tier).map_or(&self.source, |tier| &tier.topic.name),
        }
    }

    /// This pipeline, with these tiers to be drained.
    #[must_use]
    pub fn draining(mut self, tiers: Vec<Tier>) -> Self {
        let ladder = self.tiers.iter();
        self.policy.tiers = ladder.chain(&tiers).map(|tier| tier.topic.name.clone()).collect();
        self.policy.draining = tiers.iter().map(|tier| tier.delay).collect();
        self.drained = tiers;
        self
    }

    fn tier(&self, tier: TierIndex) -> Option<&Tier> {
        self.tiers.iter().chain(&self.drained).nth(tier.index())
    }
}
