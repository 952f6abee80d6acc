//! The list of keys behind which something is held.

use super::super::fixture::{AT, Log, counting};
use super::*;
use crate::core::policy::First;

fn list(log: &Log, limit: usize) -> List {
    let mut gathered = Gathered::new(Wanted::Held);
    log.read(|logged| gathered.take(logged));
    List::of("payments", &counting(First::Any), &gathered, limit)
}

fn text(list: &List) -> String {
    let mut out = Vec::new();
    list.in_text(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn log() -> Log {
    Log::default()
        .blocked(1, "waits", &[4], None)
        .held(0, "b", 9, 100)
        .held(0, "a", 7, 90)
        .held(0, "b", 8, 70)
        .held(0, "gone", 3, 1)
        .released(0, "gone", 3)
        .blocked(0, "dead", &[], Some(4))
        .applied(0, "done", 5, 1)
        .clock(0, 60)
}

#[test]
fn those_that_wait_longest_are_first_and_what_is_left_off_is_counted() {
    let told = text(&list(&log(), 2));
    assert_eq!(
        told,
        "task 1  held 0  waiting 1  since 2023-11-14T22:13:20.000Z  `waits`\n\
         task 0  held 2  waiting 0  since 2023-11-14T22:13:21.000Z  gap 10s  `b`\n\
         1 more are left off: --limit\n\
         next: redrive versions KEY --pipeline payments says why\n"
    );
    let json = serde_json::to_value(list(&log(), 100)).unwrap();
    let keys: Vec<_> =
        json["keys"].as_array().unwrap().iter().map(|line| line["key"].as_str().unwrap()).collect();
    assert_eq!((keys, &json["left_off"]), (vec!["waits", "b", "a"], &0.into()));
    assert_eq!(
        (&json["keys"][2]["since"], &json["keys"][2]["gap_left_ms"]),
        (&(AT + 2_000).into(), &30_000.into())
    );
}

#[test]
fn where_nothing_is_held_that_is_said() {
    let told = text(&list(&Log::default().applied(0, "done", 5, 1), 100));
    assert!(told.starts_with("nothing is held"), "{told}");
}
