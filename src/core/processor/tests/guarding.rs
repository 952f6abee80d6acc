//! A task whose keys are kept in the state topic, driven by hand over as many lives as a test wants, and the vectors.

use std::collections::BTreeMap;

use super::*;
use crate::core::event::{Dropped, FateKind};
use crate::core::guard::{KeyHasher, VersionTable};
use crate::core::policy::{
    Contiguous, Equal, First, Guard, Latest, OnExhausted, Source, TombstoneVersion, WhileRetrying,
};
use crate::core::record::HeaderName;
use crate::core::state::Keys;

const CASES: &str = include_str!("../../../../tests/cases/guard.json");
pub(super) const KEY: &str = "k";

/// The vectors.
pub(super) fn cases() -> Vec<serde_json::Value> {
    let cases: serde_json::Value = serde_json::from_str(CASES).unwrap();
    cases["cases"].as_array().unwrap().clone()
}

fn header_rev() -> Vec<Source> {
    vec![Source::Header(HeaderName::from_static("rev"))]
}

pub(super) fn latest() -> Latest {
    Latest {
        version: header_rev(),
        equal: Equal::Conflict,
        tombstone: TombstoneVersion::DeadLetter,
        stale_output: None,
    }
}

pub(super) fn guarded(rules: Latest) -> Policy {
    let mut policy = once(policy(&[5]));
    policy.order.guard = Guard::Latest(rules);
    policy
}

pub(super) fn contiguous(gap_seconds: u64) -> Policy {
    let mut policy = once(policy(&[5]));
    policy.order.guard = Guard::Contiguous(Contiguous {
        version: header_rev(),
        gap_timeout: Duration::from_secs(gap_seconds),
        first: First::Any,
        stale_output: None,
    });
    policy
}

/// Records of a key are held while one of it waits.
pub(super) fn parking(on_exhausted: OnExhausted) -> Policy {
    let mut policy = once(policy(&[5]));
    policy.order.retrying = WhileRetrying::Park(on_exhausted);
    policy
}

pub(super) fn versioned(offset: i64, version: impl ToString, value: Option<&str>) -> Record {
    let value = value.map(|value| Bytes::copy_from_slice(value.as_bytes()));
    let rev = Bytes::from(version.to_string());
    let headers = vec![Header { name: HeaderName::from_static("rev"), value: Some(rev) }];
    Record { value, headers, ..record(offset, KEY) }
}

/// A worker with task 0 and what the state topic says of its keys.
pub(super) struct Guarding {
    pub(super) policy: Policy,
    pub(super) worker: Worker,
    /// What was committed to the state topic.
    state: Vec<Write>,
    pub(super) offsets: BTreeMap<Lane, Offset>,
    pub(super) fates: Vec<FateKind>,
    /// The lane of each fate.
    lanes: Vec<Lane>,
    /// What was committed to the output, as it was given, and to the dead letter topic.
    pub(super) outputs: Vec<Write>,
    pub(super) letters: Vec<Write>,
    /// The copies in the tier, by the offset of their origin.
    pub(super) copies: BTreeMap<String, Record>,
}

impl Guarding {
    pub(super) fn new(policy: Policy) -> Self {
        let offsets = policy.lanes().map(|lane| (lane, Offset(0))).collect();
        let worker = Worker::new(policy.clone());
        let mut guarding = Self {
            policy,
            worker,
            state: Vec::new(),
            offsets,
            fates: Vec::new(),
            lanes: Vec::new(),
            copies: BTreeMap::new(),
            outputs: Vec::new(),
            letters: Vec::new(),
        };
        guarding.take_over();
        guarding
    }

    /// A worker that knows what Kafka knows.
    pub(super) fn take_over(&mut self) {
        let millis = self.worker.millis;
        self.worker = Worker::new(self.policy.clone());
        self.worker.millis = millis;
        self.worker.notes_by_themselves = Answers::Committed;
        let keys = self.policy.order.keeps_state().then(|| Box::new(self.keys()));
        let lanes = self.policy.lanes().map(|lane| LaneStart::Committed(self.offsets[&lane])).collect();
        self.worker.tell(Event::Assigned(vec![P]));
        let found = Restored { mark: None, founding: Founding(1), lanes, topics: Vec::new(), keys };
        let epoch = self.worker.epoch();
        self.worker.tell(Event::Restored { partition: P, epoch, found });
    }

    /// What a new owner of the task reads.
    pub(super) fn keys(&self) -> Keys {
        let mut keys = Keys::new(KeyHasher::new(1), &self.policy.order);
        for Write { key, value, headers, .. } in &self.state {
            let other = keys.take(key.as_deref(), value.as_deref(), || headers.clone());
            assert_eq!(other, Ok(None));
            assert_eq!(keys.unreadable(), None);
        }
        keys
    }

    pub(super) fn versions(&self) -> VersionTable {
        self.keys().versions
    }

    pub(super) fn applied(&self) -> Option<i64> {
        let versions = self.versions();
        versions.get(versions.hash(KEY.as_bytes())).map(|entry| entry.version.0)
    }

    /// The versions in the output, where the handler gave them back.
    pub(super) fn effects(&self) -> Vec<i64> {
        let version = |write: &Write| String::from_utf8(write.value.clone().unwrap().to_vec()).unwrap();
        self.outputs.iter().map(|write| version(write).parse().unwrap()).collect()
    }

    /// The places of what is held behind the key.
    pub(super) fn held(&self) -> Vec<i64> {
        self.keys().held.into_keys().map(|(_, place)| place).collect()
    }

    pub(super) fn apply(&mut self, version: i64) {
        let offset = self.offsets[&Lane::Source].0;
        self.fetch(Lane::Source, versioned(offset, version, Some(&format!("value-{version}"))));
        self.worker.answer(done());
        self.commit();
        self.fates.clear();
        self.lanes.clear();
        self.outputs.clear();
    }

    pub(super) fn fetch(&mut self, lane: Lane, record: Record) {
        self.worker.fetch(lane, vec![record]);
    }

    /// The next record of the source.
    pub(super) fn arrives(&mut self, version: i64, value: Option<&str>) {
        let offset = self.offsets[&Lane::Source].0;
        self.fetch(Lane::Source, versioned(offset, version, value));
    }

    /// The copy in the tier of the record at an offset of the source comes back.
    pub(super) fn comes_back(&mut self, origin: i64) {
        self.worker.wait(10_000);
        let copy = self.copies.remove(&origin.to_string()).unwrap();
        self.is_due(copy);
    }

    /// Reasons of the dead letters, with the offsets of their origins.
    pub(super) fn dead(&self) -> Vec<(String, i64)> {
        let of = |write: &Write| {
            let origin = header(&write.headers, "redrive-origin-offset").unwrap().parse().unwrap();
            (header(&write.headers, "redrive-reason").unwrap(), origin)
        };
        self.letters.iter().map(of).collect()
    }

    /// The next record of the tier.
    pub(super) fn is_due(&mut self, copy: Record) {
        let tier = Lane::Tier(TierIndex(0));
        let offset = self.offsets[&tier];
        self.fetch(tier, Record { offset, ..copy });
    }

    /// Answers every delivery in turn, and commits, until nothing is left to do.
    pub(super) fn run(&mut self, mut answer: impl FnMut(&Delivery) -> Outcome) {
        loop {
            self.answer_ends();
            if let Some(delivery) = self.worker.deliveries.first() {
                let outcome = answer(delivery);
                self.worker.answer(outcome);
            } else if !self.worker.transactions.is_empty() {
                self.commit();
            } else {
                let before = self.worker.others.len();
                self.worker.wait(100);
                self.drain_reports();
                if self.worker.deliveries.is_empty()
                    && self.worker.transactions.is_empty()
                    && self.worker.others.len() == before
                {
                    return;
                }
            }
        }
    }

    /// The source ends where it is read to.
    pub(super) fn answer_ends(&mut self) {
        let asked = |action: &mut Action| matches!(action, Action::FindEnd { .. });
        if self.worker.others.extract_if(.., asked).count() > 0 {
            let (epoch, end) = (self.worker.epoch(), self.offsets[&Lane::Source]);
            self.worker.tell(Event::End { partition: P, epoch, end });
        }
    }

    /// Commits the transaction that is formed.
    pub(super) fn commit(&mut self) -> Transaction {
        let transaction = self.worker.end(TransactionResult::Committed);
        self.note(&transaction);
        transaction
    }

    /// Commits until nothing is left.
    pub(super) fn commit_all(&mut self) {
        self.worker.wait(100);
        while !self.worker.transactions.is_empty() {
            self.commit();
            self.worker.wait(100);
        }
    }

    /// The broker refuses the first output of the transaction that is formed.
    pub(super) fn refuse_the_output(&mut self) {
        self.refuse(Target::Output);
    }

    /// The broker refuses the first write to a target of the transaction that is formed.
    pub(super) fn refuse(&mut self, target: Target) {
        let place = self.worker.transactions[0].writes.iter().position(|write| write.target == target);
        self.worker.end(TransactionResult::Aborted(AbortCause::Refused {
            target,
            partition: P,
            flaw: Flaw::TooLarge,
            suspects: Suspects::Each(vec![place.unwrap()]),
            detail: "too large".to_owned(),
        }));
    }

    fn note(&mut self, transaction: &Transaction) {
        for write in &transaction.writes {
            match write.target {
                Target::State => self.state.push(write.clone()),
                Target::Output => self.outputs.push(write.clone()),
                Target::DeadLetter => self.letters.push(write.clone()),
                Target::Tier(_) => {
                    let origin = header(&write.headers, "redrive-origin-offset").unwrap();
                    self.copies.insert(origin, as_record(write, 0));
                }
                _ => {}
            }
        }
        self.offsets.extend(transaction.tasks[0].offsets.iter().copied());
        self.drain_reports();
    }

    fn drain_reports(&mut self) {
        let report = |action: &mut Action| matches!(action, Action::Report(_));
        for action in self.worker.others.extract_if(.., report) {
            match action {
                Action::Report(Report::Settled(fates)) => {
                    for fate in fates {
                        self.fates.extend((0..fate.count).map(|_| fate.kind.clone()));
                        self.lanes.extend((0..fate.count).map(|_| fate.lane));
                    }
                }
                Action::Report(Report::Broken(breach)) => panic!("{breach}"),
                _ => {}
            }
        }
    }
}

/// A handler that gives back the version of what it is given.
pub(super) fn echo(delivery: &Delivery) -> Outcome {
    let value = header(&delivery.envelope.foreign, "rev").map(Bytes::from);
    Outcome::Done(vec![Output { to: OutputName::Main, key: None, value, headers: vec![] }])
}

/// The waiting copy that a transaction writes.
pub(super) fn copy_in(transaction: &Transaction, offset: i64) -> Record {
    let write = transaction.writes.iter().find(|write| matches!(write.target, Target::Tier(_))).unwrap();
    as_record(write, offset)
}

fn as_record(write: &Write, offset: i64) -> Record {
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

pub(super) fn word(fate: &FateKind) -> &'static str {
    match fate {
        FateKind::Emit => "APPLIED",
        FateKind::Retry(_) => "RETRY",
        FateKind::Hold => "DEFERRED",
        FateKind::Drop(Dropped::Stale) => "STALE",
        FateKind::Drop(Dropped::Duplicate) => "DUPLICATE",
        FateKind::DeadLetter(verdict) if verdict.reason == Reason::VersionConflict => "QUARANTINED",
        other => panic!("{other:?}"),
    }
}

/// Whether the worker is a new one after each arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lives {
    One,
    OneEach,
}

pub(super) fn play(case: &serde_json::Value, lives: Lives) {
    let name = case["name"].as_str().unwrap();
    let mut guarding = Guarding::new(match case["mode"].as_str().unwrap() {
        "latest" => guarded(latest()),
        "contiguous" => contiguous(case["gap_timeout"].as_u64().unwrap()),
        _ => once(policy(&[5])),
    });
    if let Some(start) = case["start"].as_i64() {
        guarding.apply(start);
    }
    let (mut verdicts, mut origins) = (Vec::new(), BTreeMap::new());
    let begun = guarding.worker.millis;
    for arrival in case["arrivals"].as_array().unwrap() {
        let at = begun + arrival["at"].as_u64().unwrap() * 1_000;
        guarding.worker.wait(at.saturating_sub(guarding.worker.millis));
        if let Some(until) = arrival["stopped_until"].as_u64() {
            guarding.worker.millis = begun + until * 1_000;
            guarding.take_over();
            continue;
        }
        if lives == Lives::OneEach {
            guarding.take_over();
        }
        let expected = arrival["outcome"].as_str();
        let version = arrival["version"].as_i64().or(arrival["retry_of"].as_i64());
        if let Some(version) = version {
            let retried = arrival.get("retry_of").is_some();
            let lane = if retried { Lane::Tier(TierIndex(0)) } else { Lane::Source };
            if retried {
                guarding.worker.wait(10_000);
                let copy = guarding.copies.remove(&origins[&version]).unwrap();
                guarding.is_due(copy);
            } else {
                origins.insert(version, guarding.offsets[&Lane::Source].to_string());
                let own = format!("value-{version}");
                let value = arrival.get("value").map_or(Some(own.as_str()), |value| value.as_str());
                guarding.arrives(version, value);
            }
            if expected == Some("transient") {
                guarding.worker.answer(fails(Class::Transient));
            }
            let before = guarding.fates.len();
            guarding.run(echo);
            let place = guarding.lanes.iter().skip(before).position(|of| *of == lane).unwrap();
            verdicts.push(match &guarding.fates[before + place] {
                // A copy of what is held.
                FateKind::Drop(Dropped::Duplicate) if guarding.held().contains(&version) => "DEFERRED",
                fate => word(fate),
            });
        }
        guarding.run(echo);
    }
    if lives == Lives::OneEach && case.get("quarantined").is_some() {
        // What no transaction has noted of the clock is waited for again.
        guarding.worker.wait(case["gap_timeout"].as_u64().unwrap() * 1_000);
        guarding.run(echo);
    }
    let list = |name: &str| -> Vec<i64> {
        case[name].as_array().into_iter().flatten().map(|entry| entry.as_i64().unwrap()).collect()
    };
    let expected: Vec<&str> =
        case["verdicts"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    assert_eq!(verdicts, expected, "{name} {lives:?}");
    assert_eq!(guarding.effects(), list("effects"), "{name} {lives:?}");
    if let Some(applied) = case["applied"].as_i64() {
        assert_eq!(guarding.applied(), Some(applied), "{name} {lives:?}");
        assert_eq!(guarding.held(), list("held"), "{name} {lives:?}");
    }
    let version = |write: &Write| header(&write.headers, "redrive-version")?.parse().ok();
    let gone: Vec<i64> = guarding
        .letters
        .iter()
        .filter(|write| header(&write.headers, "redrive-reason").as_deref() == Some("version-gap"))
        .filter_map(version)
        .collect();
    assert_eq!(gone, list("quarantined"), "{name} {lives:?}");
}
