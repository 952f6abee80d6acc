//! How a refused record is found among those of its batch.

use super::*;

/// Ends every transaction as a broker would that refuses whole batches, one per target, with a write that `is_bad`.
/// Returns the writes that were committed, and how many transactions were aborted.
fn settle_all(worker: &mut Worker, is_bad: fn(&Write) -> bool) -> (Vec<Write>, usize) {
    let (mut committed, mut aborts) = (Vec::new(), 0);
    while let Some(transaction) = worker.transactions.first().cloned() {
        assert!(aborts < 100, "the search does not end");
        match refusal(&transaction, is_bad) {
            Some(cause) => {
                aborts += 1;
                worker.end(TransactionResult::Aborted(cause));
            }
            None => {
                committed.extend(transaction.writes);
                worker.end(TransactionResult::Committed);
            }
        }
    }
    (committed, aborts)
}

fn refusal(transaction: &Transaction, is_bad: fn(&Write) -> bool) -> Option<AbortCause> {
    let bad = transaction.writes.iter().find(|write| is_bad(write))?;
    let mates = transaction.writes.iter().enumerate().filter(|(_, write)| write.target == bad.target);
    Some(AbortCause::Refused {
        target: bad.target,
        partition: bad.partition,
        flaw: Flaw::TooLarge,
        suspects: Suspects::OneOf(mates.map(|(place, _)| place).collect()),
        detail: "too large".to_owned(),
    })
}

fn key(write: &Write) -> String {
    String::from_utf8(write.key.clone().unwrap_or_default().to_vec()).unwrap()
}

/// Answers each delivery with an output under its key.
fn answer_all(worker: &mut Worker) -> usize {
    let mut answered = 0;
    while let Some(delivery) = worker.deliveries.first() {
        let outcome = Outcome::output(&delivery.envelope.clone(), Some(Bytes::from_static(b"out")));
        worker.answer(outcome);
        answered += 1;
    }
    answered
}

fn is_13(write: &Write) -> bool {
    write.target == Target::Output && key(write) == "k13"
}

fn is_2_or_13(write: &Write) -> bool {
    is_13(write) || (write.target == Target::Output && key(write) == "k2")
}

fn is_other_9(write: &Write) -> bool {
    write.target == Target::Output && key(write) == "other9"
}

fn wide() -> Policy {
    let mut policy = once(policy(&[]));
    policy.flow.window = 256;
    policy
}

fn all(prefix: &str, count: i64) -> Vec<Record> {
    (0..count).map(|offset| record(offset, &format!("{prefix}{offset}"))).collect()
}

#[test]
fn one_refused_output_among_many_is_a_dead_letter_and_all_others_go_on() {
    let mut worker = Worker::running(wide());
    worker.fetch(Lane::Source, all("k", 64));
    assert_eq!(answer_all(&mut worker), 64);
    let (committed, aborts) = settle_all(&mut worker, is_13);
    let (dead, out): (Vec<Write>, Vec<Write>) =
        committed.into_iter().partition(|write| write.target == Target::DeadLetter);
    assert_eq!(dead.iter().map(key).collect::<Vec<_>>(), ["k13"]);
    assert_eq!(out.len(), 63);
    assert!(aborts <= 7, "{aborts} aborts for 64 records");
    assert!(worker.deliveries.is_empty(), "no handler is called again");
    assert!(worker.core.search.is_empty() && worker.breaches().is_empty());
}

#[test]
fn two_refused_outputs_are_found_one_after_the_other() {
    let mut worker = Worker::running(wide());
    worker.fetch(Lane::Source, all("k", 64));
    answer_all(&mut worker);
    let (committed, _) = settle_all(&mut worker, is_2_or_13);
    let mut dead: Vec<String> =
        committed.iter().filter(|write| write.target == Target::DeadLetter).map(key).collect();
    dead.sort();
    assert_eq!((committed.len(), dead), (64, vec!["k13".to_owned(), "k2".to_owned()]));
}

#[test]
fn a_record_is_found_among_those_of_another_task_in_its_batch() {
    let (mut worker, other, epoch) = two_tasks();
    worker.fetch(Lane::Source, all("k", 16));
    let records = all("other", 16);
    worker.tell(Event::Fetched { partition: other, epoch, lane: Lane::Source, records });
    answer_all(&mut worker);
    let (committed, _) = settle_all(&mut worker, is_other_9);
    let dead: Vec<String> =
        committed.iter().filter(|write| write.target == Target::DeadLetter).map(key).collect();
    assert_eq!((committed.len(), dead), (32, vec!["other9".to_owned()]));
}

#[test]
fn transactions_of_other_tasks_take_turns_with_the_search() {
    let (mut worker, other, epoch) = two_tasks();
    worker.fetch(Lane::Source, all("k", 64));
    answer_all(&mut worker);
    let first = worker.transactions[0].clone();
    worker.tell(Event::Fetched { partition: other, epoch, lane: Lane::Source, records: all("other", 1) });
    answer_all(&mut worker);
    worker.end(TransactionResult::Aborted(refusal(&first, is_13).unwrap()));
    let search = worker.transactions[0].clone();
    assert!(search.tasks.iter().all(|task| task.partition == P), "the search takes its own task alone");
    assert_eq!(search.records, 32);
    worker.end(TransactionResult::Aborted(refusal(&search, is_13).unwrap()));
    assert!(worker.transactions[0].writes.iter().all(|write| key(write) == "other0"));
}

#[test]
fn an_abort_that_names_no_record_accuses_none() {
    let mut worker = Worker::running(wide());
    worker.fetch(Lane::Source, all("k", 4));
    answer_all(&mut worker);
    for _ in 0..5 {
        worker.end(passing());
        worker.wait(5_000);
    }
    let last = worker.end(TransactionResult::Committed);
    assert!(last.writes.iter().all(|write| write.target == Target::Output));
}

#[test]
fn a_refusal_makes_transactions_no_smaller() {
    let mut worker = Worker::running(wide());
    worker.fetch(Lane::Source, all("k", 64));
    answer_all(&mut worker);
    let before = worker.core.pace.most_bytes;
    settle_all(&mut worker, is_13);
    assert_eq!(worker.core.pace.most_bytes, before);
}

/// Task 0 and another one.
fn two_tasks() -> (Worker, Partition, Epoch) {
    let mut worker = Worker::running(wide());
    let other = Partition(1);
    worker.tell(Event::Assigned(vec![other]));
    let epoch = worker.core.tasks[&other].epoch;
    let lanes = worker.core.policy.lanes().map(|_| LaneStart::Committed(Offset(0))).collect();
    let found = Restored { mark: None, founding: Founding(2), lanes, topics: Vec::new(), keys: None };
    worker.tell(Event::Restored { partition: other, epoch, found });
    (worker, other, epoch)
}
