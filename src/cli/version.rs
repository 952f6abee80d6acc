//! `redrive version`: what this is, and what its Kafka client can do.

use std::io::Write;
use std::process::ExitCode;

use crate::kafka::build;

/// What of the client's features matters to people, its word for it, and what it takes to have it.
const FEATURES: [(&str, &str, &str); 5] = [
    ("tls", "ssl", "feature `tls`"),
    ("sasl-plain", "sasl_plain", "feature `tls`"),
    ("sasl-scram", "sasl_scram", "feature `tls`"),
    ("oauthbearer-oidc", "oidc", "feature `oidc`"),
    ("zstd", "zstd", "libzstd"),
];

/// Print the version
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct VersionArgs {
    /// Also print the Kafka client's version and what it was built with
    #[arg(long)]
    features: bool,
}

/// Prints the version.
pub(crate) fn run(args: VersionArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    writeln!(out, "redrive {}", env!("CARGO_PKG_VERSION"))?;
    if args.features {
        let client = build::client()?;
        writeln!(out, "client {}", client.version)?;
        writeln!(out, "client-features {}", client.features.join(","))?;
        for (name, feature, needs) in FEATURES {
            let has = client.features.iter().any(|found| found == feature);
            let said = if has { "yes".to_owned() } else { format!("no (built without {needs})") };
            writeln!(out, "{name} {said}")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
