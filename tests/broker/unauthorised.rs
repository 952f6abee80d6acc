//! What a process does that lacks a right: it stops what needs it, visibly, skips nothing, and goes on once it is granted.

use std::sync::OnceLock;

use crate::binary::Binary;
use crate::probe::Probes;
use crate::process::eventually;
use crate::rights::{RULES, Right, give_back, take};
use crate::scene::{Plan, Scene};
use crate::support::Kafka;
use crate::topology::Draft;

/// A broker that asks for rights.
fn strict() -> &'static Kafka {
    static STRICT: OnceLock<&Kafka> = OnceLock::new();
    STRICT.get_or_init(|| Kafka::leaked(&RULES))
}

/// What has ever kept tasks from going on.
fn blamed(probes: &Probes) -> Vec<String> {
    let counted = probes.ask("/metrics").unwrap().text;
    let seconds = counted.lines().filter_map(|line| {
        let (labels, seconds) = line.strip_prefix("redrive_blocked_seconds_total{")?.split_once("} ")?;
        let (_, by) = labels.split_once("by=\"")?;
        let (by, _) = by.split_once('"')?;
        (seconds.parse::<f64>().unwrap() > 0.0).then(|| by.to_owned())
    });
    seconds.collect()
}

/// What cannot be written is named by `/ready` and the task waits; once it may be written again, everything has its fate.
fn denied_write(word: &str, plan: Plan, topic: impl Fn(&Scene) -> String) {
    let probes = Probes::somewhere();
    let mut scene = Scene::on(strict(), |draft| draft.tiers(&["300ms"]).listen(probes.address()));
    let process = scene.run(0);
    scene.send(200, Plan::mixed);
    scene.drain();
    let topic = topic(&scene);
    take(scene.kafka, Right::WriteTopic, &topic);
    // Behind each of them come others of its partition.
    scene.send(40, |_| plan);
    scene.send(200, Plan::mixed);
    let waits = format!("has tasks that wait: `{word}` cannot be written");
    eventually("it says what its tasks wait for", || probes.says("/ready", 200, &waits));
    assert!(!scene.is_drained(), "nothing is skipped");
    assert!(probes.says("/live", 200, ""));

    give_back(scene.kafka, Right::WriteTopic, &topic);
    scene.drain();
    eventually("nothing waits", || probes.ask("/ready").is_some_and(|said| said.text == "ok\n"));
    assert_eq!(blamed(&probes), [word], "no other topic is at fault");
    assert_eq!(process.end().code(), Some(0));
    let report = scene.audit();
    assert!(report.is_clean(), "{report}");
}

#[test]
fn an_output_that_may_not_be_written_stops_its_tasks_until_it_may() {
    denied_write("output", Plan::Succeeds, |scene| scene.output().to_owned());
}

#[test]
fn a_tier_that_may_not_be_written_stops_its_tasks_until_it_may() {
    denied_write("tier", Plan::FailsOnce, |scene| scene.tier().to_owned());
}

#[test]
fn a_dead_letter_topic_that_may_not_be_written_stops_its_tasks_until_it_may() {
    denied_write("dlq", Plan::FailsForEver, |scene| scene.dead_letters().to_owned());
}

/// When a right is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    BeforeStart,
    AtWork,
}

/// What may not be read, or joined, is told, nothing ends, and once it may be everything has its fate.
fn denied_read(when: When, right: Right, told: &str, name: impl Fn(&Scene) -> String) {
    let probes = Probes::somewhere();
    let mut scene = Scene::on(strict(), |draft| draft.tiers(&["300ms"]).listen(probes.address()));
    let name = name(&scene);
    if when == When::BeforeStart {
        take(scene.kafka, right, &name);
    }
    let (mut process, words) = scene.run_heard(0);
    if when == When::AtWork {
        scene.send(200, Plan::mixed);
        scene.drain();
        take(scene.kafka, right, &name);
    }
    scene.send(200, Plan::mixed);
    eventually("it says what it may not do", || words.said().contains(told));
    assert!(!scene.is_drained());
    assert!(process.runs());
    assert!(probes.says("/live", 200, ""));

    give_back(scene.kafka, right, &name);
    scene.drain();
    assert_eq!(process.end().code(), Some(0), "{}", words.said());
    let report = scene.audit();
    assert!(report.is_clean(), "{report}");
}

/// What the reader of a topic says, or who asks to be in the group.
const REFUSED: &str = "the brokers refuse access";
/// What whoever commits says.
const NOT_COMMITTED: &str = "Topic authorization failed";

#[test]
fn a_source_that_may_not_be_read_any_more_is_told_and_read_once_it_may() {
    denied_read(When::AtWork, Right::ReadTopic, REFUSED, |scene| scene.pipeline.source.to_string());
}

#[test]
fn a_tier_that_may_not_be_read_any_more_is_told_and_read_once_it_may() {
    denied_read(When::AtWork, Right::ReadTopic, REFUSED, |scene| scene.tier().to_owned());
}

/// Where a task begins is committed before anything is read, and that needs the same right.
#[test]
fn a_source_that_may_not_be_read_from_the_start_is_told_and_read_once_it_may() {
    denied_read(When::BeforeStart, Right::ReadTopic, NOT_COMMITTED, |scene| {
        scene.pipeline.source.to_string()
    });
}

#[test]
fn a_group_that_may_not_be_joined_is_told_and_joined_once_it_may() {
    denied_read(When::BeforeStart, Right::JoinGroup, REFUSED, |scene| scene.pipeline.group.clone());
}

#[test]
fn a_transactional_id_that_may_not_be_used_ends_the_process_as_fatal_and_is_named() {
    let draft = Draft::new(strict(), 1);
    let topology = draft.made(strict());
    let id = format!("test.{}.0.0.0", topology.pipelines.first().unwrap().name);
    take(strict(), Right::UseTransactionalId, &id);
    let (code, words) = Binary::fails(&draft.text(strict()));
    assert_eq!(code, Some(3), "{words}");
    assert!(words.contains(&format!("the transactional id `{id}` cannot be used")), "{words}");
    assert!(words.contains("hint: it needs WRITE and DESCRIBE on transactional ids"), "{words}");
}

#[test]
fn a_transactional_id_that_may_no_more_be_used_ends_the_process_as_fatal_and_nothing_is_lost() {
    let mut scene = Scene::on(strict(), |draft| draft.tiers(&["300ms"]));
    let (mut process, words) = scene.run_heard(0);
    scene.send(200, Plan::mixed);
    scene.drain();
    let ids = [0, 1].map(|slot| format!("test.{}.0.0.{slot}", scene.pipeline.name));
    ids.iter().for_each(|id| take(scene.kafka, Right::UseTransactionalId, id));
    scene.send(200, Plan::mixed);
    assert_eq!(process.wait().code(), Some(3), "{}", words.said());
    assert!(words.said().contains("cannot be used"), "{}", words.said());

    ids.iter().for_each(|id| give_back(scene.kafka, Right::UseTransactionalId, id));
    let next = scene.run(0);
    scene.drain();
    assert_eq!(next.end().code(), Some(0));
    let report = scene.audit();
    assert!(report.is_clean(), "{report}");
}
