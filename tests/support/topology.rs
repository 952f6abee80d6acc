//! A topology of one pipeline for tests, with its topics.

use std::time::Duration;

use redrive::core::class::{Class, ReasonName};
use redrive::core::position::TopicName;
use redrive::topology::environment::Process;
use redrive::topology::model::{FailRule, HandlerSpec, OwnTopic, Passthrough, Pipeline, Tier, Topology};

use crate::support::Kafka;

/// A pipeline under construction; what is not said is small and quick.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    name: String,
    partitions: i32,
    topology: Topology,
}

#[allow(dead_code, reason = "every test target takes what it needs")]
impl Draft {
    /// A pipeline with a name of its own, whose handler passes everything through.
    pub(crate) fn new(kafka: &Kafka, partitions: i32) -> Self {
        let name = kafka.name("p");
        let topology = topology(&name, kafka.bootstrap());
        Self { name, partitions, topology }
    }

    /// Tiers with these delays.
    pub(crate) fn tiers(mut self, delays: &[Duration]) -> Self {
        let name = self.name.clone();
        let pipeline = self.pipeline_mut();
        pipeline.tiers = delays
            .iter()
            .map(|delay| {
                let label = format!("retry.{}ms", delay.as_millis());
                let topic = own(&format!("test.{name}.{label}"), Some(Duration::from_secs(3600)));
                Tier { label, delay: *delay, topic }
            })
            .collect();
        pipeline.policy.tiers = pipeline.tiers.iter().map(|tier| tier.topic.name.clone()).collect();
        pipeline.policy.ladder.delays = delays.to_vec();
        self
    }

    /// Records whose key begins with `key` fail up to and including attempt `attempts`, or always.
    pub(crate) fn fail(mut self, key: &str, attempts: Option<u32>, class: Class) -> Self {
        let reason: ReasonName = "made-up".parse().expect("a reason");
        let rule =
            FailRule { key_prefix: key.as_bytes().to_vec(), attempts, class, reason, after: Duration::ZERO };
        if let HandlerSpec::Passthrough(Passthrough { fail }) = &mut self.pipeline_mut().handler {
            fail.push(rule);
        }
        self
    }

    /// Changes anything else.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Pipeline)) -> Self {
        change(self.pipeline_mut());
        self
    }

    /// Makes its topics in Kafka and hands the topology over.
    pub(crate) fn made(self, kafka: &Kafka) -> Topology {
        for pipeline in &self.topology.pipelines {
            // Records of any age stay.
            kafka.create(pipeline.source.as_str(), self.partitions, &[("retention.ms", "-1")]);
        }
        self.made_but_source(kafka)
    }

    /// As [`Self::made`], where the source is there already.
    pub(crate) fn made_but_source(self, kafka: &Kafka) -> Topology {
        for pipeline in &self.topology.pipelines {
            let own = pipeline.tiers.iter().map(|tier| &tier.topic.name);
            let output = pipeline.output.iter();
            for topic in own.chain([&pipeline.dead_letter.name, &pipeline.state.name]).chain(output) {
                kafka.create(topic.as_str(), self.partitions, &[]);
            }
        }
        self.topology
    }

    fn pipeline_mut(&mut self) -> &mut Pipeline {
        self.topology.pipelines.first_mut().expect("one pipeline")
    }
}

fn topology(name: &str, bootstrap: &str) -> Topology {
    let text = format!(
        r#"
        app = "test"
        kafka.bootstrap = ["{bootstrap}"]
        http.listen = "127.0.0.1:0"

        [pipeline.{name}]
        source = "{name}.in"
        start = "earliest"
        output = "{name}.out"
        handler.passthrough = {{}}
        retry = {{ tiers = [], deadline = "1h", in-place = {{ base = "1ms", cap = "2ms", budget = "1s" }} }}
        dead-letter.retention = "1h"
        topics.replication = 1
        workers = {{ session-timeout = "6s", drain = "5s" }}
        "#
    );
    Topology::compile(&text, "test.toml", &Process).unwrap_or_else(|diagnostics| panic!("{diagnostics}"))
}

fn own(name: &str, retention: Option<Duration>) -> OwnTopic {
    OwnTopic { name: TopicName::new(name), retention }
}
