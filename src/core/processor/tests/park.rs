//! `while-retrying = "park"`: nothing of a key overtakes a record of it that waits in a tier.

use super::guarding::{Guarding, copy_in, guarded, latest, parking, versioned};
use super::*;
use crate::core::policy::{OnExhausted, WhileRetrying};

/// Where a record stood in the source, as its output.
fn whence(delivery: &Delivery) -> Outcome {
    let value = Some(Bytes::from(delivery.envelope.origin.offset.to_string()));
    Outcome::Done(vec![Output { to: OutputName::Main, key: None, value, headers: vec![] }])
}

fn arrive(guarding: &mut Guarding, count: usize, mut answer: impl FnMut(&Delivery) -> Outcome) {
    for _ in 0..count {
        let offset = guarding.offsets[&Lane::Source].0;
        guarding.fetch(Lane::Source, record(offset, "k"));
        guarding.run(&mut answer);
    }
}

/// The record at offset 0 waits in the tier, three more are held.
fn parked(on_exhausted: OnExhausted) -> Guarding {
    let mut guarding = Guarding::new(parking(on_exhausted));
    arrive(&mut guarding, 4, |_| fails(Class::Transient));
    assert_eq!((guarding.held(), guarding.copies.len()), (vec![0, 1, 2], 1));
    guarding
}

#[test]
fn what_is_parked_goes_in_the_order_of_its_arrival_once_the_first_has_succeeded() {
    let mut guarding = parked(OnExhausted::Continue);
    guarding.take_over();
    arrive(&mut guarding, 1, whence);
    assert_eq!(guarding.held(), [0, 1, 2, 3]);
    guarding.comes_back(0);
    guarding.run(whence);
    arrive(&mut guarding, 1, whence);
    assert_eq!((guarding.effects(), guarding.held()), (vec![0, 1, 2, 3, 4, 5], vec![]));
}

/// 1. a record fails, and the verdict on its transaction is long in coming,
/// 2. its copy is there all the same, and succeeds.
#[test]
fn a_copy_that_succeeds_before_its_own_writing_is_known_holds_nothing_up() {
    let mut guarding = Guarding::new(parking(OnExhausted::Continue));
    guarding.fetch(Lane::Source, record(0, "k"));
    guarding.worker.answer(fails(Class::Transient));
    let copy = copy_in(&guarding.worker.transactions[0], 0);
    guarding.worker.wait(10_000);
    guarding.is_due(copy);
    let outcome = whence(&guarding.worker.deliveries[0]);
    guarding.worker.answer(outcome);
    guarding.run(whence);
    assert_eq!(guarding.effects(), [0]);
    guarding.take_over();
    arrive(&mut guarding, 1, whence);
    assert_eq!((guarding.effects(), guarding.held()), (vec![0, 1], vec![]));
}

#[test]
fn other_keys_go_on() {
    let mut guarding = parked(OnExhausted::Continue);
    guarding.fetch(Lane::Source, record(4, "other"));
    guarding.run(whence);
    assert_eq!(guarding.effects(), [4]);
}

#[test]
fn one_that_fails_when_it_is_released_keeps_the_others_parked() {
    let mut guarding = parked(OnExhausted::Continue);
    guarding.comes_back(0);
    let second_fails = |delivery: &Delivery| match delivery.envelope.origin.offset.0 {
        1 if delivery.attempt == 1 => fails(Class::Transient),
        _ => whence(delivery),
    };
    guarding.run(second_fails);
    assert_eq!((guarding.effects(), guarding.held()), (vec![0], vec![1, 2]));
    guarding.take_over();
    guarding.comes_back(1);
    guarding.run(second_fails);
    assert_eq!(guarding.effects(), [0, 1, 2, 3]);
}

#[test]
fn behind_a_dead_one_the_others_go_on() {
    let mut guarding = parked(OnExhausted::Continue);
    guarding.comes_back(0);
    let first_dies = |delivery: &Delivery| match delivery.envelope.origin.offset.0 {
        0 => fails(Class::Permanent),
        _ => whence(delivery),
    };
    guarding.run(first_dies);
    assert_eq!(guarding.effects(), [1, 2, 3]);
    assert_eq!(guarding.dead(), [("broken".to_owned(), 0)]);
}

#[test]
fn behind_a_dead_one_the_others_may_follow_it_and_what_comes_later_does_not() {
    for dies_before_they_do in [false, true] {
        let mut guarding = parked(OnExhausted::Follow);
        guarding.comes_back(0);
        guarding.worker.answer(fails(Class::Permanent));
        if dies_before_they_do {
            guarding.commit();
            guarding.take_over();
        }
        arrive(&mut guarding, 2, whence);
        guarding.run(whence);
        let reason = |origin: i64| ("predecessor-dead".to_owned(), origin);
        let dead = guarding.dead();
        assert_eq!((&dead[0].0[..], &dead[1..]), ("broken", &[reason(1), reason(2), reason(3)][..]));
        let detail = header(&guarding.letters[1].headers, "redrive-detail").unwrap();
        let words = "the record of its key that it was held behind is the dead letter `orders/0/0#1`";
        assert_eq!(detail, words);
        assert_eq!((guarding.effects(), guarding.held()), (vec![4, 5], vec![]));
    }
}

#[test]
fn what_dies_at_its_first_attempt_takes_nothing_along() {
    let mut guarding = Guarding::new(parking(OnExhausted::Follow));
    guarding.worker.fetch(Lane::Source, (0..3).map(|offset| record(offset, "k")).collect());
    guarding.run(|delivery| match delivery.envelope.origin.offset.0 {
        0 => fails(Class::Permanent),
        _ => whence(delivery),
    });
    assert_eq!(guarding.effects(), [1, 2]);
}

#[test]
fn behind_one_that_runs_records_stay_in_the_window() {
    let mut guarding = Guarding::new(parking(OnExhausted::Continue));
    guarding.worker.fetch(Lane::Source, (0..3).map(|offset| record(offset, "k")).collect());
    assert_eq!((guarding.worker.deliveries.len(), guarding.worker.transactions.len()), (1, 0));
    guarding.run(whence);
    assert_eq!((guarding.effects(), guarding.held()), (vec![0, 1, 2], vec![]));
}

#[test]
fn a_copy_that_cannot_be_written_is_dead_and_frees_what_was_parked_behind_it() {
    let mut guarding = Guarding::new(parking(OnExhausted::Continue));
    guarding.worker.fetch(Lane::Source, (0..3).map(|offset| record(offset, "k")).collect());
    guarding.worker.answer(fails(Class::Transient));
    guarding.worker.wait(100);
    // First without its words, then not at all.
    let tier = Target::Tier(TierIndex(0));
    guarding.refuse(tier);
    guarding.worker.wait(100);
    guarding.refuse(tier);
    guarding.run(whence);
    assert_eq!(guarding.dead(), [("too-large".to_owned(), 0)]);
    assert_eq!((guarding.effects(), guarding.held()), (vec![1, 2], vec![]));
}

#[test]
fn without_room_behind_a_key_the_source_stops_until_there_is_some() {
    let mut policy = parking(OnExhausted::Continue);
    policy.order.held.per_key = 2;
    let mut guarding = Guarding::new(policy);
    guarding.worker.fetch(Lane::Source, (0..6).map(|offset| record(offset, "k")).collect());
    guarding.run(|_| fails(Class::Transient));
    assert_eq!(guarding.held(), [0, 1, 2, 3, 4], "what was read already");
    guarding.fetch(Lane::Source, record(6, "other"));
    guarding.run(whence);
    assert_eq!((guarding.effects(), guarding.offsets[&Lane::Source]), (vec![], Offset(6)), "it stands");
    guarding.comes_back(0);
    guarding.run(whence);
    assert_eq!(guarding.effects().into_iter().filter(|at| *at != 6).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    assert_eq!((guarding.held(), guarding.offsets[&Lane::Source]), (vec![], Offset(7)));
}

#[test]
fn beyond_the_bytes_that_a_worker_may_hold_the_source_stops_until_there_is_room() {
    let mut policy = parking(OnExhausted::Continue);
    policy.order.held.bytes = 1_000;
    let mut guarding = Guarding::new(policy);
    arrive(&mut guarding, 3, |_| fails(Class::Transient));
    assert_eq!(guarding.held(), [0, 1]);
    guarding.fetch(Lane::Source, record(3, "other"));
    guarding.run(whence);
    assert!(guarding.effects().is_empty());
    guarding.comes_back(0);
    guarding.run(whence);
    assert_eq!(guarding.effects(), [0, 1, 2, 3]);
}

/// What comes from a tier without having been tried, as a replay does.
fn replay(origin: i64) -> Record {
    let mut copy = waiting(origin, 0);
    copy.headers.retain(|header| {
        let name = header.name.as_str();
        !name.starts_with("redrive-first") && name != "redrive-class" && name != "redrive-reason"
    });
    for header in &mut copy.headers {
        match header.name.as_str() {
            "redrive-attempt" | "redrive-executions" => header.value = Some(Bytes::from_static(b"0")),
            "redrive-origin-offset" => header.value = Some(Bytes::from(origin.to_string())),
            _ => {}
        }
    }
    Record { key: Some(Bytes::from_static(b"k")), ..copy }
}

#[test]
fn a_replayed_record_joins_the_end_of_what_is_parked() {
    let mut guarding = parked(OnExhausted::Continue);
    guarding.worker.wait(10_000);
    guarding.is_due(replay(77));
    guarding.run(whence);
    assert_eq!(guarding.held(), [0, 1, 2, 3]);
    guarding.comes_back(0);
    guarding.run(whence);
    assert_eq!(guarding.effects(), [0, 1, 2, 3, 77]);
}

#[test]
fn a_version_is_judged_when_it_is_released() {
    let mut policy = guarded(latest());
    policy.order.retrying = WhileRetrying::Park(OnExhausted::Continue);
    let mut guarding = Guarding::new(policy);
    let at = |guarding: &Guarding| guarding.offsets[&Lane::Source].0;
    for version in [10, 12, 11, 13] {
        let offset = at(&guarding);
        guarding.fetch(Lane::Source, versioned(offset, version, Some(&format!("v{version}"))));
        guarding.run(|_| fails(Class::Transient));
    }
    assert_eq!(guarding.held(), [0, 1, 2]);
    guarding.take_over();
    guarding.comes_back(0);
    guarding.run(whence);
    assert_eq!(guarding.effects(), [0, 1, 3]);
    assert_eq!((guarding.applied(), guarding.held()), (Some(13), vec![]));
}

#[test]
fn a_record_without_a_key_is_a_dead_letter() {
    let mut guarding = Guarding::new(parking(OnExhausted::Continue));
    guarding.fetch(Lane::Source, record(0, ""));
    guarding.run(whence);
    assert_eq!(guarding.dead(), [("no-key".to_owned(), 0)]);
}
