//! What is said of keys, word for word.

use super::super::fixture::{AT, Log, counting};
use super::*;
use crate::core::policy::{First, OnExhausted, WhileRetrying};

fn shown(order: &OrderPolicy, keys: &[&str], log: &Log) -> Shown {
    let wanted: BTreeSet<Vec<u8>> = keys.iter().map(|key| key.as_bytes().to_vec()).collect();
    let mut gathered = Gathered::new(Wanted::Keys(wanted.clone()));
    log.read(|logged| gathered.take(logged));
    Shown::of("payments", order, &wanted, &gathered)
}

fn text(shown: &Shown) -> String {
    let mut out = Vec::new();
    shown.in_text(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_gap_is_told_with_what_is_missing_and_until_when_it_is_waited_for() {
    let log = Log::default()
        .applied(3, "order-7", 10, 8)
        .applied(3, "other", 99, 1)
        .held(3, "order-7", 13, 600)
        .held(3, "order-7", 14, 20)
        .held(3, "order-7", 15, 600)
        .released(3, "order-7", 15)
        .blocked(3, "order-7", &[11], Some(12))
        .clock(3, 30);
    let shown = shown(&counting(First::Any), &["order-7"], &log);
    assert_eq!(
        text(&shown),
        "`order-7`  task 3\n\
         \x20 applied  version 10 at 2023-11-14T22:13:20.000Z by orders/3/10; its count began with 8\n\
         \x20 waits    version 11, orders/3/11, in a tier\n\
         \x20 dead     version 12, dead letter orders/3/12#1\n\
         \x20 held     version 13 (orders/3/13) since 2023-11-14T22:13:22.000Z: versions 11 to 12 are missing; version 11 waits in \
         a tier (orders/3/11); version 12 is the dead letter orders/3/12#1\n\
         \x20          its gap is over after at most 9m 30s of processing time\n\
         \x20 held     version 14 (orders/3/14) since 2023-11-14T22:13:23.000Z: versions 11 to 12 are missing; version 11 waits in \
         a tier (orders/3/11); version 12 is the dead letter orders/3/12#1\n\
         \x20          its gap may be over\n"
    );
    let json = serde_json::to_value(&shown).unwrap();
    let key = &json["keys"][0];
    assert_eq!((&key["applied"]["version"], &key["applied"]["at"]), (&10.into(), &AT.into()));
    assert_eq!(
        (&key["held"][0]["gap_left_ms"], &key["held"][1]["gap_left_ms"]),
        (&570_000.into(), &0.into())
    );
    assert_eq!(key["key_base64"], "b3JkZXItNw==");
    assert_eq!((key.get("argument"), json["unknown"].as_array().unwrap().len()), (None, 0));
}

#[test]
fn a_key_that_waits_for_what_waits_nowhere_is_told_how_it_goes_on() {
    let log = Log::default().applied(0, "order 7", 4, 5).held(0, "order 7", 7, 60);
    let told = text(&shown(&counting(First::Any), &["order 7"], &log));
    let next = "  next: `redrive versions skip --base64 'b3JkZXIgNw==' --to 6 --pipeline payments` would let it go on without what is \
                missing\n";
    assert!(told.ends_with(next), "{told}");
}

#[test]
fn a_count_of_which_nothing_is_applied_says_with_what_it_begins() {
    let log = Log::default().applied(0, "k", 4, 5);
    let told = text(&shown(&counting(First::Any), &["k"], &log));
    assert_eq!(
        told,
        "`k`  task 0\n  applied  nothing; its count began with 5 at 2023-11-14T22:13:20.000Z by orders/0/4\n"
    );
}

#[test]
fn the_last_entry_counts_and_a_key_of_which_none_is_left_is_unknown() {
    let log = Log::default()
        .applied(0, "k", 4, 1)
        .applied(0, "k", 5, 1)
        .held(1, "gone", 7, 1)
        .released(1, "gone", 7);
    let shown = shown(&counting(First::Any), &["k", "gone"], &log);
    let told = text(&shown);
    assert!(told.contains("version 5") && !told.contains("version 4"), "{told}");
    assert!(told.contains("`gone`  nothing is known of it\nnext: "), "{told}");
    assert_eq!(serde_json::to_value(&shown).unwrap()["unknown"][0]["key"], "gone");
}

#[test]
fn a_key_on_two_partitions_is_told_for_each() {
    let log = Log::default().applied(0, "k", 4, 1).applied(1, "k", 9, 1);
    let told = text(&shown(&counting(First::Any), &["k"], &log));
    assert!(
        told.contains("task 0\n  applied  version 4") && told.contains("task 1\n  applied  version 9"),
        "{told}"
    );
}

#[test]
fn what_cannot_be_read_is_told_until_an_entry_replaces_it() {
    use crate::core::state::{applied_key, held_key};
    let bad = || Some(bytes::Bytes::from_static(b"\xff"));
    let log = Log::default().applied(0, "k", 4, 1).held(0, "k", 6, 1).raw(0, applied_key(b"k"), bad()).raw(
        0,
        held_key(b"k", 6),
        bad(),
    );
    let told = text(&shown(&counting(First::Any), &["k"], &log));
    assert_eq!(told.matches("unreadable").count(), 2, "{told}");
    assert!(
        told.contains("applied  nothing") && !told.contains("  held"),
        "what stood there before is gone: {told}"
    );
    assert!(told.contains("next: redrive versions verify"), "{told}");
    let mended = text(&shown(&counting(First::Any), &["k"], &log.applied(0, "k", 5, 1).released(0, "k", 6)));
    assert!(mended.contains("version 5") && !mended.contains("unreadable"), "{mended}");
}

#[test]
fn of_many_held_records_the_first_are_told_and_how_many_more_there_are() {
    let log = (0..25).fold(Log::default(), |log, place| log.held(0, "k", place, 1));
    let parks =
        OrderPolicy { retrying: WhileRetrying::Park(OnExhausted::Continue), ..OrderPolicy::default() };
    let told = text(&shown(&parks, &["k"], &log));
    assert!(told.ends_with("  held     5 more, which --output json lists\n"), "{told}");
    assert!(told.contains("place 0 (orders/3/0)") && !told.contains("gap"), "{told}");
}
