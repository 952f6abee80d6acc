//! What happened, step by step: a hash of every line, and the last lines to read.

use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::time::Duration;

/// As many lines as a failure shows.
const SHOWN: usize = 60;

/// The log of one run.
#[derive(Debug)]
pub(crate) struct Trace {
    hash: u64,
    steps: u64,
    lines: VecDeque<String>,
    shown: usize,
}

impl Trace {
    /// A log that keeps its last lines, or more of them where `REDRIVE_SIM_SEED` asks for one seed.
    pub(crate) fn new(lines: Option<usize>) -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, steps: 0, lines: VecDeque::new(), shown: lines.unwrap_or(SHOWN) }
    }

    /// Writes one line.
    pub(crate) fn say(&mut self, now: Duration, text: fmt::Arguments<'_>) {
        let mut line = if self.lines.len() < self.shown {
            String::new()
        } else {
            self.lines.pop_front().unwrap_or_default()
        };
        line.clear();
        let _ = write!(line, "{:>12.6} {text}", now.as_secs_f64());
        for byte in line.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.steps += 1;
        self.lines.push_back(line);
    }

    /// FNV-1a of all lines so far.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// The last lines, oldest first.
    pub(crate) fn tail(&self) -> String {
        self.lines.iter().fold(String::new(), |mut text, line| {
            let _ = writeln!(text, "  {line}");
            text
        })
    }
}
