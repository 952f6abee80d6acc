//! `redrive answer`: what became of requests that were asked before.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use crate::cli::check::Output;
use crate::cli::{BadInput, pipeline_of};
use crate::core::control::{Answer, Compliance, RequestId};
use crate::core::position::Partition;
use crate::kafka::desk::{Answers, Desk};
use crate::topology::model::{Pipeline, Topology};

/// A worker that runs answers well within this.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Show what became of requests to the owner of a task
#[derive(Debug, clap::Args)]
pub(crate) struct AnswerArgs {
    /// The ids of the requests, as printed when they were asked
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// The pipeline that was asked; may be left out where there is one
    #[arg(long, value_name = "PIPELINE")]
    pipeline: Option<String>,
    /// How to print
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// Prints the answers: exit code 0 where all were obeyed.
pub(crate) fn run(args: &AnswerArgs, topology: &Topology, out: &mut dyn Write) -> Result<ExitCode> {
    let pipeline = pipeline_of(topology, args.pipeline.as_deref())?;
    let ids = args.ids.iter().map(|text| id(text)).collect::<Result<Vec<_>, _>>()?;
    let answers = Desk::open(&topology.kafka, pipeline)?.ask_again(&ids, PATIENCE)?;
    print(args.output, pipeline, &ids, answers, out)
}

fn id(text: &str) -> Result<RequestId, BadInput> {
    let id = text.parse::<RequestId>().ok().filter(|id| id.asked().is_some());
    id.ok_or_else(|| BadInput::NoRequest { text: text.to_owned() })
}

/// What became of one request.
#[derive(Debug, Serialize)]
struct Line {
    partition: Option<i32>,
    request: String,
    /// `obeyed`, `refused`, `queued`, or `unreadable`.
    result: &'static str,
    words: String,
    at: Option<i64>,
    writer: Option<String>,
}

impl Line {
    fn of(id: &RequestId, answers: &mut Answers) -> Self {
        let line = |result, words| Self {
            partition: id.asked().map(|(Partition(partition), _)| partition),
            request: id.to_string(),
            result,
            words,
            at: None,
            writer: None,
        };
        match answers.remove(id) {
            Some(Ok(Answer { compliance, words, at, writer })) => Self {
                at: Some(at.as_millis()),
                writer: Some(format!("{:016x}", writer.0)),
                ..line(compliance.as_str(), words)
            },
            Some(Err(bad)) => line("unreadable", bad.to_string()),
            None => line("queued", "no worker is running".to_owned()),
        }
    }
}

/// Prints what became of each request, and what to do next. Exit code 1 where one was not obeyed.
pub(super) fn print(
    output: Output,
    pipeline: &Pipeline,
    ids: &[RequestId],
    mut answers: Answers,
    out: &mut dyn Write,
) -> Result<ExitCode> {
    let lines: Vec<Line> = ids.iter().map(|id| Line::of(id, &mut answers)).collect();
    match output {
        Output::Text => in_text(pipeline, &lines, out)?,
        Output::Json => {
            let listed = serde_json::json!({ "pipeline": pipeline.name, "answers": lines });
            writeln!(out, "{listed:#}")?;
        }
    }
    let obeyed = lines.iter().all(|line| line.result == Compliance::Obeyed.as_str());
    Ok(if obeyed { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn in_text(pipeline: &Pipeline, lines: &[Line], out: &mut dyn Write) -> io::Result<()> {
    for Line { partition, request, result, words, .. } in lines {
        let task = partition.map(|partition| format!("task {partition}  ")).unwrap_or_default();
        writeln!(out, "{task}{result}: {words}  ({request})")?;
    }
    let queued: Vec<&str> =
        lines.iter().filter(|line| line.result == "queued").map(|line| line.request.as_str()).collect();
    if queued.is_empty() {
        writeln!(out, "next: every request and its answer is in the audit topic of the app")
    } else {
        writeln!(out, "next: redrive answer {} --pipeline {}", queued.join(" "), pipeline.name)
    }
}
