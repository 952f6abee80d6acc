//! A whole cluster of workers in virtual time: an in-memory Kafka, simulated shells around the real core, faults that a
//! seed determines, and every invariant checked after every step.
//!
//! `REDRIVE_SIM_SEEDS` says how many seeds run, `REDRIVE_SIM_FROM` from which on; `REDRIVE_SIM_SEED` runs one alone and
//! shows its whole trace where it fails.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::as_conversions,
    clippy::wildcard_enum_match_arm,
    reason = "a model in a test: where it is wrong it must fail at once"
)]

use std::io::Write as _;

mod asking;
mod checker;
mod cluster;
mod faults;
mod handling;
mod holding;
mod lineage;
mod machine;
mod membership;
mod plan;
mod planted;
mod random;
mod reached;
mod read_back;
mod reading;
mod refusal;
mod regressions;
mod renewal;
mod run;
mod slot;
mod source;
mod trace;
mod transactor;
mod twins;
mod versions;
mod world;

use self::planted::Bug;
use self::run::{Kind, run, run_many};

/// Every seed has at least so many faults that struck.
const FAULTS: u64 = 20;
/// Seeds of an ordinary test run.
const SEEDS: u64 = 500;

#[expect(clippy::disallowed_methods, reason = "the test's own switches")]
fn number_from(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn every_invariant_holds_under_every_seed() {
    if let Some(seed) = number_from("REDRIVE_SIM_SEED") {
        match run(seed, None, Some(usize::MAX)) {
            Ok(passed) => println!("seed {seed} holds: {passed:?}"),
            Err(failure) => panic!("{failure}"),
        }
        return;
    }
    #[expect(clippy::disallowed_methods, reason = "the summary tells the speed")]
    let started = std::time::Instant::now();
    let seeds = number_from("REDRIVE_SIM_SEEDS").unwrap_or(SEEDS);
    let from = number_from("REDRIVE_SIM_FROM").unwrap_or(1);
    let (totals, failure) = run_many(from, seeds, None);
    let took = started.elapsed().as_secs_f64();
    let run::Totals { seeds, steps, counts, fewest_faults, reached } = totals;
    // Past the test runner, which keeps what a passing test prints to itself.
    let _ = writeln!(
        std::io::stderr(),
        "simulation: {seeds} seeds, {steps} steps, {} faults (at least {fewest_faults} each), {} transactions committed and {} aborted, {} records, \
         {} handler calls in {took:.1} s, {:.0} records/s",
        counts.faults,
        counts.commits,
        counts.aborts,
        counts.records,
        counts.handled,
        counts.records as f64 / took,
    );
    if failure.is_none() && seeds >= SEEDS {
        let missing: Vec<_> = reached::expected().difference(&reached).copied().collect();
        assert!(missing.is_empty(), "no seed leads to {missing:?}");
    }
    assert!(failure.is_some() || fewest_faults >= FAULTS, "a seed has only {fewest_faults} faults");
    if let Some(failure) = failure {
        panic!("{failure}");
    }
}

#[test]
fn seeds_that_once_failed_hold() {
    for seed in regressions::SEEDS {
        if let Err(failure) = run(*seed, None, None) {
            panic!("{failure}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let hash = |seed| {
        run(seed, None, None).map(|passed| (passed.hash, passed.steps)).map_err(|failure| failure.detail)
    };
    for seed in 1..=10 {
        assert_eq!(hash(seed), hash(seed));
    }
    assert_ne!(hash(1), hash(2));
}

#[test]
fn every_planted_bug_is_found_and_named() {
    let mut missed = Vec::new();
    for (bug, expected) in Bug::ALL {
        let (totals, failure) = run_many(1, SEEDS, Some(bug));
        match failure {
            Some(failure) => {
                let first_lines = failure.detail.chars().take(160).collect::<String>();
                println!("{bug:?}: seed {} {:?} {first_lines}", failure.seed, failure.kind);
                let is_named = match expected {
                    // Only that nothing happens shows it.
                    [] => failure.kind == Kind::Stalled,
                    some => some.iter().any(|id| failure.kind == Kind::Broken(*id)),
                };
                if !is_named {
                    missed.push(format!("{bug:?} is {:?}, not {expected:?}: {failure}", failure.kind));
                }
            }
            None => missed.push(format!("{bug:?} is not found in {} seeds", totals.seeds)),
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}
