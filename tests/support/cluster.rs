//! Three Kafka nodes, of which one at a time may be killed, stopped and started again: what is committed stays, and work
//! goes on.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rdkafka::consumer::{BaseConsumer, Consumer};

use crate::found::{self, Isolation};

/// One of the nodes, by its number in `scripts/kafka`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node(pub(crate) usize);

/// Running nodes. Dropped, they are killed and their folder removed; so it is, too, when this process ends in any other way.
#[derive(Debug)]
pub(crate) struct Cluster {
    folder: PathBuf,
    bootstrap: String,
}

/// A partition with something behind its last stable offset: a transaction is open there.
pub(crate) type Open = (String, i32);

/// A node that was killed is back in step within this, on a machine that is busy.
const BACK_WITHIN: Duration = Duration::from_secs(120);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(100);
/// A single question to the nodes, of which one may be down.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

#[allow(dead_code, reason = "every test target takes what it needs")]
impl Cluster {
    /// All of them.
    pub(crate) const NODES: [Node; 3] = [Node(1), Node(2), Node(3)];

    /// Starts three nodes whose data is in this folder; topics have three replicas there, of which two must be in step.
    pub(crate) fn start(folder: PathBuf) -> Result<Self> {
        // Made before anything runs: an interrupted start is wiped too.
        let mut cluster = Self { folder, bootstrap: String::new() };
        let owner = std::process::id().to_string();
        cluster.bootstrap = cluster.script("start", &["--nodes", "3", "--owner", &owner, "--wipe"])?;
        Ok(cluster)
    }

    /// The addresses of all nodes, apart by commas.
    pub(crate) fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// Ends a node by SIGKILL; data and port are kept.
    pub(crate) fn kill(&self, node: Node) -> Result<()> {
        self.script("kill", &[&node.0.to_string()]).map(drop)
    }

    /// Ends a node in order: others lead its partitions before it goes. Data and port are kept.
    pub(crate) fn stop(&self, node: Node) -> Result<()> {
        self.script("stop", &[&node.0.to_string()]).map(drop)
    }

    /// Starts a node again after [`Self::kill`] or [`Self::stop`], and waits until it serves.
    pub(crate) fn restart(&self, node: Node) -> Result<()> {
        self.script("restart", &[&node.0.to_string()]).map(drop)
    }

    /// Waits until every partition is led as it was at first, and all its replicas are in step: until then no further node
    /// may go, and leaders still move.
    pub(crate) fn wait_until_whole(&self) -> Result<()> {
        let client: BaseConsumer =
            found::client(&self.bootstrap).create().context("creating a client for metadata")?;
        wait("all nodes lead again, and all replicas are in step", || whole(&client))
    }

    /// Partitions of any topic, Kafka's own included, in which a transaction is still open.
    pub(crate) fn open_transactions(&self) -> Result<Vec<Open>> {
        let client = |isolation| found::reader(&self.bootstrap, &[], isolation);
        let (committed, uncommitted) = (client(Isolation::Committed)?, client(Isolation::Uncommitted)?);
        let end = |client: &BaseConsumer, (topic, partition): &Open| {
            let ends = client.fetch_watermarks(topic, *partition, ANSWER_WITHIN);
            ends.map(|(_, end)| end).with_context(|| format!("asking where `{topic}/{partition}` ends"))
        };
        let mut open = Vec::new();
        for place in partitions(&committed)? {
            // The stable one is asked for last: what lies behind it lay there all the while.
            let all = end(&uncommitted, &place)?;
            if all > end(&committed, &place)? {
                open.push(place);
            }
        }
        Ok(open)
    }

    /// Waits until no transaction is open anywhere; those that somebody left are ended by Kafka after their timeout.
    pub(crate) fn wait_until_stable(&self) -> Result<()> {
        let mut open = Vec::new();
        let waited = wait("no transaction is open", || {
            // A leader may move meanwhile; then it is asked again.
            let Ok(now) = self.open_transactions() else { return Ok(false) };
            open = now;
            Ok(open.is_empty())
        });
        waited.with_context(|| format!("open: {open:?}"))
    }

    fn script(&self, what: &str, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/kafka"));
        command.arg(what).arg(&self.folder).args(arguments).stdin(Stdio::null());
        let output = command.output().context("running scripts/kafka")?;
        let talk = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "scripts/kafka {what} {arguments:?}: {talk}");
        Ok(String::from_utf8_lossy(&output.stdout).lines().last().unwrap_or_default().to_owned())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Err(error) = self.script("wipe", &[]) {
            eprintln!("Kafka in `{}` could not be stopped: {error:#}", self.folder.display());
        }
    }
}

fn whole(client: &BaseConsumer) -> Result<bool> {
    let Ok(metadata) = client.fetch_metadata(None, ANSWER_WITHIN) else { return Ok(false) };
    let partitions = || metadata.topics().iter().flat_map(|topic| topic.partitions());
    Ok(metadata.brokers().len() == Cluster::NODES.len()
        && partitions()
            .all(|partition| partition.leader() >= 0 && partition.isr().len() == partition.replicas().len()))
}

fn partitions(client: &BaseConsumer) -> Result<Vec<Open>> {
    let metadata = client.fetch_metadata(None, ANSWER_WITHIN).context("asking for all topics")?;
    let of = |topic: &rdkafka::metadata::MetadataTopic| -> Vec<Open> {
        topic.partitions().iter().map(|partition| (topic.name().to_owned(), partition.id())).collect()
    };
    Ok(metadata.topics().iter().flat_map(of).collect())
}

/// Looks again and again until it is so.
#[expect(clippy::disallowed_methods, reason = "the bound of a wait")]
pub(crate) fn wait(what: &str, mut is: impl FnMut() -> Result<bool>) -> Result<()> {
    let begun = Instant::now();
    while !is()? {
        if begun.elapsed() > BACK_WITHIN {
            bail!("not within {} s: {what}", BACK_WITHIN.as_secs());
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}
