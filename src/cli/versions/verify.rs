//! `redrive versions verify`: whether the state topic is what its tasks can go by.
//!
//! Reads it once into hashes of keys, and once more for the names of those of which something is wrong.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use super::{Common, words};
use crate::cli::check::Output;
use crate::core::guard::{KeyHash, KeyHasher};
use crate::core::position::{Offset, Partition};
use crate::kafka::state_log::StateLog;
use crate::topology::model::{Pipeline, Topology};

mod survey;

use survey::{Flaw, Names, Place, Survey};

/// Look for what the tasks of a pipeline cannot go by: a key on two partitions, entries that cannot be read, records held for
/// nothing. Exit code 0: nothing found, 1: something
#[derive(Debug, clap::Args)]
pub(super) struct VerifyArgs {
    /// How many findings to list at most
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
}

/// Prints what is found: exit code 1 where that is anything.
pub(super) fn run(
    args: &VerifyArgs,
    common: &Common,
    topology: &Topology,
    out: &mut dyn Write,
) -> Result<ExitCode> {
    let pipeline = common.pipeline(topology)?;
    let log = StateLog::open(&topology.kafka, pipeline)?;
    let hasher = KeyHasher::new(RandomState::new().hash_one(std::process::id()));
    let mut survey = Survey::new(hasher, &pipeline.policy.order);
    log.read(|logged| survey.take(logged))?;
    let keys = survey.keys();
    let flaws = survey.flaws();
    let mut names = Names::of(hasher, flaws.iter().take(args.limit));
    if !names.is_complete() {
        log.read(|logged| names.take(logged))?;
    }
    print((args, common), pipeline, keys, &flaws, &names, out)?;
    Ok(if flaws.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn print(
    (args, common): (&VerifyArgs, &Common),
    pipeline: &Pipeline,
    keys: usize,
    flaws: &[Flaw],
    names: &Names,
    out: &mut dyn Write,
) -> io::Result<()> {
    let listed = flaws.iter().take(args.limit);
    let left_off = flaws.len().saturating_sub(args.limit);
    match common.output {
        Output::Text => {
            for flaw in listed {
                writeln!(out, "{}", in_words(flaw, pipeline, names))?;
                writeln!(out, "  next: {}", flaw.next_step())?;
            }
            if left_off > 0 {
                writeln!(out, "{left_off} more are left off: --limit")?;
            }
            let (state, found) = (&pipeline.state.name, flaws.len());
            match found {
                0 => writeln!(out, "`{state}`: {keys} keys, nothing wrong"),
                _ => writeln!(out, "`{state}`: {keys} keys, {found} found wrong"),
            }
        }
        Output::Json => {
            let found: Vec<_> = listed.map(|flaw| in_json(flaw, pipeline, names)).collect();
            let told =
                json!({ "pipeline": pipeline.name, "keys": keys, "found": found, "left_off": left_off });
            writeln!(out, "{told:#}")
        }
    }
}

/// For people.
fn in_words(flaw: &Flaw, pipeline: &Pipeline, names: &Names) -> String {
    let topic = &pipeline.state.name;
    let at = |Place { partition, offset }: &Place| format!("{topic}/{partition}/{offset}");
    let key = |key: &KeyHash| words::shown(names.get(*key));
    match flaw {
        Flaw::Apart { key: of, places } => {
            let place = |(place, applied): &(Place, Option<_>)| {
                let applied = applied
                    .map_or_else(|| "nothing applied".to_owned(), |version| format!("version {version}"));
                format!("{} ({applied})", at(place))
            };
            let places: Vec<_> = places.iter().map(place).collect();
            format!("`{}` has entries on {} partitions: {}", key(of), places.len(), places.join(", "))
        }
        Flaw::Unreadable { place, problem } => format!("{}: {problem}", at(place)),
        Flaw::Foreign { place } => format!("{}: the key is none of redrive's", at(place)),
        Flaw::Passed { key: of, place, version, applied } => {
            format!("{}: version {version} of `{}` is held, and {applied} is applied", at(place), key(of))
        }
        Flaw::Uncounted { key: of, place, version } => {
            format!("{}: version {version} of `{}` is held, and no count of it has begun", at(place), key(of))
        }
    }
}

/// For scripts.
fn in_json(flaw: &Flaw, pipeline: &Pipeline, names: &Names) -> serde_json::Value {
    let places: Vec<(&Place, Option<i64>)> = match flaw {
        Flaw::Apart { places, .. } => {
            places.iter().map(|(place, applied)| (place, applied.map(|version| version.0))).collect()
        }
        Flaw::Unreadable { place, .. } | Flaw::Foreign { place } => vec![(place, None)],
        Flaw::Passed { place, applied, .. } => vec![(place, Some(applied.0))],
        Flaw::Uncounted { place, .. } => vec![(place, None)],
    };
    let places: Vec<_> = places
        .iter()
        .map(|(Place { partition: Partition(partition), offset: Offset(offset) }, applied)| {
            json!({ "partition": partition, "offset": offset, "applied": applied })
        })
        .collect();
    let key = flaw.key().map(|key| names.get(key));
    json!({
        "kind": flaw.word(),
        "key": key.map(words::shown),
        "key_base64": key.map(words::base64),
        "places": places,
        "words": in_words(flaw, pipeline, names),
        "next": flaw.next_step(),
    })
}

#[cfg(test)]
mod tests;
