//! A tier that is taken out of the topology, or comes into it, while records wait.

use std::time::Duration;

use redrive::topology::environment::Process as Environment;
use redrive::topology::model::Topology;

use crate::process::{Process, eventually};
use crate::support::Kafka;
use crate::topology::Draft;

const RECORDS: usize = 40;

/// The topology as another version of its file says, on the topics of the first.
fn version(draft: &Draft, kafka: &Kafka) -> Topology {
    Topology::compile(&draft.text(kafka), "test.toml", &Environment).unwrap_or_else(|told| panic!("{told}"))
}

fn output(topology: &Topology) -> &str {
    topology.pipelines[0].output.as_ref().unwrap().as_str()
}

fn send(kafka: &Kafka, topology: &Topology, prefix: &str) {
    let values: Vec<String> = (0..RECORDS).map(|number| format!("{prefix}-{number}")).collect();
    let records: Vec<_> =
        values.iter().map(|value| (Some(value.as_bytes()), Some(value.as_bytes()))).collect();
    kafka.produce(topology.pipelines[0].source.as_str(), None, &records);
}

/// Runs until every record that was sent waits in the first tier, then ends in order.
fn let_them_wait(kafka: &Kafka, topology: &Topology) {
    let tier = topology.pipelines[0].tiers[0].topic.name.as_str();
    let process = Process::start(topology, "a");
    eventually("all wait", || kafka.read(tier).len() == RECORDS);
    process.end().expect("a clean end");
    assert!(kafka.read(output(topology)).is_empty(), "none is due yet");
}

/// When each record of a tier is due, by its value.
fn due(kafka: &Kafka, tier: &str) -> Vec<(Option<Vec<u8>>, i64)> {
    kafka.read(tier).iter().map(|found| (found.value.clone(), found.number("redrive-due"))).collect()
}

/// Waits for every record in the output: each once, none before it was due.
fn all_come_out(kafka: &Kafka, topology: &Topology, due: &[(Option<Vec<u8>>, i64)]) {
    eventually("every record is delivered", || kafka.read(output(topology)).len() >= RECORDS);
    let outputs = kafka.read(output(topology));
    assert_eq!(outputs.len(), RECORDS);
    for (value, due) in due {
        let [output] = &*outputs.iter().filter(|output| output.value == *value).collect::<Vec<_>>() else {
            panic!("{value:?} comes out once")
        };
        assert!(output.timestamp.unwrap() >= *due, "{value:?} is early");
    }
}

fn plan(draft: &Draft, kafka: &Kafka) -> String {
    let planned = draft.topics("plan", kafka);
    assert!(planned.status.success(), "{planned:?}");
    String::from_utf8(planned.stdout).unwrap()
}

#[test]
fn what_waits_in_a_tier_that_was_taken_out_is_delivered_when_due_and_nothing_new_waits_there() {
    let kafka = Kafka::shared();
    let draft = Draft::new(kafka, 2).tiers(&["6s", "10m"]).fail("old", Some(1), "transient").fail(
        "new",
        None,
        "transient",
    );
    let before = draft.made(kafka);
    let tier = before.pipelines[0].tiers[0].topic.name.clone();
    send(kafka, &before, "old");
    let_them_wait(kafka, &before);
    let due = due(kafka, tier.as_str());

    let draft = draft.tiers(&["10m"]);
    let after = version(&draft, kafka);
    let planned = plan(&draft, kafka);
    assert!(planned.contains(&format!("drain   {tier}")), "{planned}");
    assert!(planned.contains("records wait"), "{planned}");
    let process = Process::start(&after, "a");
    send(kafka, &after, "new");
    all_come_out(kafka, &after, &due);
    eventually("the new wait in the tier that is left", || {
        kafka.read(after.pipelines[0].tiers[0].topic.name.as_str()).len() == RECORDS
    });
    process.end().expect("a clean end");

    assert_eq!(kafka.read(tier.as_str()).len(), RECORDS, "nothing is written to it");
    assert!(kafka.read(after.pipelines[0].dead_letter.name.as_str()).is_empty());
}

#[test]
fn what_waits_in_a_tier_is_delivered_when_due_under_a_topology_that_has_a_further_one() {
    let kafka = Kafka::shared();
    let draft = Draft::new(kafka, 2).tiers(&["6s"]).fail("old", Some(1), "transient");
    let before = draft.made(kafka);
    let tier = before.pipelines[0].tiers[0].topic.name.clone();
    send(kafka, &before, "old");
    let_them_wait(kafka, &before);
    let due = due(kafka, tier.as_str());

    let draft = draft.tiers(&["1s", "6s"]);
    let after = version(&draft, kafka);
    let refused = Process::start(&after, "a").wait().expect_err("the tier's topic is missing").to_string();
    assert!(refused.contains("retry.1s") && refused.contains("hint: redrive topics apply"), "{refused}");
    draft.apply(kafka);
    let process = Process::start(&after, "a");
    all_come_out(kafka, &after, &due);
    process.end().expect("a clean end");
}

#[test]
fn a_tier_that_was_taken_out_can_be_deleted_once_it_is_empty() {
    let kafka = Kafka::shared();
    let draft = Draft::new(kafka, 2).tiers(&["1s", "10m"]).fail("old", Some(1), "transient");
    let before = draft.made(kafka);
    let tier = before.pipelines[0].tiers[0].topic.name.clone();
    let draft = draft.tiers(&["10m"]);
    assert!(plan(&draft, kafka).contains("nothing waits: it can be deleted"));

    kafka.delete(tier.as_str());

    let after = version(&draft, kafka);
    let process = Process::start(&after, "a");
    send(kafka, &after, "good");
    all_come_out(kafka, &after, &[]);
    process.end().expect("a clean end");
    assert!(!plan(&draft, kafka).contains("drain"));
}

/// A topology whose tasks have all their offsets in nearly every transaction.
fn soon_idle(draft: &Draft, kafka: &Kafka) -> Topology {
    let mut topology = version(draft, kafka);
    topology.pipelines[0].policy.flow.recommit = Duration::from_secs(4);
    topology
}

fn send_and_wait(kafka: &Kafka, topology: &Topology, prefix: &str) {
    let before = kafka.read(output(topology)).len();
    send(kafka, topology, prefix);
    eventually("what was sent comes out", || kafka.read(output(topology)).len() >= before + RECORDS);
    assert_eq!(kafka.read(output(topology)).len(), before + RECORDS, "each once");
}

/// Works for longer than offsets are taken for fresh and changes of topics go unseen.
fn go_on(kafka: &Kafka, topology: &Topology, rounds: &str) {
    let last = || kafka.read(output(topology)).iter().filter_map(|found| found.timestamp).max().unwrap_or(0);
    let begun = last();
    let mut round = 0;
    while last() < begun + 8_000 {
        send_and_wait(kafka, topology, &format!("{rounds}{round}"));
        round += 1;
    }
}

/// Two processes work, `topic` is deleted, and one of them takes over what the other had.
fn goes_on_without(kafka: &Kafka, topology: &Topology, topic: &str) -> Process {
    let (a, b) = (Process::start(topology, "a"), Process::start(topology, "b"));
    send_and_wait(kafka, topology, "first");
    kafka.delete(topic);
    go_on(kafka, topology, "gone");
    b.end().expect("a clean end");
    send_and_wait(kafka, topology, "taken-over");
    a
}

#[test]
fn a_tier_that_was_taken_out_can_be_deleted_under_processes_that_drain_it() {
    let kafka = Kafka::shared();
    let draft = Draft::new(kafka, 2).tiers(&["1s", "10m"]).fail("old", Some(1), "transient");
    let before = draft.made(kafka);
    let tier = before.pipelines[0].tiers[0].topic.name.clone();
    let draft = draft.tiers(&["10m"]);
    let process = goes_on_without(kafka, &soon_idle(&draft, kafka), tier.as_str());
    process.end().expect("a clean end");
}

#[test]
fn tasks_go_on_without_their_control_topic_and_when_it_is_back() {
    let kafka = Kafka::shared();
    let draft = Draft::new(kafka, 2);
    draft.made(kafka);
    let topology = soon_idle(&draft, kafka);
    let control = topology.pipelines[0].policy.control.clone();
    let process = goes_on_without(kafka, &topology, control.as_str());
    draft.apply(kafka);
    go_on(kafka, &topology, "back");
    process.end().expect("a clean end");
}
