//! What is found wrong in a state topic.

use bytes::Bytes;

use super::super::fixture::{Log, counting};
use super::*;
use crate::core::guard::Version;
use crate::core::policy::{First, OrderKey, OrderPolicy};
use crate::core::state::{applied_key, clock_key, position_key};

fn survey(log: &Log, order: &OrderPolicy) -> Survey {
    let mut survey = Survey::new(KeyHasher::new(7), order);
    log.read(|logged| survey.take(logged));
    survey
}

fn flaws(log: &Log) -> Vec<Flaw> {
    survey(log, &counting(First::Any)).flaws()
}

fn at(partition: i32, offset: i64) -> Place {
    Place { partition: Partition(partition), offset: Offset(offset) }
}

fn hash(key: &str) -> KeyHash {
    KeyHasher::new(7).hash(key.as_bytes())
}

#[test]
fn a_topic_as_tasks_write_it_is_clean() {
    let log = Log::default()
        .applied(0, "a", 4, 1)
        .held(0, "a", 6, 1)
        .applied(1, "b", 9, 1)
        .blocked(1, "b", &[10], None)
        .clock(0, 60)
        .clock(1, 60)
        .raw(0, &b"\0\0\0\x01z\0\0\0\0"[..], Some(Bytes::from_static(b"of a later version")));
    let survey = survey(&log, &counting(First::Any));
    assert_eq!((survey.flaws(), survey.keys()), (vec![], 2));
}

#[test]
fn a_key_on_two_partitions_is_found_with_the_newest_entry_of_each() {
    let log = Log::default()
        .applied(0, "a", 4, 1)
        .applied(2, "a", 3, 1)
        .applied(0, "a", 5, 1)
        .held(1, "a", 9, 1)
        .applied(1, "b", 1, 1);
    let places = vec![(at(0, 2), Some(Version(5))), (at(1, 3), None), (at(2, 1), Some(Version(3)))];
    let apart = Flaw::Apart { key: hash("a"), places };
    let found = flaws(&log);
    assert_eq!(found[0], apart);
    assert_eq!(found[1].word(), "held-and-uncounted", "what is held there has no count of its own");
    let by_partition = OrderPolicy { key: OrderKey::Partition, ..OrderPolicy::default() };
    assert_eq!(survey(&log, &by_partition).flaws(), []);

    let mut names = Names::of(KeyHasher::new(7), found.iter());
    assert!(!names.is_complete());
    log.read(|logged| names.take(logged));
    assert!(names.is_complete());
    assert_eq!(names.get(hash("a")), b"a");
}

#[test]
fn a_key_that_has_left_a_partition_is_on_one() {
    for gone in [0, 1] {
        let log = Log::default().applied(0, "a", 4, 1).applied(1, "a", 3, 1);
        let log = log.raw(gone, applied_key(b"a"), None);
        assert_eq!(survey(&log, &counting(First::Any)).keys(), 1);
        assert_eq!(flaws(&log), []);
        assert_eq!(flaws(&log.applied(gone, "a", 8, 1)).len(), 1, "and is back");
    }
}

#[test]
fn what_cannot_be_read_is_found_unless_it_was_replaced() {
    let bad = || Some(Bytes::from_static(b"\xff"));
    let log = Log::default()
        .raw(0, applied_key(b"a"), bad())
        .raw(1, position_key("source"), bad())
        .raw(1, clock_key(), bad())
        .raw(1, &b"junk"[..], bad())
        .raw(1, &b"junk"[..], None);
    let kinds: Vec<_> = flaws(&log).iter().map(Flaw::word).collect();
    assert_eq!(kinds, ["unreadable", "unreadable", "unreadable", "foreign"]);
    let mended = log.applied(0, "a", 1, 1).clock(1, 1);
    assert_eq!(flaws(&mended).len(), 2);
}

#[test]
fn a_held_record_that_is_passed_or_has_no_count_is_found() {
    let log = Log::default().applied(0, "a", 6, 1).held(0, "a", 6, 1).held(0, "a", 7, 1).held(1, "b", 3, 1);
    let passed = Flaw::Passed { key: hash("a"), place: at(0, 1), version: Version(6), applied: Version(6) };
    let uncounted = Flaw::Uncounted { key: hash("b"), place: at(1, 3), version: Version(3) };
    assert_eq!(flaws(&log), [passed.clone(), uncounted]);
    // The first version is known before any is admitted.
    assert_eq!(survey(&log, &counting(First::At(Version(1)))).flaws(), [passed]);
    // Places are no versions where nothing counts.
    assert_eq!(survey(&log, &OrderPolicy::default()).flaws(), []);
    assert_eq!(flaws(&log.released(0, "a", 6).released(1, "b", 3)), []);
}

/// 10,000,000 keys of any length must fit where a worker fits.
#[test]
fn a_key_takes_as_much_memory_however_long_it_is() {
    assert!(size_of::<KeyHash>() + survey::BYTES_OF_KEY <= 48);
}
