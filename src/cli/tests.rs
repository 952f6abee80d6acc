use clap::CommandFactory;

use super::*;

#[test]
fn the_arguments_fit_together() {
    Cli::command().debug_assert();
}

#[test]
fn an_error_is_one_line_with_its_hints_below() {
    let error = anyhow::Error::new(BadInput::NoFile).context("check failed");
    assert_eq!(
        in_words(&error),
        "check failed: no topology file is named\nhint: -f FILE, or REDRIVE_TOPOLOGY"
    );
    let error = anyhow::anyhow!("refused").context("no broker: refused");
    assert_eq!(in_words(&error), "no broker: refused");
}
