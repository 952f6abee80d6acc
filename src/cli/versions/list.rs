//! `redrive versions ls --held`: the keys behind which something is held or waits, those that wait longest first.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use super::gather::{Gathered, OfKey, Wanted};
use super::show::{clock_of, millis};
use super::{Common, words};
use crate::cli::BadInput;
use crate::cli::check::Output;
use crate::core::policy::{Guard, OrderPolicy};
use crate::core::position::Partition;
use crate::core::time::Timestamp;
use crate::kafka::state_log::StateLog;
use crate::topology::model::Topology;

/// List the keys of which records are held or wait in tiers, those that wait longest first
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    /// Only keys of which something is held or waits: there is no other list
    #[arg(long)]
    held: bool,
    /// How many keys to list at most
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
}

/// Prints the list: exit code 0, be it empty or not.
pub(super) fn run(
    args: &ListArgs,
    common: &Common,
    topology: &Topology,
    out: &mut dyn Write,
) -> Result<ExitCode> {
    if !args.held {
        return Err(BadInput::WhichKeys.into());
    }
    let pipeline = common.pipeline(topology)?;
    let mut gathered = Gathered::new(Wanted::Held);
    StateLog::open(&topology.kafka, pipeline)?.read(|logged| gathered.take(logged))?;
    let list = List::of(&pipeline.name, &pipeline.policy.order, &gathered, args.limit);
    match common.output {
        Output::Text => list.in_text(out)?,
        Output::Json => {
            serde_json::to_writer_pretty(&mut *out, &list)?;
            writeln!(out)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Debug, Serialize)]
struct List {
    pipeline: String,
    keys: Vec<Line>,
    /// How many there are beyond those listed.
    left_off: usize,
}

#[derive(Debug, Serialize)]
struct Line {
    key: String,
    key_base64: String,
    partition: i32,
    held: usize,
    waiting: usize,
    /// When the oldest of them began to be held or to wait.
    since: i64,
    /// Until the next gap is over at the earliest, of processing time, at most.
    gap_left_ms: Option<u64>,
}

impl List {
    fn of(pipeline: &str, order: &OrderPolicy, gathered: &Gathered, limit: usize) -> Self {
        let keys = gathered.keys.iter().filter(|(_, of_key)| of_key.holds());
        let mut keys: Vec<_> = keys.map(|(at, of_key)| (of_key.since(), at, of_key)).collect();
        keys.sort_unstable_by_key(|(since, at, _)| (*since, *at));
        let counts = matches!(order.guard, Guard::Contiguous(_));
        let line =
            |(since, (key, partition), of_key): &(Option<Timestamp>, &(Vec<u8>, Partition), &OfKey)| {
                let clock = clock_of(&gathered.clocks, *partition);
                let due = of_key.held.values().map(|held| held.due).min().filter(|_| counts);
                Line {
                    key: words::shown(key),
                    key_base64: words::base64(key),
                    partition: partition.0,
                    held: of_key.held.len(),
                    waiting: of_key.blockers.waiting.len(),
                    since: since.map_or(0, Timestamp::as_millis),
                    gap_left_ms: due.map(|due| millis(due.saturating_sub(clock))),
                }
            };
        Self {
            pipeline: pipeline.to_owned(),
            keys: keys.iter().take(limit).map(line).collect(),
            left_off: keys.len().saturating_sub(limit),
        }
    }

    fn in_text(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.keys.is_empty() && self.left_off == 0 {
            return writeln!(
                out,
                "nothing is held, and nothing waits in a tier behind which anything would be"
            );
        }
        for Line { key, partition, held, waiting, since, gap_left_ms, .. } in &self.keys {
            let since = Timestamp::from_millis(*since).to_rfc3339();
            let gap = gap_left_ms.map(|left| words::lasting(Duration::from_millis(left)));
            let gap = gap.map(|gap| format!("  gap {gap}")).unwrap_or_default();
            writeln!(out, "task {partition}  held {held}  waiting {waiting}  since {since}{gap}  `{key}`")?;
        }
        if self.left_off > 0 {
            writeln!(out, "{} more are left off: --limit", self.left_off)?;
        }
        writeln!(out, "next: redrive versions KEY --pipeline {} says why", self.pipeline)
    }
}

#[cfg(test)]
mod tests;
