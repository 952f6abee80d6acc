//! Hashes of keys, for memory, and of values, for the state topic.

use std::fmt;
use std::num::NonZero;

use siphasher::sip128::SipHasher24;
use xxhash_rust::xxh3::xxh3_64;

/// 128 bits that stand for an order key in memory. Means nothing outside of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash(NonZero<u128>);

impl KeyHash {
    /// The first `count` bits, as a number.
    pub(super) fn first_bits(self, count: u32) -> usize {
        let bits = self.0.get().checked_shr(u128::BITS.saturating_sub(count)).unwrap_or(0);
        usize::try_from(bits).unwrap_or(usize::MAX)
    }

    /// The 32 bits behind the first `count`.
    pub(super) fn bits_behind(self, count: u32) -> u32 {
        let bits = self.0.get().checked_shl(count).unwrap_or(0) >> (u128::BITS - u32::BITS);
        u32::try_from(bits).unwrap_or(u32::MAX)
    }
}

/// Hashes order keys, by a seed that every process draws for itself.
///
/// Two keys with one hash would share a version, and a good record of one could be dropped as stale: that must not happen by
/// chance, nor at the will of somebody who chooses keys. SipHash-2-4 with 128 bits is made for that: to whoever does not
/// know the seed its output cannot be told from random bits. So of `n` keys any two collide with a probability below
/// n² / 2¹²⁹: of 10,000,000, 1.5 × 10⁻²⁵.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyHasher {
    seed: u64,
}

impl KeyHasher {
    /// Hashes by `seed`: a random number in a process, a fixed one where a run is to be repeated.
    pub const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// The hash of a key's bytes.
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        /// Any constant; the seed is what nobody knows.
        const SECOND: u64 = u64::from_be_bytes(*b"redrive!");
        let hash = u128::from(SipHasher24::new_with_keys(self.seed, SECOND).hash(key));
        KeyHash(NonZero::new(hash).unwrap_or(NonZero::<u128>::MIN))
    }
}

impl fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyHasher").finish_non_exhaustive()
    }
}

/// What tells a value from another under the same version: XXH3-64 with seed 0, as xxHash 0.8 specifies it
/// (<https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md>), and 0 for the value of a tombstone. It stands in the
/// state topic, so it never changes.
pub fn fingerprint(value: Option<&[u8]>) -> u64 {
    value.map_or(0, xxh3_64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_hash_depends_on_the_key_its_length_and_the_seed() {
        let keys: [&[u8]; 8] = [b"", b"\0", b"\0\0", b"a", b"b", b"ab", b"ba", &[0; 300]];
        let hashers = [0, 1, u64::MAX].map(KeyHasher::new);
        let hashes: BTreeSet<_> =
            hashers.iter().flat_map(|hasher| keys.map(|key| hasher.hash(key))).collect();
        assert_eq!(hashes.len(), keys.len() * hashers.len());
        assert_eq!(KeyHasher::new(7).hash(b"order-1"), KeyHasher::new(7).hash(b"order-1"));
    }

    #[test]
    fn every_bit_of_a_hash_is_one_in_half_of_the_keys() {
        let hasher = KeyHasher::new(7);
        let mut ones = [0u32; 128];
        for key in 0..100_000u32 {
            let hash = hasher.hash(&key.to_be_bytes()).0.get();
            ones.iter_mut().enumerate().for_each(|(bit, ones)| *ones += u32::from(hash >> bit & 1 == 1));
        }
        assert!(ones.iter().all(|ones| (49_000..51_000).contains(ones)), "{ones:?}");
    }

    #[test]
    fn the_seed_is_not_shown() {
        assert_eq!(format!("{:?}", KeyHasher::new(424_242)), "KeyHasher { .. }");
    }

    /// Written once; never to be changed. Of every way in which XXH3 takes an input by its length.
    #[test]
    fn fingerprints_are_those_of_the_specification() {
        assert_eq!(fingerprint(None), 0);
        let bytes: Vec<u8> = (0..2_000u32).map(|place| u8::try_from(place * 31 % 251).unwrap()).collect();
        for (length, expected) in FINGERPRINTS {
            assert_eq!(fingerprint(Some(&bytes[..length])), expected, "{length}");
        }
    }

    /// By the reference implementation in C, xxHash 0.8.4.
    const FINGERPRINTS: [(usize, u64); 15] = [
        (0, 0x2d06_8005_38d3_94c2),
        (1, 0xc44b_dff4_074e_ecdb),
        (3, 0x3698_b801_91e6_25f9),
        (4, 0x2e4a_c2f1_c521_57fc),
        (8, 0x60e1_baa9_1347_a1f2),
        (9, 0x9c88_fc32_c37b_56cb),
        (16, 0x8626_370b_70d8_ac70),
        (17, 0xaa7a_5f47_9409_a664),
        (128, 0x040e_9775_6280_237a),
        (129, 0xf0f4_dc98_ce46_1dfd),
        (240, 0x8ace_cb90_be72_b9c3),
        (241, 0x82d3_ebf5_0a3e_9c42),
        (1024, 0xcbdf_f56b_050f_2c1c),
        (1025, 0x9bab_f502_35ce_a0a0),
        (2000, 0xba68_94c3_1d8c_69cb),
    ];
}
