//! Two living workers with one identity: exactly one of them ends, and the other does all the work.

use super::plan::Plan;
use super::planted::Bug;
use super::run::{Kind, drive_plan};
use super::{SEEDS, number_from};

#[test]
fn of_two_workers_with_one_identity_exactly_one_ends_and_every_record_has_its_fate() {
    let seeds = number_from("REDRIVE_SIM_SEEDS").unwrap_or(SEEDS).div_ceil(10);
    let from = number_from("REDRIVE_SIM_FROM").unwrap_or(1);
    for seed in from..from + seeds {
        match drive_plan(Plan::twins(seed), None, None) {
            Ok(passed) => assert_eq!(passed.twins_ended, 1, "seed {seed}"),
            Err(failure) => panic!("{failure}"),
        }
    }
}

#[test]
fn one_that_takes_its_identity_back_before_it_ends_takes_the_other_along() {
    let ended = |seed| drive_plan(Plan::twins(seed), Some(Bug::TwinTakesIdBack), None);
    let nobody_is_left = |seed| ended(seed).is_err_and(|failure| failure.kind == Kind::Stalled);
    assert!((1..=SEEDS).any(nobody_is_left), "it harms nobody");
}
