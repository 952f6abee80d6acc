//! The ledger while the workers run: samples of what the group has committed, and cuts at which everything is proved.
//!
//! Nothing stands still, so the order in which things are looked at decides what can be proved:
//!
//! 1. The committed offsets are read; then the ends of all partitions, open transactions included. Whatever belongs to
//!    those offsets was written before, so it lies before those ends. It may not be readable yet: the markers of one
//!    transaction reach the partitions one after another, that of the offsets perhaps first.
//! 2. Once every partition is stable up to those ends, all of them are read at least that far.
//! 3. Each record before the offsets of step 1 must have its fate, or a copy that waits for it. More may have been read
//!    than that; it can add a fate, and never take one away.
//!
//! The other way round there is no such moment: a fate can be read before its offset. That offset only has a time
//! within which it must come, as a transaction has one within which it must end. A chain of records is judged once
//! nothing new was learned of it for a whole cut, since a copy can be read before the one before it.

use std::collections::BTreeMap;

use super::chain::{Known, Whereabouts};
use super::kind::{Finding, Findings, Kind};
use super::ledger::{Commits, Ledger};
use super::life::Step;
use super::lives::Origin;
use super::{Commit, Ends, Offsets, Part, Report, Rules, Seen, Start, lanes};

/// What to do after a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Next {
    /// Take another sample: a transaction is open that may have to do with this cut.
    Sample,
    /// Read all topics on to their stable ends, give each record to [`Watch::record`], then [`Watch::prove`].
    Read,
}

/// An audit while the workers run.
#[derive(Debug)]
pub struct Watch {
    ledger: Ledger,
    /// By partition of a topic, the first offset that was not read.
    next: BTreeMap<Part, i64>,
    /// By partition of the source.
    progress: BTreeMap<i32, Progress>,
    before: Commits,
    open: Option<OpenCut>,
    /// What lies behind a last stable offset, and since when it is there.
    pinned: BTreeMap<Part, Since>,
    /// The last record that must be committed, and since when it is not.
    behind: BTreeMap<Part, Since>,
    cuts: u32,
    findings: Findings,
}

/// How much of a partition's source records has to be looked at again.
#[derive(Debug, Default)]
struct Progress {
    /// So many have their fate, and all of it is proved.
    closed: usize,
    /// Of those behind this many nothing is known.
    reach: usize,
}

/// A cut that is not proved yet.
#[derive(Debug)]
struct OpenCut {
    commits: Commits,
    ends: BTreeMap<Part, Ends>,
}

#[derive(Clone, Copy, Debug)]
struct Since {
    offset: i64,
    at: i64,
}

impl Watch {
    /// Of a pipeline from its beginning.
    pub fn new(rules: Rules) -> Self {
        Self {
            ledger: Ledger::new(rules),
            next: BTreeMap::new(),
            progress: BTreeMap::new(),
            before: Commits::default(),
            open: None,
            pinned: BTreeMap::new(),
            behind: BTreeMap::new(),
            cuts: 0,
            findings: Findings::default(),
        }
    }

    /// Takes the group's offsets and, read after them, the ends of all partitions; `at` in milliseconds of one clock.
    pub fn sample(&mut self, at: i64, commits: &[Commit], ends: &[Ends]) -> Next {
        let taken = Commits::of(commits);
        self.regressions(&taken);
        for ends in ends {
            self.pin(at, ends);
            self.ledger.ends(*ends);
        }
        lanes::beyond(&self.ledger.rules, &self.ledger.ends, &taken, &mut self.findings);
        commits.iter().for_each(|commit| self.ledger.commit(*commit));
        let now: BTreeMap<Part, Ends> =
            ends.iter().map(|ends| ((ends.role, ends.partition), *ends)).collect();
        self.before = taken.clone();
        let open = self.open.get_or_insert_with(|| OpenCut { commits: taken, ends: now.clone() });
        let stable = |(part, then): (&Part, &Ends)| now.get(part).is_some_and(|now| now.stable >= then.end);
        if open.ends.iter().all(stable) { Next::Read } else { Next::Sample }
    }

    /// Takes a record that was read with `read_committed`. What was taken before is passed over.
    pub fn record(&mut self, seen: &Seen) {
        let next = self.next.entry((seen.role, seen.partition)).or_default();
        if seen.offset < *next {
            return;
        }
        *next = seen.offset + 1;
        if let Some(origin) = self.ledger.take(seen) {
            self.learned(origin);
        }
    }

    /// Where a partition is to be read on; `None`: from its beginning.
    pub fn next(&self, part: Part) -> Option<i64> {
        self.next.get(&part).copied()
    }

    /// Proves the cut for which everything has been read; says how many cuts are proved.
    pub fn prove(&mut self, at: i64) -> u32 {
        let Some(open) = self.open.take() else { return self.cuts };
        for origin in self.ledger.adopt() {
            self.learned(origin);
        }
        let mut behind = BTreeMap::new();
        let partitions: Vec<i32> = self.ledger.lives.partitions().collect();
        for partition in partitions {
            self.prove_partition(partition, &open, &mut behind);
        }
        self.requests(&open);
        self.catch_up(at, &open.commits, &behind);
        self.cuts += 1;
        self.cuts
    }

    /// What was found so far.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter()
    }

    /// Everything once more and as a whole, from the last sample and what was read after it.
    pub fn finish(mut self, starts: Option<&[Start]>) -> Report {
        if let Some(starts) = starts {
            self.ledger.calls(starts);
        }
        self.ledger.findings.extend(&self.findings);
        Report { cuts: self.cuts, ..self.ledger.report() }
    }

    fn learned(&mut self, (partition, offset): Origin) {
        let place = self.ledger.lives.before(partition, offset);
        let Some(life) = self.ledger.lives.at_mut((partition, offset)) else { return };
        life.stamp = self.cuts;
        let progress = self.progress.entry(partition).or_default();
        progress.closed = progress.closed.min(place);
        if !life.is_untouched() {
            progress.reach = progress.reach.max(place + 1);
        }
    }

    fn prove_partition(&mut self, partition: i32, open: &OpenCut, behind: &mut BTreeMap<Part, i64>) {
        let Ledger { rules, reasons, lives, .. } = &self.ledger;
        let progress = self.progress.entry(partition).or_default();
        let consumed = open.commits.next((super::Role::Source, partition)).unwrap_or(0);
        let reach = progress.reach.max(lives.before(partition, consumed));
        let mut closing = true;
        for life in lives.range(partition, progress.closed..reach) {
            let known = Known { rules, reasons, ends: &open.ends, partition, life };
            match known.whereabouts(&open.commits) {
                Whereabouts::Lost(step) => known.lost(step, &mut self.findings),
                Whereabouts::Deleted(step) => known.deleted(step, &mut self.findings),
                Whereabouts::Unread | Whereabouts::Waiting | Whereabouts::Emitted | Whereabouts::Dead => {}
            }
            let quiet = life.stamp < self.cuts;
            if quiet {
                known.shape(&mut self.findings);
            }
            let mut closed = quiet && !life.ends.is_empty();
            for Step { part, offset, settled } in life.steps(partition) {
                let covered = open.commits.cover(part, offset);
                closed &= covered;
                if settled && !covered {
                    let last: &mut i64 = behind.entry(part).or_insert(offset);
                    *last = offset.max(*last);
                }
            }
            closing &= closed;
            progress.closed += usize::from(closing);
        }
    }

    fn requests(&mut self, open: &OpenCut) {
        let Ledger { rules, requests, .. } = &self.ledger;
        requests.unanswered(rules, &open.commits, &mut self.findings);
    }

    /// The offset of a fate that was seen comes within the longest time.
    fn catch_up(&mut self, at: i64, commits: &Commits, behind: &BTreeMap<Part, i64>) {
        self.behind.retain(|part, since| !commits.cover(*part, since.offset));
        for (part, offset) in behind {
            let since = self.behind.entry(*part).or_insert(Since { offset: *offset, at });
            if at - since.at > self.ledger.rules.longest_open {
                let what = format!(
                    "what follows from it was there `{}` ms ago, its offset is not committed",
                    at - since.at
                );
                let place = self.ledger.rules.place(part.0, part.1, since.offset);
                self.findings.find(Kind::Torn, place, what);
            }
        }
    }

    fn regressions(&mut self, now: &Commits) {
        let rules = &self.ledger.rules;
        for (part, before) in self.before.iter() {
            let what = match (now.next(part), rules.offsets) {
                (Some(next), _) if next < before => format!("`{before}` was committed, then `{next}`"),
                (None, Offsets::Stay) => format!("`{before}` was committed, then nothing"),
                (Some(_) | None, Offsets::Stay | Offsets::MayExpire) => continue,
            };
            self.findings.find(Kind::Regression, rules.part(part), what);
        }
    }

    fn pin(&mut self, at: i64, ends: &Ends) {
        let part = (ends.role, ends.partition);
        if ends.stable >= ends.end {
            self.pinned.remove(&part);
            return;
        }
        let since = self.pinned.entry(part).or_insert(Since { offset: ends.stable, at });
        if since.offset != ends.stable {
            *since = Since { offset: ends.stable, at };
        } else if at - since.at > self.ledger.rules.longest_open {
            // Told once per transaction, not once per sample.
            let what = format!(
                "stable up to `{}` for longer than `{}` ms while more is written",
                ends.stable, self.ledger.rules.longest_open
            );
            self.findings.find(Kind::OpenTransaction, self.ledger.rules.part(part), what);
        }
    }
}
