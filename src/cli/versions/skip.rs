//! `redrive versions skip KEY --to N`: lets a key go on that waits for versions which will not come.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use bytes::Bytes;
use serde_json::json;

use super::gather::{Gathered, OfKey, Wanted};
use super::{Common, words};
use crate::cli::BadInput;
use crate::cli::asker::Asker;
use crate::cli::check::Output;
use crate::core::control::Command;
use crate::core::guard::Version;
use crate::core::policy::Guard;
use crate::core::position::Partition;
use crate::kafka::state_log::StateLog;
use crate::topology::model::Topology;

/// Let the versions of a key up to N count as applied: what is held behind them goes on, and one of them that comes after all is
/// stale. Under `guard = "contiguous"`. Only says what it would ask until --yes is given
#[derive(Debug, clap::Args)]
pub(super) struct SkipArgs {
    /// The order key
    #[arg(value_name = "KEY")]
    key: String,
    /// The last version that is skipped
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    to: i64,
    /// The task, for a key of which nothing is known yet
    #[arg(long, value_name = "P")]
    partition: Option<i32>,
    #[command(flatten)]
    asker: Asker,
}

/// Asks the owner of the key's task: exit code 0 where it obeyed.
pub(super) fn run(
    args: &SkipArgs,
    common: &Common,
    topology: &Topology,
    out: &mut dyn Write,
) -> Result<ExitCode> {
    let pipeline = common.pipeline(topology)?;
    if !matches!(pipeline.policy.order.guard, Guard::Contiguous(_)) {
        return Err(BadInput::NotCounted { name: pipeline.name.clone() }.into());
    }
    let (key, to) = (common.key(&args.key)?, Version(args.to));
    let asking = args.asker.asking()?;
    let mut gathered = Gathered::new(Wanted::Keys(BTreeSet::from([key.clone()])));
    StateLog::open(&topology.kafka, pipeline)?.read(|logged| gathered.take(logged))?;
    let partition = task_of(&gathered, &key, args.partition.map(Partition))?;
    let known = gathered.keys.get(&(key.clone(), partition));
    let command = Command::SkipVersions { key: Bytes::from(key.clone()), to };
    if !args.asker.yes() {
        let next = format!(
            "redrive versions skip {} --to {to} --pipeline {}{} --yes",
            words::argument(&key),
            pipeline.name,
            args.partition.map(|partition| format!(" --partition {partition}")).unwrap_or_default()
        );
        let asked = Asked { partition, command, by: asking.by(), known, to, next };
        asked.print(common.output, &pipeline.name, out)?;
        return Ok(ExitCode::SUCCESS);
    }
    asking.ask((topology, pipeline), [(partition, command)], common.output, out)
}

/// The task that has a key.
fn task_of(gathered: &Gathered, key: &[u8], named: Option<Partition>) -> Result<Partition, BadInput> {
    let tasks: Vec<Partition> = gathered.keys.keys().map(|(_, partition)| *partition).collect();
    let key = words::shown(key);
    match (tasks.as_slice(), named) {
        ([only], None) => Ok(*only),
        ([], Some(named)) => Ok(named),
        (several, Some(named)) if several.contains(&named) => Ok(named),
        ([], None) => Err(BadInput::WhichTask {
            what: format!("nothing is known of the key `{key}`"),
            hint: "look at the spelling; --partition P where its count is to begin before its first record has come".to_owned(),
        }),
        (several, Some(Partition(named))) => Err(BadInput::WhichTask {
            what: format!("`{key}` is a key of task {}, not of task {named}", in_words(several)),
            hint: "leave --partition out".to_owned(),
        }),
        (several, None) => Err(BadInput::WhichTask {
            what: format!("`{key}` is a key of several tasks: {}", in_words(several)),
            hint: "--partition P says which is meant; `redrive versions verify` says why that is wrong".to_owned(),
        }),
    }
}

fn in_words(partitions: &[Partition]) -> String {
    partitions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// What would be asked.
struct Asked<'a> {
    partition: Partition,
    command: Command,
    by: &'a str,
    known: Option<&'a OfKey>,
    to: Version,
    next: String,
}

impl Asked<'_> {
    fn print(&self, output: Output, pipeline: &str, out: &mut dyn Write) -> io::Result<()> {
        let Self { partition: Partition(partition), command, by, known, to, next } = self;
        let applied = known.and_then(|of_key| of_key.applied.as_ref()).map(|applied| applied.version.0);
        let dropped = known.map_or(0, |of_key| of_key.held.range(..=to.0).count());
        let behind = known.map_or(0, |of_key| of_key.held.len().saturating_sub(dropped));
        match output {
            Output::Text => {
                writeln!(out, "task {partition}  would be asked: {command}  (by {by})")?;
                let applied = applied.map_or_else(|| "nothing".to_owned(), |version| version.to_string());
                writeln!(
                    out,
                    "applied so far: {applied}; held up to {to}, which end without effect: {dropped}; held behind it: {behind}"
                )?;
                writeln!(out, "next: {next}")
            }
            Output::Json => {
                let asked = json!({ "partition": partition, "command": command.to_string() });
                let told = json!({
                    "pipeline": pipeline,
                    "by": by,
                    "would_ask": [asked],
                    "applied": applied,
                    "held_and_skipped": dropped,
                    "held_behind": behind,
                });
                writeln!(out, "{told:#}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::Log;
    use super::*;

    fn task(log: &Log, named: Option<i32>) -> Result<Partition, String> {
        let mut gathered = Gathered::new(Wanted::Keys(BTreeSet::from([b"k".to_vec()])));
        log.read(|logged| gathered.take(logged));
        task_of(&gathered, b"k", named.map(Partition)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_key_has_the_task_that_knows_it_and_else_the_one_that_is_named() {
        let known = || Log::default().applied(3, "k", 4, 1).applied(5, "other", 4, 1);
        assert_eq!(task(&known(), None), Ok(Partition(3)));
        assert_eq!(task(&known(), Some(3)), Ok(Partition(3)));
        let wrong = task(&known(), Some(5)).unwrap_err();
        assert!(wrong.contains("a key of task 3, not of task 5"), "{wrong}");
        assert_eq!(task(&Log::default(), Some(5)), Ok(Partition(5)));
        let unknown = task(&Log::default(), None).unwrap_err();
        assert!(unknown.contains("nothing is known") && unknown.contains("--partition P"), "{unknown}");
        let twice = || known().held(4, "k", 9, 1);
        assert!(task(&twice(), None).unwrap_err().contains("several tasks: 3, 4"));
        assert_eq!(task(&twice(), Some(4)), Ok(Partition(4)));
    }

    #[test]
    fn what_would_be_asked_says_what_becomes_of_what_is_held() {
        let log =
            Log::default().applied(3, "k", 4, 1).held(3, "k", 6, 1).held(3, "k", 8, 1).held(3, "k", 9, 1);
        let mut gathered = Gathered::new(Wanted::Keys(BTreeSet::from([b"k".to_vec()])));
        log.read(|logged| gathered.take(logged));
        let command = Command::SkipVersions { key: Bytes::from_static(b"k"), to: Version(7) };
        let known = gathered.keys.get(&(b"k".to_vec(), Partition(3)));
        let next = "redrive …".to_owned();
        let asked = Asked { partition: Partition(3), command, by: "ada", known, to: Version(7), next };
        let said = |output| {
            let mut out = Vec::new();
            asked.print(output, "payments", &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            said(Output::Text),
            "task 3  would be asked: skip-versions `k` to 7  (by ada)\n\
             applied so far: 4; held up to 7, which end without effect: 1; held behind it: 2\n\
             next: redrive …\n"
        );
        let told: serde_json::Value = serde_json::from_str(&said(Output::Json)).unwrap();
        assert_eq!((&told["applied"], &told["held_behind"]), (&4.into(), &2.into()));
    }
}
