//! What the shipped topology makes of the demo's addresses: topics, group, and the rules of the ledger.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use redrive::topology::environment::{Environment, Process, Unreadable};
use redrive::topology::model::Topology;
use tokio::runtime::Runtime;

use crate::ledger::{Role, Rules};
use crate::{found, readback};

const PARTITIONS: i32 = 6;

/// The topology with everything that it needs in Kafka.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) rules: Rules,
    pub(crate) group: String,
    pub(crate) topics: Vec<(Role, String)>,
    variables: BTreeMap<&'static str, String>,
}

impl Stage {
    /// The shipped topology, from the project's root.
    pub(crate) const FILE: &str = "topology/orders.toml";
    /// The variable of the topology that says where probes and metrics listen.
    pub(crate) const LISTEN: &str = "HTTP_LISTEN";

    /// Compiles the topology and makes the topics.
    pub(crate) fn set(bootstrap: &str, handler: &str, runtime: &Runtime) -> Result<Self> {
        let variables =
            BTreeMap::from([("KAFKA_BOOTSTRAP", bootstrap.to_owned()), ("HANDLER_URL", handler.to_owned())]);
        let stage = Self::of(variables)?;
        for role in [Role::Source, Role::Output] {
            let topic = stage.topic(role)?;
            ensure!(
                !readback::exists(bootstrap, topic)?,
                "topic `{topic}` exists on these brokers; the demo needs its own"
            );
        }
        stage.make_topics(bootstrap, runtime)?;
        Ok(stage)
    }

    fn of(variables: BTreeMap<&'static str, String>) -> Result<Self> {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(Self::FILE);
        let topology =
            Topology::load(&file, &Variables(&variables)).map_err(|problems| anyhow!("{problems}"))?;
        let pipeline = topology.pipelines.first().context("the topology has no pipeline")?;
        let topics = readback::topics(pipeline).context("the pipeline has no output")?;
        let rules = readback::rules(pipeline);
        Ok(Self { rules, group: pipeline.group.clone(), topics, variables })
    }

    pub(crate) fn topic(&self, wanted: Role) -> Result<&str> {
        let found = self.topics.iter().find(|(role, _)| *role == wanted);
        found.map(|(_, topic)| topic.as_str()).with_context(|| format!("there is no topic for {wanted:?}"))
    }

    pub(crate) fn source(&self) -> &str {
        &self.rules.source
    }

    /// Source and output belong to the user; the others are made by `redrive topics apply`.
    fn make_topics(&self, bootstrap: &str, runtime: &Runtime) -> Result<()> {
        let admin: AdminClient<DefaultClientContext> =
            found::client(bootstrap).create().context("creating an admin client")?;
        // −1: as many replicas as the brokers do by default.
        let topic = |role| Ok(NewTopic::new(self.topic(role)?, PARTITIONS, TopicReplication::Fixed(-1)));
        let wanted: Vec<NewTopic<'_>> =
            [Role::Source, Role::Output].into_iter().map(topic).collect::<Result<_>>()?;
        let options = AdminOptions::new().operation_timeout(Some(Duration::from_secs(20)));
        let made = runtime.block_on(admin.create_topics(&wanted, &options));
        for made in made.context("creating topics")? {
            made.map_err(|(topic, error)| anyhow!("creating topic `{topic}`: {error}"))?;
        }
        let applied =
            self.redrive(&["topics", "apply", "-f", Self::FILE])?.output().context("running redrive")?;
        let told = String::from_utf8_lossy(&applied.stderr);
        ensure!(applied.status.success(), "redrive topics apply failed ({})\n{told}", applied.status);
        Ok(())
    }

    /// The redrive that was built beside this program, with the topology's variables.
    pub(crate) fn redrive(&self, arguments: &[&str]) -> Result<Command> {
        let own = std::env::current_exe().context("finding this program")?;
        let built =
            own.ancestors().nth(2).context("this program is not where examples are built")?.join("redrive");
        ensure!(built.exists(), "`{}` is missing; `make demo` builds it", built.display());
        let mut command = Command::new(built);
        command.args(arguments).envs(&self.variables).current_dir(env!("CARGO_MANIFEST_DIR"));
        Ok(command)
    }

    /// A command line that people can type.
    pub(crate) fn typed(&self, arguments: &str) -> String {
        let variables: Vec<String> =
            self.variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{} cargo run -q -- {arguments} -f {}", variables.join(" "), Self::FILE)
    }
}

/// The variables of the demo, then those of its own environment.
struct Variables<'a>(&'a BTreeMap<&'static str, String>);

impl Environment for Variables<'_> {
    fn variable(&self, name: &str) -> Result<String, Unreadable> {
        self.0.get(name).cloned().map_or_else(|| Process.variable(name), Ok)
    }

    fn file(&self, path: &Path) -> Result<String, Unreadable> {
        Process.file(path)
    }
}
