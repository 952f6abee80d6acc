//! From a record that was read to its fate.

use super::*;

#[test]
fn records_of_one_key_run_one_after_another_in_order_and_other_keys_beside_them() {
    let mut worker = Worker::running(policy(&[]));
    let records = vec![record(0, "a"), record(1, "a"), record(2, "b"), record(3, ""), record(4, "")];
    worker.fetch(Lane::Source, records);
    let offsets: Vec<i64> = worker.deliveries.iter().map(|delivery| delivery.id.offset.0).collect();
    assert_eq!(offsets, [0, 2, 3, 4]);
    worker.answer(done());
    assert_eq!(worker.deliveries.last().unwrap().id.offset, Offset(1));
}

#[test]
fn a_key_stays_taken_while_its_record_waits_for_the_next_execution() {
    let mut worker = Worker::running(policy(&[5]));
    worker.fetch(Lane::Source, vec![record(0, "a"), record(1, "a")]);
    worker.answer(fails(Class::Transient));
    assert!(worker.deliveries.is_empty());
    worker.wait(200);
    let again = worker.answer(done());
    assert_eq!((again.id.offset, again.attempt, again.execution), (Offset(0), 1, 2));
    assert_eq!(worker.deliveries.len(), 1);
}

#[test]
fn a_record_that_always_fails_has_exactly_the_attempts_and_executions_of_the_ladder() {
    let mut policy = policy(&[5, 60]);
    policy.ladder.last_tier_repeats = 2;
    let mut worker = Worker::running(policy);
    worker.notes_by_themselves = Answers::Committed;
    let mut offsets = [0, 0];
    worker.fetch(Lane::Source, vec![record(0, "a")]);
    let mut executions = 0;
    for attempt in 1.. {
        for execution in 1..=3 {
            executions += 1;
            let delivery = worker.answer(fails(Class::Transient));
            assert_eq!((delivery.attempt, delivery.execution), (attempt, execution));
            worker.wait(2_000);
        }
        let write = worker.end(TransactionResult::Committed).writes.remove(0);
        let Target::Tier(tier) = write.target else {
            assert_eq!(write.target, Target::DeadLetter);
            assert_eq!(header(&write.headers, "redrive-reason").unwrap(), "exhausted");
            assert_eq!(header(&write.headers, "redrive-class").unwrap(), "transient");
            assert_eq!(header(&write.headers, "redrive-attempt").unwrap(), attempt.to_string());
            assert_eq!(header(&write.headers, "redrive-executions").unwrap(), "12");
            assert_eq!(header(&write.headers, "redrive-first-attempt-at").unwrap(), WALL.to_string());
            break;
        };
        let offset = Offset(offsets[tier.index()]);
        offsets[tier.index()] += 1;
        let Write { key, value, headers, timestamp, .. } = write;
        let timestamp = timestamp.unwrap();
        worker.fetch(
            Lane::Tier(tier),
            vec![Record { offset, timestamp, key, value, headers, unnamed_headers: 0, decoded: None }],
        );
        assert!(worker.deliveries.is_empty(), "never early");
        let delay = worker.core.policy.ladder.delay(tier).unwrap();
        worker.wait(u64::try_from(delay.as_millis()).unwrap());
    }
    assert_eq!(executions, 12);
    assert!(worker.breaches().is_empty());
}

#[test]
fn a_waiting_record_is_handed_on_at_its_due_time_and_not_a_millisecond_before() {
    let mut worker = Worker::running(policy(&[5]));
    worker.fetch(Lane::Tier(TierIndex(0)), vec![waiting(0, 5_000)]);
    assert_eq!(worker.core.poll_timeout(worker.now()), Some(Duration::from_secs(5)));
    worker.wait(4_999);
    assert!(worker.deliveries.is_empty());
    worker.wait(1);
    let delivery = worker.answer(done());
    assert_eq!((delivery.attempt, delivery.lateness), (2, Some(Duration::ZERO)));
}

#[test]
fn a_lane_is_not_read_on_while_its_first_record_waits() {
    let mut worker = Worker::running(policy(&[5]));
    worker.others.clear();
    worker.fetch(Lane::Tier(TierIndex(0)), vec![waiting(0, 5_000)]);
    assert!(worker.others.is_empty());
    worker.wait(5_000);
    assert!(worker.others.iter().any(|action| matches!(action, Action::Fetch { lane: Lane::Tier(_), .. })));
}

#[test]
fn a_record_that_must_wait_on_hops_without_an_attempt() {
    let mut worker = Worker::running(policy(&[5]));
    worker.fetch(Lane::Tier(TierIndex(0)), vec![waiting(0, 60_000)]);
    worker.wait(5_000);
    assert!(worker.deliveries.is_empty());
    let write = worker.end(TransactionResult::Committed).writes.remove(0);
    assert_eq!(write.target, Target::Tier(TierIndex(0)));
    assert_eq!(header(&write.headers, "redrive-attempt").unwrap(), "1");
    assert_eq!(header(&write.headers, "redrive-due").unwrap(), (WALL + 60_000).to_string());
}

#[test]
fn a_wall_clock_that_jumps_neither_releases_early_nor_stalls() {
    for skew in [-3_600_000, 3_600_000] {
        let mut worker = Worker::running(policy(&[5]));
        worker.fetch(Lane::Tier(TierIndex(0)), vec![waiting(0, 5_000)]);
        worker.skew = skew;
        worker.wait(4_999);
        assert!(worker.deliveries.is_empty(), "early after a jump of {skew} ms");
        worker.wait(1);
        assert_eq!(worker.deliveries.len(), 1, "stalled after a jump of {skew} ms");
    }
}

#[test]
fn a_reader_whose_clock_is_behind_waits_the_delay_and_does_not_hop() {
    let mut worker = Worker::running(policy(&[5]));
    worker.skew = -3_600_000;
    worker.fetch(Lane::Tier(TierIndex(0)), vec![waiting(0, 5_000)]);
    worker.wait(5_000);
    assert_eq!(worker.deliveries.len(), 1);
}

#[test]
fn broken_control_headers_are_a_dead_letter_and_the_next_record_goes_on() {
    let mut worker = Worker::running(policy(&[5]));
    let forged = Record { headers: vec![], ..waiting(0, 5_000) };
    worker.fetch(Lane::Tier(TierIndex(0)), vec![forged, waiting(1, 5_000)]);
    worker.wait(5_000);
    assert_eq!(worker.answer(done()).id.offset, Offset(1));
    let transaction = worker.end(TransactionResult::Committed);
    assert_eq!(transaction.writes[0].target, Target::DeadLetter);
    assert_eq!(header(&transaction.writes[0].headers, "redrive-reason").unwrap(), "bad-control-header");
    let origin = header(&transaction.writes[0].headers, "redrive-origin-topic").unwrap();
    assert_eq!(origin, "shop.orders.retry.5s", "leads to where it was found");
}

#[test]
fn a_header_name_that_cannot_be_carried_is_a_dead_letter_with_a_payload_reference() {
    let mut worker = Worker::running(policy(&[5]));
    worker.fetch(Lane::Source, vec![Record { unnamed_headers: 1, ..record(0, "a") }, record(1, "b")]);
    assert_eq!(worker.answer(done()).id.offset, Offset(1));
    let letter = worker.end(TransactionResult::Committed).writes.remove(0);
    assert_eq!(header(&letter.headers, "redrive-reason").unwrap(), "bad-header-name");
    assert_eq!(header(&letter.headers, "redrive-payload-ref").unwrap(), "orders/0/0");
    assert_eq!(header(&letter.headers, "redrive-attempt"), None, "no handler ever saw it");
}

#[test]
fn retries_that_hang_leave_room_for_new_records_and_new_ones_for_retries() {
    let mut worker = Worker::running(policy(&[5]));
    let due = |offset| Record { key: None, ..waiting(offset, 0) };
    worker.fetch(Lane::Tier(TierIndex(0)), (0..16).map(due).collect());
    worker.wait(5_000);
    assert_eq!(worker.deliveries.len(), 12, "three quarters of the window of 16");
    worker.fetch(Lane::Source, (0..16).map(|offset| record(offset, "")).collect());
    assert_eq!(worker.deliveries.len(), 16);
}

#[test]
fn an_operation_id_that_is_configured_and_missing_is_permanent() {
    let mut policy = policy(&[5]);
    policy.identity.operation_id =
        Some(crate::core::policy::Source::Header(crate::core::record::HeaderName::new("op")));
    let mut worker = Worker::running(policy);
    worker.fetch(Lane::Source, vec![record(0, "a")]);
    let letter = worker.end(TransactionResult::Committed).writes.remove(0);
    assert_eq!(letter.target, Target::DeadLetter);
    assert_eq!(header(&letter.headers, "redrive-reason").unwrap(), Reason::NoOperationId.to_string());
}

#[test]
fn an_output_goes_to_the_topic_of_its_name_and_one_to_nowhere_makes_a_dead_letter() {
    let mut policy = policy(&[]);
    policy.outputs.named = vec![("audit".to_owned(), crate::core::position::TopicName::new("orders.audit"))];
    let mut worker = Worker::running(policy);
    worker.fetch(Lane::Source, vec![record(0, "a"), record(1, "b")]);
    let to = |name| {
        let to = OutputName::Named(std::borrow::Cow::Borrowed(name));
        Outcome::Done(vec![Output { to, key: None, value: None, headers: vec![] }])
    };
    worker.answer(to("audit"));
    worker.answer(to("nowhere"));
    let writes = worker.end(TransactionResult::Committed).writes;
    assert_eq!(
        writes.iter().map(|write| write.target).collect::<Vec<_>>(),
        [Target::Named(0), Target::DeadLetter]
    );
    assert_eq!(header(&writes[1].headers, "redrive-reason").unwrap(), "no-such-output");
}

#[test]
fn a_hop_takes_over_what_remains_and_not_the_clock_of_a_writer_that_was_ahead() {
    let mut worker = Worker::running(policy(&[5]));
    worker.skew = -3_600_000;
    worker.fetch(Lane::Tier(TierIndex(0)), vec![waiting(0, 60_000)]);
    worker.wait(5_000);
    let write = worker.end(TransactionResult::Committed).writes.remove(0);
    let now = WALL + 5_000 - 3_600_000;
    assert_eq!(header(&write.headers, "redrive-due").unwrap(), (now + 55_000).to_string());
}

#[test]
fn a_record_that_waits_longer_than_a_deadline_shortened_since_is_believed() {
    let three_days = 3 * 24 * 60 * 60;
    let mut policy = once(policy(&[three_days]));
    policy.deadline = Duration::from_secs(60);
    let mut worker = Worker::running(policy);
    let wait = i64::try_from(three_days).unwrap() * 1_000;
    worker.fetch(Lane::Tier(TierIndex(0)), vec![waiting(0, wait)]);
    worker.wait(three_days * 1_000);
    assert_eq!(worker.deliveries.len(), 1);
}

#[test]
fn a_record_of_a_drained_tier_that_must_wait_on_waits_where_it_is_when_there_is_no_tier_left() {
    let mut policy = policy(&[]);
    policy.tiers = vec![crate::core::position::TopicName::new("shop.orders.retry.5s")];
    policy.draining = vec![Duration::from_secs(5)];
    let mut worker = Worker::running(policy);
    worker.fetch(Lane::Tier(TierIndex(0)), vec![waiting(0, 60_000)]);
    worker.wait(5_000);
    worker.wait(54_999);
    assert!(worker.deliveries.is_empty(), "it is not due");
    worker.wait(1);
    assert_eq!(worker.deliveries.len(), 1);
}
