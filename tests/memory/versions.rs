//! The version table: 56 bytes a key at rest, 80 at the peak of growth, none for a lookup.

use std::hint::black_box;
use std::time::{Duration, Instant};

use redrive::core::guard::{Entry, KeyHasher, Version, VersionTable};

use crate::counted::count;

/// At rest, with everything that the table takes.
const BYTES_PER_KEY: usize = 56;
/// While it grows.
const BYTES_PER_KEY_AT_PEAK: usize = 80;

fn keys() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "it is for the tests alone, as in tests/support/size.rs")]
    let size = std::env::var("REDRIVE_TEST_SIZE");
    match size.as_deref() {
        Ok("full") => 10_000_000,
        Ok("small" | "") | Err(_) => 1_000_000,
        Ok(other) => panic!("REDRIVE_TEST_SIZE is `{other}`, neither `small` nor `full`"),
    }
}

/// As a key of orders looks.
fn key(number: u64) -> [u8; 24] {
    let mut key = *b"order-000000000000000000";
    let digits = key[6..].iter_mut().rev();
    digits.fold(number, |left, digit| {
        *digit = b'0' + u8::try_from(left % 10).unwrap();
        left / 10
    });
    key
}

fn entry(number: u64) -> Entry {
    Entry { version: Version(i64::try_from(number).unwrap()), tag: number }
}

fn table() -> VersionTable {
    VersionTable::new(KeyHasher::new(0x5eed))
}

/// The most bytes a key, and at how many keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
struct Worst {
    bytes: f64,
    keys: usize,
}

impl Worst {
    fn see(&mut self, bytes: usize, keys: usize) {
        let bytes = f64::from(u32::try_from(bytes).unwrap()) / f64::from(u32::try_from(keys).unwrap());
        if bytes > self.bytes {
            *self = Self { bytes, keys };
        }
    }
}

#[test]
fn a_key_takes_few_bytes_at_every_size_and_in_every_moment_of_growth() {
    let before = count().bytes;
    let mut table = table();
    let (mut at_rest, mut at_peak) = (Worst::default(), Worst::default());
    for number in 0..keys() {
        table.set(table.hash(&key(number)), entry(number));
        let (now, len) = (count(), table.len());
        if len >= VersionTable::BOUND_FROM {
            at_rest.see(now.bytes - before, len);
            at_peak.see(now.peak - before, len);
        }
        if now.peak > now.bytes {
            assert_eq!(table.memory(), now.bytes - before, "with {len} keys");
        }
    }
    let end = table.memory();
    println!("{} keys: {end} bytes; at rest {at_rest:?}, at the peak {at_peak:?}", table.len());
    assert_eq!(u64::try_from(table.len()).unwrap(), keys());
    assert!(at_rest.bytes <= f64::from(u32::try_from(BYTES_PER_KEY).unwrap()), "{at_rest:?}");
    assert!(at_peak.bytes <= f64::from(u32::try_from(BYTES_PER_KEY_AT_PEAK).unwrap()), "{at_peak:?}");
}

#[test]
fn nothing_is_allocated_for_a_lookup_or_another_version_of_a_known_key() {
    let mut table = table();
    for number in 0..100_000 {
        table.set(table.hash(&key(number)), entry(number));
    }
    let before = count().allocations;
    let mut found = 0usize;
    for number in 0..200_000 {
        found += usize::from(table.get(table.hash(&key(number))).is_some());
    }
    for number in 0..100_000 {
        table.set(table.hash(&key(number)), entry(number + 1));
    }
    assert_eq!((count().allocations, found), (before, 100_000));
}

/// Figures, and a ceiling that only a mistake of its kind reaches, such as a search through all keys.
#[test]
fn keys_are_set_and_looked_up_in_no_time() {
    let mut table = table();
    let set = timed("set", || {
        for number in 0..keys() {
            table.set(table.hash(&key(number)), entry(number));
        }
    });
    // 7,919 is a prime that no number of keys here shares a factor with: every key once, none beside the one before.
    let known = timed("looked up, known", || {
        for number in 0..keys() {
            assert!(black_box(table.get(table.hash(&key(number * 7_919 % keys())))).is_some());
        }
    });
    let unknown = timed("looked up, unknown", || {
        for number in keys()..keys() * 2 {
            assert!(black_box(table.get(table.hash(&key(number)))).is_none());
        }
    });
    println!("{} bytes of the process are in memory", resident().unwrap_or_default());
    for each in [set, known, unknown] {
        assert!(each < Duration::from_micros(50), "{each:?} a key");
    }
}

/// How long it takes for each key.
fn timed(what: &str, run: impl FnOnce()) -> Duration {
    #[expect(clippy::disallowed_methods, reason = "time is what is measured")]
    let from = Instant::now();
    run();
    let took = from.elapsed();
    let keys = u32::try_from(keys()).unwrap();
    println!(
        "{what}: {keys} keys in {took:?}, {:.1} million a second",
        f64::from(keys) / took.as_secs_f64() / 1e6
    );
    took / keys
}

/// As Linux tells it.
fn resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<usize>().ok().map(|kilobytes| kilobytes * 1024)
}
