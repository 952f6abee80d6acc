//! The command line: one file per subcommand.
//!
//! Owns arguments, what is printed, and exit codes: 0 fine; 1 failed, differences found, or needs a person; 2 bad input
//! or configuration; 3 fatal client error. stdout is data, stderr is talk.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::core::control::LONGEST_NAME;
use crate::kafka::admin::AdminError;
use crate::kafka::desk::DeskError;
use crate::runtime::RunError;
use crate::topology::environment::Process;
use crate::topology::model::{Pipeline, Topology};

mod answer;
mod asker;
mod check;
mod resume;
mod run;
mod topics;
mod version;
mod versions;

/// Exactly-once retries, delays and dead letters for Kafka
#[derive(Debug, Parser)]
#[command(name = "redrive", version, arg_required_else_help = true)]
struct Cli {
    /// The topology file
    #[arg(short = 'f', long = "file", value_name = "FILE", env = "REDRIVE_TOPOLOGY", global = true)]
    file: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(check::CheckArgs),
    Topics(topics::TopicsArgs),
    Run(run::RunArgs),
    Resume(resume::ResumeArgs),
    Answer(answer::AnswerArgs),
    Versions(versions::VersionsArgs),
    Version(version::VersionArgs),
}

/// What was typed cannot be done as it stands: exit code 2.
#[derive(Debug, thiserror::Error)]
enum BadInput {
    /// No topology file was named.
    #[error("no topology file is named\nhint: -f FILE, or REDRIVE_TOPOLOGY")]
    NoFile,
    /// What is ordered at fail points cannot be done.
    #[cfg(feature = "fail-points")]
    #[error(transparent)]
    FailPoint(#[from] crate::fail_point::BadOrder),
    /// No pipeline has this name.
    #[error("there is no pipeline `{name}`\nhint: there are `{known}`")]
    NoPipeline {
        /// The name.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// It is not said which pipeline is meant.
    #[error("which pipeline is not said\nhint: there are `{known}`")]
    WhichPipeline {
        /// Those that there are.
        known: String,
    },
    /// A range that cannot be one of this pipeline.
    #[error("range `{text}`: {why}")]
    Range {
        /// The range.
        text: String,
        /// What is wrong.
        why: String,
    },
    /// Nobody asks.
    #[error("who asks is not said\nhint: --by WHO, or $USER")]
    Nobody,
    /// A name that no worker takes.
    #[error("`{flag}` takes 1 to {LONGEST_NAME} bytes without control characters")]
    Name {
        /// Which.
        flag: &'static str,
    },
    /// Text that is no id of a request.
    #[error("`{text}` is no id of a request\nhint: ids look like `3-18bcfe56800-00000000000000ab`")]
    NoRequest {
        /// The text.
        text: String,
    },
    /// What is known of keys is asked of a pipeline that keeps nothing of them.
    #[error(
        "pipeline `{name}` keeps nothing of keys\nhint: `guard` or `while-retrying = \"park\"` under [pipeline.{name}.order]"
    )]
    NoVersions {
        /// The pipeline.
        name: String,
    },
    /// A list of which it is not said what is to be in it.
    #[error("which keys are to be listed is not said\nhint: --held")]
    WhichKeys,
    /// Versions are to be skipped where none are counted.
    #[error(
        "pipeline `{name}` counts no versions\nhint: only under `guard = \"contiguous\"` does a key wait for one"
    )]
    NotCounted {
        /// The pipeline.
        name: String,
    },
    /// It is not known which task has a key.
    #[error("{what}\nhint: {hint}")]
    WhichTask {
        /// What is known of the key.
        what: String,
        /// What to do.
        hint: String,
    },
    /// Text that is no base64.
    #[error("`{text}` is no base64\nhint: leave --base64 out where the key is text")]
    NoBase64 {
        /// The text.
        text: String,
    },
    /// The log filter cannot be read.
    #[error("`{filter}` is no log level: {why}\nhint: error, warn, info, debug or trace")]
    LogLevel {
        /// The filter.
        filter: String,
        /// What is wrong.
        why: String,
    },
}

/// Does what the command line of this process asks for, and says with which code it ends.
pub fn main() -> ExitCode {
    let Cli { file, command } = Cli::parse();
    match carry_out(file.as_deref(), &command) {
        Ok(code) => code,
        Err(error) => told(&error),
    }
}

fn carry_out(file: Option<&Path>, command: &Command) -> anyhow::Result<ExitCode> {
    let named = || file.ok_or(BadInput::NoFile);
    match command {
        Command::Version(args) => version::run(*args, &mut io::stdout().lock()),
        Command::Check(args) => Ok(check::run(named()?, args)?),
        Command::Topics(args) => {
            compiled(named()?, |topology| topics::run(args, topology, &mut io::stdout().lock()))
        }
        Command::Resume(args) => {
            compiled(named()?, |topology| resume::run(args, topology, &mut io::stdout().lock()))
        }
        Command::Answer(args) => {
            compiled(named()?, |topology| answer::run(args, topology, &mut io::stdout().lock()))
        }
        Command::Versions(args) => {
            compiled(named()?, |topology| versions::run(args, topology, &mut io::stdout().lock()))
        }
        Command::Run(args) => compiled(named()?, |topology| run::run(args, topology)),
    }
}

/// The pipeline that is meant; it need not be named where there is one.
fn pipeline_of<'a>(topology: &'a Topology, name: Option<&str>) -> Result<&'a Pipeline, BadInput> {
    let pipelines = &topology.pipelines;
    let known = || pipelines.iter().map(|pipeline| pipeline.name.as_str()).collect::<Vec<_>>().join("`, `");
    match (name, pipelines.as_slice()) {
        (None, [only]) => Ok(only),
        (None, _) => Err(BadInput::WhichPipeline { known: known() }),
        (Some(name), _) => {
            let found = pipelines.iter().find(|pipeline| pipeline.name == name);
            found.ok_or_else(|| BadInput::NoPipeline { name: name.to_owned(), known: known() })
        }
    }
}

/// Does something with a topology, or tells everything that is wrong with its file.
fn compiled(
    file: &Path,
    then: impl FnOnce(&Topology) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    match Topology::load(file, &Process) {
        Ok(topology) => then(&topology),
        Err(diagnostics) => {
            eprintln!("{diagnostics}");
            Ok(ExitCode::from(2))
        }
    }
}

/// Tells people what went wrong, and the code that says so to scripts.
fn told(error: &anyhow::Error) -> ExitCode {
    if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
        // Whoever read stdout has seen enough.
        return ExitCode::SUCCESS;
    }
    eprintln!("error: {}", in_words(error));
    ExitCode::from(code(error))
}

/// The code that says to scripts what kind of error it was.
fn code(error: &anyhow::Error) -> u8 {
    if let Some(error) = error.downcast_ref::<RunError>() {
        return error.ended.code();
    }
    let admin = match error.downcast_ref::<DeskError>() {
        Some(DeskError::Admin(error)) => Some(error),
        Some(DeskError::Fatal { .. }) => return 3,
        Some(DeskError::Topic { .. } | DeskError::NotWritten { .. }) => return 1,
        None => error.downcast_ref::<AdminError>(),
    };
    match admin {
        Some(AdminError::Settings(_) | AdminError::Authentication { .. }) => 2,
        Some(AdminError::Unreachable { .. } | AdminError::Refused { .. } | AdminError::NotSeen { .. }) => 1,
        None if error.is::<BadInput>() => 2,
        None => 1,
    }
}

/// An error and its causes on one line, their hints below.
fn in_words(error: &anyhow::Error) -> String {
    let (mut line, mut hints) = (String::new(), String::new());
    for cause in error.chain() {
        let text = cause.to_string();
        let (what, more) = text.split_once('\n').unwrap_or((&text, ""));
        // Some errors already say what lies behind them.
        if !line.contains(what) {
            line.push_str(if line.is_empty() { "" } else { ": " });
            line.push_str(what);
        }
        if !more.is_empty() && !hints.contains(more) {
            hints.push('\n');
            hints.push_str(more);
        }
    }
    line + &hints
}

#[cfg(test)]
mod tests;
