//! `redrive run`: the workers of a topology, until they are told to stop.

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use anyhow::Context;
use tracing_subscriber::EnvFilter;

use crate::cli::BadInput;
use crate::handler::Handlers;
use crate::runtime::{self, Shutdown};
use crate::topology::model::Topology;

/// Run the pipelines of a topology until SIGTERM or SIGINT
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// The number of this process: the same after a restart, and no other running process's. Where it is not given: the
    /// number at the end of the host name, else 0
    #[arg(long, value_name = "N", env = "REDRIVE_INSTANCE")]
    instance: Option<u32>,
    /// What is logged, to stderr: error, warn, info, debug or trace, for parts also as in `info,redrive::kafka=debug`
    #[arg(long, value_name = "LEVEL", env = "REDRIVE_LOG_LEVEL", default_value = "info")]
    log_level: String,
}

/// Runs all pipelines. Exit code 0 once everything settled is committed.
pub(crate) fn run(args: &RunArgs, topology: &Topology) -> anyhow::Result<ExitCode> {
    #[cfg(feature = "fail-points")]
    crate::fail_point::arm().map_err(BadInput::from)?;
    let filter = EnvFilter::try_new(&args.log_level)
        .map_err(|error| BadInput::LogLevel { filter: args.log_level.clone(), why: error.to_string() })?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .init();
    let instance = args.instance.unwrap_or_else(|| trailing_number(&host_name()));
    let shutdown = Shutdown::on_signals().context("signals cannot be received")?;
    runtime::run(topology, &Handlers::new(), &instance.to_string(), &shutdown)?;
    Ok(ExitCode::SUCCESS)
}

/// The host name, as the kernel or else the environment knows it; empty where neither does.
#[expect(clippy::disallowed_methods, reason = "part of the command line: it stands in for --instance")]
fn host_name() -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname");
    kernel.or_else(|_| std::env::var("HOSTNAME")).unwrap_or_default()
}

/// The number at the end of a host name, such as a pod's ordinal; 0 where there is none, or one too large.
fn trailing_number(host: &str) -> u32 {
    // Only the host's own label: `redrive-3.redrive.shop.svc`.
    let label = host.trim().split('.').next().unwrap_or_default();
    let name = label.trim_end_matches(|letter: char| letter.is_ascii_digit());
    label.strip_prefix(name).and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instance_is_the_number_at_the_end_of_the_host_name() {
        for (host, instance) in [
            ("redrive-3\n", 3),
            ("redrive-0", 0),
            ("redrive-12.redrive.shop.svc.cluster.local", 12),
            ("web007", 7),
            ("42", 42),
            ("laptop", 0),
            ("3-laptop", 0),
            ("", 0),
            ("c0ffee99999999999", 0),
        ] {
            assert_eq!(trailing_number(host), instance, "{host}");
        }
    }
}
