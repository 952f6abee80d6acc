//! Topics, topologies and what a group has committed.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use rdkafka::TopicPartitionList;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use tokio::runtime::Runtime;

use crate::found;
use crate::load::VERSION;
use crate::worker::now;

/// Nothing here takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether a pipeline has a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    Latest,
    Without,
}

/// The brokers, and a folder for what is written to files.
pub(crate) struct Stage {
    pub(crate) bootstrap: String,
    folder: PathBuf,
    runtime: Runtime,
    named: Cell<u32>,
}

/// A pipeline that passes everything through.
#[derive(Clone, Debug)]
pub(crate) struct Pipeline {
    pub(crate) name: String,
    pub(crate) source: String,
    pub(crate) file: PathBuf,
}

impl Pipeline {
    pub(crate) fn group(&self) -> String {
        format!("bench.{}", self.name)
    }
}

impl Stage {
    pub(crate) fn new(bootstrap: &str, folder: &Path) -> Result<Self> {
        let runtime = Runtime::new().context("starting a runtime")?;
        Ok(Self { bootstrap: bootstrap.to_owned(), folder: folder.to_owned(), runtime, named: Cell::new(0) })
    }

    /// A name that nothing else has.
    pub(crate) fn name(&self, what: &str) -> String {
        self.named.set(self.named.get() + 1);
        format!("{what}-{}-{}", std::process::id(), self.named.get())
    }

    /// Makes a topic with a name of its own.
    pub(crate) fn topic(&self, what: &str, partitions: i32) -> Result<String> {
        let name = self.name(what);
        let admin: AdminClient<DefaultClientContext> =
            found::client(&self.bootstrap).create().context("creating an admin client")?;
        let topic = NewTopic::new(&name, partitions, TopicReplication::Fixed(1));
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
        let made = self.runtime.block_on(admin.create_topics([&topic], &options));
        for made in made.context("creating a topic")? {
            made.map_err(|(topic, error)| anyhow!("creating topic `{topic}`: {error}"))?;
        }
        // The controller has made it; the broker that others ask learns of it a moment later.
        let begun = now();
        let known = || {
            let found = admin.inner().fetch_metadata(Some(&name), PATIENCE).context("asking for metadata")?;
            let led = found.topics().iter().flat_map(|topic| topic.partitions()).filter(|p| p.leader() >= 0);
            Ok::<bool, anyhow::Error>(i32::try_from(led.count()) == Ok(partitions))
        };
        while !known()? {
            ensure!(begun.elapsed() < PATIENCE, "topic `{name}` is not known");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(name)
    }

    /// Makes a pipeline that reads a topic of so many partitions, with its own topics.
    pub(crate) fn pipeline(
        &self,
        source: &str,
        partitions: i32,
        guard: Guard,
        window: u32,
    ) -> Result<Pipeline> {
        let name = self.name(match guard {
            Guard::Latest => "guarded",
            Guard::Without => "plain",
        });
        let output = self.topic(&format!("{name}-out"), partitions)?;
        let order = match guard {
            Guard::Latest => format!("guard = \"latest\"\nversion = {{ header = \"{VERSION}\" }}\n"),
            Guard::Without => String::new(),
        };
        let Self { bootstrap, .. } = self;
        let text = format!(
            r#"app = "bench"

[kafka]
bootstrap = ["{bootstrap}"]

[http]
listen = "127.0.0.1:0"

[pipeline.{name}]
source = "{source}"
start = "earliest"
output = "{output}"
handler.passthrough = {{}}

[pipeline.{name}.retry]
tiers = ["1s"]
deadline = "1h"

[pipeline.{name}.order]
{order}
[pipeline.{name}.workers]
window = {window}

[pipeline.{name}.topics]
replication = 1
"#
        );
        let file = self.folder.join(format!("{name}.toml"));
        std::fs::write(&file, text).context("writing a topology")?;
        let pipeline = Pipeline { name, source: source.to_owned(), file };
        let applied = redrive()?.args(["topics", "apply", "-f"]).arg(&pipeline.file).output();
        let applied = applied.context("running redrive")?;
        let told = [applied.stdout, applied.stderr].concat();
        let told = String::from_utf8_lossy(&told);
        ensure!(applied.status.success(), "redrive topics apply failed ({})\n{told}", applied.status);
        Ok(pipeline)
    }

    /// Asks how far a group has come in a topic.
    pub(crate) fn committed(&self, group: &str, topic: &str, partitions: i32) -> Result<Committed> {
        let client =
            found::client(&self.bootstrap).set("group.id", group).create().context("creating a consumer")?;
        let mut wanted = TopicPartitionList::new();
        wanted.add_partition_range(topic, 0, partitions - 1);
        Ok(Committed { client, wanted })
    }
}

/// How far a group has come in a topic.
pub(crate) struct Committed {
    client: BaseConsumer,
    wanted: TopicPartitionList,
}

impl Committed {
    /// The committed offsets of all partitions together.
    pub(crate) fn sum(&self) -> Result<i64> {
        let begun = now();
        // A coordinator may be on its way.
        let found = loop {
            match self.client.committed_offsets(self.wanted.clone(), PATIENCE) {
                Ok(found) => break found,
                Err(error) if begun.elapsed() > PATIENCE => {
                    return Err(error).context("asking for committed offsets");
                }
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        Ok(found.elements().iter().filter_map(|found| found.offset().to_raw()).map(|at| at.max(0)).sum())
    }
}

/// The redrive that was built beside this program.
pub(crate) fn redrive() -> Result<Command> {
    let own = std::env::current_exe().context("finding this program")?;
    let built =
        own.ancestors().nth(2).context("this program is not where examples are built")?.join("redrive");
    ensure!(built.exists(), "`{}` is missing; `make bench` builds it", built.display());
    let mut command = Command::new(built);
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    Ok(command)
}
