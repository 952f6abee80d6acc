//! Two living processes with one instance number: exactly one says so and ends, and nothing is lost or doubled.

use crate::binary::{Binary, Words};
use crate::process::eventually;
use crate::scene::{Plan, Scene};
use crate::size;
use crate::topology::Draft;

/// What is left of two processes that were under load.
struct Parted {
    scene: Scene,
    /// Whether the one that was there first is the one that ended.
    first_ended: bool,
    words: String,
    survivor: Binary,
}

/// Starts two processes with one number and waits, under load, until one of them has ended.
fn parted(kind: impl FnOnce(Draft) -> Draft) -> Parted {
    let mut scene = Scene::with(|draft| kind(draft.tiers(&["500ms"])));
    let (mut first, first_words) = scene.run_heard(0);
    scene.send(size::records(2_000), Plan::mixed);
    scene.at_work("the first is settled", |scene| scene.transactions() > 12);
    let (mut second, second_words) = scene.run_heard(0);
    let mut ends = Vec::new();
    scene.at_work("one of the two ends", |_| {
        ends = [(&mut first, true), (&mut second, false)]
            .into_iter()
            .filter_map(|(process, is_first)| Some((is_first, process.ended()?)))
            .collect();
        !ends.is_empty()
    });
    let &[(first_ended, status)] = ends.as_slice() else {
        panic!("both end: {} {}", first_words.said(), second_words.said());
    };
    let (survivor, words): (Binary, Words) =
        if first_ended { (second, first_words) } else { (first, second_words) };
    assert_eq!(status.code(), Some(3), "{}", words.said());
    Parted { scene, first_ended, words: words.said(), survivor }
}

/// The other one goes on with everything.
fn goes_on(parted: Parted) {
    let Parted { mut scene, mut survivor, words, .. } = parted;
    assert!(words.contains("another process"), "{words}");
    assert!(words.contains("give each process an instance of its own"), "{words}");
    scene.send(size::records(1_000), Plan::mixed);
    scene.drain();
    eventually("one has everything", || scene.writers().len() == 1);
    assert_eq!(survivor.ended(), None, "it goes on");
    assert_eq!(survivor.end().code(), Some(0));
    let report = scene.audit();
    assert!(report.is_clean(), "{report}");
}

#[test]
fn the_later_of_two_processes_with_one_number_ends_and_the_other_goes_on() {
    for _ in 0..size::repetitions() {
        let parted = parted(|draft| draft);
        assert!(!parted.first_ended, "{}", parted.words);
        goes_on(parted);
    }
}

#[test]
fn the_earlier_of_two_static_members_ends_and_the_other_goes_on() {
    let parted = parted(|draft| draft.workers("static-membership", "true"));
    assert!(parted.first_ended, "{}", parted.words);
    goes_on(parted);
}

#[test]
fn with_the_protocol_consumer_the_later_of_two_ends_and_the_other_goes_on() {
    let parted = parted(|draft| draft.protocol("consumer"));
    assert!(!parted.first_ended, "{}", parted.words);
    goes_on(parted);
}

#[test]
fn with_the_protocol_consumer_the_later_of_two_static_members_ends_and_the_other_goes_on() {
    let parted = parted(|draft| draft.protocol("consumer").workers("static-membership", "true"));
    assert!(!parted.first_ended, "{}", parted.words);
    goes_on(parted);
}

#[test]
fn a_later_process_that_is_started_again_and_again_never_ends_the_first_however_little_there_is_to_do() {
    let mut scene = Scene::with(|draft| draft.tiers(&["500ms"]));
    let (mut first, words) = scene.run_heard(0);
    scene.at_work("the first is settled", |scene| scene.transactions() > 12);
    scene.drain();
    for life in 1..=7 {
        let (mut later, later_words) = scene.run_heard(0);
        eventually("the later one ends", || {
            // The next record comes when the one before it has its fate.
            if scene.is_drained() {
                scene.send(1, |_| Plan::Succeeds);
            }
            assert_eq!(first.ended(), None, "life {life}: {}", words.said());
            later.ended().is_some()
        });
        assert!(later_words.said().contains("another process"), "{}", later_words.said());
    }
    scene.drain();
    assert_eq!(first.end().code(), Some(0));
    let report = scene.audit();
    assert!(report.is_clean(), "{report}");
}
