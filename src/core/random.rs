//! The core's own random numbers: seeded from outside, so that a run can be repeated.

use std::time::Duration;

/// SplitMix64: enough for jitter, never for secrets.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A duration uniform in `[0, at_most]`, by the microsecond. The bias of the modulo is below 2⁻²⁰ up to a year.
    pub(crate) fn up_to(&mut self, at_most: Duration) -> Duration {
        let micros = u64::try_from(at_most.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.next().checked_rem(micros.saturating_add(1)).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_is_uniform_from_zero_to_the_bound() {
        let bound = Duration::from_millis(100);
        let mut random = Random::new(7);
        let mut tenths = [0u32; 10];
        for _ in 0..100_000 {
            let drawn = random.up_to(bound);
            assert!(drawn <= bound);
            tenths[usize::try_from(drawn.as_micros() * 10 / 100_001).unwrap()] += 1;
        }
        assert!(tenths.iter().all(|count| (9_500..10_500).contains(count)), "{tenths:?}");
    }
}
