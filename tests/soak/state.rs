//! What a run has done so far, in a file, so that another one can go on from there.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::chaos::{Done, Outcome};

/// A run up to its last round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) seed: u64,
    /// Rounds that are over.
    pub(crate) rounds: usize,
    pub(crate) done: Done,
    pub(crate) found: Found,
    /// While records flowed.
    pub(crate) seconds: u64,
    /// What the naive worker did on the schedule of the first round.
    pub(crate) control: Option<Found>,
}

/// What the ledger found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Found {
    pub(crate) lost: usize,
    pub(crate) doubled: usize,
    pub(crate) early: usize,
    /// Of every other kind, and counts that are not as planned.
    pub(crate) others: usize,
    /// Calls that the handler had seen before.
    pub(crate) repeated: usize,
    /// What must not happen, apart from what the ledger finds.
    pub(crate) surprises: usize,
    /// Processes that ended with an error that they told, and were started again.
    pub(crate) gave_up: usize,
}

impl Found {
    pub(crate) fn of(outcome: &Outcome) -> Self {
        let books = &outcome.books;
        Self {
            lost: books.lost,
            doubled: books.doubled,
            early: books.early,
            others: books.others + books.differences.len(),
            repeated: books.repeated,
            surprises: outcome.surprises.len(),
            gave_up: outcome.gave_up.len(),
        }
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.lost + self.doubled + self.early + self.others + self.surprises == 0
    }

    fn add(&mut self, other: &Self) {
        self.lost += other.lost;
        self.doubled += other.doubled;
        self.early += other.early;
        self.others += other.others;
        self.repeated += other.repeated;
        self.surprises += other.surprises;
        self.gave_up += other.gave_up;
    }
}

impl State {
    pub(crate) fn new(seed: u64) -> Self {
        let (done, found) = (Done::default(), Found::default());
        Self { seed, rounds: 0, done, found, seconds: 0, control: None }
    }

    /// `None`: nothing is kept there.
    pub(crate) fn load(folder: &Path) -> Result<Option<Self>> {
        let file = file(folder);
        if !file.exists() {
            return Ok(None);
        }
        let text = std::fs::read(&file).with_context(|| format!("reading `{}`", file.display()))?;
        let state = serde_json::from_slice(&text);
        state.map(Some).with_context(|| format!("reading `{}`; --fresh begins anew", file.display()))
    }

    /// Whole or not at all.
    pub(crate) fn save(&self, folder: &Path) -> Result<()> {
        let file = file(folder);
        let new = file.with_extension("new");
        let text = serde_json::to_vec_pretty(self).context("writing down what is done")?;
        std::fs::write(&new, text).with_context(|| format!("writing `{}`", new.display()))?;
        std::fs::rename(&new, &file).with_context(|| format!("writing `{}`", file.display()))
    }

    /// A round is over.
    pub(crate) fn add(&mut self, outcome: &Outcome) {
        self.rounds += 1;
        self.done += outcome.done;
        self.found.add(&Found::of(outcome));
        self.seconds += rounded(outcome.took);
    }
}

fn rounded(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_millis() >= 500)
}

fn file(folder: &Path) -> PathBuf {
    folder.join("state.json")
}
