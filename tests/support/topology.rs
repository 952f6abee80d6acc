//! A topology of one pipeline for tests, with its topics.

use std::io::Write as _;
use std::process::{Command, Output};

use redrive::topology::environment::Process;
use redrive::topology::model::Topology;

use crate::support::Kafka;

/// A pipeline under construction; what is not said is small and quick.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    name: String,
    source: Option<String>,
    start: String,
    handler: Option<String>,
    fail: Vec<String>,
    tiers: Vec<String>,
    retry: Vec<String>,
    /// Further keys of the pipeline.
    keys: Vec<String>,
    /// The keys of `order`.
    order: String,
    properties: Vec<String>,
    drain: &'static str,
    protocol: &'static str,
    /// Further keys of `workers`, which may replace the session of the draft's own.
    workers: Vec<String>,
    listen: String,
    partitions: i32,
}

#[allow(dead_code, reason = "every test target takes what it needs")]
impl Draft {
    /// A pipeline with a name of its own, whose handler passes everything through.
    pub(crate) fn new(kafka: &Kafka, partitions: i32) -> Self {
        let start = "\"earliest\"".to_owned();
        Self {
            name: kafka.name("p"),
            source: None,
            start,
            handler: None,
            fail: Vec::new(),
            tiers: Vec::new(),
            retry: Vec::new(),
            keys: Vec::new(),
            order: String::new(),
            properties: Vec::new(),
            drain: "5s",
            protocol: "classic",
            workers: Vec::new(),
            listen: "127.0.0.1:0".to_owned(),
            partitions,
        }
    }

    /// Tiers with these delays.
    pub(crate) fn tiers(mut self, delays: &[&str]) -> Self {
        self.tiers = delays.iter().map(|delay| format!("\"{delay}\"")).collect();
        self
    }

    /// Records whose key begins with `key` fail by this class up to and including attempt `attempts`, or always.
    pub(crate) fn fail(mut self, key: &str, attempts: Option<u32>, class: &str) -> Self {
        let attempts = attempts.map_or_else(String::new, |attempts| format!("attempts = {attempts}, "));
        self.fail.push(format!(
            "{{ key-prefix = \"{key}\", {attempts}class = \"{class}\", reason = \"made-up\" }}"
        ));
        self
    }

    /// A handler written in Rust, registered under this name.
    pub(crate) fn handler(mut self, name: &str) -> Self {
        self.handler = Some(format!("rust = {{ name = \"{name}\" }}"));
        self
    }

    /// A handler behind HTTP.
    pub(crate) fn http(mut self, url: &str) -> Self {
        self.handler = Some(format!("http = {{ url = \"{url}\", timeout = \"2m\" }}"));
        self
    }

    /// A further key of `retry`, with its value as TOML.
    pub(crate) fn retry(mut self, key: &str, value: &str) -> Self {
        self.retry.push(format!("{key} = {value}\n"));
        self
    }

    /// A further key of the pipeline itself, with its value as TOML.
    pub(crate) fn key(mut self, key: &str, value: &str) -> Self {
        self.keys.push(format!("{key} = {value}\n"));
        self
    }

    /// The keys of `order`, as TOML.
    pub(crate) fn order(mut self, lines: &str) -> Self {
        lines.clone_into(&mut self.order);
        self
    }

    /// A property of the client, with its value as TOML.
    pub(crate) fn property(mut self, name: &str, value: &str) -> Self {
        self.properties.push(format!("\"{name}\" = {value}\n"));
        self
    }

    /// How its group agrees. With `consumer` the session is the brokers', and transactions are shorter than the scripts'.
    pub(crate) const fn protocol(mut self, protocol: &'static str) -> Self {
        self.protocol = protocol;
        self
    }

    /// A further key of `workers`, with its value as TOML.
    pub(crate) fn workers(mut self, key: &str, value: &str) -> Self {
        self.workers.push(format!("{key} = {value}\n"));
        self
    }

    /// How long it may finish what runs when it is told to end.
    pub(crate) const fn drain(mut self, drain: &'static str) -> Self {
        self.drain = drain;
        self
    }

    /// Where it answers probes.
    pub(crate) fn listen(mut self, address: &str) -> Self {
        address.clone_into(&mut self.listen);
        self
    }

    /// Where it starts, as TOML.
    pub(crate) fn start(mut self, start: &str) -> Self {
        start.clone_into(&mut self.start);
        self
    }

    /// Reads a topic that is there already.
    pub(crate) fn source(mut self, topic: &str) -> Self {
        self.source = Some(topic.to_owned());
        self
    }

    /// The topic that it reads.
    pub(crate) fn source_topic(&self) -> String {
        self.source.clone().unwrap_or_else(|| format!("{}.in", self.name))
    }

    /// The topic that its results go to.
    pub(crate) fn output_topic(&self) -> String {
        format!("{}.out", self.name)
    }

    /// The text of the topology.
    pub(crate) fn text(&self, kafka: &Kafka) -> String {
        self.text_for(kafka.bootstrap())
    }

    /// The text of the topology for other brokers than those it was made on.
    pub(crate) fn text_for(&self, bootstrap: &str) -> String {
        let Self { name, start, tiers, order, drain, listen, protocol, .. } = self;
        let source = self.source_topic();
        let passthrough = || format!("passthrough = {{ fail = [{}] }}", self.fail.join(", "));
        let handler = self.handler.clone().unwrap_or_else(passthrough);
        let mut workers = self.workers.concat();
        let told = |key: &str| self.workers.iter().any(|line| line.starts_with(key));
        match *protocol {
            "consumer" if !told("transaction-timeout") => workers.push_str("transaction-timeout = \"4s\"\n"),
            "classic" if !told("session-timeout") => workers.push_str("session-timeout = \"6s\"\n"),
            _ => {}
        }
        let (tiers, retry, properties) = (tiers.join(", "), self.retry.concat(), self.properties.concat());
        let keys = self.keys.concat();
        format!(
            r#"app = "test"

[kafka]
bootstrap = ["{bootstrap}"]
protocol = "{protocol}"

[kafka.properties]
{properties}
[http]
listen = "{listen}"

[pipeline.{name}]
source = "{source}"
start = {start}
output = "{name}.out"
{keys}
[pipeline.{name}.handler]
{handler}

[pipeline.{name}.retry]
tiers = [{tiers}]
deadline = "1h"
{retry}
[pipeline.{name}.order]
{order}
[pipeline.{name}.topics]
replication = 1

[pipeline.{name}.workers]
drain = "{drain}"
{workers}"#
        )
    }

    /// Makes its topics in Kafka and hands the topology over.
    pub(crate) fn made(&self, kafka: &Kafka) -> Topology {
        let topology = Topology::compile(&self.text(kafka), "test.toml", &Process);
        let topology = topology.unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        for pipeline in &topology.pipelines {
            if self.source.is_none() {
                // Records of any age stay.
                kafka.create(pipeline.source.as_str(), self.partitions, &[("retention.ms", "-1")]);
            }
            if let Some(output) = &pipeline.output {
                kafka.create(output.as_str(), self.partitions, &[]);
            }
        }
        self.apply(kafka);
        topology
    }

    /// Makes or grows the topics that redrive owns, as a user does.
    pub(crate) fn apply(&self, kafka: &Kafka) {
        let applied = self.topics("apply", kafka);
        let told = [applied.stdout, applied.stderr].concat();
        assert!(applied.status.success(), "topics apply: {}", String::from_utf8_lossy(&told));
    }

    /// Runs `redrive topics` with this subcommand.
    pub(crate) fn topics(&self, subcommand: &str, kafka: &Kafka) -> Output {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(self.text(kafka).as_bytes()).expect("write the topology");
        let mut command = Command::new(env!("CARGO_BIN_EXE_redrive"));
        command.args(["topics", subcommand, "-f"]).arg(file.path()).output().expect("run redrive")
    }
}
