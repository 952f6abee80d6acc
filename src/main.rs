//! The `redrive` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    redrive::cli::main()
}
