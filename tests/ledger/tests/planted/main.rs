//! A test of the tests: the ledger finds nothing in a good history, and every planted fault in a bad one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test may panic")]

mod lanes;
mod run;
mod watched;

use redrive_ledger::{Cut, Kind, Order, OutputValue, Role, Rules, audit};
use run::Run;

fn found(run: &Run) -> Vec<Kind> {
    let mut kinds: Vec<Kind> =
        audit(&run.rules, &run.history).findings.iter().map(|finding| finding.kind).collect();
    kinds.dedup();
    kinds
}

/// What is found after one fault was planted in a good history.
fn planted(fault: impl FnOnce(&mut Run)) -> Vec<Kind> {
    let mut run = Run::good();
    fault(&mut run);
    found(&run)
}

#[test]
fn a_good_history_has_no_findings_and_the_right_counts() {
    let run = Run::good();
    let report = audit(&run.rules, &run.history);
    assert!(report.is_clean(), "{report}");
    assert_eq!((report.source, report.output, report.dead_letters()), (5, 3, 2));
    assert_eq!(
        report.dead.iter().map(|(reason, count)| (reason.as_str(), *count)).collect::<Vec<_>>(),
        [("exhausted", 1), ("http-422", 1)]
    );
    assert_eq!((report.copies, report.starts, report.repeated), (5, 9, 0));
    assert_eq!((report.waiting, report.unread), (0, 0));
    // Four deliveries had to wait; they started 3, 3, 3 and 8 ms after they were due.
    assert_eq!(report.lateness.count(), 4);
    assert_eq!((report.lateness.percentile(50), report.lateness.percentile(99)), (Some(3), Some(8)));
    assert!(report.control_bytes > 100);
    let text = report.to_string();
    for line in [
        "lost                    0",
        "doubled                 0",
        "early                   0",
        "p50 3 ms, p99 8 ms",
    ] {
        assert!(text.contains(line), "`{line}` is missing in\n{text}");
    }
}

#[test]
fn a_running_history_may_hold_unread_and_waiting_records() {
    let mut run = Run::good();
    run.rules.cut = Cut::Running;
    // The output of the hopping record, its last call and the commit past its last copy have not happened yet.
    run.remove(Role::Output, "hops");
    run.history.starts.as_mut().unwrap().retain(|start| start.event_id != run::HOPS || start.attempt < 2);
    run.commit(Role::Tier(0), 1, 1);
    run.source(1, 9, "k9", "new");
    let report = audit(&run.rules, &run.history);
    assert!(report.is_clean(), "{report}");
    assert_eq!((report.waiting, report.unread), (1, 1));
}

#[test]
fn a_call_repeated_after_a_crash_is_counted_and_no_fault() {
    let mut run = Run::good();
    run.start(run::FIRST_TRY, 1, None, 90);
    let report = audit(&run.rules, &run.history);
    assert!(report.is_clean(), "{report}");
    assert_eq!(report.repeated, 1);
}

#[test]
fn an_output_that_is_missing_is_lost() {
    assert_eq!(planted(|run| run.remove(Role::Output, "first try")), [Kind::Lost]);
}

#[test]
fn a_dead_letter_that_is_missing_is_lost() {
    assert_eq!(planted(|run| run.remove(Role::DeadLetter, "broken")), [Kind::Lost]);
}

#[test]
fn a_retry_copy_that_was_consumed_without_a_fate_is_lost() {
    let kinds = planted(|run| {
        run.remove(Role::Output, "fails once");
        run.history
            .starts
            .as_mut()
            .unwrap()
            .retain(|start| start.event_id != run::FAILS_ONCE || start.attempt < 2);
    });
    assert_eq!(kinds, [Kind::Lost]);
}

#[test]
fn two_outputs_of_one_record_are_doubled() {
    assert_eq!(planted(|run| run.repeat(Role::Output, "first try")), [Kind::Doubled]);
}

#[test]
fn an_output_and_a_dead_letter_of_one_record_are_doubled() {
    let kinds = planted(|run| run.dead(0, 8, (0, 0), "http-422", 1, 140));
    assert_eq!(kinds, [Kind::Doubled]);
}

#[test]
fn two_copies_of_one_attempt_are_doubled() {
    let kinds = planted(|run| {
        run.copy(0, 0, 2, (0, 1), 1, 100);
    });
    assert_eq!(kinds, [Kind::Doubled]);
}

#[test]
fn a_fate_and_a_copy_that_would_be_handled_again_are_torn() {
    let kinds = planted(|run| {
        run.commit(Role::Tier(1), 0, 0);
        run.rules.cut = Cut::Running;
    });
    assert_eq!(kinds, [Kind::Torn]);
}

#[test]
fn a_fate_without_its_source_offset_is_torn() {
    let kinds = planted(|run| {
        run.commit(Role::Source, 0, 0);
        run.rules.cut = Cut::Running;
    });
    assert_eq!(kinds, [Kind::Torn]);
}

#[test]
fn a_copy_that_went_on_without_its_tier_offset_is_torn() {
    let kinds = planted(|run| {
        run.commit(Role::Tier(0), 0, 1);
        run.rules.cut = Cut::Running;
    });
    assert_eq!(kinds, [Kind::Torn]);
}

#[test]
fn a_call_before_the_due_header_is_early() {
    assert_eq!(planted(|run| run.call(run::FAILS_ONCE, 2).due = Some(5_104)), [Kind::Early]);
}

#[test]
fn a_call_before_the_tiers_delay_is_early_whatever_the_due_header_says() {
    let kinds = planted(|run| {
        let call = run.call(run::FAILS_ONCE, 2);
        (call.due, call.at) = (Some(5_000), 5_099);
    });
    assert_eq!(kinds, [Kind::Early]);
}

#[test]
fn a_copy_written_before_the_one_before_it_was_due_is_early() {
    let kinds = planted(|run| {
        run.history.starts = None;
        run.record(Role::Tier(1), "for ever").timestamp = 5_099;
    });
    assert_eq!(kinds, [Kind::Early]);
}

#[test]
fn an_attempt_that_was_left_out_is_a_gap() {
    let kinds = planted(|run| {
        run.history.starts = None;
        run.set(Role::Tier(0), "fails once", "redrive-attempt", "2");
    });
    assert_eq!(kinds, [Kind::AttemptGap]);
}

#[test]
fn a_dead_letter_with_the_wrong_attempt_is_a_gap() {
    let kinds = planted(|run| {
        run.history.starts = None;
        run.set(Role::DeadLetter, "for ever", "redrive-attempt", "2");
    });
    assert_eq!(kinds, [Kind::AttemptGap]);
}

#[test]
fn a_call_that_the_topics_do_not_tell_of_is_a_gap() {
    assert_eq!(planted(|run| run.start(run::FIRST_TRY, 2, None, 9_000)), [Kind::AttemptGap]);
}

#[test]
fn a_fate_without_any_call_is_a_gap() {
    let kinds =
        planted(|run| run.history.starts.as_mut().unwrap().retain(|start| start.event_id != run::FIRST_TRY));
    assert_eq!(kinds, [Kind::AttemptGap]);
}

#[test]
fn changed_keys_values_and_foreign_headers_are_wrong_bytes() {
    assert_eq!(planted(|run| run.record(Role::Tier(0), "fails once").key = None), [Kind::WrongBytes]);
    assert_eq!(
        planted(|run| run.record(Role::DeadLetter, "broken").value = Some(vec![])),
        [Kind::WrongBytes]
    );
    assert_eq!(planted(|run| run.record(Role::Output, "first try").value = None), [Kind::WrongBytes]);
    assert_eq!(
        planted(|run| run.record(Role::Output, "first try").headers.retain(|(name, _)| name != "trace")),
        [Kind::WrongBytes]
    );
    let null_for_empty = |run: &mut Run| {
        let headers = &mut run.record(Role::DeadLetter, "for ever").headers;
        headers.iter_mut().find(|(name, _)| name == "trace").unwrap().1 = None;
    };
    assert_eq!(planted(null_for_empty), [Kind::WrongBytes]);
    assert_eq!(planted(|run| run.record(Role::Tier(0), "hops").headers.swap(0, 1)), [Kind::WrongBytes]);
}

#[test]
fn an_output_of_any_value_is_right_where_the_handler_makes_it() {
    let kinds = planted(|run| {
        run.rules.output = OutputValue::Any;
        run.record(Role::Output, "first try").value = None;
    });
    assert_eq!(kinds, []);
}

#[test]
fn a_payload_reference_stands_for_the_value_only_where_it_leads_to_the_origin() {
    let refer = |to: &'static str| {
        planted(move |run| {
            let record = run.record(Role::DeadLetter, "broken");
            record.value = None;
            record.headers.push(("redrive-payload-ref".to_owned(), Some(to.into())));
        })
    };
    assert_eq!(refer("orders/1/0"), []);
    assert_eq!(refer("orders/1/1"), [Kind::WrongBytes]);
}

#[test]
fn a_record_that_left_its_partition_is_misplaced() {
    assert_eq!(planted(|run| run.record(Role::DeadLetter, "broken").partition = 0), [Kind::Misplaced]);
}

#[test]
fn a_key_whose_records_changed_places_is_out_of_order_where_order_is_asked() {
    let swap = |order| {
        planted(|run| {
            run.rules.order = order;
            run.record(Role::Output, "first try").offset = 50;
        })
    };
    // The second record of the key waited in a tier: it may be overtaken unless all order is asked.
    assert_eq!(swap(Order::Unchecked), []);
    assert_eq!(swap(Order::FirstTries), []);
    assert_eq!(swap(Order::All), [Kind::OutOfOrder]);
}

#[test]
fn first_tries_of_a_key_that_changed_places_are_out_of_order() {
    let kinds = planted(|run| {
        run.source(0, 3, "k0", "second");
        run.output(0, 0, (0, 3), 120);
        run.start("orders/0/3", 1, None, 110);
        run.commit(Role::Source, 0, 4);
        run.record(Role::Output, "first try").offset = 50;
    });
    assert_eq!(kinds, [Kind::OutOfOrder]);
}

#[test]
fn what_is_left_after_the_drain_is_lag() {
    assert_eq!(planted(|run| run.source(1, 9, "k9", "new")), [Kind::Lag]);
    let waits = |run: &mut Run| {
        run.remove(Role::Output, "hops");
        run.history.starts.as_mut().unwrap().retain(|start| start.event_id != run::HOPS || start.attempt < 2);
        run.commit(Role::Tier(0), 1, 1);
    };
    assert_eq!(planted(waits), [Kind::Lag]);
}

#[test]
fn control_headers_that_are_missing_repeated_or_malformed_are_bad() {
    let drop_due = |run: &mut Run| {
        run.record(Role::Tier(1), "for ever").headers.retain(|(name, _)| name != "redrive-due")
    };
    assert!(planted(drop_due).contains(&Kind::BadHeader));
    let repeat = |run: &mut Run| {
        let headers = &mut run.record(Role::DeadLetter, "broken").headers;
        headers.push(("redrive-reason".to_owned(), Some(b"http-422".to_vec())));
    };
    assert!(planted(repeat).contains(&Kind::BadHeader));
    assert!(
        planted(|run| run.set(Role::DeadLetter, "broken", "redrive-attempt", "one"))
            .contains(&Kind::BadHeader)
    );
    assert_eq!(
        planted(|run| run.set(Role::DeadLetter, "broken", "redrive-event-id", "other")),
        [Kind::BadHeader]
    );
}

#[test]
fn what_leads_to_no_source_record_is_stray() {
    assert!(planted(|run| run.output(0, 99, (7, 7), 120)).contains(&Kind::Stray));
    assert!(planted(|run| run.dead(0, 99, (7, 7), "http-422", 1, 120)).contains(&Kind::Stray));
    assert!(planted(|run| run.start("orders/7/7", 1, None, 120)).contains(&Kind::Stray));
}

#[test]
fn two_source_records_with_one_event_id_are_ambiguous() {
    let mut run = Run::empty(Rules { event_id: Some("trace".to_owned()), ..run::rules() });
    run.rules.cut = Cut::Running;
    run.source(0, 0, "k0", "one");
    run.source(0, 1, "k0", "two");
    assert_eq!(found(&run), [Kind::Ambiguous]);
}

#[test]
fn a_header_that_cannot_be_an_event_id_leaves_the_origin_as_the_event_id() {
    let mut run = Run::good();
    run.rules.event_id = Some("absent".to_owned());
    assert_eq!(found(&run), []);
    run.record(Role::Source, "first try").headers.push(("absent".to_owned(), Some(vec![0xff])));
    run.record(Role::Output, "first try").headers.push(("absent".to_owned(), Some(vec![0xff])));
    assert_eq!(found(&run), []);
}
