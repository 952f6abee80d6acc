//! `redrive resume`: lets tasks go on that wait for a person.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;

use crate::cli::asker::Asker;
use crate::cli::check::Output;
use crate::cli::{BadInput, pipeline_of};
use crate::core::control::Command;
use crate::core::position::{OffsetRange, Partition};
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
    #[command(flatten)]
    asker: Asker,
    /// How to print
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// Asks the owners of the tasks to go on: exit code 0 where all obeyed.
pub(crate) fn run(args: &ResumeArgs, topology: &Topology, out: &mut dyn Write) -> Result<ExitCode> {
    let pipeline = pipeline_of(topology, args.pipeline.as_deref())?;
    let commands = commands(pipeline, &args.accept_repeats)?;
    let asking = args.asker.asking()?;
    if !args.asker.yes() {
        would_ask(args, pipeline, asking.by(), &commands, out)?;
        return Ok(ExitCode::SUCCESS);
    }
    asking.ask((topology, pipeline), commands, args.output, out)
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
