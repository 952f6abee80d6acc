//! A real Kafka for tests, started by the test run and ended with it, and plain ways to write and read it.

#![allow(clippy::expect_used, reason = "a test that cannot reach its broker has failed")]

use std::path::PathBuf;
use std::process::{Command, Stdio, id};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{env, thread};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::message::OwnedHeaders;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

#[allow(dead_code, reason = "every test target takes what it needs")]
pub(crate) mod found;

pub(crate) use found::Found;
use found::Isolation;

/// No call to a local broker takes longer, a restart included.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A running broker. Dropped, it is killed and its folder removed; so it is, too, when this process ends in any other way.
#[derive(Debug)]
pub(crate) struct Kafka {
    folder: PathBuf,
    bootstrap: String,
    /// What the script is run by; nothing where it runs by itself.
    within: Vec<String>,
}

/// Key and value of a record to write.
pub(crate) type KeyValue<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

#[allow(dead_code, reason = "every test target takes what it needs")]
impl Kafka {
    /// The broker that the tests of this process share.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<Kafka> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// A broker of one's own.
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// A broker of one's own with further properties, `key=value`.
    pub(crate) fn start_with(properties: &[&str]) -> Self {
        Self::start_within(Vec::new(), properties)
    }

    /// As [`Self::start_with`], started by a program that gives it its surroundings.
    pub(crate) fn start_within(within: Vec<String>, properties: &[&str]) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("redrive-kafka-{}-{number}", id()));
        let owner = id().to_string();
        let mut arguments = vec!["--owner", &owner, "--wipe"];
        arguments.extend(properties);
        let bootstrap = script(&within, "start", &folder, &arguments);
        Self { folder, bootstrap, within }
    }

    /// A broker of one's own that lives as long as this process, unless it is killed.
    pub(crate) fn leaked(properties: &[&str]) -> &'static Self {
        Box::leak(Box::new(Self::start_with(properties)))
    }

    /// `host:port` of the broker.
    pub(crate) fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// Ends it by SIGKILL; data and port are kept.
    pub(crate) fn kill(&self) {
        script(&self.within, "kill", &self.folder, &[]);
    }

    /// Ends it in order; data and port are kept.
    pub(crate) fn stop(&self) {
        script(&self.within, "stop", &self.folder, &[]);
    }

    /// Starts it again after [`Self::kill`] or [`Self::stop`], or ends it in order and starts it again.
    pub(crate) fn restart(&self) {
        script(&self.within, "restart", &self.folder, &[]);
    }

    /// What it has logged, up to now and since it was started first.
    pub(crate) fn log(&self) -> String {
        let read = |name| std::fs::read_to_string(self.folder.join("node-1").join(name));
        // There is none before it is started again.
        let before = read("log.before").unwrap_or_default();
        before + &read("log").expect("the broker's log")
    }

    /// Makes a topic with a name of its own that begins with `prefix`.
    pub(crate) fn topic(&self, prefix: &str, partitions: i32) -> String {
        let name = self.name(prefix);
        self.create(&name, partitions, &[]);
        name
    }

    /// A name that no other test uses.
    pub(crate) fn name(&self, prefix: &str) -> String {
        format!("{prefix}-{}-{}", id(), NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Makes a topic.
    pub(crate) fn create(&self, name: &str, partitions: i32, config: &[(&str, &str)]) {
        let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        topic.config.extend(config);
        let created = block_on(self.admin().create_topics([&topic], &options())).expect("create the topic");
        assert!(created.iter().all(Result::is_ok), "create {name}: {created:?}");
        // The controller has made it; the broker that others ask learns of it a moment later.
        for _ in 0..PATIENCE.as_millis() / 10 {
            if self.knows(name, partitions) {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("{name} is not known within {PATIENCE:?}");
    }

    fn knows(&self, topic: &str, partitions: i32) -> bool {
        let admin = self.admin();
        let metadata = admin.inner().fetch_metadata(Some(topic), PATIENCE).expect("ask for metadata");
        let led = metadata.topics().iter().flat_map(|topic| topic.partitions()).filter(|p| p.leader() >= 0);
        i32::try_from(led.count()) == Ok(partitions)
    }

    /// Removes a topic.
    pub(crate) fn delete(&self, name: &str) {
        let deleted = block_on(self.admin().delete_topics(&[name], &options())).expect("delete the topic");
        assert!(deleted.iter().all(Result::is_ok), "delete {name}: {deleted:?}");
    }

    /// Writes records without a transaction, to the given partition or where the key belongs.
    pub(crate) fn produce(&self, topic: &str, partition: Option<i32>, records: &[KeyValue<'_>]) {
        let plain = records.iter().map(|(key, value)| (*key, *value, OwnedHeaders::new()));
        self.produce_with_headers(topic, partition, plain);
    }

    /// As [`Self::produce`], with headers.
    pub(crate) fn produce_with_headers<'a>(
        &self,
        topic: &str,
        partition: Option<i32>,
        records: impl IntoIterator<Item = (Option<&'a [u8]>, Option<&'a [u8]>, OwnedHeaders)>,
    ) {
        let producer: BaseProducer = self
            .config()
            .set("partitioner", "murmur2_random")
            .set("linger.ms", "5")
            .set("message.max.bytes", "100000000")
            .create()
            .expect("make a producer");
        for (key, payload, headers) in records {
            let mut record = BaseRecord::<[u8], [u8]> {
                topic,
                partition,
                payload,
                key,
                timestamp: None,
                headers: Some(headers),
                delivery_opaque: (),
            };
            while let Err((error, back)) = producer.send(record) {
                assert_eq!(
                    error.rdkafka_error_code(),
                    Some(rdkafka::types::RDKafkaErrorCode::QueueFull),
                    "produce to {topic}"
                );
                producer.poll(Duration::from_millis(10));
                record = back;
            }
        }
        producer.flush(PATIENCE).expect("flush");
    }

    /// Everything committed in a topic up to its last stable offset, by partition and offset.
    pub(crate) fn read(&self, topic: &str) -> Vec<Found> {
        self.read_by(topic, Isolation::Committed)
    }

    /// As [`Self::read`], with what was never committed or was aborted.
    pub(crate) fn read_uncommitted(&self, topic: &str) -> Vec<Found> {
        self.read_by(topic, Isolation::Uncommitted)
    }

    fn read_by(&self, topic: &str, isolation: Isolation) -> Vec<Found> {
        found::records(&self.bootstrap, topic, isolation).unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// Settings of a client of this broker.
    pub(crate) fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.bootstrap);
        config
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.config().create().expect("make an admin client")
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        // The watchdog does it where this fails.
        let _ = command(&[], "wipe", &self.folder, &[]).status();
    }
}

fn options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(PATIENCE)).request_timeout(Some(PATIENCE))
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
}

fn command(within: &[String], name: &str, folder: &PathBuf, arguments: &[&str]) -> Command {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/kafka").to_owned();
    let mut words = within.iter().cloned().chain([script]);
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).arg(name).arg(folder).args(arguments).stdin(Stdio::null());
    command
}

/// The last line that the script prints.
fn script(within: &[String], name: &str, folder: &PathBuf, arguments: &[&str]) -> String {
    let output = command(within, name, folder, arguments).output().expect("run scripts/kafka");
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "scripts/kafka {name}: {talk}");
    String::from_utf8_lossy(&output.stdout).lines().last().unwrap_or_default().to_owned()
}
