//! `guard = "contiguous"`: versions are handled one after another, and what comes too early is held.

use super::guarding::{Guarding, Lives, cases, contiguous, echo, play, versioned, word};
use super::*;
use crate::core::event::{Dropped, FateKind};
use crate::core::guard::Version;
use crate::core::policy::{First, Guard};
use crate::core::position::TopicName;

const GAP: u64 = 60;

/// With version 10 applied.
fn from_ten() -> Guarding {
    let mut guarding = Guarding::new(contiguous(GAP));
    guarding.apply(10);
    guarding
}

fn arrive(guarding: &mut Guarding, versions: impl IntoIterator<Item = i64>) {
    for version in versions {
        guarding.arrives(version, Some(&format!("value-{version}")));
        guarding.run(echo);
    }
}

/// Records of the source with their offsets and versions, in one fetch.
fn fetch_at_once<const N: usize>(guarding: &mut Guarding, records: [(i64, i64); N]) {
    let records = records.map(|(offset, version)| versioned(offset, version, Some("v")));
    guarding.worker.fetch(Lane::Source, records.to_vec());
}

#[test]
fn every_vector_of_contiguous_has_its_verdicts() {
    let mut played = 0;
    for case in &cases() {
        if case["mode"] == "contiguous" {
            for lives in [Lives::One, Lives::OneEach] {
                play(case, lives);
            }
            played += 1;
        }
    }
    assert_eq!(played, 9);
}

#[test]
fn all_that_follow_go_one_after_another_once_the_missing_one_is_there() {
    let mut guarding = from_ten();
    arrive(&mut guarding, [15, 13, 12, 14]);
    assert_eq!(guarding.held(), [12, 13, 14, 15]);
    guarding.take_over();
    arrive(&mut guarding, [11]);
    assert_eq!((guarding.effects(), guarding.held()), (vec![11, 12, 13, 14, 15], vec![]));
}

#[test]
fn a_hold_that_is_aborted_holds_all_the_same() {
    let mut guarding = from_ten();
    guarding.arrives(12, Some("twelve"));
    guarding.worker.end(passing());
    guarding.run(echo);
    assert_eq!(guarding.held(), [12]);
    arrive(&mut guarding, [11]);
    assert_eq!(guarding.effects(), [11, 12]);
}

/// Released records are handled in the transaction that frees them, or again by the next owner.
#[test]
fn what_was_released_and_not_committed_is_held_for_the_next_owner() {
    let mut guarding = from_ten();
    arrive(&mut guarding, [12]);
    guarding.arrives(11, Some("eleven"));
    guarding.worker.answer(done());
    assert_eq!(guarding.worker.deliveries.len(), 1, "it is released with what frees it");
    guarding.take_over();
    arrive(&mut guarding, [11]);
    assert_eq!(guarding.effects(), [11, 12]);
}

#[test]
fn what_fails_when_it_is_released_waits_in_a_tier_and_what_follows_stays_held() {
    let mut guarding = from_ten();
    arrive(&mut guarding, [12, 13]);
    guarding.arrives(11, Some("eleven"));
    let fails_once = |delivery: &Delivery| match delivery.envelope.version {
        Some(Version(12)) if delivery.attempt == 1 => fails(Class::Transient),
        _ => echo(delivery),
    };
    guarding.run(fails_once);
    assert_eq!((guarding.effects(), guarding.held()), (vec![11], vec![13]));
    guarding.comes_back(1);
    guarding.run(fails_once);
    assert_eq!((guarding.effects(), guarding.held()), (vec![11, 12, 13], vec![]));
}

#[test]
fn behind_a_dead_version_the_gap_is_waited_for_and_the_dead_letters_name_it() {
    let mut guarding = from_ten();
    guarding.arrives(11, Some("eleven"));
    guarding.run(|_| fails(Class::Permanent));
    arrive(&mut guarding, [12, 13]);
    guarding.take_over();
    guarding.worker.wait(GAP * 1_000 - 2_000);
    guarding.run(echo);
    assert_eq!(guarding.held(), [12, 13]);
    guarding.worker.wait(4_000);
    guarding.run(echo);
    let gone = |version: i64| ("version-gap".to_owned(), version);
    assert_eq!(guarding.dead()[1..], [gone(2), gone(3)]);
    let detail = header(&guarding.letters[1].headers, "redrive-detail").unwrap();
    let words =
        "version `11` of its key did not come in time: version `11` is the dead letter `orders/0/1#1`";
    assert_eq!(detail, words);

    // A replay of it that succeeds is applied, and the count goes on.
    arrive(&mut guarding, [11, 12]);
    assert_eq!(guarding.effects(), [11, 12]);
}

#[test]
fn a_replay_of_the_dead_version_frees_what_still_waits() {
    let mut guarding = from_ten();
    guarding.arrives(11, Some("eleven"));
    guarding.run(|_| fails(Class::Permanent));
    arrive(&mut guarding, [12, 13, 11]);
    assert_eq!((guarding.effects(), guarding.held()), (vec![11, 12, 13], vec![]));
}

/// 1. version 11 is settled, 12 is released, handled and settled behind it,
/// 2. the output of 11 is refused: it is a dead letter.
#[test]
fn what_followed_a_version_whose_output_is_refused_is_held_again() {
    let mut guarding = from_ten();
    arrive(&mut guarding, [12, 13]);
    guarding.arrives(11, Some("eleven"));
    for _ in 0..2 {
        let outcome = echo(&guarding.worker.deliveries[0]);
        guarding.worker.answer(outcome);
    }
    guarding.worker.wait(100);
    guarding.refuse_the_output();
    guarding.run(echo);
    assert_eq!((guarding.effects(), guarding.held()), (vec![], vec![12, 13]));
    assert_eq!(guarding.dead(), [("too-large".to_owned(), 3)]);
    arrive(&mut guarding, [11]);
    assert_eq!(guarding.effects(), [11, 12, 13]);
}

#[test]
fn the_first_version_starts_the_count_though_its_output_is_refused() {
    let mut guarding = Guarding::new(contiguous(GAP));
    guarding.arrives(5, Some("five"));
    guarding.worker.answer(done());
    guarding.refuse_the_output();
    guarding.run(echo);
    assert_eq!(guarding.applied(), Some(4));
    arrive(&mut guarding, [4, 6, 5]);
    assert_eq!(guarding.effects(), [5, 6]);
    let words = guarding.fates.iter().skip(1).map(word).collect::<Vec<_>>();
    assert_eq!(words, ["STALE", "DEFERRED", "APPLIED", "APPLIED"]);
}

#[test]
fn a_count_may_have_to_start_with_a_given_version() {
    let mut policy = contiguous(GAP);
    if let Guard::Contiguous(rules) = &mut policy.order.guard {
        rules.first = First::At(Version(1));
    }
    let mut guarding = Guarding::new(policy);
    arrive(&mut guarding, [2, 0, 3]);
    assert_eq!((guarding.effects(), guarding.held()), (vec![], vec![2, 3]));
    guarding.take_over();
    arrive(&mut guarding, [1]);
    assert_eq!(guarding.effects(), [1, 2, 3]);
}

#[test]
fn the_smallest_version_there_is_starts_no_count_and_behind_the_largest_is_none() {
    let mut guarding = Guarding::new(contiguous(GAP));
    arrive(&mut guarding, [i64::MIN]);
    assert_eq!(guarding.dead(), [("no-version".to_owned(), 0)]);
    arrive(&mut guarding, [i64::MAX, i64::MAX, i64::MIN]);
    assert_eq!(guarding.effects(), [i64::MAX]);
    assert_eq!(guarding.applied(), Some(i64::MAX));
}

/// With 12 and 13 held behind version 10, and no room for 14, which waits in the tier.
fn without_room(policy: Policy) -> Guarding {
    let mut guarding = Guarding::new(policy);
    guarding.apply(10);
    arrive(&mut guarding, [12, 13, 14]);
    assert_eq!((guarding.held(), guarding.copies.len()), (vec![12, 13], 1));
    guarding
}

/// The missing version comes, and all go on.
fn all_go_on(mut guarding: Guarding) {
    arrive(&mut guarding, [11]);
    guarding.comes_back(3);
    guarding.run(echo);
    assert_eq!(guarding.effects(), [11, 12, 13, 14]);
}

#[test]
fn without_room_behind_its_key_a_version_waits_in_the_first_tier_and_its_gap_goes_on() {
    let mut policy = contiguous(GAP);
    policy.order.held.per_key = 2;
    let mut guarding = without_room(policy);
    let due = header(&guarding.copies["3"].headers, "redrive-gap-due");
    assert!(due.unwrap().parse::<u64>().unwrap() >= GAP * 1_000);
    // Still full.
    guarding.comes_back(3);
    guarding.run(echo);
    assert_eq!((guarding.held(), guarding.copies.len()), (vec![12, 13], 1));
    all_go_on(guarding);
}

#[test]
fn a_gap_is_not_over_before_the_source_is_read_as_far_as_it_was_then() {
    let mut guarding = from_ten();
    arrive(&mut guarding, [12]);
    guarding.worker.wait(GAP * 1_000 + 1_000);
    let asked = |action: &mut Action| matches!(action, Action::FindEnd { .. });
    assert_eq!(guarding.worker.others.extract_if(.., asked).count(), 1);
    let (epoch, end) = (guarding.worker.epoch(), Offset(5));
    guarding.worker.tell(Event::End { partition: P, epoch, end });
    guarding.worker.wait(1_000);
    assert!(guarding.letters.is_empty() && guarding.worker.transactions.is_empty());
    // The missing one was there, unread.
    arrive(&mut guarding, [11]);
    assert_eq!((guarding.effects(), guarding.dead()), (vec![11, 12], vec![]));
}

#[test]
fn the_clock_of_gaps_stands_while_a_topic_cannot_be_written() {
    let mut guarding = from_ten();
    arrive(&mut guarding, [12]);
    guarding.arrives(11, Some("eleven"));
    guarding.worker.answer(fails(Class::Permanent));
    let unwritable = || {
        let (target, detail) = (Target::DeadLetter, "gone".to_owned());
        TransactionResult::Aborted(AbortCause::Unwritable { target, detail })
    };
    guarding.worker.end(unwritable());
    for _ in 0..GAP {
        guarding.worker.wait(2_000);
        while !guarding.worker.transactions.is_empty() {
            guarding.worker.end(unwritable());
        }
    }
    guarding.worker.wait(60_000);
    guarding.run(echo);
    assert_eq!(guarding.dead(), [("permanent".to_owned(), 2)].map(|(_, at)| ("broken".to_owned(), at)));
    assert_eq!(guarding.held(), [12], "for two minutes nothing could have filled the gap");
    guarding.worker.wait(GAP * 1_000);
    guarding.run(echo);
    assert!(guarding.held().is_empty());
}

/// 1. the gap before 13 is over, which waits for the turn of its key,
/// 2. 12, which could fill it, has the turn, fails and waits in a tier.
#[test]
fn a_gap_is_not_over_for_what_could_fill_it_and_fails_in_the_last_moment() {
    let mut guarding = from_ten();
    arrive(&mut guarding, [12]);
    guarding.arrives(11, Some("eleven"));
    guarding.worker.answer(done());
    // 12 is released and runs.
    guarding.fetch(Lane::Source, versioned(3, 14, Some("fourteen")));
    guarding.worker.wait(100);
    while !guarding.worker.transactions.is_empty() {
        guarding.commit();
    }
    guarding.worker.wait(GAP * 1_000 + 1_000);
    guarding.answer_ends();
    guarding.worker.answer(fails(Class::Transient));
    guarding.run(echo);
    assert_eq!((guarding.dead(), guarding.held()), (vec![], vec![14]));
    guarding.worker.wait(GAP * 1_000);
    guarding.run(echo);
    assert_eq!(guarding.dead(), vec![], "as long as 12 waits");
    guarding.comes_back(1);
    guarding.run(echo);
    guarding.worker.wait(GAP * 1_000 + 1_000);
    guarding.run(echo);
    assert_eq!(guarding.dead(), [("version-gap".to_owned(), 3)]);
}

/// Nothing was judged by what a refused record had no effect on.
#[test]
fn what_was_handled_is_not_handled_again_for_a_copy_that_is_refused() {
    let mut policy = contiguous(GAP);
    if let Guard::Contiguous(rules) = &mut policy.order.guard {
        rules.stale_output = Some(TopicName::new("orders.stale"));
    }
    let mut guarding = Guarding::new(policy.clone());
    guarding.apply(10);
    fetch_at_once(&mut guarding, [(1, 9), (2, 11)]);
    guarding.worker.answer(done());
    guarding.refuse(Target::StaleOutput);
    assert!(guarding.worker.deliveries.is_empty(), "11 does not go by 9");

    // The first is admitted, and fails: the count starts with it, whether its copy can be written or not.
    let mut guarding = Guarding::new(policy);
    fetch_at_once(&mut guarding, [(0, 1), (1, 0), (2, 3)]);
    guarding.worker.answer(fails(Class::Transient));
    for _ in 0..2 {
        guarding.refuse(Target::Tier(TierIndex(0)));
    }
    guarding.run(echo);
    assert_eq!((guarding.applied(), guarding.held()), (Some(0), vec![3]));
    assert_eq!(guarding.fates.iter().filter(|fate| **fate == FateKind::Drop(Dropped::Stale)).count(), 1);
}

/// 1. there is room for one record behind the key, and 13 has it,
/// 2. 12 was handled once behind an 11 whose output was refused: it waits in a tier, and comes back.
#[test]
fn a_version_that_waits_for_room_is_no_reason_to_wait_for() {
    let mut policy = contiguous(GAP);
    policy.order.held.per_key = 1;
    let mut guarding = Guarding::new(policy);
    guarding.apply(10);
    fetch_at_once(&mut guarding, [(1, 11), (2, 12)]);
    guarding.worker.answer(done());
    guarding.worker.answer(fails(Class::Transient));
    guarding.refuse_the_output();
    guarding.run(echo);
    assert_eq!((guarding.dead(), guarding.copies.len()), (vec![("too-large".to_owned(), 1)], 1));
    arrive(&mut guarding, [13]);
    guarding.comes_back(2);
    guarding.run(echo);
    assert_eq!((guarding.held(), guarding.copies.len()), (vec![13], 1), "there is no room for 12");
    guarding.worker.wait(GAP * 1_000);
    guarding.run(echo);
    assert_eq!(guarding.dead().last(), Some(&("version-gap".to_owned(), 3)));
}

#[test]
fn beyond_the_bytes_that_a_worker_may_hold_versions_wait_in_the_first_tier() {
    let mut policy = contiguous(GAP);
    policy.order.held.bytes = 1_000;
    all_go_on(without_room(policy));
}

#[test]
fn another_key_goes_on_while_one_waits_for_its_version() {
    let mut guarding = from_ten();
    arrive(&mut guarding, [12]);
    let offset = guarding.offsets[&Lane::Source].0;
    let other = Record { key: Some(Bytes::from_static(b"other")), ..versioned(offset, 7, Some("v")) };
    guarding.fetch(Lane::Source, other);
    guarding.run(echo);
    assert_eq!(guarding.effects(), [7]);
}
