//! `redrive versions`: what is applied of keys, what is held behind them and why, and what to do about it.
//!
//! Reads the state topic itself: no worker need run.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::cli::check::Output;
use crate::cli::{BadInput, pipeline_of};
use crate::topology::model::{Pipeline, Topology};

#[cfg(test)]
mod fixture;
mod gather;
mod list;
mod show;
mod skip;
mod verify;
mod why;
mod words;

/// Show what is applied of keys, what is held behind them, why, and until when
#[derive(Debug, clap::Args)]
#[command(subcommand_negates_reqs = true)]
pub(crate) struct VersionsArgs {
    /// The order keys: the keys of the records, or what `order.key` names. One that is called like a subcommand stands after `--`
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<String>,
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Option<VersionsCommand>,
}

#[derive(Debug, Subcommand)]
enum VersionsCommand {
    Ls(list::ListArgs),
    Verify(verify::VerifyArgs),
    Skip(skip::SkipArgs),
}

/// What every one of these commands takes.
#[derive(Debug, clap::Args)]
struct Common {
    /// Keys are typed in base64
    #[arg(long, global = true)]
    base64: bool,
    /// The pipeline; may be left out where there is one
    #[arg(long, global = true, value_name = "PIPELINE")]
    pipeline: Option<String>,
    /// How to print
    #[arg(long, global = true, value_enum, default_value_t = Output::Text)]
    output: Output,
}

impl Common {
    /// The bytes of a key as it was typed.
    fn key(&self, text: &str) -> Result<Vec<u8>, BadInput> {
        words::key(text, self.base64)
    }

    /// The pipeline that is meant.
    fn pipeline<'a>(&self, topology: &'a Topology) -> Result<&'a Pipeline, BadInput> {
        let pipeline = pipeline_of(topology, self.pipeline.as_deref())?;
        match pipeline.policy.order.keeps_state() {
            true => Ok(pipeline),
            false => Err(BadInput::NoVersions { name: pipeline.name.clone() }),
        }
    }
}

/// Does what the arguments ask for.
pub(crate) fn run(args: &VersionsArgs, topology: &Topology, out: &mut dyn Write) -> Result<ExitCode> {
    let VersionsArgs { keys, common, command } = args;
    match command {
        None => show::run(keys, common, topology, out),
        Some(VersionsCommand::Ls(args)) => list::run(args, common, topology, out),
        Some(VersionsCommand::Verify(args)) => verify::run(args, common, topology, out),
        Some(VersionsCommand::Skip(args)) => skip::run(args, common, topology, out),
    }
}
