//! The table against a map of the standard library.

use std::collections::BTreeMap;

use super::*;

fn entry(number: u64) -> Entry {
    Entry { version: Version(i64::try_from(number).unwrap()), tag: !number }
}

fn table() -> VersionTable {
    VersionTable::new(KeyHasher::new(7))
}

/// The hash of a key by its number.
fn key(table: &VersionTable, number: u64) -> KeyHash {
    table.hash(&number.to_be_bytes())
}

#[test]
fn what_is_set_is_there_until_it_is_set_anew_or_removed() {
    let mut table = table();
    let (one, two) = (key(&table, 1), key(&table, 2));
    assert_eq!((table.get(one), table.remove(one), table.len(), table.is_empty()), (None, None, 0, true));
    table.set(one, entry(1));
    table.set(two, entry(2));
    table.set(one, entry(3));
    assert_eq!((table.get(one), table.get(two), table.len()), (Some(entry(3)), Some(entry(2)), 2));
    assert_eq!((table.remove(one), table.get(one), table.len()), (Some(entry(3)), None, 1));
    assert_eq!((table.get(two), table.is_empty()), (Some(entry(2)), false));
}

/// Sets and removes keys by chance, as many as `keys` of them, and compares with a map throughout.
fn compare(keys: u64, steps: u64, seed: u64) {
    let (mut table, mut map) = (table(), BTreeMap::new());
    let draws = KeyHasher::new(seed);
    for step in 0..steps {
        let drawn = u64::try_from(draws.hash(&step.to_be_bytes()).first_bits(60)).unwrap();
        let number = drawn / 8 % keys;
        // There are times of more keys and times of fewer.
        let sets = if (step / (keys * 2)).is_multiple_of(2) { 7 } else { 1 };
        let hash = key(&table, number);
        assert_eq!(table.get(hash), map.get(&number).copied());
        if drawn % 8 < sets {
            table.set(hash, entry(step));
            map.insert(number, entry(step));
        } else {
            assert_eq!(table.remove(hash), map.remove(&number));
        }
        assert_eq!(table.len(), map.len());
    }
    for number in 0..keys {
        assert_eq!(table.get(key(&table, number)), map.get(&number).copied());
    }
}

#[test]
fn it_holds_what_a_map_holds_whatever_comes_and_goes() {
    compare(3, 1_000, 1);
    compare(1_000, 30_000, 2);
    compare(50_000, 500_000, 3);
}

#[test]
fn memory_is_given_back_when_keys_leave() {
    let mut table = table();
    let empty = table.memory();
    for number in 0..200_000 {
        table.set(key(&table, number), entry(number));
    }
    let full = table.memory();
    for number in 0..150_000 {
        table.remove(key(&table, number));
    }
    assert!(table.memory() * 5 < full * 2, "{} of {full} bytes", table.memory());
    for number in 150_000..200_000 {
        assert_eq!(table.remove(key(&table, number)), Some(entry(number)));
    }
    assert_eq!(table, VersionTable::new(KeyHasher::new(7)));
    assert!(table.memory() < empty + 1_024 * 200, "{} bytes of an empty table", table.memory());
}

#[test]
fn tables_are_equal_by_what_they_hold() {
    let (mut left, mut right) = (table(), table());
    for number in 0..5_000 {
        left.set(key(&left, number), entry(number));
        right.set(key(&right, 4_999 - number), entry(4_999 - number));
    }
    for number in 5_000..50_000 {
        right.set(key(&right, number), entry(number));
    }
    assert_ne!(left, right);
    for number in 5_000..50_000 {
        right.remove(key(&right, number));
    }
    assert_eq!(left, right);
    assert_eq!(left.clone(), left);
    right.set(key(&right, 17), entry(18));
    assert_ne!(left, right);
    assert_ne!(table(), VersionTable::new(KeyHasher::new(8)));
}

#[test]
fn it_is_shown_in_short() {
    let mut table = table();
    table.set(key(&table, 1), entry(1));
    assert_eq!(format!("{table:?}"), "VersionTable { len: 1, .. }");
}
