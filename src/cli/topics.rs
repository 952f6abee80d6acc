//! `redrive topics plan|apply`: the topics of a topology in Kafka.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;

use crate::kafka::admin;
use crate::kafka::admin::plan::{
    Change, HOLD_HINT, Plan, Step, Verdict, Warning, drained_in_words, held_in_words,
};
use crate::topology::model::Topology;

/// Show or make the topics that redrive needs.
#[derive(Debug, Args)]
pub(crate) struct TopicsArgs {
    #[command(subcommand)]
    command: TopicsCommand,
}

#[derive(Debug, Subcommand)]
enum TopicsCommand {
    /// List what is to be created, grown or refused. Exit code 0: nothing to do, 1: changes, 2: refused.
    Plan {
        #[command(flatten)]
        view: View,
    },
    /// Do what plan lists. Never deletes or shrinks a topic, nor changes the settings of one that exists.
    Apply {
        /// Only list it, as plan does.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        view: View,
    },
}

#[derive(Debug, Args)]
struct View {
    /// How the list is printed.
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

/// Runs the subcommand on the pipelines of `topology` and prints to `out`.
pub(crate) fn run(args: &TopicsArgs, topology: &Topology, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let plan = admin::plan(topology)?;
    match &args.command {
        TopicsCommand::Plan { view } | TopicsCommand::Apply { dry_run: true, view } => {
            print(&plan, view.output, out)?;
            Ok(planned(plan.verdict()))
        }
        TopicsCommand::Apply { dry_run: false, view } => {
            print(&plan, view.output, out)?;
            match plan.verdict() {
                Verdict::Nothing => Ok(ExitCode::SUCCESS),
                Verdict::Refused => {
                    told(view.output, "nothing is made as long as something is refused", out)?;
                    Ok(planned(Verdict::Refused))
                }
                Verdict::Changes => {
                    admin::apply(topology, &plan)
                        .context("not everything was done; plan shows what is left")?;
                    told(view.output, "done", out)?;
                    Ok(ExitCode::SUCCESS)
                }
            }
        }
    }
}

/// What apply came to, for people: scripts read the exit code.
fn told(output: Output, what: &str, out: &mut dyn Write) -> io::Result<()> {
    match output {
        Output::Text => writeln!(out, "{what}"),
        Output::Json => Ok(()),
    }
}

fn planned(verdict: Verdict) -> ExitCode {
    match verdict {
        Verdict::Nothing => ExitCode::SUCCESS,
        Verdict::Changes => ExitCode::from(1),
        Verdict::Refused => ExitCode::from(2),
    }
}

fn print(plan: &Plan, output: Output, out: &mut dyn Write) -> io::Result<()> {
    match output {
        Output::Text => text(plan, out),
        Output::Json => {
            serde_json::to_writer_pretty(&mut *out, &Listed::from(plan))?;
            writeln!(out)
        }
    }
}

#[derive(Serialize)]
struct Listed<'a> {
    verdict: Verdict,
    topics: &'a [Step],
    warnings: &'a [Warning],
}

impl<'a> From<&'a Plan> for Listed<'a> {
    fn from(plan: &'a Plan) -> Self {
        Self { verdict: plan.verdict(), topics: plan.steps(), warnings: plan.warnings() }
    }
}

fn text(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    let width = plan.steps().iter().map(|step| step.topic.len()).max().unwrap_or(0);
    let mut pipeline = None;
    for step in plan.steps() {
        if pipeline != Some(&step.pipeline) {
            writeln!(out, "{}", step.pipeline)?;
            pipeline = Some(&step.pipeline);
        }
        let topic = format!("{:width$}", step.topic);
        match &step.change {
            Change::Keep { partitions } => writeln!(out, "  keep    {topic}  {partitions} partitions")?,
            Change::Drain { partitions, waiting } => {
                writeln!(out, "  drain   {topic}  {}", drained_in_words(*partitions, *waiting))?;
            }
            Change::Create(new) => writeln!(out, "  create  {topic}  {}", new.in_words())?,
            Change::Grow { from, to } => writeln!(out, "  grow    {topic}  {from} -> {to} partitions")?,
            Change::Hold { from, to } => {
                writeln!(out, "  refuse  {topic}  {}", held_in_words(*from, *to))?;
                writeln!(out, "          {:width$}  hint: {HOLD_HINT}", "")?;
            }
            Change::Refuse(problems) => {
                for problem in problems {
                    writeln!(out, "  refuse  {topic}  {}", problem.text)?;
                    if let Some(hint) = &problem.hint {
                        writeln!(out, "          {:width$}  hint: {hint}", "")?;
                    }
                }
            }
        }
    }
    for warning in plan.warnings() {
        writeln!(out, "warning: {}: {}", warning.topic, warning.text)?;
    }
    let count = |wanted: fn(&Change) -> bool| plan.steps().iter().filter(|step| wanted(&step.change)).count();
    writeln!(
        out,
        "{} to create, {} to grow, {} refused, {} as they must be",
        count(|change| matches!(change, Change::Create(_))),
        count(|change| matches!(change, Change::Grow { .. })),
        count(|change| matches!(change, Change::Refuse(_) | Change::Hold { .. })),
        count(|change| matches!(change, Change::Keep { .. } | Change::Drain { .. })),
    )
}

#[cfg(test)]
#[cfg(feature = "broker-tests")]
mod tests;
