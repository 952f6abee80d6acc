//! Faults of committed offsets, of the ends of partitions, of requests, and of records that were too large.

use redrive_ledger::{Cut, Ends, Kind, Role, Seen, audit};

use crate::run::Run;
use crate::{found, planted};

/// The good run with the ends of its partitions: a marker behind the last record of each.
fn with_ends() -> Run {
    let mut run = Run::good();
    for (role, partition, end) in [
        (Role::Source, 0, 4),
        (Role::Source, 1, 3),
        (Role::Tier(0), 0, 3),
        (Role::Tier(0), 1, 3),
        (Role::Tier(1), 0, 2),
        (Role::Tier(1), 1, 0),
        (Role::Output, 0, 3),
        (Role::Output, 1, 2),
        (Role::DeadLetter, 0, 2),
        (Role::DeadLetter, 1, 2),
        (Role::State, 0, 5),
    ] {
        run.history.ends.push(Ends { role, partition, start: 0, stable: end, end });
    }
    run
}

fn after(fault: impl FnOnce(&mut Run)) -> Vec<Kind> {
    let mut run = with_ends();
    fault(&mut run);
    found(&run)
}

fn ends(run: &mut Run, role: Role, partition: i32) -> &mut Ends {
    run.history.ends.iter_mut().find(|ends| (ends.role, ends.partition) == (role, partition)).unwrap()
}

#[test]
fn a_drained_run_is_committed_to_the_ends_and_balances() {
    let run = with_ends();
    let report = audit(&run.rules, &run.history);
    assert!(report.is_clean(), "{report}");
    assert!(report.balances(), "{report:?}");
    assert_eq!((report.emitted, report.died), (3, 2));
}

#[test]
fn a_marker_that_nobody_committed_past_is_lag() {
    assert_eq!(after(|run| run.commit(Role::Tier(0), 0, 2)), [Kind::Lag]);
    assert_eq!(after(|run| run.commit(Role::Source, 1, 2)), [Kind::Lag]);
}

#[test]
fn a_lane_without_a_committed_offset_is_lag_unless_it_is_empty() {
    let forget = |run: &mut Run| {
        run.history.commits.retain(|commit| (commit.role, commit.partition) != (Role::Tier(1), 0));
    };
    assert!(after(forget).contains(&Kind::Lag));
    assert_eq!(after(|run| ends(run, Role::Tier(1), 1).end = 0), []);
    let only_a_marker = |run: &mut Run| {
        let ends = ends(run, Role::Tier(1), 1);
        (ends.stable, ends.end) = (1, 1);
    };
    assert_eq!(after(only_a_marker), [Kind::Lag]);
}

#[test]
fn a_transaction_that_pins_any_partition_after_the_drain_is_left_open() {
    for role in [Role::Output, Role::Tier(0), Role::State] {
        let kinds = after(|run| ends(run, role, 0).stable -= 1);
        assert_eq!(kinds, [Kind::OpenTransaction], "{role:?}");
    }
}

#[test]
fn an_offset_past_the_end_is_beyond_it() {
    assert_eq!(after(|run| run.commit(Role::Tier(1), 0, 3)), [Kind::BeyondEnd]);
}

#[test]
fn what_was_deleted_before_it_was_consumed_is_told() {
    let kinds = after(|run| {
        // All that it wrote of them is gone too: only the offsets tell.
        ends(run, Role::Tier(1), 0).start = 5;
        let ends = ends(run, Role::Tier(1), 0);
        (ends.stable, ends.end) = (5, 5);
    });
    assert_eq!(kinds, [Kind::Deleted]);
}

#[test]
fn a_fate_whose_source_record_was_deleted_after_it_proves_nothing_and_is_no_stray() {
    let mut run = with_ends();
    run.history.starts = None;
    run.remove(Role::Source, "broken");
    run.remove(Role::Source, "hops");
    assert_eq!(found(&run), [Kind::Stray]);
    ends(&mut run, Role::Source, 1).start = 2;
    let report = audit(&run.rules, &run.history);
    assert!(report.is_clean() && report.balances(), "{report}");
    assert_eq!((report.unproved, report.emitted, report.died), (2, 2, 1));
}

#[test]
fn a_copy_that_waits_for_a_record_that_is_not_committed_is_torn() {
    let kinds = planted(|run| {
        run.rules.cut = Cut::Running;
        run.history.starts = None;
        run.remove(Role::Output, "hops");
        run.commit(Role::Tier(0), 1, 1);
        run.commit(Role::Source, 1, 1);
    });
    assert_eq!(kinds, [Kind::Torn]);
}

#[test]
fn one_millisecond_too_soon_is_early_for_every_fate() {
    let written = |role, value: &'static str, at| {
        planted(move |run| {
            run.history.starts = None;
            run.record(role, value).timestamp = at;
        })
    };
    assert_eq!(written(Role::Output, "fails once", 5_100), []);
    assert_eq!(written(Role::Output, "fails once", 5_099), [Kind::Early]);
    assert_eq!(written(Role::DeadLetter, "for ever", 15_200), []);
    assert_eq!(written(Role::DeadLetter, "for ever", 15_199), [Kind::Early]);
}

#[test]
fn results_of_an_aborted_transaction_that_are_visible_beside_those_of_the_next_are_doubled() {
    let kinds = planted(|run| {
        run.copy(0, 0, 7, (0, 2), 1, 100);
        run.commit(Role::Tier(0), 0, 8);
        run.repeat(Role::Output, "first try");
    });
    assert_eq!(kinds, [Kind::Doubled]);
}

#[test]
fn a_record_too_large_for_its_tier_is_a_dead_letter_that_leads_to_its_value() {
    let too_large = |change: fn(&mut Seen)| {
        planted(move |run| {
            let letter = run.record(Role::DeadLetter, "broken");
            letter.value = None;
            letter.headers.push(("redrive-payload-ref".to_owned(), Some(b"orders/1/0".to_vec())));
            letter.headers.iter_mut().filter(|(name, _)| name == "redrive-reason").for_each(|header| {
                header.1 = Some(b"too-large".to_vec());
            });
            change(letter);
        })
    };
    assert_eq!(too_large(|_| {}), []);
    assert_eq!(too_large(|letter| letter.key = None), [Kind::WrongBytes]);
    assert_eq!(too_large(|letter| letter.value = Some(b"half".to_vec())), [Kind::WrongBytes]);
    assert_eq!(too_large(|letter| letter.headers.retain(|(name, _)| name != "trace")), [Kind::WrongBytes]);
}

#[test]
fn a_null_value_without_a_reference_is_wrong_bytes() {
    assert_eq!(planted(|run| run.record(Role::DeadLetter, "broken").value = None), [Kind::WrongBytes]);
}

#[test]
fn a_waiting_record_whose_next_copy_was_not_taken_ends_at_the_same_or_the_next_attempt() {
    let ends_at = |attempt: &'static str| {
        planted(move |run| {
            run.history.starts = None;
            run.set(Role::DeadLetter, "for ever", "redrive-reason", "too-large");
            run.set(Role::DeadLetter, "for ever", "redrive-attempt", attempt);
        })
    };
    assert_eq!(ends_at("2"), []);
    assert_eq!(ends_at("3"), []);
    assert_eq!(ends_at("1"), [Kind::AttemptGap]);
    assert_eq!(ends_at("4"), [Kind::AttemptGap]);
}

#[test]
fn copies_and_dead_letters_without_detail_and_history_are_whole() {
    let mut run = with_ends();
    let add = |seen: &mut Seen| seen.headers.push(("redrive-detail".to_owned(), Some(b"told".to_vec())));
    add(run.record(Role::Tier(0), "for ever"));
    // The next one was too large with it, and has none.
    assert_eq!(found(&run), []);
}

/// A request that was answered, one that was not yet read, and a case beside them.
fn with_requests(run: &mut Run) {
    let record = |role, offset, key: &str, value: &str| Seen {
        role,
        partition: 0,
        offset,
        timestamp: 40,
        key: Some(key.into()),
        value: Some(value.into()),
        headers: vec![],
    };
    run.history.records.extend([
        record(Role::Control, 0, "r1", "resume"),
        record(Role::Cases, 0, "c/orders/0/2#1", "open"),
        record(Role::Cases, 1, "a/r1", "done"),
    ]);
    run.commit(Role::Control, 0, 1);
}

#[test]
fn a_request_that_was_consumed_and_answered_once_is_obeyed() {
    let mut run = with_ends();
    with_requests(&mut run);
    let report = audit(&run.rules, &run.history);
    assert!(report.is_clean(), "{report}");
    assert_eq!((report.asked, report.obeyed), (1, 1));
    run.remove(Role::Cases, "done");
    let report = audit(&run.rules, &run.history);
    assert_eq!((report.asked, report.obeyed), (1, 0));
}

#[test]
fn requests_are_lost_doubled_torn_left_misplaced_or_stray_as_records_are() {
    let asked = |fault: fn(&mut Run)| {
        after(|run| {
            with_requests(run);
            fault(run);
        })
    };
    assert_eq!(asked(|run| run.remove(Role::Cases, "done")), [Kind::Lost]);
    assert_eq!(asked(|run| run.repeat(Role::Cases, "done")), [Kind::Doubled]);
    assert_eq!(asked(|run| run.commit(Role::Control, 0, 0)), [Kind::Torn, Kind::Lag]);
    let twice = |run: &mut Run| {
        run.repeat(Role::Control, "resume");
        run.commit(Role::Control, 0, 71);
    };
    assert_eq!(asked(twice), [Kind::Ambiguous]);
    assert_eq!(asked(|run| run.record(Role::Cases, "done").partition = 1), [Kind::Misplaced]);
    assert_eq!(asked(|run| run.remove(Role::Control, "resume")), [Kind::Stray]);
}
