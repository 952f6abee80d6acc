//! What an abort means: what it waits for, what it stops, and whom it accuses.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Processor;
use super::commit::Open;
use super::suspect::Found;
use crate::core::event::{AbortCause, Action, Part, Report};
use crate::core::position::{Epoch, Partition};
use crate::core::time::Now;

/// The wait after the first abort; doubled after each further one.
pub(super) const FIRST_BACKOFF: Duration = Duration::from_millis(20);
/// The longest wait after an abort that names nothing.
pub(super) const LONGEST_BACKOFF: Duration = Duration::from_secs(2);

impl Processor {
    pub(super) fn aborted(&mut self, cause: &AbortCause, now: Now) {
        let (targets, writers, tried) = self.open.as_mut().map(Open::evidence).unwrap_or_default();
        let tasks = self.open.iter().flat_map(|open| &open.tasks);
        let epochs: BTreeMap<Partition, Epoch> = tasks.map(|task| (task.partition, task.epoch)).collect();
        let aborts = self.pace.aborts.saturating_add(1);
        self.resolve(|_| false, now);
        self.pace.aborts = aborts;
        match cause {
            AbortCause::Passing { .. } | AbortCause::Unwritable { .. } => {
                self.pace.most_bytes = (self.pace.most_bytes / 2).max(1);
            }
            // Not since it was too much at a time.
            AbortCause::Refused { .. } => {}
        }
        let (target, detail, named): (_, _, Vec<(Partition, Part)>) = match cause {
            AbortCause::Passing { .. } => {
                self.pace.not_before = now.mono.plus(doubled(FIRST_BACKOFF, aborts, LONGEST_BACKOFF));
                return;
            }
            AbortCause::Unwritable { target, detail } => {
                let named = targets.iter().filter(|(written, ..)| written == target);
                (*target, detail, named.map(|(_, partition, part)| (*partition, *part)).collect())
            }
            AbortCause::Refused { target, partition, flaw, suspects, detail } => {
                match self.accuse((&writers, &tried), suspects, (*target, *flaw, detail), now) {
                    Found::GoesOn => {
                        self.pace.aborts = 0;
                        self.recount();
                        return;
                    }
                    Found::NoOtherForm(parts) => (*target, detail, parts.into_iter().collect()),
                    Found::NoRecord => {
                        let asked = targets.contains(&(*target, *partition, Part::Requests));
                        let other = targets.contains(&(*target, *partition, Part::Records));
                        let part = if asked && !other { Part::Requests } else { Part::Records };
                        (*target, detail, vec![(*partition, part)])
                    }
                }
            }
        };
        let stopped = |(partition, part): &(Partition, Part)| {
            let epoch = epochs.get(partition);
            epoch.is_some_and(|epoch| self.block((*partition, *epoch), *part, target, now))
        };
        let blocked: Vec<(Partition, Part)> = named.into_iter().filter(stopped).collect();
        if blocked.is_empty() {
            // Nothing of it is ours any more: like an abort that names nothing.
            self.pace.not_before = now.mono.plus(doubled(FIRST_BACKOFF, aborts, LONGEST_BACKOFF));
            return;
        }
        self.pace.aborts = 0;
        for part in Part::ALL {
            let of_it = blocked.iter().filter(|(_, stopped)| *stopped == part);
            let partitions: Vec<Partition> = of_it.map(|(partition, _)| *partition).collect();
            if !partitions.is_empty() {
                let report = Report::Blocked { part, partitions, target, detail: detail.clone() };
                self.actions.push_back(Action::Report(report));
            }
        }
        self.recount();
    }
}

/// `first`, doubled `times - 1` times, at most `longest`.
pub(super) fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    let factor = 1u32.checked_shl(times.saturating_sub(1)).unwrap_or(u32::MAX);
    first.checked_mul(factor).unwrap_or(longest).min(longest)
}
