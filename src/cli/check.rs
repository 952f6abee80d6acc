//! `redrive check`: compiles a topology file, without a broker, and says what it means.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};

use crate::core::position::TopicName;
use crate::core::time::in_words;
use crate::topology::diagnostic::Diagnostics;
use crate::topology::environment::{Environment, Process};
use crate::topology::model::{Cleanup, Format, HandlerSpec, OwnTopic, Pipeline, Start, Topology};

mod order;

/// Compile a topology file and print every problem, or what it means
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// How to print
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// How to print what a command found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    /// For people
    Text,
    /// For scripts
    Json,
}

/// Checks a topology file: exit code 0 where it compiles, 2 where not.
///
/// # Errors
/// Where stdout or stderr cannot be written.
pub(crate) fn run(file: &Path, args: &CheckArgs) -> io::Result<ExitCode> {
    let verdict = check(file, args.output, &Process, &mut io::stdout().lock(), &mut io::stderr().lock())?;
    Ok(match verdict {
        Verdict::Fine => ExitCode::SUCCESS,
        Verdict::Bad => ExitCode::from(2),
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Fine,
    Bad,
}

fn check(
    file: &Path,
    output: Output,
    environment: &dyn Environment,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> io::Result<Verdict> {
    match (Topology::load(file, environment), output) {
        (Ok(topology), Output::Text) => {
            write!(stdout, "{}", topology_in_words(&topology))?;
            Ok(Verdict::Fine)
        }
        (Ok(topology), Output::Json) => {
            writeln!(stdout, "{:#}", in_json(file, &topology))?;
            Ok(Verdict::Fine)
        }
        (Err(diagnostics), output) => {
            if output == Output::Json {
                writeln!(stdout, "{:#}", problems_in_json(file, &diagnostics))?;
            }
            writeln!(stderr, "{diagnostics}")?;
            Ok(Verdict::Bad)
        }
    }
}

/// What the ladder of a pipeline comes to, where handling itself takes no time.
struct Timeline {
    /// The waits before the second, third, … attempt.
    waits: Vec<Duration>,
    attempts: u32,
    executions: u32,
    /// From the first attempt to the last.
    longest_wait: Duration,
    /// The reason of the dead letter at its end: the deadline may come before the end of the ladder.
    ended_by: &'static str,
}

impl Timeline {
    fn of(pipeline: &Pipeline) -> Self {
        let policy = &pipeline.policy;
        let repeats =
            usize::try_from(policy.ladder.last_tier_repeats.saturating_sub(1)).unwrap_or(usize::MAX);
        let last = policy.ladder.delays.last().copied();
        let steps = policy.ladder.delays.iter().copied().chain(last.into_iter().cycle().take(repeats));
        let (mut waits, mut longest_wait, mut ended_by) = (Vec::new(), Duration::ZERO, "exhausted");
        for wait in steps {
            let reached = longest_wait.saturating_add(wait);
            if reached.saturating_add(policy.handler_timeout) > policy.deadline {
                ended_by = "deadline";
                break;
            }
            waits.push(wait);
            longest_wait = reached;
        }
        let attempts = u32::try_from(waits.len()).unwrap_or(u32::MAX).saturating_add(1);
        let executions = attempts.saturating_mul(policy.in_place.executions);
        Self { waits, attempts, executions, longest_wait, ended_by }
    }

    /// `5s → 1m → 10m ×3`
    fn steps(&self) -> String {
        let mut steps: Vec<(Duration, u32)> = Vec::new();
        for wait in &self.waits {
            match steps.last_mut() {
                Some((last, times)) if last == wait => *times = times.saturating_add(1),
                Some(_) | None => steps.push((*wait, 1)),
            }
        }
        let step = |(wait, times): (Duration, u32)| match times {
            1 => in_words(wait),
            _ => format!("{} ×{times}", in_words(wait)),
        };
        steps.into_iter().map(step).collect::<Vec<_>>().join(" → ")
    }
}

fn topology_in_words(topology: &Topology) -> String {
    let mut text = format!(
        "app {}, brokers {}, probes and metrics at {}\n",
        topology.app,
        topology.kafka.bootstrap.join(" "),
        topology.http.listen
    );
    for pipeline in &topology.pipelines {
        text.push_str(&pipeline_in_words(pipeline));
    }
    text
}

fn pipeline_in_words(pipeline: &Pipeline) -> String {
    let mut lines = vec![format!("\npipeline {}", pipeline.name)];
    let mut line = |name: &str, what: String| lines.push(format!("  {name:<12} {what}"));
    line("group", format!("{}, starts at {}", pipeline.group, start(&pipeline.start)));
    line("handler", handler_in_words(&pipeline.handler));
    line("source", pipeline.source.to_string());
    match pipeline.decode {
        Format::Bytes => {}
        Format::Json => line("decode", "json".to_owned()),
    }
    for tier in &pipeline.tiers {
        line(&tier.label, own_topic(&tier.topic));
    }
    line("dlq", own_topic(&pipeline.dead_letter));
    line("state", own_topic(&pipeline.state));
    if let Some(output) = &pipeline.output {
        line("output", output.to_string());
    }
    for (name, output) in &pipeline.outputs {
        line("output", format!("{output} ({name})"));
    }
    if let Some(stale) = pipeline.policy.order.stale_output() {
        line("stale-output", stale.to_string());
    }
    if let Some(order) = order::in_words(&pipeline.policy.order) {
        line("order", order);
    }
    let timeline = Timeline::of(pipeline);
    let steps = if timeline.waits.is_empty() { "no tier".to_owned() } else { timeline.steps() };
    line("ladder", format!("{steps}, then dead letter ({})", timeline.ended_by));
    let deadline = in_words(pipeline.policy.deadline);
    line(
        "at most",
        format!(
            "{} attempts, {} executions; {} of waiting, deadline {deadline}",
            timeline.attempts,
            timeline.executions,
            spoken(timeline.longest_wait)
        ),
    );
    lines.push(String::new());
    lines.join("\n")
}

fn start(start: &Start) -> String {
    match start {
        Start::Earliest => "earliest".to_owned(),
        Start::Latest => "latest".to_owned(),
        Start::At(time) => format!("{time} ms since 1970"),
        Start::Group(group) => format!("the offsets of group {group}"),
    }
}

fn handler_in_words(handler: &HandlerSpec) -> String {
    match handler {
        HandlerSpec::Http(http) => {
            let timeout = in_words(http.timeout);
            format!("POST {}, timeout {timeout}, {} at a time", shown_url(&http.url), http.concurrency)
        }
        HandlerSpec::Passthrough(passthrough) => {
            format!("passthrough, {} rules to fail", passthrough.fail.len())
        }
        HandlerSpec::Rust { name } => format!("{name}, written in Rust"),
    }
}

/// A query may hold a key.
fn shown_url(url: &str) -> String {
    url.split_once('?').map_or_else(|| url.to_owned(), |(url, _)| format!("{url}?***"))
}

fn own_topic(topic: &OwnTopic) -> String {
    match topic.cleanup {
        Cleanup::Delete(retention) => format!("{}, kept {}", topic.name, spoken(retention)),
        Cleanup::Compact => format!("{}, compacted", topic.name),
        Cleanup::CompactDelete(retention) => format!("{}, compacted, kept {}", topic.name, spoken(retention)),
    }
}

/// A time in all its units: `7d 5s`.
fn spoken(time: Duration) -> String {
    const UNITS: [u64; 5] = [86_400_000, 3_600_000, 60_000, 1_000, 1];
    let mut rest = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let mut words = Vec::new();
    for unit in UNITS {
        let whole = rest - rest % unit;
        if whole > 0 {
            // A whole number of one unit, below the next longer one, is spelled in that unit.
            words.push(in_words(Duration::from_millis(whole)));
        }
        rest -= whole;
    }
    if words.is_empty() { in_words(time) } else { words.join(" ") }
}

fn in_json(file: &Path, topology: &Topology) -> Value {
    let properties =
        topology.kafka.properties.iter().map(|(name, value)| (name.clone(), value.to_string().into()));
    json!({
        "file": file.display().to_string(),
        "valid": true,
        "app": topology.app,
        "bootstrap": topology.kafka.bootstrap,
        "properties": Value::Object(properties.collect()),
        "listen": topology.http.listen.to_string(),
        "pipelines": topology.pipelines.iter().map(pipeline_in_json).collect::<Vec<_>>(),
    })
}

fn pipeline_in_json(pipeline: &Pipeline) -> Value {
    let timeline = Timeline::of(pipeline);
    let retention = |topic: &OwnTopic| match topic.cleanup {
        Cleanup::Delete(retention) | Cleanup::CompactDelete(retention) => Some(in_words(retention)),
        Cleanup::Compact => None,
    };
    let source = json!({ "lane": "source", "topic": pipeline.source.as_str() });
    let tiers = pipeline.tiers.iter().map(|tier| {
        json!({
            "lane": tier.label,
            "topic": tier.topic.name.as_str(),
            "delay": in_words(tier.delay),
            "retention": retention(&tier.topic),
        })
    });
    let outputs = pipeline.outputs.iter().map(|(name, topic)| (name.clone(), topic.as_str().into()));
    json!({
        "name": pipeline.name,
        "group": pipeline.group,
        "start": start(&pipeline.start),
        "handler": handler_in_words(&pipeline.handler),
        "decode": match pipeline.decode {
            Format::Bytes => "bytes",
            Format::Json => "json",
        },
        "lanes": std::iter::once(source).chain(tiers).collect::<Vec<_>>(),
        "dead_letter": {
            "topic": pipeline.dead_letter.name.as_str(),
            "retention": retention(&pipeline.dead_letter),
        },
        "state": { "topic": pipeline.state.name.as_str() },
        "control": { "topic": pipeline.control.name.as_str(), "retention": retention(&pipeline.control) },
        "cases": { "topic": pipeline.cases.name.as_str(), "retention": retention(&pipeline.cases) },
        "output": pipeline.output.as_ref().map(|topic| topic.as_str()),
        "outputs": Value::Object(outputs.collect()),
        "stale_output": pipeline.policy.order.stale_output().map(TopicName::as_str),
        "order": order::in_json(&pipeline.policy.order),
        "ladder": {
            "waits": timeline.waits.iter().copied().map(in_words).collect::<Vec<_>>(),
            "attempts": timeline.attempts,
            "executions": timeline.executions,
            "longest_wait": in_words(timeline.longest_wait),
            "deadline": in_words(pipeline.policy.deadline),
            "ended_by": timeline.ended_by,
        },
    })
}

fn problems_in_json(file: &Path, diagnostics: &Diagnostics) -> Value {
    let problem = |diagnostic: &crate::topology::diagnostic::Diagnostic| {
        json!({
            "code": diagnostic.code.as_str(),
            "line": diagnostic.line,
            "column": diagnostic.column,
            "message": diagnostic.message,
            "hint": diagnostic.hint,
        })
    };
    json!({
        "file": file.display().to_string(),
        "valid": false,
        "diagnostics": diagnostics.iter().map(problem).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests;
