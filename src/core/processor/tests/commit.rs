//! When transactions are formed and what their ends mean.

use super::*;

#[test]
fn only_a_prefix_of_settled_records_is_committed() {
    let mut worker = Worker::running(policy(&[]));
    worker.fetch(Lane::Source, vec![record(0, "a"), record(1, "b"), record(2, "c")]);
    let first = worker.deliveries.remove(0);
    worker.answer(done());
    worker.answer(done());
    worker.wait(60);
    assert!(worker.transactions.is_empty(), "offset 0 is not settled: nothing behind it is written");
    worker.tell(Event::Handled { delivery: first.id, outcome: done() });
    let transaction = worker.end(TransactionResult::Committed);
    assert_eq!((source_offset(&transaction), transaction.writes.len()), (Offset(3), 3));
    assert!(worker.breaches().is_empty());
}

#[test]
fn a_transaction_closes_at_rest_at_once_and_under_load_after_the_commit_interval() {
    let mut worker = Worker::running(policy(&[]));
    worker.fetch(Lane::Source, vec![record(0, "a"), record(1, "b")]);
    worker.answer(done());
    assert!(worker.transactions.is_empty(), "another record is with the handler");
    assert_eq!(worker.core.poll_timeout(worker.now()), Some(Duration::from_millis(50)));
    worker.wait(50);
    assert_eq!(source_offset(&worker.end(TransactionResult::Committed)), Offset(1));
    worker.answer(done());
    assert_eq!(
        source_offset(&worker.end(TransactionResult::Committed)),
        Offset(2),
        "nothing else is in flight"
    );
}

#[test]
fn after_an_abort_the_same_results_are_tried_again_and_no_handler_runs() {
    let mut worker = Worker::running(once(policy(&[5])));
    worker.fetch(Lane::Source, vec![record(0, "a"), record(1, "b")]);
    worker.answer(done());
    worker.answer(fails(Class::Transient));
    let first = worker.end(passing());
    assert!(worker.transactions.is_empty(), "it backs off");
    worker.wait(20);
    let second = worker.end(TransactionResult::Committed);
    assert!(worker.deliveries.is_empty());
    assert_eq!(first.tasks[0].offsets, second.tasks[0].offsets);
    assert_eq!(first.writes.len(), second.writes.len());
    assert!(second.tasks[0].mark.sequence > first.tasks[0].mark.sequence);
    let due = |transaction: &Transaction| header(&transaction.writes[1].headers, "redrive-due").unwrap();
    assert_eq!(
        (due(&first), due(&second)),
        ("1005000".to_owned(), "1005020".to_owned()),
        "from the time of writing"
    );
}

/// The first task has always more than one transaction takes.
#[test]
fn a_task_with_large_records_leaves_the_others_their_turn() {
    let lanes: Vec<LaneStart> = policy(&[]).lanes().map(|_| LaneStart::Committed(Offset(0))).collect();
    let mut worker = Worker::new(policy(&[]));
    let other = Partition(1);
    worker.tell(Event::Assigned(vec![P, other]));
    let epochs: Vec<Epoch> = worker.core.tasks.values().map(|task| task.epoch).collect();
    for (partition, epoch) in [P, other].into_iter().zip(epochs.clone()) {
        let found = Restored {
            mark: None,
            founding: Founding(1),
            lanes: lanes.clone(),
            topics: Vec::new(),
            keys: None,
        };
        worker.tell(Event::Restored { partition, epoch, found });
    }
    let large = || {
        let value = Some(Bytes::from(vec![0; 20 << 20]));
        Outcome::Done(vec![Output { to: OutputName::Main, key: None, value, headers: vec![] }])
    };
    let fetch = |worker: &mut Worker, partition: Partition, epoch, offsets: std::ops::Range<i64>| {
        let records = offsets.map(|offset| record(offset, &format!("{partition}-{offset}"))).collect();
        worker.tell(Event::Fetched { partition, epoch, lane: Lane::Source, records });
    };
    let answer = |worker: &mut Worker| {
        while !worker.deliveries.is_empty() {
            worker.answer(large());
        }
    };
    fetch(&mut worker, other, epochs[1], 0..1);
    fetch(&mut worker, P, epochs[0], 0..4);
    answer(&mut worker);
    worker.wait(1_000);
    for turn in 2..8 {
        let transaction = worker.transactions.remove(0);
        if transaction.writes.iter().any(|write| write.partition == other) {
            return;
        }
        fetch(&mut worker, P, epochs[0], turn * 2..turn * 2 + 2);
        answer(&mut worker);
        worker.tell(Event::Transacted { transaction: transaction.id, result: TransactionResult::Committed });
    }
    panic!("it never has its turn");
}

#[test]
fn an_unwritable_target_blocks_the_tasks_that_need_it_and_they_go_on_by_themselves() {
    let mut worker = Worker::running(once(policy(&[5])));
    worker.fetch(Lane::Source, vec![record(0, "a")]);
    worker.answer(fails(Class::Permanent));
    let unwritable = |target| {
        TransactionResult::Aborted(AbortCause::Unwritable { target, detail: "unknown topic".to_owned() })
    };
    worker.end(unwritable(Target::DeadLetter));
    worker.fetch(Lane::Source, vec![record(1, "b")]);
    assert!(worker.deliveries.is_empty(), "a blocked task takes nothing on");
    let blocked =
        |action: &&Action| matches!(action, Action::Report(Report::Blocked { part: Part::Records, .. }));
    assert_eq!(worker.others.iter().filter(blocked).count(), 1);
    worker.wait(1_000);
    assert_eq!(worker.transactions[0].probe, Some(Target::DeadLetter));
    worker.end(unwritable(Target::DeadLetter));
    worker.wait(1_999);
    assert!(worker.transactions.is_empty(), "the wait doubles");
    worker.wait(1);
    assert_eq!(source_offset(&worker.end(TransactionResult::Committed)), Offset(1));
    assert_eq!(worker.deliveries.len(), 1, "it goes on");
}

#[test]
fn a_blocked_task_commits_its_offsets_again_and_stays_blocked() {
    let mut policy = once(policy(&[5]));
    policy.flow.recommit = Duration::from_millis(900);
    let mut worker = Worker::running(policy);
    worker.fetch(Lane::Source, vec![record(0, "a")]);
    worker.answer(fails(Class::Permanent));
    let (target, detail) = (Target::DeadLetter, "unknown topic".to_owned());
    worker.end(TransactionResult::Aborted(AbortCause::Unwritable { target, detail }));

    worker.wait(900);
    let again = worker.end(TransactionResult::Committed);
    assert_eq!((again.writes.len(), again.records, again.probe), (0, 0, None));
    let tier = Lane::Tier(TierIndex(0));
    let start = [(Lane::Source, Offset(0)), (Lane::Control, Offset(0)), (tier, Offset(0))];
    assert_eq!(again.tasks[0].offsets, start);
    assert!(worker.core.blocked.contains(&P) && worker.core.tasks[&P].block.is_some());

    worker.wait(100);
    let settled = worker.end(TransactionResult::Committed);
    assert_eq!((settled.probe, settled.writes.len(), source_offset(&settled)), (Some(target), 1, Offset(1)));
    assert!(worker.core.blocked.is_empty());
    assert!(worker.breaches().is_empty());
}

fn fenced(slot: Slot) -> TransactionResult {
    fenced_in(1, slot)
}

fn fenced_in(generation: i32, slot: Slot) -> TransactionResult {
    TransactionResult::Fenced { slot, after: Duration::from_millis(5), generation: Generation(generation) }
}

fn ends_for(worker: &Worker) -> Option<usize> {
    worker.others.iter().find_map(|action| match action {
        Action::Stop(StopReason::TwinProcess { times }) => Some(*times),
        _ => None,
    })
}

/// Has a record that waits for its commit, after ten that were committed.
fn settled_worker(flow: impl Fn(&mut Flow)) -> Worker {
    let mut policy = once(policy(&[]));
    flow(&mut policy.flow);
    let mut worker = Worker::running(policy);
    (0..10).for_each(|offset| commit(&mut worker, offset));
    worker.fetch(Lane::Source, vec![record(10, "b")]);
    worker.answer(done());
    worker.others.clear();
    worker
}

fn commit(worker: &mut Worker, offset: i64) {
    worker.fetch(Lane::Source, vec![record(offset, "a")]);
    worker.answer(done());
    worker.end(TransactionResult::Committed);
}

#[test]
fn the_later_of_two_twins_ends_at_its_first_fence_and_nothing_follows() {
    let mut worker = Worker::running(once(policy(&[])));
    worker.fetch(Lane::Source, vec![record(0, "a")]);
    worker.answer(done());
    worker.end(fenced(Slot::Second));
    assert_eq!(ends_for(&worker), None, "only one producer decides");
    worker.wait(100);
    worker.others.clear();
    worker.end(fenced(Slot::First));
    assert_eq!(worker.others, [Action::Stop(StopReason::TwinProcess { times: 1 })]);
}

#[test]
fn a_blocked_task_is_tried_again_after_a_try_that_failed_for_another_reason() {
    let mut worker = Worker::running(once(policy(&[])));
    worker.fetch(Lane::Source, vec![record(0, "a")]);
    worker.answer(done());
    let target = Target::Output;
    let detail = "unknown topic".to_owned();
    worker.end(TransactionResult::Aborted(AbortCause::Unwritable { target, detail }));
    worker.wait(1_000);
    worker.end(passing());
    let wait = worker.core.poll_timeout(worker.now()).expect("a wake-up of its own");
    worker.wait(u64::try_from(wait.as_millis()).unwrap());
    assert_eq!(worker.end(TransactionResult::Committed).probe, Some(target));
}

#[test]
fn a_task_that_came_back_is_not_blocked_by_the_transaction_of_its_last_assignment() {
    let mut worker = Worker::running(once(policy(&[])));
    worker.fetch(Lane::Source, vec![record(0, "a")]);
    worker.answer(done());
    worker.tell(Event::Lost(vec![P]));
    worker.tell(Event::Assigned(vec![P]));
    let detail = "unknown topic".to_owned();
    let cause = AbortCause::Unwritable { target: Target::Output, detail };
    worker.end(TransactionResult::Aborted(cause));
    assert!(worker.core.blocked.is_empty());
}

#[test]
fn a_refused_write_of_no_record_stops_its_own_task_only() {
    let mut worker = Worker::running(once(policy(&[])));
    let other = Partition(1);
    worker.tell(Event::Assigned(vec![other]));
    let epoch = worker.core.tasks[&other].epoch;
    let found = Restored {
        mark: None,
        founding: Founding(2),
        lanes: vec![LaneStart::Committed(Offset(0))],
        topics: Vec::new(),
        keys: None,
    };
    worker.tell(Event::Restored { partition: other, epoch, found });
    worker.fetch(Lane::Source, vec![record(0, "a")]);
    worker.tell(Event::Fetched {
        partition: other,
        epoch,
        lane: Lane::Source,
        records: vec![record(0, "b")],
    });
    worker.answer(done());
    worker.answer(done());
    let cause = AbortCause::Refused {
        target: Target::State,
        partition: P,
        flaw: Flaw::TooLarge,
        suspects: Suspects::OneOf(vec![7]),
        detail: "too large".to_owned(),
    };
    worker.end(TransactionResult::Aborted(cause));
    let next = worker.end(TransactionResult::Committed);
    assert_eq!(next.tasks.iter().map(|task| task.partition).collect::<Vec<_>>(), [other]);
}

#[test]
fn after_a_commit_without_an_answer_the_mark_decides() {
    let mark = |by, sequence| {
        Some(CommitMark {
            writer: WriterId(by),
            sequence: Sequence(sequence),
            founding: Founding(1),
            topic: None,
            going: Going::On,
        })
    };
    let cases = [(mark(7, 1), true), (mark(7, 0), false), (mark(8, 1), false), (None, false)];
    for (found, committed) in cases {
        let mut worker = Worker::running(policy(&[]));
        worker.fetch(Lane::Source, vec![record(0, "a")]);
        worker.answer(done());
        let id = worker.end(TransactionResult::Unknown).id;
        worker.wait(60_000);
        assert!(worker.transactions.is_empty(), "no other transaction before that is known");
        worker.tell(Event::ReadBack { transaction: id, marks: vec![(P, found)] });
        assert!(worker.transactions.is_empty(), "what did not take place is not repeated at once");
        worker.wait(20);
        assert_eq!(worker.transactions.is_empty(), committed, "{found:?}");
    }
}

#[test]
fn a_first_start_is_committed_before_anything_is_read() {
    let mut worker = Worker::new(policy(&[5]));
    worker.tell(Event::Assigned(vec![P]));
    let lanes = [17, 0, 0].map(|offset| LaneStart::Fresh(Offset(offset))).to_vec();
    let epoch = worker.epoch();
    worker.tell(Event::Restored {
        partition: P,
        epoch,
        found: Restored { mark: None, founding: Founding(1), lanes, topics: Vec::new(), keys: None },
    });
    let open = |action: &Action| matches!(action, Action::Open { .. } | Action::Fetch { .. });
    assert!(!worker.others.iter().any(open));
    let start = worker.end(TransactionResult::Committed);
    let tier = Lane::Tier(TierIndex(0));
    let offsets = vec![(Lane::Source, Offset(17)), (Lane::Control, Offset(0)), (tier, Offset(0))];
    assert_eq!((start.records, &start.tasks[0].offsets), (0, &offsets));
    assert!(worker.others.iter().any(open));
}

#[test]
fn the_first_of_two_twins_ends_after_five_fences_with_hardly_a_commit_in_between() {
    let mut worker = settled_worker(|_| {});
    for fence in 0..5 {
        assert_eq!(ends_for(&worker), None, "after {fence} fences");
        worker.wait(5_000);
        worker.end(fenced(Slot::First));
    }
    assert_eq!(ends_for(&worker), Some(5));
}

#[test]
fn a_twin_that_is_started_again_and_again_never_ends_the_first() {
    let mut worker = settled_worker(|_| {});
    let mut offset = 10;
    for life in 1..100 {
        // It is met before it has joined, or after, and the first commits but once meanwhile.
        worker.wait(60_000);
        worker.end(fenced_in(if life % 2 == 0 { life } else { life + 1 }, Slot::First));
        worker.wait(100);
        worker.end(TransactionResult::Committed);
        offset += 1;
        worker.fetch(Lane::Source, vec![record(offset, "b")]);
        worker.answer(done());
        assert_eq!(ends_for(&worker), None, "life {life}");
    }
    // One that stays goes on fencing it in one generation.
    for _ in 0..5 {
        worker.wait(60_000);
        worker.end(fenced_in(1_000, Slot::First));
    }
    assert_eq!(ends_for(&worker), Some(5));
}

#[test]
fn one_that_has_hardly_committed_and_not_long_ago_is_the_later_of_two() {
    for (commits, millis, ends) in [(9, 59_999, Some(1)), (1, 60_000, None), (10, 0, None)] {
        let mut worker = Worker::running(once(policy(&[])));
        (0..commits).for_each(|offset| commit(&mut worker, offset));
        worker.fetch(Lane::Source, vec![record(commits, "b")]);
        worker.answer(done());
        worker.wait(millis);
        worker.end(fenced(Slot::First));
        assert_eq!(ends_for(&worker), ends, "{commits} commits, the first {millis} ms ago");
    }
}

#[test]
fn fences_with_calm_in_between_end_nothing() {
    let mut worker = settled_worker(|_| {});
    for offset in 10..200 {
        worker.wait(100);
        worker.end(if offset % 11 == 1 { fenced(Slot::First) } else { TransactionResult::Committed });
        worker.fetch(Lane::Source, vec![record(offset + 1, "b")]);
        worker.answer(done());
    }
    assert_eq!(ends_for(&worker), None);
}

#[test]
fn one_that_is_told_to_end_leaves_its_identity_to_whoever_takes_it() {
    let mut worker = settled_worker(|_| {});
    worker.tell(Event::Drain);
    worker.end(fenced(Slot::First));
    assert_eq!(ends_for(&worker), Some(1));
}

#[test]
fn where_the_group_tells_twins_apart_a_fence_ends_nothing() {
    let mut worker = settled_worker(|flow| flow.twins = Twins::Group);
    for _ in 0..20 {
        worker.wait(2_500);
        worker.end(fenced(Slot::First));
    }
    assert_eq!(ends_for(&worker), None);
}

#[test]
fn what_the_group_does_not_end_within_a_session_the_fences_do() {
    let session = Duration::from_secs(15);
    let mut worker = settled_worker(|flow| flow.twins = Twins::GroupWithin(session));
    let mut fences = 0;
    while ends_for(&worker).is_none() {
        worker.wait(2_500);
        worker.end(fenced(Slot::First));
        fences += 1;
        assert!(fences < 100, "for ever");
    }
    assert_eq!(ends_for(&worker), Some(8), "the first after more than 15 s");
}

#[test]
fn a_transaction_that_the_broker_gave_up_is_not_a_twin() {
    let mut worker = Worker::running(policy(&[]));
    worker.fetch(Lane::Source, vec![record(0, "a")]);
    worker.answer(done());
    for _ in 0..5 {
        worker.wait(5_000);
        let (after, generation) = (Duration::from_secs(10), Generation(1));
        worker.end(TransactionResult::Fenced { slot: Slot::First, after, generation });
    }
    worker.wait(5_000);
    worker.end(TransactionResult::Committed);
    assert_eq!(ends_for(&worker), None);
}

#[test]
fn offsets_of_idle_lanes_are_committed_again() {
    let mut worker = Worker::running(policy(&[5]));
    worker.wait(3_600_000);
    let transaction = worker.end(TransactionResult::Committed);
    assert_eq!((transaction.records, transaction.tasks[0].offsets.len()), (0, 3));
    worker.wait(3_600_000);
    assert_eq!(worker.transactions.len(), 1);
}

#[test]
fn a_transaction_that_is_too_much_for_the_broker_is_tried_again_in_smaller_parts() {
    let mut policy = policy(&[]);
    policy.flow.window = 64;
    let mut worker = Worker::running(policy);
    let big = |offset| Record { value: Some(Bytes::from(vec![0; 1 << 20])), key: None, ..record(offset, "") };
    worker.fetch(Lane::Source, (0..48).map(big).collect());
    let value = Some(Bytes::from(vec![0; 1 << 20]));
    for _ in 0..48 {
        let output = Output { to: OutputName::Main, key: None, value: value.clone(), headers: vec![] };
        worker.answer(Outcome::Done(vec![output]));
    }
    let mut sizes = Vec::new();
    let mut committed = 0;
    for abort in [true, true, false, false, false, false, false, false] {
        if worker.transactions.is_empty() {
            worker.wait(5_000);
        }
        let Some(transaction) = worker.transactions.first() else { break };
        let count = transaction.records;
        sizes.push(count);
        assert_eq!(source_offset(transaction), Offset(committed + i64::try_from(count).unwrap()));
        if abort {
            worker.end(passing());
        } else {
            committed += i64::try_from(count).unwrap();
            worker.end(TransactionResult::Committed);
        }
    }
    assert_eq!(sizes, [32, 16, 8, 16, 24]);
    assert_eq!(committed, 48);
}

#[test]
fn a_blocked_task_whose_try_came_to_nothing_gives_the_others_their_turn() {
    let mut worker = Worker::running(once(policy(&[5])));
    worker.fetch(Lane::Source, vec![record(0, "a")]);
    worker.answer(fails(Class::Permanent));
    let (target, detail) = (Target::DeadLetter, "unknown topic".to_owned());
    worker.end(TransactionResult::Aborted(AbortCause::Unwritable { target, detail }));
    worker.wait(1_000);
    let probe =
        worker.end(TransactionResult::Aborted(AbortCause::Passing { detail: "no answer".to_owned() }));
    assert_eq!(probe.probe, Some(target));

    worker.wait(900);
    assert!(worker.transactions.is_empty(), "it is not tried again at once");
    worker.wait(100);
    assert_eq!(worker.end(TransactionResult::Committed).probe, Some(target));
}
