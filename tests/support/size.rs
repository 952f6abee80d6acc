//! How large the tests on a real Kafka are: small in the gate, full with `REDRIVE_TEST_SIZE=full`.

use std::time::Duration;

use crate::support::PATIENCE;

/// How many times as many records a full run has.
const FACTOR: usize = 10;
/// How often a full run does what a small one does once.
const TIMES: usize = 3;

/// The size of this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Small,
    Full,
}

fn size() -> Size {
    #[expect(clippy::disallowed_methods, reason = "it is for the tests alone, as the simulation's seeds are")]
    let size = std::env::var("REDRIVE_TEST_SIZE");
    match size.as_deref() {
        Ok("full") => Size::Full,
        Ok("small" | "") | Err(_) => Size::Small,
        Ok(other) => panic!("REDRIVE_TEST_SIZE is `{other}`, neither `small` nor `full`"),
    }
}

/// So many records where a small run has `small`.
pub(crate) fn records(small: usize) -> usize {
    match size() {
        Size::Small => small,
        Size::Full => small * FACTOR,
    }
}

/// How often what a fault is planted in is repeated.
pub(crate) fn repetitions() -> usize {
    match size() {
        Size::Small => 1,
        Size::Full => TIMES,
    }
}

/// How long something is away.
pub(crate) fn outage() -> Duration {
    match size() {
        Size::Small => Duration::from_secs(8),
        Size::Full => Duration::from_secs(30),
    }
}

/// Whether what takes minutes is waited for.
#[allow(dead_code, reason = "every test target takes what it needs")]
pub(crate) fn is_full() -> bool {
    size() == Size::Full
}

/// How long a wait may take that depends on how many records there are.
pub(crate) fn patience() -> Duration {
    match size() {
        Size::Small => PATIENCE,
        Size::Full => PATIENCE * 10,
    }
}
