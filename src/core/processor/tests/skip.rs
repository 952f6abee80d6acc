//! Versions that an operator skips: they count as applied, and what is held behind them goes on.

use super::guarding::{Guarding, KEY, contiguous, echo, guarded, latest, word};
use super::*;
use crate::core::control::{Answer, Command, Compliance, Request};
use crate::core::guard::Version;
use crate::core::state::Blockers;

fn request(guarding: &Guarding, key: &str, to: i64) -> Record {
    let offset = guarding.offsets[&Lane::Control];
    let request = Request {
        id: format!("0-1-{}", offset.0).parse().unwrap(),
        by: "ada".to_owned(),
        at: Timestamp::from_millis(WALL),
        ticket: None,
        command: Command::SkipVersions { key: Bytes::copy_from_slice(key.as_bytes()), to: Version(to) },
    };
    Record { key: Some(request.key()), value: Some(request.value()), ..record(offset.0, "") }
}

fn ask(guarding: &mut Guarding, to: i64) {
    let request = request(guarding, KEY, to);
    guarding.fetch(Lane::Control, request);
}

/// The answer in a transaction.
fn answer(transaction: &Transaction) -> (Compliance, String) {
    let case = transaction.writes.iter().find(|write| write.target == Target::Cases).expect("an answer");
    let (_, answer) = Answer::read(case.key.as_ref().unwrap(), case.value.as_deref()).unwrap();
    let Answer { compliance, words, .. } = answer.unwrap();
    (compliance, words)
}

/// Commits until a request is answered: the clock may be noted before.
fn answered(guarding: &mut Guarding) -> (Compliance, String) {
    loop {
        let transaction = guarding.commit();
        if transaction.writes.iter().any(|write| write.target == Target::Cases) {
            return answer(&transaction);
        }
    }
}

fn obeyed(guarding: &mut Guarding, to: i64) -> String {
    ask(guarding, to);
    let (compliance, words) = answered(guarding);
    assert_eq!(compliance, Compliance::Obeyed, "{words}");
    words
}

fn refused(guarding: &mut Guarding, to: i64) -> String {
    ask(guarding, to);
    let (compliance, words) = answered(guarding);
    assert_eq!(compliance, Compliance::Refused, "{words}");
    words
}

fn arrive(guarding: &mut Guarding, versions: impl IntoIterator<Item = i64>) {
    for version in versions {
        guarding.arrives(version, Some(&format!("value-{version}")));
        guarding.run(echo);
    }
}

/// With version 10 applied and these held.
fn holding(versions: &[i64]) -> Guarding {
    let mut guarding = Guarding::new(contiguous(60));
    guarding.apply(10);
    arrive(&mut guarding, versions.iter().copied());
    assert_eq!(guarding.held(), versions);
    guarding
}

fn last(guarding: &Guarding) -> &'static str {
    word(guarding.fates.last().unwrap())
}

#[test]
fn what_follows_a_skipped_version_goes_on_and_the_skipped_one_is_stale() {
    for taken_over in [false, true] {
        let mut guarding = holding(&[12, 13]);
        let words = obeyed(&mut guarding, 11);
        assert_eq!(words, "versions `11` to `11` are skipped, the next is `12`");
        if taken_over {
            guarding.take_over();
        }
        guarding.run(echo);
        assert_eq!((guarding.effects(), guarding.held()), (vec![12, 13], vec![]));
        arrive(&mut guarding, [11]);
        assert_eq!(last(&guarding), "STALE");
        arrive(&mut guarding, [13]);
        assert_eq!(last(&guarding), "DUPLICATE", "it was applied");
        arrive(&mut guarding, [14]);
        assert_eq!(guarding.effects(), [12, 13, 14]);
    }
}

#[test]
fn held_versions_that_are_skipped_end_without_effect() {
    let mut guarding = holding(&[12, 14, 16]);
    let words = obeyed(&mut guarding, 14);
    assert_eq!(
        words,
        "versions `11` to `14` are skipped, the next is `15`; `2` that are held end without effect"
    );
    guarding.run(echo);
    assert_eq!((guarding.effects(), guarding.held()), (vec![], vec![16]));
    guarding.take_over();
    arrive(&mut guarding, [15]);
    assert_eq!((guarding.effects(), guarding.held()), (vec![15, 16], vec![]));
}

#[test]
fn a_skip_is_refused_that_would_take_a_key_back_or_counts_nothing() {
    let mut guarding = holding(&[12]);
    assert_eq!(refused(&mut guarding, 9), "version `10` counts as applied: `9` is before that");
    assert!(refused(&mut guarding, i64::MAX).contains("there is none"));
    assert_eq!((guarding.applied(), guarding.held()), (Some(10), vec![12]));
    // Nothing is skipped, but the count begins behind it from now on.
    assert_eq!(obeyed(&mut guarding, 10), "the next version is `11`");
    arrive(&mut guarding, [10]);
    assert_eq!(last(&guarding), "STALE");
    arrive(&mut guarding, [11]);
    assert_eq!(guarding.effects(), [11, 12]);

    let mut guarding = Guarding::new(guarded(latest()));
    guarding.apply(10);
    assert!(refused(&mut guarding, 11).contains("not `contiguous`"));
    assert_eq!(guarding.applied(), Some(10));
}

#[test]
fn a_key_of_which_nothing_is_known_begins_behind_what_is_skipped() {
    let mut guarding = Guarding::new(contiguous(60));
    assert_eq!(obeyed(&mut guarding, 20), "the next version is `21`");
    guarding.take_over();
    arrive(&mut guarding, [20, 22, 21]);
    assert_eq!(guarding.effects(), [21, 22]);
}

#[test]
fn an_aborted_skip_frees_nothing_and_is_committed_again() {
    let mut guarding = holding(&[12]);
    ask(&mut guarding, 11);
    let aborted = guarding.worker.end(passing());
    assert!(guarding.worker.deliveries.is_empty() && guarding.applied() == Some(10));
    guarding.worker.wait(20);
    let committed = guarding.commit();
    assert_eq!(answer(&aborted), answer(&committed));
    guarding.run(echo);
    assert_eq!((guarding.effects(), guarding.held()), (vec![12], vec![]));
}

#[test]
fn a_skip_that_was_not_committed_is_obeyed_by_the_next_owner() {
    let mut guarding = holding(&[12]);
    ask(&mut guarding, 11);
    guarding.worker.end(passing());
    guarding.take_over();
    guarding.run(echo);
    assert_eq!((guarding.effects(), guarding.held()), (vec![], vec![12]));
    obeyed(&mut guarding, 11);
    guarding.run(echo);
    assert_eq!(guarding.effects(), [12]);
}

/// Its handler has done its work; its output would take the key back.
#[test]
fn a_version_that_runs_while_it_is_skipped_has_no_effect() {
    for committed_first in [false, true] {
        let mut guarding = holding(&[13]);
        guarding.arrives(11, Some("eleven"));
        assert_eq!(guarding.worker.deliveries.len(), 1);
        ask(&mut guarding, 12);
        if committed_first {
            guarding.worker.wait(50);
            guarding.commit();
        }
        guarding.run(echo);
        assert_eq!((guarding.effects(), guarding.held()), (vec![13], vec![]), "{committed_first}");
        arrive(&mut guarding, [14]);
        assert_eq!(guarding.effects(), [13, 14]);
    }
}

#[test]
fn a_version_that_runs_while_those_before_it_are_skipped_has_its_effect() {
    let mut guarding = holding(&[12]);
    guarding.arrives(11, Some("eleven"));
    ask(&mut guarding, 10);
    guarding.run(echo);
    assert_eq!(guarding.effects(), [11, 12]);
}

#[test]
fn a_version_that_fails_while_it_is_skipped_is_stale_when_it_comes_back() {
    let mut guarding = holding(&[12]);
    guarding.arrives(11, Some("eleven"));
    ask(&mut guarding, 11);
    guarding.run(|delivery| match delivery.envelope.version {
        Some(Version(11)) => fails(Class::Transient),
        _ => echo(delivery),
    });
    assert_eq!(guarding.effects(), [12]);
    guarding.take_over();
    guarding.comes_back(2);
    guarding.run(echo);
    assert_eq!(last(&guarding), "STALE");
    assert!(guarding.keys().blockers.is_empty());
}

#[test]
fn skipping_a_dead_version_forgets_it() {
    let mut guarding = holding(&[12, 13]);
    guarding.arrives(11, Some("eleven"));
    guarding.run(|_| fails(Class::Permanent));
    let dead = |guarding: &Guarding| {
        let keys = guarding.keys();
        keys.blockers.get(KEY.as_bytes()).and_then(|Blockers { dead, .. }| dead.clone())
    };
    assert!(dead(&guarding).is_some());
    obeyed(&mut guarding, 11);
    assert_eq!(dead(&guarding), None);
    guarding.run(echo);
    assert_eq!((guarding.effects(), guarding.held()), (vec![12, 13], vec![]));
}

/// The skip was decided while 11 was to be applied; it stands though 11 is not.
#[test]
fn a_skip_stands_though_what_was_settled_before_it_cannot_be_written() {
    let mut guarding = holding(&[13]);
    guarding.arrives(11, Some("eleven"));
    guarding.worker.answer(echo_of(11));
    ask(&mut guarding, 12);
    while !guarding.worker.transactions[0].writes.iter().any(|write| write.target == Target::Output) {
        guarding.commit();
    }
    guarding.refuse_the_output();
    guarding.run(echo);
    assert_eq!((guarding.effects(), guarding.held(), guarding.dead().len()), (vec![13], vec![], 1));
    assert_eq!(guarding.applied(), Some(13));
    guarding.take_over();
    arrive(&mut guarding, [12, 14]);
    assert_eq!(guarding.effects(), [13, 14]);
}

fn unwritable(target: Target) -> TransactionResult {
    TransactionResult::Aborted(AbortCause::Unwritable { target, detail: "unknown topic".to_owned() })
}

/// It would hold up every other request.
#[test]
fn a_skip_waits_for_no_record_that_blocks_its_task() {
    let mut guarding = holding(&[12]);
    guarding.arrives(11, Some("eleven"));
    guarding.worker.answer(fails(Class::Permanent));
    guarding.worker.end(unwritable(Target::DeadLetter));
    let words = refused(&mut guarding, 11);
    assert_eq!(words, "task `0` is blocked with a record of this key: ask again once it goes on");
    let other = request(&guarding, "another key", 7);
    guarding.fetch(Lane::Control, other);
    assert_eq!(answered(&mut guarding).0, Compliance::Obeyed);

    guarding.worker.wait(1_000);
    guarding.run(echo);
    assert_eq!((guarding.dead().len(), guarding.held()), (1, vec![12]));
    obeyed(&mut guarding, 11);
    guarding.run(echo);
    assert_eq!(guarding.effects(), [12]);
}

#[test]
fn a_skip_whose_answer_cannot_be_written_frees_nothing_until_it_can() {
    let mut guarding = holding(&[12]);
    ask(&mut guarding, 11);
    guarding.worker.end(unwritable(Target::Audit));
    guarding.arrives(13, Some("thirteen"));
    assert!(guarding.effects().is_empty() && guarding.applied() == Some(10));
    guarding.worker.wait(1_000);
    guarding.run(echo);
    assert_eq!((guarding.effects(), guarding.held()), (vec![12, 13], vec![]));
    assert!(guarding.worker.core.blocked.is_empty());
}

fn echo_of(version: i64) -> Outcome {
    let value = Some(Bytes::from(version.to_string()));
    Outcome::Done(vec![Output { to: OutputName::Main, key: None, value, headers: vec![] }])
}
