//! What the demo says while it runs: a bar on a terminal, plain lines elsewhere; always on stderr.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::Instant;

/// Between two plain lines.
const EVERY: Duration = Duration::from_secs(2);

/// The one place that writes to the terminal while records flow.
#[derive(Debug)]
pub(crate) struct Progress {
    begun: Instant,
    goal: u64,
    bar: Option<ProgressBar>,
    next_line: Instant,
}

impl Progress {
    pub(crate) fn new(goal: u32) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{elapsed:>4} {bar:30} {percent:>3} %  {msg}");
            ProgressBar::new(u64::from(goal))
                .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        let begun = Instant::now();
        Self { begun, goal: goal.into(), bar, next_line: begun }
    }

    /// Something happened.
    pub(crate) fn tell(&self, text: &str) {
        let line = format!("{:>3} s  {text}", self.begun.elapsed().as_secs());
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{line}")),
            None => eprintln!("{line}"),
        }
    }

    /// So many records have their fate.
    pub(crate) fn show(&mut self, done: u64, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_position(done);
            bar.set_message(text.to_owned());
        } else if Instant::now() >= self.next_line {
            self.next_line = Instant::now() + EVERY;
            let percent = done * 100 / self.goal.max(1);
            self.tell(&format!("{percent:>3} %  {text}"));
        }
    }

    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// `20,000`
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
