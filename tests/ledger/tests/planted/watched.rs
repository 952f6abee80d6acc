//! Faults that only show while the workers run, and good runs that look odd at the moment of a sample.

use redrive_ledger::{Commit, Ends, Kind, Next, Offsets, Part, Report, Role, Rules, Seen, Watch};

use crate::run::{self, Run};

/// What is consumed of the good run, and when what follows from it was written.
const STEPS: [(Role, i32, i64, i64); 10] = [
    (Role::Source, 0, 0, 60),
    (Role::Source, 0, 1, 100),
    (Role::Source, 0, 2, 100),
    (Role::Source, 1, 0, 100),
    (Role::Source, 1, 1, 100),
    (Role::Tier(0), 0, 0, 5_110),
    (Role::Tier(0), 0, 1, 5_200),
    (Role::Tier(0), 1, 0, 5_100),
    (Role::Tier(0), 1, 1, 10_200),
    (Role::Tier(1), 0, 0, 15_300),
];
/// When something happens in it.
const MOMENTS: [i64; 7] = [40, 60, 100, 5_100, 5_200, 10_200, 15_300];

/// The good run as it is seen by somebody who watches it.
struct Film {
    watch: Watch,
    records: Vec<Seen>,
    rules: Rules,
}

impl Film {
    fn of(run: Run) -> Self {
        let mut records = run.history.records;
        records.sort_by_key(|seen| (seen.role, seen.partition, seen.offset));
        Self { watch: Watch::new(run.rules.clone()), records, rules: run.rules }
    }

    fn good() -> Self {
        Self::of(Run::good())
    }

    /// What is committed at a moment.
    fn commits(at: i64) -> Vec<Commit> {
        let mut commits: Vec<Commit> = Vec::new();
        for (role, partition, offset, settled) in STEPS {
            if settled <= at {
                commits.retain(|commit| (commit.role, commit.partition) != (role, partition));
                commits.push(Commit { role, partition, offset: offset + 1 });
            }
        }
        commits
    }

    /// Where the partitions end at a moment.
    fn ends(&self, at: i64) -> Vec<Ends> {
        let mut ends: Vec<Ends> = Vec::new();
        for seen in self.records.iter().filter(|seen| seen.timestamp <= at) {
            let (role, partition, end) = (seen.role, seen.partition, seen.offset + 2);
            ends.retain(|ends| (ends.role, ends.partition) != (role, partition));
            ends.push(Ends { role, partition, start: 0, stable: end, end });
        }
        ends
    }

    fn read(&mut self, at: i64, but: impl Fn(&Seen) -> bool) {
        for seen in self.records.iter().filter(|seen| seen.timestamp <= at && !but(seen)) {
            self.watch.record(seen);
        }
    }

    /// A whole cut of the moment, with the offsets of another one.
    fn cut_with(&mut self, at: i64, commits: i64) {
        let next = self.watch.sample(at, &Self::commits(commits), &self.ends(at));
        assert_eq!(next, Next::Read);
        self.read(at, |_| false);
        self.watch.prove(at);
    }

    fn cut(&mut self, at: i64) {
        self.cut_with(at, at);
    }

    fn found(&self) -> Vec<Kind> {
        let mut kinds: Vec<Kind> = self.watch.findings().map(|finding| finding.kind).collect();
        kinds.dedup();
        kinds
    }

    /// The last look, when all is done and committed to the ends.
    fn finish(mut self, run: &Run) -> Report {
        let ends = self.ends(i64::MAX);
        let committed = |ends: &&Ends| ends.role.is_lane();
        let commits: Vec<Commit> = ends
            .iter()
            .filter(committed)
            .map(|ends| Commit { role: ends.role, partition: ends.partition, offset: ends.end })
            .collect();
        assert_eq!(self.watch.sample(20_000, &commits, &ends), Next::Read);
        self.read(20_000, |_| false);
        self.watch.prove(20_000);
        self.watch.finish(run.history.starts.as_deref())
    }
}

#[test]
fn a_good_run_has_no_findings_at_any_moment_and_none_at_the_end() {
    let mut film = Film::good();
    for at in MOMENTS {
        film.cut(at);
        assert_eq!(film.found(), [], "at {at}");
    }
    let report = film.finish(&Run::good());
    assert!(report.is_clean() && report.balances(), "{report}");
    assert_eq!((report.cuts, report.source, report.output, report.repeated), (8, 5, 3, 0));
}

#[test]
fn a_watch_that_begins_in_the_middle_or_at_the_end_finds_as_little() {
    for first in MOMENTS {
        let mut film = Film::good();
        film.cut(first);
        assert_eq!(film.found(), []);
        let report = film.finish(&Run::good());
        assert!(report.is_clean(), "{report}");
    }
}

#[test]
fn a_fate_may_be_readable_before_its_offset_for_as_long_as_a_transaction_takes() {
    let mut film = Film::good();
    for (index, at) in MOMENTS.into_iter().enumerate() {
        film.cut_with(at, MOMENTS[index.saturating_sub(1)]);
        assert_eq!(film.found(), [], "at {at}");
    }
    assert!(film.finish(&Run::good()).is_clean());
}

#[test]
fn an_offset_may_be_committed_before_its_fate_is_readable() {
    let mut film = Film::good();
    let mut ends = film.ends(60);
    ends.iter_mut().filter(|ends| ends.role == Role::Output).for_each(|ends| ends.stable = 0);
    assert_eq!(film.watch.sample(60, &Film::commits(60), &ends), Next::Sample);
    // The marker has arrived, and the next records are in their transaction.
    ends.iter_mut()
        .filter(|ends| ends.role == Role::Output)
        .for_each(|ends| (ends.stable, ends.end) = (2, 9));
    assert_eq!(film.watch.sample(61, &Film::commits(60), &ends), Next::Read);
    film.read(60, |_| false);
    assert_eq!(film.watch.prove(61), 1);
    assert_eq!(film.found(), []);
}

#[test]
fn records_may_be_read_before_what_they_come_from() {
    let mut film = Film::good();
    film.records.reverse();
    film.records.sort_by_key(|seen| (std::cmp::Reverse(seen.role), seen.partition, seen.offset));
    for at in &MOMENTS[1..] {
        film.cut(*at);
        assert_eq!(film.found(), [], "at {at}");
    }
    assert!(film.finish(&Run::good()).is_clean());
}

#[test]
fn a_copy_may_be_read_before_the_one_before_it() {
    let late = |seen: &Seen| seen.role == Role::Tier(0) && seen.partition == 0;
    let mut film = Film::good();
    assert_eq!(film.watch.sample(99, &Film::commits(40), &film.ends(60)), Next::Read);
    film.read(5_200, late);
    film.watch.prove(99);
    assert_eq!(film.found(), []);
    film.cut(5_200);
    film.cut(5_200);
    assert_eq!(film.found(), []);
}

#[test]
fn a_copy_without_the_one_before_it_is_a_gap_once_nothing_more_comes() {
    let mut run = Run::good();
    run.history
        .records
        .retain(|seen| !(seen.role == Role::Tier(0) && seen.offset == 1 && seen.partition == 0));
    let mut film = Film::of(run);
    film.cut(5_200);
    assert_eq!(film.found(), []);
    film.cut(5_200);
    assert_eq!(film.found(), [Kind::AttemptGap]);
}

#[test]
fn a_fate_that_came_after_its_offset_was_lost_between_two_samples() {
    let mut film = Film::good();
    let hidden = |seen: &Seen| seen.role == Role::Output;
    let _ = film.watch.sample(60, &Film::commits(60), &film.ends(60));
    film.read(60, hidden);
    film.watch.prove(60);
    assert_eq!(film.found(), [Kind::Lost]);
    // It comes after all: at the end nobody could tell.
    let report = film.finish(&Run::good());
    assert_eq!((report.findings.len(), report.count(Kind::Lost)), (1, 1), "{report}");
}

#[test]
fn a_copy_that_was_passed_without_a_fate_is_lost_while_it_runs() {
    let mut run = Run::good();
    run.remove(Role::DeadLetter, "for ever");
    let mut film = Film::of(run);
    film.cut(10_200);
    assert_eq!(film.found(), []);
    film.cut(15_300);
    assert_eq!(film.found(), [Kind::Lost]);
}

#[test]
fn a_second_fate_is_found_long_after_the_first() {
    let mut run = Run::good();
    run.repeat(Role::Output, "first try");
    run.history.records.last_mut().unwrap().timestamp = 10_200;
    let mut film = Film::of(run);
    for at in MOMENTS {
        film.cut(at);
    }
    assert_eq!(film.found(), [Kind::Doubled]);
}

#[test]
fn a_fate_whose_offset_never_comes_is_torn() {
    let mut film = Film::good();
    // No other record leads there.
    film.records.retain(|seen| seen.value.as_deref() == Some(b"first try"));
    film.cut_with(60, 40);
    film.cut_with(60 + film.rules.longest_open, 40);
    assert_eq!(film.found(), [], "the transaction may still be under way");
    film.cut_with(61 + film.rules.longest_open, 40);
    assert_eq!(film.found(), [Kind::Torn]);
}

#[test]
fn an_offset_that_goes_down_is_found() {
    let mut film = Film::good();
    film.cut(10_200);
    let mut commits = Film::commits(10_200);
    commits[0].offset -= 1;
    let _ = film.watch.sample(10_201, &commits, &film.ends(10_200));
    assert_eq!(film.found(), [Kind::Regression]);
}

#[test]
fn an_offset_that_goes_away_is_found_unless_offsets_may_expire() {
    let without = |offsets| {
        let mut run = Run::good();
        run.rules.offsets = offsets;
        let mut film = Film::of(run);
        film.cut(10_200);
        let _ = film.watch.sample(10_201, &[], &film.ends(10_200));
        film.found()
    };
    assert_eq!(without(Offsets::Stay), [Kind::Regression]);
    assert_eq!(without(Offsets::MayExpire), []);
}

#[test]
fn an_offset_past_the_end_is_found() {
    let mut film = Film::good();
    let commits = [Commit { role: Role::Source, partition: 0, offset: 5 }];
    let _ = film.watch.sample(40, &commits, &film.ends(40));
    assert_eq!(film.found(), [Kind::BeyondEnd]);
}

/// Looks at one partition whose stable offset and end are given, each a while after the one before.
fn pinned(looks: &[(i64, i64)]) -> Vec<Kind> {
    let mut watch = Watch::new(run::rules());
    let (role, partition): Part = (Role::State, 0);
    for (at, (stable, end)) in (0..).step_by(6_000).zip(looks) {
        let ends = Ends { role, partition, start: 0, stable: *stable, end: *end };
        let _ = watch.sample(at, &[], &[ends]);
    }
    watch.findings().map(|finding| finding.kind).collect()
}

#[test]
fn a_transaction_that_stays_open_for_too_long_is_found_once() {
    assert_eq!(pinned(&[(5, 9), (5, 9), (5, 12), (5, 12), (5, 12)]), [Kind::OpenTransaction]);
    assert_eq!(pinned(&[(5, 9), (5, 9)]), []);
    // One after another, and one that ended.
    assert_eq!(pinned(&[(5, 9), (9, 12), (12, 15), (15, 16), (16, 17)]), []);
    assert_eq!(pinned(&[(5, 9), (5, 9), (9, 9), (9, 12), (9, 12)]), []);
}

#[test]
fn a_record_that_was_deleted_while_it_waited_is_found() {
    let mut film = Film::good();
    film.cut(100);
    let mut ends = film.ends(100);
    ends.iter_mut()
        .filter(|ends| ends.role == Role::Tier(0) && ends.partition == 1)
        .for_each(|ends| ends.start = 1);
    assert_eq!(film.watch.sample(101, &Film::commits(100), &ends), Next::Read);
    film.watch.prove(101);
    assert_eq!(film.found(), [Kind::Deleted]);
}

#[test]
fn a_request_that_was_passed_without_an_answer_is_lost_while_it_runs() {
    let passed = |answers: &[&str]| {
        let mut watch = Watch::new(run::rules());
        let record = |role, key: &str| Seen {
            role,
            partition: 0,
            offset: 0,
            timestamp: 40,
            key: Some(key.into()),
            value: Some(b"resume".to_vec()),
            headers: vec![],
        };
        let ends = |role| Ends { role, partition: 0, start: 0, stable: 1, end: 1 };
        let commits = [Commit { role: Role::Control, partition: 0, offset: 1 }];
        let _ = watch.sample(40, &commits, &[ends(Role::Control), ends(Role::Cases)]);
        watch.record(&record(Role::Control, "r1"));
        answers.iter().for_each(|key| watch.record(&record(Role::Cases, key)));
        watch.prove(40);
        watch.findings().map(|finding| finding.kind).collect::<Vec<_>>()
    };
    assert_eq!(passed(&["a/r1"]), []);
    assert_eq!(passed(&[]), [Kind::Lost]);
}

#[test]
fn what_was_read_once_and_is_gone_when_it_is_read_again_is_unstable() {
    let mut film = Film::good();
    film.cut(100);
    let watched = film.finish(&Run::good());
    let joined = |run: &Run| {
        let mut report = redrive_ledger::audit(&run.rules, &run.history);
        report.join(&run.rules, &watched);
        report
    };
    let report = joined(&Run::good());
    assert!(report.is_clean(), "{report}");
    assert_eq!(report.cuts, 2);

    let mut without = Run::good();
    without.record(Role::Output, "hops").timestamp += 1;
    assert_eq!(joined(&without).count(Kind::Unstable), 1);
    without.remove(Role::Output, "hops");
    assert_eq!(joined(&without).count(Kind::Unstable), 1);
}
