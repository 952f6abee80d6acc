//! The `redrive` command.

fn main() {}
