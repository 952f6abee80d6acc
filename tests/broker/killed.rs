//! A process that is killed at any moment loses nothing and doubles nothing.

use std::collections::BTreeMap;

use crate::binary::Binary;
use crate::ledger::audit;
use crate::process::eventually;
use crate::readback;
use crate::size;
use crate::support::Kafka;
use crate::topology::Draft;
use crate::watching::Watching;

/// How often each key was written.
fn counted(kafka: &Kafka, topic: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for found in kafka.read(topic) {
        *counts.entry(String::from_utf8(found.key.unwrap()).unwrap()).or_default() += 1;
    }
    counts
}

#[test]
fn one_of_two_processes_is_killed_and_every_record_has_one_fate() {
    let kafka = Kafka::shared();
    let draft = Draft::new(kafka, 4).tiers(&["300ms"]).fail("once", Some(1), "transient").fail(
        "dead",
        None,
        "permanent",
    );
    let topology = draft.made(kafka);
    let pipeline = topology.pipelines.first().unwrap();
    let output = pipeline.output.as_ref().unwrap().as_str();
    let keys: Vec<String> = (0..size::records(20_000))
        .map(|number| match number % 10 {
            0 => format!("dead-{number}"),
            1..4 => format!("once-{number}"),
            _ => format!("good-{number}"),
        })
        .collect();
    let records: Vec<_> = keys.iter().map(|key| (Some(key.as_bytes()), Some(key.as_bytes()))).collect();

    let topics = readback::topics(pipeline).unwrap();
    let rules = readback::rules(pipeline);
    let watching = Watching::start(kafka.bootstrap(), &pipeline.group, &topics, rules.clone());
    let text = draft.text(kafka);
    let (mut first, second) = (Binary::run(&text, 0), Binary::run(&text, 1));
    kafka.produce(pipeline.source.as_str(), None, &records);
    for kill in 1..=size::repetitions() {
        eventually("work is under way", || kafka.read(output).len() > kill * size::records(2_000));
        first.kill();
        first = Binary::run(&text, 0);
    }
    let dead = pipeline.dead_letter.name.as_str();
    eventually("every record has its fate", || {
        kafka.read(output).len() + kafka.read(dead).len() >= records.len()
    });
    readback::committed_to_the_ends(kafka.bootstrap(), &pipeline.group, &topics)
        .unwrap_or_else(|error| panic!("{error:#}"));
    assert_eq!(first.end().code(), Some(0));
    assert_eq!(second.end().code(), Some(0));

    let history = readback::history(kafka.bootstrap(), &pipeline.group, &topics, None);
    let mut report = audit(&rules, &history.expect("everything read back"));
    let watched = watching.and_then(|watching| watching.finish(None)).expect("a watch of the run");
    report.join(&rules, &watched);
    assert!(report.is_clean() && report.balances(), "{report}");
    assert!(report.cuts > 2, "it was watched while processes were killed: {report}");

    let expected = |dead: bool| -> BTreeMap<String, usize> {
        keys.iter().filter(|key| key.starts_with("dead") == dead).map(|key| (key.clone(), 1)).collect()
    };
    assert_eq!(counted(kafka, output), expected(false));
    assert_eq!(counted(kafka, dead), expected(true));
}
