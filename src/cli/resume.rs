//! `redrive resume`: lets tasks go on that wait for a person.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;

use crate::cli::check::Output;
use crate::cli::{BadInput, answer, pipeline_of};
use crate::core::control::{Command, LONGEST_NAME, Request, RequestId};
use crate::core::position::{OffsetRange, Partition};
use crate::core::time::Timestamp;
use crate::kafka::desk::Desk;
use crate::runtime::clock::Clock;
use crate::topology::model::{Pipeline, Topology};

/// Let tasks go on whose positions may be old: `positions-stale`. Only says what it would ask until --yes is given
#[derive(Debug, clap::Args)]
pub(crate) struct ResumeArgs {
    /// The pipeline; may be left out where there is one
    #[arg(value_name = "PIPELINE")]
    pipeline: Option<String>,
    /// Records that may be handled once more, `topic/partition/from-to`: exactly what the task printed when it stopped
    #[arg(long, required = true, num_args = 1.., value_name = "RANGE")]
    accept_repeats: Vec<String>,
    /// Who asks, for the audit
    #[arg(long, value_name = "WHO", env = "USER")]
    by: Option<String>,
    /// The ticket that this is done for, for the audit
    #[arg(long, value_name = "TICKET")]
    ticket: Option<String>,
    /// Ask it
    #[arg(long)]
    yes: bool,
    /// How to print
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// Asks the owners of the tasks to go on: exit code 0 where all obeyed.
pub(crate) fn run(args: &ResumeArgs, topology: &Topology, out: &mut dyn Write) -> Result<ExitCode> {
    let pipeline = pipeline_of(topology, args.pipeline.as_deref())?;
    let commands = commands(pipeline, &args.accept_repeats)?;
    let by = name("--by", args.by.as_deref())?.ok_or(BadInput::Nobody)?;
    let ticket = name("--ticket", args.ticket.as_deref())?;
    if !args.yes {
        would_ask(args, pipeline, &by, &commands, out)?;
        return Ok(ExitCode::SUCCESS);
    }
    let at = Clock::start().now().wall;
    let requests: Vec<(Partition, Request)> = commands
        .into_iter()
        .map(|(partition, command)| {
            let (id, by, ticket) = (draw(partition, at), by.clone(), ticket.clone());
            (partition, Request { id, by, at, ticket, command })
        })
        .collect();
    let answers = Desk::open(&topology.kafka, pipeline)?.ask(&requests, answer::PATIENCE)?;
    let ids: Vec<RequestId> = requests.into_iter().map(|(_, request)| request.id).collect();
    answer::print(args.output, pipeline, &ids, answers, out)
}

/// One command for each task that a range is of.
fn commands(pipeline: &Pipeline, ranges: &[String]) -> Result<BTreeMap<Partition, Command>, BadInput> {
    let bad = |text: &str, why: String| BadInput::Range { text: text.to_owned(), why };
    let lanes: Vec<&str> = pipeline.policy.lanes().map(|lane| pipeline.policy.topic(lane).as_str()).collect();
    let mut tasks: BTreeMap<Partition, BTreeSet<OffsetRange>> = BTreeMap::new();
    for text in ranges {
        let range: OffsetRange = text
            .parse()
            .map_err(|_| bad(text, "it is no `topic/partition/from-to` with `from` below `to`".to_owned()))?;
        let name = range.topic.as_str();
        let drained = pipeline.retired.iter().any(|tier| tier.topic.name == range.topic)
            || pipeline.delay_of_tier_topic(name).is_some();
        if !lanes.contains(&name) && !drained {
            let known = lanes.join("`, `");
            return Err(bad(text, format!("`{}` reads `{known}`", pipeline.name)));
        }
        tasks.entry(range.partition).or_default().insert(range);
    }
    let command = |ranges: BTreeSet<OffsetRange>| Command::AcceptRepeats(ranges.into_iter().collect());
    Ok(tasks.into_iter().map(|(partition, ranges)| (partition, command(ranges))).collect())
}

/// A name for the audit, as any worker takes it.
fn name(flag: &'static str, text: Option<&str>) -> Result<Option<String>, BadInput> {
    match text {
        None => Ok(None),
        Some(text) if (1..=LONGEST_NAME).contains(&text.len()) && !text.chars().any(char::is_control) => {
            Ok(Some(text.to_owned()))
        }
        Some(_) => Err(BadInput::Name { flag }),
    }
}

/// An id that no other request has.
fn draw(partition: Partition, at: Timestamp) -> RequestId {
    // Seeded by the system, and counted up within a process.
    RequestId::draw(partition, at, RandomState::new().hash_one(std::process::id()))
}

fn would_ask(
    args: &ResumeArgs,
    pipeline: &Pipeline,
    by: &str,
    commands: &BTreeMap<Partition, Command>,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    match args.output {
        Output::Text => {
            for (Partition(partition), command) in commands {
                writeln!(out, "task {partition}  would be asked: {command}  (by {by})")?;
            }
            let ranges: Vec<String> =
                args.accept_repeats.iter().map(|range| format!(" --accept-repeats {range}")).collect();
            writeln!(out, "next: redrive resume {}{} --yes", pipeline.name, ranges.concat())
        }
        Output::Json => {
            let asked: Vec<_> = commands
                .iter()
                .map(|(partition, command)| serde_json::json!({ "partition": partition.0, "command": command.to_string() }))
                .collect();
            let listed = serde_json::json!({ "pipeline": pipeline.name, "by": by, "would_ask": asked });
            writeln!(out, "{listed:#}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_says_which_task_was_asked_and_when_and_no_two_are_alike() {
        let at = Timestamp::from_millis(1_700_000_000_000);
        let (one, two) = (draw(Partition(7), at), draw(Partition(7), at));
        assert_ne!(one, two);
        assert_eq!(one.asked(), Some((Partition(7), at)));
    }

    #[test]
    fn a_name_for_the_audit_is_short_and_plain() {
        assert!(name("--by", Some("Ada Lovelace")).is_ok());
        for bad in ["", "a\u{1b}[2J", "\n", &"x".repeat(257)] {
            assert!(name("--by", Some(bad)).is_err(), "{bad:?}");
        }
    }
}
