//! Properties of an order over any course of events: arrivals, failures, duplicates, aborts, restarts, replays.

#![allow(clippy::as_conversions, reason = "a model in a test: where it is wrong it must fail at once")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use redrive::core::guard::Version;
use redrive::core::policy::{
    Contiguous, Equal, First, Flow, Guard, HeldBounds, IdentityPolicy, InPlace, Ladder, Latest, OnExhausted,
    OrderPolicy, Outputs, Policy, Source, TombstoneVersion, Twins, UnknownOutcome, WhileRetrying,
};
use redrive::core::position::TopicName;
use redrive::core::record::HeaderName;

mod cluster;

use cluster::{Answer, Cluster, Ending, History, Told, VERSION};

const KEYS: u8 = 20;
const PARTITIONS: i32 = 2;
const DAY: Duration = Duration::from_secs(86_400);

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Step {
    Arrives { key: u8, version: i64, value: u8 },
    Answers(usize, Answer),
    Ends(Ending),
    Restarts,
    Loses(i32),
    Waits(u64),
    Replays(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let answer =
        prop_oneof![4 => Just(Answer::Done), 3 => Just(Answer::Transient), 1 => Just(Answer::Permanent)];
    let ending = prop_oneof![
        6 => Just(Ending::Committed),
        2 => Just(Ending::Aborted),
        1 => Just(Ending::Unheard),
        1 => Just(Ending::Unsent),
    ];
    // Few keys are busy, and few values differ, so that there are duplicates and conflicts.
    let key = prop_oneof![3 => 0..3u8, 1 => 0..KEYS];
    let value = prop_oneof![4 => Just(0u8), 1 => 0..3u8];
    prop_oneof![
        8 => (key, 1i64..12, value).prop_map(|(key, version, value)| Step::Arrives { key, version, value }),
        10 => (any::<usize>(), answer).prop_map(|(which, answer)| Step::Answers(which, answer)),
        6 => ending.prop_map(Step::Ends),
        1 => Just(Step::Restarts),
        1 => (0..PARTITIONS).prop_map(Step::Loses),
        4 => (1u64..3_000).prop_map(Step::Waits),
        2 => any::<usize>().prop_map(Step::Replays),
    ]
}

/// What became of all records once everything went well in the end.
fn run(policy: Policy, steps: &[Step]) -> History {
    let mut cluster = Cluster::new(policy, PARTITIONS);
    for step in steps {
        match *step {
            Step::Arrives { key, version, value } => cluster.arrive(key, version, value),
            Step::Answers(which, answer) => cluster.answer(which, answer),
            Step::Ends(ending) => cluster.end(ending),
            Step::Restarts => cluster.restart(),
            Step::Loses(partition) => cluster.lose(partition),
            Step::Waits(millis) => cluster.wait(Duration::from_millis(millis)),
            Step::Replays(which) => cluster.replay(which),
        }
    }
    cluster.finish()
}

/// A pipeline with three tiers and this order.
fn policy(order: OrderPolicy, window: usize) -> Policy {
    let delays = [100, 500, 2_000].map(Duration::from_millis).to_vec();
    let topic = TopicName::new;
    Policy {
        name: "orders".to_owned(),
        source: topic("orders"),
        control: topic("control"),
        draining: Vec::new(),
        tiers: ["tier-0", "tier-1", "tier-2"].map(topic).to_vec(),
        outputs: Outputs { main: Some(topic("out")), named: Vec::new() },
        identity: IdentityPolicy::default(),
        order,
        in_place: InPlace { executions: 1, base: DAY, cap: DAY, budget: DAY },
        ladder: Ladder { delays, last_tier_repeats: 1 },
        deadline: DAY,
        unknown: UnknownOutcome::Retry,
        handler_timeout: Duration::ZERO,
        flow: Flow {
            window,
            commit_interval: Duration::from_millis(5),
            drain: DAY,
            revoke: DAY,
            transaction_timeout: DAY,
            recommit: DAY,
            twins: Twins::Fences,
        },
    }
}

fn latest(equal: Equal, aside: bool) -> OrderPolicy {
    let rules = Latest {
        version: vec![Source::Header(HeaderName::from_static(VERSION))],
        equal,
        tombstone: TombstoneVersion::DeadLetter,
        stale_output: aside.then(|| TopicName::new("stale")),
    };
    OrderPolicy { guard: Guard::Latest(rules), ..OrderPolicy::default() }
}

fn contiguous(first: First, gap_timeout: Duration, per_key: usize) -> OrderPolicy {
    let guard = Guard::Contiguous(Contiguous {
        version: vec![Source::Header(HeaderName::from_static(VERSION))],
        gap_timeout,
        first,
        stale_output: Some(TopicName::new("stale")),
    });
    let held = HeldBounds { per_key, ..HeldBounds::default() };
    OrderPolicy { guard, held, ..OrderPolicy::default() }
}

fn park(on_exhausted: OnExhausted, per_key: usize) -> OrderPolicy {
    let held = HeldBounds { per_key, ..HeldBounds::default() };
    OrderPolicy { retrying: WhileRetrying::Park(on_exhausted), held, ..OrderPolicy::default() }
}

/// How often each event is among them.
fn counted<'a>(told: impl Iterator<Item = &'a Told>) -> BTreeMap<&'a str, usize> {
    told.fold(BTreeMap::new(), |mut counts, told| {
        *counts.entry(told.event.as_str()).or_default() += 1;
        counts
    })
}

/// Every arrival and every replay has one fate: no record is lost, and none is there twice.
fn each_has_one_fate(history: &History) -> Result<(), TestCaseError> {
    let History { arrived, outputs, dead, aside, silent } = history;
    let dead = dead.iter().map(|(told, _)| told);
    let silent = silent.iter().map(|(told, _)| told);
    let fates = counted(outputs.iter().chain(dead).chain(aside).chain(silent));
    prop_assert_eq!(counted(arrived.iter()), fates);
    Ok(())
}

/// The versions of each key's outputs, in the order of commits.
fn versions_of(outputs: &[Told]) -> BTreeMap<&[u8], Vec<i64>> {
    outputs.iter().fold(BTreeMap::new(), |mut versions: BTreeMap<&[u8], Vec<i64>>, told| {
        versions.entry(&told.key).or_default().push(told.version);
        versions
    })
}

/// Whether something of a key is a dead letter.
fn was_dead(history: &History, key: &[u8]) -> bool {
    history.dead.iter().any(|(dead, _)| dead.key == key)
}

/// Whether a version of a key is among these, with a value of which this holds.
fn is_among(outputs: &[Told], told: &Told, value: impl Fn(&[u8]) -> bool) -> bool {
    outputs
        .iter()
        .any(|output| output.key == told.key && output.version == told.version && value(&output.value))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn under_latest_versions_rise_and_every_record_has_one_fate_for_a_reason(
        steps in vec(step(), 1..160),
        equal in prop_oneof![Just(Equal::Conflict), Just(Equal::Drop)],
        window in prop_oneof![Just(2usize), Just(8), Just(64)],
    ) {
        let history = run(policy(latest(equal, true), window), &steps);
        each_has_one_fate(&history)?;
        let outputs = &history.outputs;
        for (key, versions) in versions_of(outputs) {
            prop_assert!(versions.is_sorted_by(|one, next| one < next), "{key:?}: {versions:?}");
        }
        // What is applied of a key is the newest that had an effect, so nothing is stale but for a newer one.
        for told in &history.aside {
            let newer = outputs.iter().any(|output| output.key == told.key && output.version > told.version);
            prop_assert!(newer, "{told:?} is stale behind nothing");
        }
        // Never its own duplicate: an effect of the same version was committed, no later than the record ended.
        for (told, outputs_then) in &history.silent {
            let same = |value: &[u8]| value == told.value || equal == Equal::Drop;
            prop_assert!(is_among(&outputs[..*outputs_then], told, same), "{told:?} is a duplicate of nothing");
        }
        for (told, reason) in &history.dead {
            if reason == "version-conflict" {
                let other = |value: &[u8]| value != told.value;
                prop_assert!(equal == Equal::Conflict, "{told:?}");
                prop_assert!(is_among(outputs, told, other), "{told:?} is in conflict with nothing");
            }
        }
        // The newest of a key is applied, unless it failed for good.
        for told in &history.arrived {
            let ended = history.dead.iter().any(|(dead, _)| dead.event == told.event);
            let newest = outputs.iter().filter(|output| output.key == told.key).map(|output| output.version).max();
            prop_assert!(ended || newest >= Some(told.version), "{told:?} has no effect, and none is newer");
        }
    }

    #[test]
    fn under_contiguous_versions_follow_each_other_and_every_record_has_one_fate_for_a_reason(
        steps in vec(step(), 1..160),
        first in prop_oneof![Just(First::Any), Just(First::At(Version(1)))],
        gap in prop_oneof![Just(50u64), Just(3_000), Just(60_000)],
        per_key in prop_oneof![Just(1usize), Just(3), Just(10_000)],
        window in prop_oneof![Just(2usize), Just(8), Just(64)],
    ) {
        let order = contiguous(first, Duration::from_millis(gap), per_key);
        let history = run(policy(order, window), &steps);
        each_has_one_fate(&history)?;
        let outputs = versions_of(&history.outputs);
        for (key, versions) in &outputs {
            let follow = versions.is_sorted_by(|one, next| one + 1 == *next);
            prop_assert!(follow, "{key:?}: {versions:?}");
            prop_assert!(first == First::Any || versions[0] == 1 || was_dead(&history, key), "{versions:?}");
        }
        for (told, reason) in &history.dead {
            // A gap is over only for what was never applied before it ended.
            let applied = outputs.get(&told.key[..]).is_some_and(|versions| versions.contains(&told.version));
            let replayed = history.arrived.iter().filter(|other| {
                other.key == told.key && other.version == told.version
            }).count() > 1;
            prop_assert!(reason != "version-gap" || !applied || replayed, "{told:?} was applied");
        }
    }

    #[test]
    fn under_park_the_output_of_a_key_is_its_input_less_the_dead(
        steps in vec(step().prop_filter("a replay joins the end", |step| !matches!(step, Step::Replays(_))), 1..160),
        on_exhausted in prop_oneof![Just(OnExhausted::Continue), Just(OnExhausted::Follow)],
        per_key in prop_oneof![Just(1usize), Just(3), Just(10_000)],
        window in prop_oneof![Just(2usize), Just(8), Just(64)],
    ) {
        let history = run(policy(park(on_exhausted, per_key), window), &steps);
        each_has_one_fate(&history)?;
        prop_assert!(history.silent.is_empty() && history.aside.is_empty());
        let dead: BTreeSet<&str> = history.dead.iter().map(|(told, _)| told.event.as_str()).collect();
        let by_key = |told: &[Told]| {
            told.iter().filter(|told| !dead.contains(told.event.as_str())).fold(
                BTreeMap::new(),
                |mut events: BTreeMap<Vec<u8>, Vec<String>>, told| {
                    events.entry(told.key.clone()).or_default().push(told.event.clone());
                    events
                },
            )
        };
        prop_assert_eq!(by_key(&history.arrived), by_key(&history.outputs));
        let follow = history.dead.iter().any(|(_, reason)| reason == "predecessor-dead");
        prop_assert!(!follow || on_exhausted == OnExhausted::Follow);
    }

    #[test]
    fn under_park_a_replay_has_one_fate_too(
        steps in vec(step(), 1..160),
        on_exhausted in prop_oneof![Just(OnExhausted::Continue), Just(OnExhausted::Follow)],
        per_key in prop_oneof![Just(1usize), Just(3), Just(10_000)],
    ) {
        each_has_one_fate(&run(policy(park(on_exhausted, per_key), 8), &steps))?;
    }

    #[test]
    fn without_a_guard_every_record_has_one_fate_and_it_is_an_output_or_a_dead_letter(
        steps in vec(step(), 1..160),
        window in prop_oneof![Just(2usize), Just(8), Just(64)],
    ) {
        let history = run(policy(OrderPolicy::default(), window), &steps);
        each_has_one_fate(&history)?;
        prop_assert!(history.aside.is_empty() && history.silent.is_empty());
    }
}

/// The control: without a guard the same course of events takes a key back.
#[test]
fn a_late_retry_goes_back_without_a_guard_and_not_with_one() {
    let arrives = |version| Step::Arrives { key: 1, version, value: 0 };
    let committed = [Step::Waits(10), Step::Ends(Ending::Committed)];
    let steps = [
        // The start of each task.
        committed[1],
        committed[0],
        committed[1],
        arrives(1),
        Step::Answers(0, Answer::Transient),
        committed[0],
        committed[1],
        arrives(2),
        Step::Answers(0, Answer::Done),
        committed[0],
        committed[1],
    ];
    let versions = |order| {
        let history = run(policy(order, 8), &steps);
        versions_of(&history.outputs).into_values().next().unwrap()
    };
    assert_eq!(versions(OrderPolicy::default()), [2, 1]);
    assert_eq!(versions(latest(Equal::Conflict, true)), [2]);
}
