//! A topology of one pipeline for tests, with its topics.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Command;

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
    partitions: i32,
}

#[allow(dead_code, reason = "every test target takes what it needs")]
impl Draft {
    /// A pipeline with a name of its own, whose handler passes everything through.
    pub(crate) fn new(kafka: &Kafka, partitions: i32) -> Self {
        let start = "\"earliest\"".to_owned();
        let (fail, tiers) = (Vec::new(), Vec::new());
        Self { name: kafka.name("p"), source: None, start, handler: None, fail, tiers, partitions }
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
        self.handler = Some(name.to_owned());
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

    /// The text of the topology.
    pub(crate) fn text(&self, kafka: &Kafka) -> String {
        let Self { name, start, fail, tiers, .. } = self;
        let source = self.source.clone().unwrap_or_else(|| format!("{name}.in"));
        let mut text = format!("app = \"test\"\n\n[kafka]\nbootstrap = [\"{}\"]\n\n", kafka.bootstrap());
        let _ =
            write!(text, "[http]\nlisten = \"127.0.0.1:0\"\n\n[pipeline.{name}]\nsource = \"{source}\"\n");
        let _ = write!(text, "start = {start}\noutput = \"{name}.out\"\n\n[pipeline.{name}.handler]\n");
        match &self.handler {
            Some(handler) => writeln!(text, "rust = {{ name = \"{handler}\" }}"),
            None => writeln!(text, "passthrough = {{ fail = [{}] }}", fail.join(", ")),
        }
        .unwrap();
        let _ =
            write!(text, "\n[pipeline.{name}.retry]\ntiers = [{}]\ndeadline = \"1h\"\n\n", tiers.join(", "));
        let _ = write!(text, "[pipeline.{name}.topics]\nreplication = 1\n\n");
        let _ = write!(text, "[pipeline.{name}.workers]\nsession-timeout = \"6s\"\ndrain = \"5s\"\n");
        text
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
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(self.text(kafka).as_bytes()).expect("write the topology");
        let mut command = Command::new(env!("CARGO_BIN_EXE_redrive"));
        let applied = command.args(["topics", "apply", "-f"]).arg(file.path()).output().expect("run redrive");
        assert!(applied.status.success(), "topics apply: {}", String::from_utf8_lossy(&applied.stderr));
    }
}
