//! The guard: what an arriving version is to the applied one, and that nothing is applied before its commit.

use super::*;
use crate::core::event::{Dropped, FateKind};
use crate::core::guard::{Entry, KeyHasher, Version, VersionTable, fingerprint};
use crate::core::policy::{Equal, Guard, Latest, Source, TombstoneVersion};
use crate::core::position::TopicName;
use crate::core::record::HeaderName;
use crate::core::state::Applied;

const CASES: &str = include_str!("../../../../tests/cases/guard.json");
const KEY: &str = "k";

fn latest() -> Latest {
    Latest {
        version: vec![Source::Header(HeaderName::from_static("rev"))],
        equal: Equal::Conflict,
        tombstone: TombstoneVersion::DeadLetter,
        stale_output: None,
    }
}

fn guarded(rules: Latest) -> Policy {
    let mut policy = once(policy(&[5]));
    policy.order.guard = Guard::Latest(rules);
    policy
}

fn versioned(offset: i64, version: impl ToString, value: Option<&str>) -> Record {
    let value = value.map(|value| Bytes::copy_from_slice(value.as_bytes()));
    let rev = Bytes::from(version.to_string());
    let headers = vec![Header { name: HeaderName::from_static("rev"), value: Some(rev) }];
    Record { value, headers, ..record(offset, KEY) }
}

/// A worker with task 0 and what the state topic says of its keys.
struct Guarding {
    policy: Policy,
    worker: Worker,
    /// What was committed to the state topic.
    state: Vec<(Bytes, Bytes)>,
    offsets: Vec<Offset>,
    fates: Vec<FateKind>,
}

impl Guarding {
    fn new(policy: Policy) -> Self {
        let offsets = policy.lanes().map(|_| Offset(0)).collect();
        let worker = Worker::new(policy.clone());
        let mut guarding = Self { policy, worker, state: Vec::new(), offsets, fates: Vec::new() };
        guarding.take_over();
        guarding
    }

    /// A worker that knows what Kafka knows.
    fn take_over(&mut self) {
        let millis = self.worker.millis;
        self.worker = Worker::new(self.policy.clone());
        self.worker.millis = millis;
        self.worker.notes_by_themselves = Answers::Committed;
        let versions = Some(Box::new(self.versions()));
        let lanes = self.offsets.iter().map(|offset| LaneStart::Committed(*offset)).collect();
        self.worker.tell(Event::Assigned(vec![P]));
        let found = Restored { mark: None, founding: Founding(1), lanes, topics: Vec::new(), versions };
        let epoch = self.worker.epoch();
        self.worker.tell(Event::Restored { partition: P, epoch, found });
    }

    fn versions(&self) -> VersionTable {
        let mut versions = VersionTable::new(KeyHasher::new(1));
        for (key, value) in &self.state {
            let Ok(StateEntry::Applied { key, applied: Some(Applied { version, fingerprint, .. }) }) =
                StateEntry::read(Some(key), Some(value))
            else {
                panic!("{key:?} {value:?}")
            };
            versions.set(versions.hash(key), Entry { version, tag: fingerprint });
        }
        versions
    }

    fn applied(&self) -> Option<i64> {
        let versions = self.versions();
        versions.get(versions.hash(KEY.as_bytes())).map(|entry| entry.version.0)
    }

    fn apply(&mut self, version: i64) {
        let offset = self.offsets[Lane::Source.index()].0;
        self.fetch(Lane::Source, versioned(offset, version, Some(&format!("value-{version}"))));
        self.worker.answer(done());
        self.commit();
        self.fates.clear();
    }

    fn fetch(&mut self, lane: Lane, record: Record) {
        self.worker.fetch(lane, vec![record]);
    }

    /// Commits the transaction that is formed.
    fn commit(&mut self) -> Transaction {
        let transaction = self.worker.end(TransactionResult::Committed);
        self.note(&transaction);
        transaction
    }

    /// Commits until nothing is left.
    fn commit_all(&mut self) {
        self.worker.wait(100);
        while !self.worker.transactions.is_empty() {
            self.commit();
            self.worker.wait(100);
        }
    }

    /// The broker refuses the first output of the transaction that is formed.
    fn refuse_the_output(&mut self) {
        let place = self.worker.transactions[0].writes.iter().position(|w| w.target == Target::Output);
        self.worker.end(TransactionResult::Aborted(AbortCause::Refused {
            target: Target::Output,
            partition: P,
            flaw: Flaw::TooLarge,
            suspects: Suspects::Each(vec![place.unwrap()]),
            detail: "too large".to_owned(),
        }));
    }

    fn note(&mut self, transaction: &Transaction) {
        for write in transaction.writes.iter().filter(|write| write.target == Target::State) {
            self.state.push((write.key.clone().unwrap(), write.value.clone().unwrap()));
        }
        for (lane, offset) in &transaction.tasks[0].offsets {
            self.offsets[lane.index()] = *offset;
        }
        for action in self.worker.others.drain(..) {
            match action {
                Action::Report(Report::Settled(fates)) => {
                    self.fates.extend(fates.into_iter().map(|fate| fate.kind));
                }
                Action::Report(Report::Broken(breach)) => panic!("{breach}"),
                _ => {}
            }
        }
    }
}

/// The waiting copy that a transaction writes.
fn copy_in(transaction: &Transaction, offset: i64) -> Record {
    let write = transaction.writes.iter().find(|write| matches!(write.target, Target::Tier(_))).unwrap();
    Record {
        offset: Offset(offset),
        timestamp: write.timestamp.unwrap(),
        key: write.key.clone(),
        value: write.value.clone(),
        headers: write.headers.clone(),
        unnamed_headers: 0,
        decoded: None,
    }
}

fn word(fate: &FateKind) -> &'static str {
    match fate {
        FateKind::Emit => "APPLIED",
        FateKind::Retry(_) => "RETRY",
        FateKind::Drop(Dropped::Stale) => "STALE",
        FateKind::Drop(Dropped::Duplicate) => "DUPLICATE",
        FateKind::DeadLetter(verdict) if verdict.reason == Reason::VersionConflict => "QUARANTINED",
        other => panic!("{other:?}"),
    }
}

/// Whether the worker is a new one after each arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lives {
    One,
    OneEach,
}

fn play(case: &serde_json::Value, lives: Lives) {
    let name = case["name"].as_str().unwrap();
    let mut guarding = Guarding::new(match case["mode"].as_str().unwrap() {
        "latest" => guarded(latest()),
        _ => once(policy(&[5])),
    });
    guarding.apply(case["start"].as_i64().unwrap());
    let (mut effects, mut copies) = (Vec::new(), std::collections::BTreeMap::new());
    for arrival in case["arrivals"].as_array().unwrap() {
        if lives == Lives::OneEach {
            guarding.take_over();
        }
        let version = arrival["version"].as_i64().or(arrival["retry_of"].as_i64()).unwrap();
        if arrival.get("retry_of").is_some() {
            guarding.worker.wait(10_000);
            let copy: Record = copies.remove(&version).unwrap();
            guarding.fetch(Lane::Tier(TierIndex(0)), copy);
        } else {
            let own = format!("value-{version}");
            let value = arrival.get("value").map_or(Some(own.as_str()), |value| value.as_str());
            let offset = guarding.offsets[Lane::Source.index()].0;
            guarding.fetch(Lane::Source, versioned(offset, version, value));
        }
        if !guarding.worker.deliveries.is_empty() {
            let fails_now = arrival["outcome"].as_str() == Some("transient");
            guarding.worker.answer(if fails_now { fails(Class::Transient) } else { done() });
        }
        let transaction = guarding.commit();
        if transaction.writes.iter().any(|write| matches!(write.target, Target::Tier(_))) {
            copies.insert(version, copy_in(&transaction, 0));
        }
        effects.extend(transaction.writes.iter().filter(|w| w.target == Target::Output).map(|_| version));
    }
    let verdicts: Vec<&str> = guarding.fates.iter().map(word).collect();
    let expected: Vec<&str> =
        case["verdicts"].as_array().unwrap().iter().map(|w| w.as_str().unwrap()).collect();
    assert_eq!(verdicts, expected, "{name} {lives:?}");
    let expected: Vec<i64> =
        case["effects"].as_array().unwrap().iter().map(|e| e.as_i64().unwrap()).collect();
    assert_eq!(effects, expected, "{name} {lives:?}");
    if let Some(applied) = case["applied"].as_i64() {
        assert_eq!(guarding.applied(), Some(applied), "{name} {lives:?}");
    }
}

#[test]
fn every_vector_of_latest_has_its_verdicts_and_without_a_guard_the_state_regresses() {
    let cases: serde_json::Value = serde_json::from_str(CASES).unwrap();
    let mut played = 0;
    for case in cases["cases"].as_array().unwrap() {
        if matches!(case["mode"].as_str(), Some("latest" | "none")) {
            for lives in [Lives::One, Lives::OneEach] {
                play(case, lives);
            }
            played += 1;
        }
    }
    assert_eq!(played, 6);
}

#[test]
fn a_version_that_failed_was_aborted_or_lost_its_task_is_applied_when_it_comes_again() {
    let mut guarding = Guarding::new(guarded(latest()));
    guarding.apply(9);
    guarding.fetch(Lane::Source, versioned(1, 10, Some("ten")));
    guarding.worker.answer(done());
    guarding.worker.end(passing());
    // The task is lost with its transaction, and comes back.
    guarding.take_over();
    guarding.fetch(Lane::Source, versioned(1, 10, Some("ten")));
    guarding.worker.answer(fails(Class::Transient));
    let copy = copy_in(&guarding.commit(), 0);
    guarding.worker.wait(10_000);
    guarding.fetch(Lane::Tier(TierIndex(0)), copy);
    guarding.worker.answer(done());
    guarding.worker.end(passing());
    guarding.worker.wait(1_000);
    guarding.commit();
    assert_eq!(guarding.fates.iter().map(word).collect::<Vec<_>>(), ["RETRY", "APPLIED"]);
    assert_eq!(guarding.applied(), Some(10));
}

#[test]
fn a_version_is_judged_by_what_is_settled_before_it_and_committed_with_it() {
    let mut guarding = Guarding::new(guarded(latest()));
    let records = vec![versioned(0, 11, Some("a")), versioned(1, 10, Some("b")), versioned(2, 12, Some("c"))];
    guarding.worker.fetch(Lane::Source, records);
    guarding.worker.answer(done());
    guarding.worker.answer(done());
    let transaction = guarding.commit();
    let state = transaction.writes.iter().filter(|write| write.target == Target::State).count();
    assert_eq!((transaction.records, state), (3, 1), "only the newest of a key is noted");
    guarding.fates.sort();
    assert_eq!(guarding.fates.iter().map(word).collect::<Vec<_>>(), ["APPLIED", "STALE"]);
    assert_eq!(guarding.applied(), Some(12));
}

/// 1. the source holds a record of another key that runs, then version 11,
/// 2. version 11 is settled and cannot be committed before what stands ahead of it,
/// 3. version 12 comes from a tier and is settled.
#[test]
fn a_newer_version_of_another_lane_is_not_committed_before_the_older_one() {
    let mut guarding = Guarding::new(guarded(latest()));
    guarding.fetch(Lane::Source, versioned(0, 12, Some("twelve")));
    guarding.worker.answer(fails(Class::Transient));
    let twelve = copy_in(&guarding.commit(), 0);
    guarding.worker.wait(10_000);
    let ahead = Record { key: Some(Bytes::from_static(b"other")), ..versioned(1, 1, Some("x")) };
    guarding.worker.fetch(Lane::Source, vec![ahead, versioned(2, 11, Some("eleven"))]);
    let runs = guarding.worker.deliveries.remove(0);
    guarding.worker.answer(done());
    guarding.fetch(Lane::Tier(TierIndex(0)), twelve);
    guarding.worker.answer(done());
    guarding.worker.wait(1_000);
    assert!(guarding.worker.transactions.is_empty(), "it would end with version 11");

    guarding.worker.tell(Event::Handled { delivery: runs.id, outcome: done() });
    let transaction = guarding.commit();
    assert_eq!(transaction.records, 3);
    assert_eq!(guarding.applied(), Some(12));
}

#[test]
fn what_was_dropped_for_an_output_that_is_refused_is_judged_anew() {
    let mut guarding = Guarding::new(guarded(latest()));
    let records = vec![versioned(0, 11, Some("a")), versioned(1, 10, Some("b"))];
    guarding.worker.fetch(Lane::Source, records);
    guarding.worker.answer(done());
    guarding.refuse_the_output();
    let again = guarding.worker.answer(done());
    assert_eq!(again.id.offset, Offset(1));
    guarding.commit_all();
    assert_eq!(guarding.applied(), Some(10));
    assert!(guarding.fates.contains(&FateKind::Emit));
}

#[test]
fn another_value_of_a_version_whose_output_is_refused_is_applied_after_all() {
    let mut guarding = Guarding::new(guarded(latest()));
    let records = vec![versioned(0, 5, Some("a")), versioned(1, 5, Some("b"))];
    guarding.worker.fetch(Lane::Source, records);
    guarding.worker.answer(done());
    guarding.refuse_the_output();
    let again = guarding.worker.answer(done());
    assert_eq!((again.id.offset, again.envelope.life.history.is_empty()), (Offset(1), true));
    guarding.commit_all();
    assert_eq!(guarding.applied(), Some(5));
}

/// Version 12 of the tier is settled and follows 11 of the source, which stands behind a record that runs and one queued behind
/// that.
fn crossing() -> (Guarding, Delivery) {
    let mut guarding = Guarding::new(guarded(latest()));
    guarding.fetch(Lane::Source, versioned(0, 12, Some("twelve")));
    guarding.worker.answer(fails(Class::Transient));
    let twelve = copy_in(&guarding.commit(), 0);
    guarding.worker.wait(10_000);
    let other =
        |offset| Record { key: Some(Bytes::from_static(b"other")), ..versioned(offset, offset, Some("x")) };
    guarding.worker.fetch(Lane::Source, vec![other(1), other(2), versioned(3, 11, Some("eleven"))]);
    let runs = guarding.worker.deliveries.remove(0);
    guarding.worker.answer(done());
    guarding.fetch(Lane::Tier(TierIndex(0)), twelve);
    guarding.worker.answer(done());
    (guarding, runs)
}

#[test]
fn told_to_end_a_worker_does_not_wait_for_what_cannot_be_committed_without_what_it_does_not_begin() {
    let (mut guarding, runs) = crossing();
    guarding.worker.tell(Event::Drain);
    guarding.worker.tell(Event::Handled { delivery: runs.id, outcome: done() });
    while !guarding.worker.transactions.is_empty() {
        guarding.worker.end(TransactionResult::Committed);
    }
    assert_eq!(guarding.worker.others.last(), Some(&Action::Stop(StopReason::Drained)));
}

#[test]
fn what_follows_a_record_of_a_lane_that_is_gone_waits_until_it_is_back() {
    let tier = Lane::Tier(TierIndex(0));
    let mut guarding = Guarding::new(guarded(latest()));
    guarding.fetch(Lane::Source, versioned(0, 11, Some("eleven")));
    guarding.worker.answer(fails(Class::Transient));
    let eleven = copy_in(&guarding.commit(), 0);
    guarding.worker.wait(10_000);
    guarding.fetch(tier, eleven);
    guarding.worker.tell(Event::Absent { lane: tier });
    guarding.worker.answer(done());
    guarding.fetch(Lane::Source, versioned(1, 12, Some("twelve")));
    guarding.worker.answer(done());
    guarding.worker.wait(1_000);
    assert!(guarding.worker.transactions.is_empty(), "11 would come after it");
    guarding.worker.tell(Event::Present { lane: tier });
    guarding.worker.wait(1_000);
    assert_eq!(guarding.commit().records, 2);
    assert_eq!(guarding.applied(), Some(12));
}

#[test]
fn a_task_whose_versions_are_not_known_does_not_begin() {
    let policy = guarded(latest());
    let mut worker = Worker::new(policy.clone());
    worker.tell(Event::Assigned(vec![P]));
    let lanes = policy.lanes().map(|_| LaneStart::Committed(Offset(0))).collect();
    let found = Restored { mark: None, founding: Founding(1), lanes, topics: Vec::new(), versions: None };
    let epoch = worker.epoch();
    worker.tell(Event::Restored { partition: P, epoch, found });
    assert!(!worker.others.iter().any(|action| matches!(action, Action::Open { .. })));
    assert_eq!(worker.breaches().len(), 1);
}

#[test]
fn another_value_under_the_applied_version_goes_by_the_topology() {
    for (equal, expected) in [(Equal::Apply, "APPLIED"), (Equal::Drop, "DUPLICATE")] {
        let mut guarding = Guarding::new(guarded(Latest { equal, ..latest() }));
        guarding.apply(10);
        guarding.fetch(Lane::Source, versioned(1, 10, Some("other")));
        if equal == Equal::Apply {
            guarding.worker.answer(done());
        }
        guarding.commit();
        assert_eq!(guarding.fates.iter().map(word).collect::<Vec<_>>(), [expected]);
    }
}

#[test]
fn a_stale_record_goes_to_the_topic_that_the_topology_names() {
    let stale_output = Some(TopicName::new("orders.stale"));
    let mut guarding = Guarding::new(guarded(Latest { stale_output, ..latest() }));
    guarding.apply(10);
    guarding.fetch(Lane::Source, versioned(1, 9, Some("late")));
    let transaction = guarding.commit();
    let copy = transaction.writes.iter().find(|write| write.target == Target::StaleOutput).unwrap();
    assert_eq!(copy.value.as_deref(), Some(&b"late"[..]));
    assert_eq!(header(&copy.headers, "redrive-version").as_deref(), Some("9"));
    assert_eq!(header(&copy.headers, "redrive-event-id").as_deref(), Some("orders/0/1"));
}

#[test]
fn a_record_without_key_or_version_is_a_dead_letter_that_no_handler_saw() {
    let no_key = Record { key: None, ..versioned(0, 1, Some("v")) };
    let words = versioned(0, "newest", Some("v"));
    let tombstone = Record { value: None, ..record(0, KEY) };
    let no_header = "the record has no header `rev`, where `order.version` says a whole number of 64 bits or a time \
                     (RFC 3339) stands";
    let not_one = "header `rev` is `newest`, not a whole number of 64 bits or a time (RFC 3339)";
    for (given, reason, detail) in [
        (no_key, "no-key", "the order goes by the key, and the record has none"),
        (record(0, KEY), "no-version", no_header),
        (words, "no-version", not_one),
        (tombstone, "no-version", no_header),
    ] {
        let mut guarding = Guarding::new(guarded(latest()));
        guarding.fetch(Lane::Source, given);
        let transaction = guarding.commit();
        let letter = transaction.writes.iter().find(|write| write.target == Target::DeadLetter).unwrap();
        assert_eq!(header(&letter.headers, "redrive-reason").as_deref(), Some(reason));
        assert_eq!(header(&letter.headers, "redrive-class").as_deref(), Some("permanent"));
        assert_eq!(header(&letter.headers, "redrive-detail").as_deref(), Some(detail));
    }
}

#[test]
fn a_tombstone_may_count_as_the_next_version_which_it_keeps() {
    let rules = Latest { tombstone: TombstoneVersion::Next, ..latest() };
    let mut guarding = Guarding::new(guarded(rules));
    guarding.apply(10);
    guarding.fetch(Lane::Source, Record { value: None, ..record(1, KEY) });
    guarding.worker.answer(fails(Class::Transient));
    let copy = copy_in(&guarding.commit(), 0);
    assert_eq!(header(&copy.headers, "redrive-version").as_deref(), Some("11"));
    guarding.fetch(Lane::Source, versioned(2, 12, Some("v")));
    guarding.worker.answer(done());
    guarding.commit();
    guarding.worker.wait(10_000);
    guarding.fetch(Lane::Tier(TierIndex(0)), copy);
    guarding.commit();
    assert_eq!(guarding.fates.iter().map(word).collect::<Vec<_>>(), ["RETRY", "APPLIED", "STALE"]);

    guarding.apply(i64::MAX);
    guarding.fetch(Lane::Source, Record { value: None, ..record(4, KEY) });
    let transaction = guarding.commit();
    let letter = transaction.writes.iter().find(|write| write.target == Target::DeadLetter).unwrap();
    assert_eq!(header(&letter.headers, "redrive-reason").as_deref(), Some("no-version"));
}

#[test]
fn the_fingerprint_of_a_value_is_kept_with_its_version() {
    let mut guarding = Guarding::new(guarded(latest()));
    guarding.fetch(Lane::Source, versioned(0, 5, Some("five")));
    guarding.worker.answer(done());
    guarding.commit();
    let versions = guarding.versions();
    let entry = versions.get(versions.hash(KEY.as_bytes()));
    assert_eq!(entry, Some(Entry { version: Version(5), tag: fingerprint(Some(b"five")) }));
}
