//! Requests of operators: answered once, before everything else, and whatever else cannot be written.

use super::*;
use crate::core::control::{Answer, Command, Compliance, Head, Reply, Request, RequestId};
use crate::core::position::{OffsetRange, TopicName};

fn asked(offset: i64, id: &str) -> Record {
    let topic = TopicName::new("orders");
    let range = OffsetRange { topic, partition: P, from: Offset(0), to: Offset(5) };
    let request = Request {
        id: id.parse().unwrap(),
        by: "ada".to_owned(),
        at: Timestamp::from_millis(WALL),
        ticket: None,
        command: Command::AcceptRepeats(vec![range]),
    };
    Record { key: Some(request.key()), value: Some(request.value()), ..record(offset, "") }
}

/// The answers in a transaction: request, and whether it was obeyed.
fn answers(transaction: &Transaction) -> Vec<(String, Compliance)> {
    let cases = transaction.writes.iter().filter(|write| write.target == Target::Cases);
    let read = |write: &Write| Answer::read(write.key.as_ref().unwrap(), write.value.as_deref()).unwrap();
    cases.map(read).map(|(id, answer)| (id.to_string(), answer.unwrap().compliance)).collect()
}

fn written(transaction: &Transaction, target: Target) -> usize {
    transaction.writes.iter().filter(|write| write.target == target).count()
}

fn control_offset(transaction: &Transaction) -> Option<Offset> {
    let offsets = &transaction.tasks[0].offsets;
    offsets.iter().find(|(lane, _)| *lane == Lane::Control).map(|(_, offset)| *offset)
}

fn unwritable(target: Target) -> TransactionResult {
    TransactionResult::Aborted(AbortCause::Unwritable { target, detail: "unknown topic".to_owned() })
}

/// A worker whose task has a dead letter that cannot be written.
fn blocked() -> Worker {
    let mut worker = Worker::running(once(policy(&[5])));
    worker.fetch(Lane::Source, vec![record(0, "a")]);
    worker.answer(fails(Class::Permanent));
    worker.end(unwritable(Target::DeadLetter));
    worker
}

#[test]
fn a_request_is_answered_and_audited_in_the_transaction_that_moves_its_lane() {
    let mut worker = Worker::running(policy(&[5]));
    worker.fetch(Lane::Control, vec![asked(0, "one"), asked(1, "two")]);
    let transaction = worker.end(TransactionResult::Committed);
    let refused = |id: &str| (id.to_owned(), Compliance::Refused);
    assert_eq!(answers(&transaction), [refused("one"), refused("two")]);
    assert_eq!((written(&transaction, Target::Audit), transaction.writes.len()), (2, 4));
    assert_eq!((control_offset(&transaction), transaction.records), (Some(Offset(2)), 2));
    let told = |action: &&Action| matches!(action, Action::Report(Report::Answered { .. }));
    assert_eq!(worker.others.iter().filter(told).count(), 2);
    assert!(worker.transactions.is_empty() && worker.breaches().is_empty());
}

#[test]
fn an_answer_is_kept_over_an_abort_and_told_once() {
    let mut worker = Worker::running(policy(&[5]));
    worker.fetch(Lane::Control, vec![asked(0, "one")]);
    let first = worker.end(passing());
    worker.wait(20);
    let second = worker.end(TransactionResult::Committed);
    let values = |transaction: &Transaction| {
        transaction.writes.iter().map(|write| (write.key.clone(), write.value.clone())).collect::<Vec<_>>()
    };
    assert_eq!(values(&first), values(&second));
    let told = |action: &&Action| matches!(action, Action::Report(Report::Answered { .. }));
    assert_eq!(worker.others.iter().filter(told).count(), 1);
}

#[test]
fn what_is_no_request_leaves_one_line_in_the_audit_and_nothing_waits_behind_it() {
    let mut worker = Worker::running(policy(&[5]));
    let mut junk = record(0, "");
    junk.unnamed_headers = 1;
    worker.fetch(Lane::Control, vec![junk, asked(1, "one")]);
    let transaction = worker.end(TransactionResult::Committed);
    assert_eq!(answers(&transaction), [("one".to_owned(), Compliance::Refused)]);
    let targets: Vec<Target> = transaction.writes.iter().map(|write| write.target).collect();
    assert_eq!(targets, [Target::Audit, Target::Cases, Target::Audit]);
    assert_eq!(control_offset(&transaction), Some(Offset(2)));
}

#[test]
fn requests_are_answered_while_handlers_fill_the_window() {
    let mut policy = policy(&[5]);
    policy.flow.window = 4;
    let mut worker = Worker::running(policy);
    worker.fetch(Lane::Source, (0..4).map(|offset| record(offset, &format!("{offset}"))).collect());
    assert!(!worker.deliveries.is_empty());
    worker.fetch(Lane::Control, vec![asked(0, "one")]);
    worker.wait(50);
    let transaction = worker.end(TransactionResult::Committed);
    assert_eq!((answers(&transaction).len(), source_offset(&transaction)), (1, Offset(0)));
}

#[test]
fn a_blocked_task_answers_and_stays_blocked() {
    let mut worker = blocked();
    worker.others.clear();
    worker.fetch(Lane::Control, vec![asked(0, "one")]);
    let transaction = worker.end(TransactionResult::Committed);
    assert_eq!((answers(&transaction).len(), transaction.probe), (1, None));
    assert_eq!((source_offset(&transaction), control_offset(&transaction)), (Offset(0), Some(Offset(1))));
    assert!(worker.core.tasks[&P].block.is_some());
    let fetches = |action: &&Action| matches!(action, Action::Fetch { lane: Lane::Control, .. });
    assert_eq!(worker.others.iter().filter(fetches).count(), 1, "and it goes on to listen");

    worker.wait(1_000);
    let probe = worker.end(TransactionResult::Committed);
    assert_eq!((probe.probe, written(&probe, Target::DeadLetter)), (Some(Target::DeadLetter), 1));
    assert!(worker.core.blocked.is_empty() && worker.breaches().is_empty());
}

#[test]
fn answers_that_cannot_be_written_keep_no_record_back() {
    for target in [Target::Cases, Target::Audit] {
        let mut worker = Worker::running(policy(&[]));
        worker.fetch(Lane::Source, vec![record(0, "a"), record(1, "b")]);
        worker.answer(done());
        worker.fetch(Lane::Control, vec![asked(0, "one")]);
        worker.wait(50);
        worker.end(unwritable(target));
        let told =
            |action: &&Action| matches!(action, Action::Report(Report::Blocked { part: Part::Requests, .. }));
        assert_eq!(worker.others.iter().filter(told).count(), 1);
        let first = worker.end(TransactionResult::Committed);
        assert_eq!((source_offset(&first), answers(&first).len()), (Offset(1), 0), "the record goes on");

        worker.wait(1_000);
        assert_eq!(worker.transactions[0].probe, Some(target));
        let answered = worker.end(TransactionResult::Committed);
        assert_eq!((answers(&answered).len(), control_offset(&answered)), (1, Some(Offset(1))));
        worker.answer(done());
        let second = worker.end(TransactionResult::Committed);
        assert_eq!((source_offset(&second), worker.core.blocked.len()), (Offset(2), 0));
    }
}

#[test]
fn a_task_whose_every_part_is_blocked_tries_each_part_alone() {
    let mut worker = blocked();
    worker.fetch(Lane::Control, vec![asked(0, "one")]);
    worker.end(unwritable(Target::Audit));
    worker.wait(1_000);
    let first = worker.end(TransactionResult::Committed);
    worker.wait(1);
    let second = worker.end(TransactionResult::Committed);
    let mut probes = [first.probe, second.probe];
    probes.sort();
    assert_eq!(probes, [Some(Target::DeadLetter), Some(Target::Audit)]);
    assert_eq!((first.writes.len(), second.writes.len()), (1, 2));
    assert!(worker.core.blocked.is_empty() && worker.breaches().is_empty());
}

#[test]
fn a_blocked_task_gives_its_answers_before_it_is_given_back() {
    let mut worker = blocked();
    worker.fetch(Lane::Control, vec![asked(0, "one")]);
    worker.end(passing());
    worker.tell(Event::Revoked(vec![P]));
    let back = |action: &&Action| matches!(action, Action::GiveBack { .. });
    assert_eq!(worker.others.iter().filter(back).count(), 0);
    worker.wait(20);
    assert_eq!(answers(&worker.end(TransactionResult::Committed)).len(), 1);
    assert_eq!(worker.others.iter().filter(back).count(), 1, "what is blocked is the next owner's");
}

#[test]
fn an_audit_names_who_asked_what_of_which_pipeline_and_what_became_of_it() {
    let mut worker = Worker::running(policy(&[5]));
    worker.fetch(Lane::Control, vec![asked(0, "one")]);
    let transaction = worker.end(TransactionResult::Committed);
    let line = transaction.writes.iter().find(|write| write.target == Target::Audit).unwrap();
    let line: serde_json::Value = serde_json::from_slice(line.value.as_ref().unwrap()).unwrap();
    let told = ["by", "what", "pipeline", "result", "request"].map(|name| line[name].as_str().unwrap());
    assert_eq!(told, ["ada", "accept-repeats orders/0/0-5", "orders", "refused", "one"]);
    assert_eq!((&line["at"], &line["partition"]), (&WALL.into(), &0.into()));
    assert!(line["words"].as_str().unwrap().contains("waits for nothing"), "{line}");
}

#[test]
fn a_report_of_an_answer_names_its_request() {
    let mut worker = Worker::running(policy(&[]));
    worker.fetch(Lane::Control, vec![asked(0, "one")]);
    worker.end(TransactionResult::Committed);
    let reply = worker.others.iter().find_map(|action| match action {
        Action::Report(Report::Answered { reply, .. }) => Some(reply),
        _ => None,
    });
    let Reply { head: Head { id, .. }, answer, .. } = &**reply.expect("a report");
    assert_eq!(id.as_ref().map(RequestId::as_str), Some("one"));
    assert_eq!(answer.compliance, Compliance::Refused);
}
