//! Reads a finished run back from Kafka, as any consumer with `read_committed` sees it, for the [ledger](crate::ledger).

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode;
use redrive::core::policy::Source;
use redrive::topology::model::Pipeline;

use crate::ends::Asker;
use crate::found::{self, Found, Isolation, client};
use crate::ledger::{Commit, Cut, Ends, History, Offsets, Order, OutputValue, Role, Rules, Seen, Start};

const PATIENCE: Duration = Duration::from_secs(60);
/// What a loaded broker takes to end a transaction that timed out.
const NOTICED_WITHIN: Duration = Duration::from_secs(20);

/// The topics of a pipeline by their roles; `None` where it has no output.
pub(crate) fn topics(pipeline: &Pipeline) -> Option<Vec<(Role, String)>> {
    let mut topics = vec![(Role::Source, pipeline.source.to_string())];
    let tiers = pipeline.tiers.iter().map(|tier| tier.topic.name.to_string()).enumerate();
    topics.extend(tiers.map(|(index, name)| (Role::Tier(index), name)));
    topics.push((Role::Output, pipeline.output.as_ref()?.to_string()));
    topics.push((Role::DeadLetter, pipeline.dead_letter.name.to_string()));
    topics.push((Role::Control, pipeline.control.name.to_string()));
    topics.push((Role::Cases, pipeline.cases.name.to_string()));
    topics.push((Role::State, pipeline.state.name.to_string()));
    Some(topics)
}

/// What a pipeline promises whose handler gives back what it got, once nothing is left to do.
pub(crate) fn rules(pipeline: &Pipeline) -> Rules {
    let policy = &pipeline.policy;
    let in_header = |source: &Source| match source {
        Source::Header(name) => name.as_str().to_owned(),
        Source::Json(place) => panic!("the ledger does not look into values, where `{place}` is"),
    };
    let millis = |delay: &Duration| i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
    Rules {
        source: pipeline.source.to_string(),
        delays: policy.ladder.delays.iter().map(millis).collect(),
        most_attempts: policy.ladder.most_attempts(),
        event_id: policy.identity.event_id.as_ref().map(in_header),
        output: OutputValue::AsSource,
        order: Order::FirstTries,
        cut: Cut::Drained,
        offsets: Offsets::Stay,
        longest_open: millis(&(policy.flow.transaction_timeout + NOTICED_WITHIN)),
    }
}

/// Waits until the group has committed its lanes to their ends, once nothing is left to do: an idle worker commits past the
/// markers of the last transactions by itself. To be asked before the processes are told to end.
pub(crate) fn committed_to_the_ends(bootstrap: &str, group: &str, topics: &[(Role, String)]) -> Result<()> {
    let lanes: Vec<_> = topics.iter().filter(|(role, _)| role.is_lane()).cloned().collect();
    let asker = Asker::new(bootstrap, group, &lanes)?;
    let until = now() + PATIENCE;
    loop {
        // A coordinator may move meanwhile: then it is asked again.
        match asker.ends().and_then(|ends| Ok(behind(&ends, &asker.commits()?))) {
            Ok(behind) if behind.is_empty() => return Ok(()),
            Ok(_) | Err(_) if now() < until => thread::sleep(Duration::from_millis(100)),
            Ok(behind) => {
                bail!("not committed to the ends within {} s: {}", PATIENCE.as_secs(), behind.join(", "))
            }
            Err(error) => return Err(error.context("asking whether the group has committed to the ends")),
        }
    }
}

/// The lanes that are not committed to their ends, and by how much.
fn behind(ends: &[Ends], commits: &[Commit]) -> Vec<String> {
    let lag = |ends: &Ends| {
        let own = commits.iter().find(|own| (own.role, own.partition) == (ends.role, ends.partition));
        let next = own.map_or(ends.start, |own| own.offset);
        (next < ends.end).then(|| format!("{:?}/{} at `{next}` of `{}`", ends.role, ends.partition, ends.end))
    };
    ends.iter().filter_map(lag).collect()
}

/// Everything that lies in the topics, and what the group has committed of it, once all transactions have ended.
pub(crate) fn history(
    bootstrap: &str,
    group: &str,
    topics: &[(Role, String)],
    starts: Option<Vec<Start>>,
) -> Result<History> {
    let asker = Asker::new(bootstrap, group, topics)?;
    settled(&asker)?;
    let mut records = Vec::new();
    for (role, topic) in topics.iter().filter(|(role, _)| *role != Role::State) {
        let found = found::records(bootstrap, topic, Isolation::Committed)?;
        records.extend(found.into_iter().map(|found| seen(found, *role)));
    }
    Ok(History { records, commits: asker.commits()?, ends: asker.ends()?, starts })
}

/// Waits until no transaction is open; what a killed process left open ends in time. What stays open is the ledger's to
/// judge.
fn settled(asker: &Asker) -> Result<()> {
    let until = now() + PATIENCE;
    let open = |ends: Vec<Ends>| ends.iter().any(|ends| ends.stable < ends.end);
    while open(asker.ends()?) && now() < until {
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

#[allow(dead_code, reason = "every test target takes what it needs")]
/// The committed offsets of a group in a topic.
pub(crate) fn commits(bootstrap: &str, group: &str, topic: &str, role: Role) -> Result<Vec<Commit>> {
    Asker::new(bootstrap, group, &[(role, topic.to_owned())])?.commits()
}

#[allow(dead_code, reason = "every test target takes what it needs")]
/// Whether the topic is there.
pub(crate) fn exists(bootstrap: &str, topic: &str) -> Result<bool> {
    let consumer: BaseConsumer = client(bootstrap).create().context("creating a consumer")?;
    let metadata = consumer.fetch_metadata(Some(topic), PATIENCE).context("asking for metadata")?;
    let unknown = RDKafkaErrorCode::UnknownTopicOrPartition;
    Ok(metadata.topics().iter().all(|found| found.error().map(RDKafkaErrorCode::from) != Some(unknown)))
}

pub(crate) fn seen(found: Found, role: Role) -> Seen {
    let Found { partition, offset, timestamp, key, value, headers } = found;
    Seen { role, partition, offset, timestamp: timestamp.unwrap_or(0), key, value, headers }
}

#[expect(clippy::disallowed_methods, reason = "the bound of a wait")]
fn now() -> Instant {
    Instant::now()
}
