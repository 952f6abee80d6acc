//! All failures of a record, compressed to a bounded header value.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use crate::core::class::{Class, Reason};
use crate::core::outcome::Verdict;
use crate::core::time::Timestamp;

/// The longest text form, in bytes: with the other bounds, all control headers of a record stay within 4 KiB.
pub const LONGEST: usize = 1024;

/// Failures that share lane, class and reason, in the order of their first.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    lane: String,
    verdict: Verdict,
    count: u64,
    first: Timestamp,
    last: Timestamp,
}

/// All failures of a record, compressed by (lane, class, reason) to count, first and last. Text form:
/// `source transient http-500 3 1700000000000 1700000009000; retry.5s …`; what no longer fits is only counted: `+7`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    entries: Vec<Entry>,
    uncounted: u64,
}

impl History {
    /// Adds one failure, seen in `lane` at `at`. The text form stays within [`LONGEST`] bytes.
    pub fn add(&mut self, lane: &str, verdict: &Verdict, at: Timestamp) {
        let known =
            self.entries.iter_mut().find(|entry| entry.lane == lane && alike(&entry.verdict, verdict));
        if let Some(entry) = known {
            entry.count = entry.count.saturating_add(1);
            entry.last = at;
            return;
        }
        let verdict = verdict.clone();
        self.entries.push(Entry { lane: lane.to_owned(), verdict, count: 1, first: at, last: at });
        // Room for every count and the rest to grow to the longest number: the text never grows past the bound later.
        let digits = self.entries.len().saturating_add(1).saturating_mul(20);
        if self.to_string().len().saturating_add(digits) > LONGEST {
            self.entries.pop();
            self.uncounted = self.uncounted.saturating_add(1);
        }
    }

    /// Whether there was no failure.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.uncounted == 0
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for Entry { lane, verdict: Verdict { class, reason }, count, first, last } in &self.entries {
            write!(f, "{separator}{lane} {class} {reason} {count} {first} {last}")?;
            separator = "; ";
        }
        if self.uncounted > 0 {
            write!(f, "{separator}+{}", self.uncounted)?;
        }
        Ok(())
    }
}

/// Whether two failures are written alike. A handler may name a reason like one of redrive's own, and which of the two it
/// was is not known any more once it has been read back.
fn alike(one: &Verdict, other: &Verdict) -> bool {
    one == other || (one.class == other.class && one.reason.to_string() == other.reason.to_string())
}

/// A text that is not a history.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{part}` is not an entry of a failure history")]
pub struct BadHistory {
    /// The part that could not be read.
    pub part: String,
}

impl FromStr for History {
    type Err = BadHistory;

    fn from_str(text: &str) -> Result<Self, BadHistory> {
        let mut history = Self::default();
        for part in text.split("; ").filter(|part| !part.is_empty()) {
            let read = if let Some(count) = part.strip_prefix('+') {
                count.parse().ok().map(|count| history.uncounted = count)
            } else {
                entry(part).map(|entry| history.entries.push(entry))
            };
            if read.is_none() {
                let mut shown = String::new();
                let _ = write!(shown, "{part:.80}");
                return Err(BadHistory { part: shown });
            }
        }
        Ok(history)
    }
}

fn entry(part: &str) -> Option<Entry> {
    let mut words = part.split(' ');
    let lane = words.next()?.to_owned();
    let class: Class = words.next()?.parse().ok()?;
    let reason: Reason = words.next()?.parse().ok()?;
    let count = words.next()?.parse().ok()?;
    let first = Timestamp::from_millis(words.next()?.parse().ok()?);
    let last = Timestamp::from_millis(words.next()?.parse().ok()?);
    words.next().is_none().then_some(Entry { lane, verdict: Verdict { class, reason }, count, first, last })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_named_like_one_of_redrives_own_takes_one_entry_however_often_it_is_read_back() {
        let verdict = Verdict { class: Class::Unknown, reason: Reason::Named("timeout".parse().unwrap()) };
        let mut history = History::default();
        for pass in 1..=3 {
            history.add("retry.5s", &verdict, Timestamp::from_millis(pass));
            history = history.to_string().parse().unwrap();
        }
        assert_eq!(history.to_string(), "retry.5s unknown timeout 3 1 3");
    }
}
