//! The pipeline of a round with its topics, which are made before it and removed after it.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use redrive::topology::environment::Process;
use redrive::topology::model::{Pipeline, Topology};
use tempfile::NamedTempFile;
use tokio::runtime::Runtime;
use tokio::time::Instant;

use crate::found;

const PARTITIONS: i32 = 6;
const PATIENCE: Duration = Duration::from_secs(60);

/// A pipeline with everything that it needs in Kafka.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) pipeline: Pipeline,
    pub(crate) bootstrap: String,
    file: NamedTempFile,
}

impl Stage {
    /// How long Kafka waits for a process before it gives it up.
    pub(crate) const SESSION: Duration = Duration::from_secs(6);
    /// How long a process may finish what runs when it is told to end.
    pub(crate) const DRAIN: Duration = Duration::from_secs(20);

    /// Makes the topics of a pipeline with this name, which no other has had on these brokers.
    pub(crate) fn set(
        name: &str,
        bootstrap: &str,
        handler: &str,
        redrive: &Path,
        runtime: &Runtime,
    ) -> Result<Self> {
        let text = topology(name, bootstrap, handler);
        let compiled = Topology::compile(&text, "soak.toml", &Process);
        let topology = compiled.map_err(|problems| anyhow!("{problems}"))?;
        let pipeline = topology.pipelines.into_iter().next().context("a pipeline")?;
        let mut file = NamedTempFile::new().context("making a file")?;
        file.write_all(text.as_bytes()).context("writing the topology")?;
        let stage = Self { pipeline, bootstrap: bootstrap.to_owned(), file };
        stage.make_topics(redrive, runtime)?;
        Ok(stage)
    }

    pub(crate) fn file(&self) -> &Path {
        self.file.path()
    }

    pub(crate) fn source(&self) -> &str {
        self.pipeline.source.as_str()
    }

    pub(crate) fn output(&self) -> Result<&str> {
        Ok(self.pipeline.output.as_ref().context("the pipeline has an output")?.as_str())
    }

    pub(crate) fn dead_letters(&self) -> &str {
        self.pipeline.dead_letter.name.as_str()
    }

    /// Source and output belong to the user; the others are made by `redrive topics apply`.
    fn make_topics(&self, redrive: &Path, runtime: &Runtime) -> Result<()> {
        // −1: as many replicas as the brokers do by default.
        let topic = |name| NewTopic::new(name, PARTITIONS, TopicReplication::Fixed(-1));
        let wanted = [topic(self.source()), topic(self.output()?)];
        let made = runtime.block_on(self.admin()?.create_topics(&wanted, &options()));
        for made in made.context("creating topics")? {
            made.map_err(|(topic, error)| anyhow!("creating topic `{topic}`: {error}"))?;
        }
        let until = Instant::now() + PATIENCE;
        loop {
            let mut apply = Command::new(redrive);
            apply.args(["topics", "apply", "-f"]).arg(self.file());
            let applied = apply.output().context("running redrive")?;
            if applied.status.success() {
                return Ok(());
            }
            // The node that is asked may not know the new topics yet.
            let told = [applied.stdout, applied.stderr].concat();
            let told = String::from_utf8_lossy(&told);
            ensure!(Instant::now() < until, "redrive topics apply failed ({})\n{told}", applied.status);
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Removes all its topics, so that a long run needs no more room than a short one.
    pub(crate) fn strike(self, runtime: &Runtime) -> Result<()> {
        let name = self.pipeline.name.as_str();
        let own = [format!("{name}."), format!("{APP}.{name}.")];
        let client: BaseConsumer =
            found::client(&self.bootstrap).create().context("creating a client for metadata")?;
        let metadata = client.fetch_metadata(None, PATIENCE).context("asking for all topics")?;
        let names = metadata.topics().iter().map(|topic| topic.name());
        let names: Vec<&str> = names.filter(|name| own.iter().any(|own| name.starts_with(own))).collect();
        let removed = runtime.block_on(self.admin()?.delete_topics(&names, &options()));
        for removed in removed.context("deleting topics")? {
            removed.map_err(|(topic, error)| anyhow!("deleting topic `{topic}`: {error}"))?;
        }
        Ok(())
    }

    fn admin(&self) -> Result<AdminClient<DefaultClientContext>> {
        found::client(&self.bootstrap).create().context("creating an admin client")
    }
}

fn options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(PATIENCE)).request_timeout(Some(PATIENCE))
}

const APP: &str = "soak";

fn topology(name: &str, bootstrap: &str, handler: &str) -> String {
    let (session, drain) = (Stage::SESSION.as_secs(), Stage::DRAIN.as_secs());
    format!(
        r#"app = "{APP}"

[kafka]
bootstrap = ["{bootstrap}"]

[http]
listen = "127.0.0.1:0"

[pipeline.{name}]
source = "{name}.in"
start  = "earliest"
output = "{name}.out"

[pipeline.{name}.handler.http]
url     = "{handler}"
timeout = "30s"

[pipeline.{name}.retry]
tiers             = ["500ms", "2s"]
last-tier-repeats = 2                 # one more than the most patient record needs
deadline          = "1h"
unknown           = "retry"           # a process that was stopped may miss an answer

[pipeline.{name}.topics]
replication = 3
min-isr     = 2

[pipeline.{name}.workers]
session-timeout     = "{session}s"
transaction-timeout = "4s"
drain               = "{drain}s"
"#
    )
}
