//! Randomness that a seed determines: splitmix64.

use std::time::Duration;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

/// One step of splitmix64: a number that depends on every bit of the state.
pub(crate) fn mix(state: u64) -> u64 {
    let mut word = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number in `0..bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// A number in `low..=high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// An index into a list of this length.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let index = self.index(from.len());
        &from[index]
    }

    /// True in `percent` of a hundred cases.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A time between two times, in microseconds.
    pub(crate) fn time(&mut self, low: Duration, high: Duration) -> Duration {
        let micros = self.between(low.as_micros() as u64, high.as_micros() as u64);
        Duration::from_micros(micros)
    }

    pub(crate) fn millis(&mut self, low: u64, high: u64) -> Duration {
        self.time(Duration::from_millis(low), Duration::from_millis(high))
    }
}
