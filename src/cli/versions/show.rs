//! `redrive versions KEY…`: what is applied of these keys, and what is held behind them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use super::gather::{AppliedVersion, Gathered, HeldAt, OfKey, Wanted};
use super::{Common, why, words};
use crate::cli::check::Output;
use crate::core::guard::Version;
use crate::core::policy::{Guard, OrderPolicy};
use crate::core::position::Partition;
use crate::core::state::{Blocker, DeadPredecessor};
use crate::core::time::Timestamp;
use crate::kafka::state_log::StateLog;
use crate::topology::model::Topology;

/// So many held records of a key are told in text.
const TOLD: usize = 20;

/// Prints what is known of keys: exit code 1 where nothing is known of one.
pub(super) fn run(
    keys: &[String],
    common: &Common,
    topology: &Topology,
    out: &mut dyn Write,
) -> Result<ExitCode> {
    let pipeline = common.pipeline(topology)?;
    let wanted = keys.iter().map(|text| common.key(text)).collect::<Result<BTreeSet<Vec<u8>>, _>>()?;
    let mut gathered = Gathered::new(Wanted::Keys(wanted.clone()));
    StateLog::open(&topology.kafka, pipeline)?.read(|logged| gathered.take(logged))?;
    let shown = Shown::of(&pipeline.name, &pipeline.policy.order, &wanted, &gathered);
    match common.output {
        Output::Text => shown.in_text(out)?,
        Output::Json => {
            serde_json::to_writer_pretty(&mut *out, &shown)?;
            writeln!(out)?;
        }
    }
    Ok(if shown.unknown.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// What is known of the keys that were asked for.
#[derive(Debug, Serialize)]
struct Shown {
    pipeline: String,
    keys: Vec<ShownKey>,
    unknown: Vec<UnknownKey>,
}

/// A key of which nothing is known.
#[derive(Debug, Serialize)]
struct UnknownKey {
    key: String,
    key_base64: String,
}

/// One key in one task.
#[derive(Debug, Serialize)]
struct ShownKey {
    key: String,
    key_base64: String,
    partition: i32,
    applied: Option<ShownApplied>,
    waiting: Vec<ShownOrigin>,
    dead: Option<ShownOrigin>,
    held: Vec<ShownHeld>,
    unreadable: Vec<String>,
    /// What lets it go on without what is missing.
    #[serde(skip)]
    skip: Option<String>,
}

#[derive(Debug, Serialize)]
struct ShownApplied {
    /// `None` where a count has begun and nothing of it is applied.
    version: Option<i64>,
    first: Option<i64>,
    at: i64,
    origin: String,
    #[serde(skip)]
    when: String,
}

#[derive(Debug, Serialize)]
struct ShownOrigin {
    origin: String,
    version: Option<i64>,
}

#[derive(Debug, Serialize)]
struct ShownHeld {
    place: i64,
    version: Option<i64>,
    origin: Option<String>,
    since: i64,
    why: String,
    /// Of processing time, at most: the clock of the task is noted every minute.
    gap_left_ms: Option<u64>,
    #[serde(skip)]
    when: String,
}

impl Shown {
    fn of(pipeline: &str, order: &OrderPolicy, wanted: &BTreeSet<Vec<u8>>, gathered: &Gathered) -> Self {
        let known: BTreeSet<&Vec<u8>> = gathered.keys.keys().map(|(key, _)| key).collect();
        let unknown = wanted.iter().filter(|key| !known.contains(key));
        let unknown =
            unknown.map(|key| UnknownKey { key: words::shown(key), key_base64: words::base64(key) });
        let keys = gathered.keys.iter();
        let keys = keys.map(|((key, partition), of_key)| {
            let clock = clock_of(&gathered.clocks, *partition);
            ShownKey::of(order, (key, *partition), of_key, clock)
        });
        Self { pipeline: pipeline.to_owned(), keys: keys.collect(), unknown: unknown.collect() }
    }

    fn in_text(&self, out: &mut dyn Write) -> io::Result<()> {
        for key in &self.keys {
            key.in_text(&self.pipeline, out)?;
        }
        for UnknownKey { key, .. } in &self.unknown {
            writeln!(out, "`{key}`  nothing is known of it")?;
        }
        if !self.unknown.is_empty() {
            writeln!(
                out,
                "next: look at the spelling; --base64 takes keys that are not text, and `redrive versions ls --held \
                 --pipeline {}` lists keys that wait",
                self.pipeline
            )?;
        }
        Ok(())
    }
}

/// What the clock of a task showed when it was noted last.
pub(super) fn clock_of(clocks: &BTreeMap<Partition, Duration>, partition: Partition) -> Duration {
    clocks.get(&partition).copied().unwrap_or_default()
}

impl ShownKey {
    fn of(
        order: &OrderPolicy,
        (key, partition): (&[u8], Partition),
        of_key: &OfKey,
        clock: Duration,
    ) -> Self {
        let origin = |origin: &crate::core::position::Origin, version: Option<Version>| ShownOrigin {
            origin: origin.to_string(),
            version: version.map(|version| version.0),
        };
        let waiting = of_key.blockers.waiting.iter();
        let dead = of_key.blockers.dead.as_ref();
        Self {
            key: words::shown(key),
            key_base64: words::base64(key),
            partition: partition.0,
            applied: of_key.applied.as_ref().map(ShownApplied::of),
            waiting: waiting.map(|Blocker { origin: of, version }| origin(of, *version)).collect(),
            dead: dead.map(|DeadPredecessor { origin: of, version, .. }| origin(of, *version)),
            held: of_key
                .held
                .iter()
                .map(|(place, held)| ShownHeld::of(order, of_key, (*place, held), clock))
                .collect(),
            unreadable: of_key.unreadable.values().cloned().collect(),
            skip: why::skips_to(order, of_key)
                .map(|to| format!("redrive versions skip {} --to {to}", words::argument(key))),
        }
    }

    fn in_text(&self, pipeline: &str, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "`{}`  task {}", self.key, self.partition)?;
        match &self.applied {
            None => writeln!(out, "  applied  nothing")?,
            Some(ShownApplied { version: Some(version), first, origin, when, .. }) => {
                let count = first.map(|first| format!("; its count began with {first}")).unwrap_or_default();
                writeln!(out, "  applied  version {version} at {when} by {origin}{count}")?;
            }
            // With a record that has no effect yet, or with a skip.
            Some(ShownApplied { version: None, first, origin, when, .. }) => {
                let first = first.unwrap_or_default();
                writeln!(out, "  applied  nothing; its count began with {first} at {when} by {origin}")?;
            }
        }
        let version =
            |version: Option<i64>| version.map(|version| format!("version {version}, ")).unwrap_or_default();
        for ShownOrigin { origin, version: of } in &self.waiting {
            writeln!(out, "  waits    {}{origin}, in a tier", version(*of))?;
        }
        if let Some(ShownOrigin { origin, version: of }) = &self.dead {
            writeln!(out, "  dead     {}dead letter {origin}#1", version(*of))?;
        }
        for held in self.held.iter().take(TOLD) {
            let what = held
                .version
                .map_or_else(|| format!("place {}", held.place), |version| format!("version {version}"));
            let origin = held.origin.as_deref().unwrap_or_default();
            writeln!(out, "  held     {what} ({origin}) since {}: {}", held.when, held.why)?;
            match held.gap_left_ms {
                Some(0) => writeln!(out, "           its gap may be over")?,
                Some(left) => {
                    let left = words::lasting(Duration::from_millis(left));
                    writeln!(out, "           its gap is over after at most {left} of processing time")?;
                }
                None => {}
            }
        }
        if let Some(more) = self.held.len().checked_sub(TOLD).filter(|more| *more > 0) {
            writeln!(out, "  held     {more} more, which --output json lists")?;
        }
        if let Some(skip) = &self.skip {
            writeln!(
                out,
                "  next: `{skip} --pipeline {pipeline}` would let it go on without what is missing"
            )?;
        }
        for problem in &self.unreadable {
            writeln!(out, "  unreadable  {problem}")?;
        }
        if !self.unreadable.is_empty() {
            writeln!(out, "  next: redrive versions verify --pipeline {pipeline}")?;
        }
        Ok(())
    }
}

impl ShownApplied {
    fn of(applied: &AppliedVersion) -> Self {
        let AppliedVersion { version, first, at, origin } = applied;
        let is_applied = first.is_none_or(|first| *version >= first);
        Self {
            version: is_applied.then_some(version.0),
            first: first.map(|first| first.0),
            at: at.as_millis(),
            origin: origin.to_string(),
            when: at.to_rfc3339(),
        }
    }
}

impl ShownHeld {
    fn of(order: &OrderPolicy, of_key: &OfKey, (place, held): (i64, &HeldAt), clock: Duration) -> Self {
        let counts = matches!(order.guard, Guard::Contiguous(_));
        let since: Timestamp = held.since;
        Self {
            place,
            version: counts.then_some(place),
            origin: held.origin.as_ref().map(ToString::to_string),
            since: since.as_millis(),
            why: why::held(order, of_key, place),
            gap_left_ms: counts.then(|| millis(held.due.saturating_sub(clock))),
            when: since.to_rfc3339(),
        }
    }
}

/// A duration in milliseconds.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
