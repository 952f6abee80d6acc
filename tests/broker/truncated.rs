//! Records that are deleted before they were read: counted exactly, once, and work goes on behind them.

use std::collections::BTreeSet;

use redrive::core::position::Lane;
use redrive::topology::model::Pipeline;

use crate::binary::Binary;
use crate::expired::{committed, outputs};
use crate::found::Found;
use crate::ledger::Role;
use crate::positions::delete_before;
use crate::probe::Probes;
use crate::process::eventually;
use crate::readback;
use crate::scene::{Plan, Scene};
use crate::support::Kafka;
use crate::topology::Draft;

/// Lets little be fetched at once, so that much of what is deleted was not.
fn short_fetches(draft: Draft) -> Draft {
    draft.property("fetch.message.max.bytes", "10000")
}

/// What is told on `/metrics` of records lost in a lane, by partition.
fn lost(probes: &Probes, lane: &str) -> Vec<(i32, i64)> {
    let said = probes.ask("/metrics").expect("an answer").text;
    let lines = said.lines().filter(|line| {
        line.starts_with("redrive_lost_records_total{") && line.contains(&format!("lane=\"{lane}\""))
    });
    let number = |line: &str| {
        let partition = line.split_once("partition=\"")?.1.split_once('"')?.0.parse().ok()?;
        Some((partition, line.rsplit_once(' ')?.1.parse().ok()?))
    };
    lines.map(|line| number(line).unwrap_or_else(|| panic!("{line}"))).collect()
}

fn write(kafka: &Kafka, pipeline: &Pipeline, values: std::ops::Range<usize>) {
    let values: Vec<String> = values.map(|number| number.to_string()).collect();
    let records: Vec<_> =
        values.iter().map(|value| (Some(value.as_bytes()), Some(value.as_bytes()))).collect();
    kafka.produce(pipeline.source.as_str(), Some(0), &records);
}

fn offset_of(kafka: &Kafka, pipeline: &Pipeline, lane: Lane) -> i64 {
    let place = pipeline.policy.lanes().position(|of| of == lane).unwrap();
    committed(kafka, pipeline)[place].expect("an offset")
}

/// A process whose handler does not answer any more, with much of the source still unread; and all that the source holds.
fn held(probes: &Probes) -> (Scene, Binary, Vec<Found>) {
    let mut scene = Scene::with(|draft| short_fetches(draft.listen(probes.address())));
    let process = scene.run(0);
    // What was deleted before anybody stood there is nobody's loss.
    scene.send(400, |_| Plan::Succeeds);
    scene.drain();
    scene.handler.hold();
    scene.send(12_000, |_| Plan::Succeeds);
    eventually("some are being handled", || scene.handler.unanswered() > 0);
    let all = scene.kafka.read(scene.pipeline.source.as_str());
    (scene, process, all)
}

/// The end of a partition, of which these are all records.
fn end_of(all: &[Found], partition: i32) -> i64 {
    i64::try_from(all.iter().filter(|found| found.partition == partition).count()).unwrap()
}

#[test]
fn what_is_deleted_while_it_is_stopped_is_counted_once_by_lane() {
    let kafka = Kafka::shared();
    let probes = Probes::somewhere();
    let draft = Draft::new(kafka, 1).tiers(&["10s"]).fail("", Some(1), "transient");
    let draft = draft.listen(probes.address());
    let (topology, text) = (draft.made(kafka), draft.text(kafka));
    let pipeline = topology.pipelines.first().unwrap();
    let (source, tier) = (pipeline.source.as_str(), pipeline.tiers[0].topic.name.as_str());
    let process = Binary::run(&text, 0);
    write(kafka, pipeline, 0..100);
    eventually("all wait", || kafka.read(tier).len() == 100);
    assert_eq!(process.end().code(), Some(0));
    assert!(outputs(kafka, pipeline).is_empty(), "none is due yet");

    let waiting = kafka.read(tier);
    let from = offset_of(kafka, pipeline, pipeline.policy.lanes().last().unwrap());
    write(kafka, pipeline, 100..150);
    delete_before(kafka, source, 0, 120);
    delete_before(kafka, tier, 0, waiting[60].offset);
    let process = Binary::run(&text, 0);
    eventually("the rest are handled", || outputs(kafka, pipeline).len() >= 70);
    // Ends of transactions lie between the records of a tier, and are counted with them.
    assert_eq!(lost(&probes, "source"), [(0, 20)]);
    assert_eq!(lost(&probes, "retry.10s"), [(0, waiting[60].offset - from)]);
    assert_eq!(process.end().code(), Some(0));
    let kept: BTreeSet<usize> = (120..150).chain(waiting[60..].iter().map(number)).collect();
    assert_eq!(outputs(kafka, pipeline), kept.into_iter().collect::<Vec<_>>());
}

#[test]
fn what_is_deleted_to_the_end_while_it_is_stopped_is_counted_once_though_nothing_comes_behind_it() {
    let kafka = Kafka::shared();
    let probes = Probes::somewhere();
    // Without a tier: else a look at that commits the source along with it.
    let draft = Draft::new(kafka, 1).listen(probes.address());
    let (topology, text) = (draft.made(kafka), draft.text(kafka));
    let pipeline = topology.pipelines.first().unwrap();
    let process = Binary::run(&text, 0);
    write(kafka, pipeline, 0..10);
    eventually("the first are handled", || outputs(kafka, pipeline).len() == 10);
    assert_eq!(process.end().code(), Some(0));

    write(kafka, pipeline, 10..40);
    delete_before(kafka, pipeline.source.as_str(), 0, 40);
    let process = Binary::run(&text, 0);
    eventually("it is counted", || probes.are_good() && lost(&probes, "source") == [(0, 30)]);
    eventually("the lane stands behind it", || offset_of(kafka, pipeline, Lane::Source) == 40);
    process.kill();
    let process = Binary::run(&text, 0);
    write(kafka, pipeline, 40..41);
    eventually("it goes on", || outputs(kafka, pipeline).contains(&40));
    assert_eq!(lost(&probes, "source"), [], "it was counted before");
    assert_eq!(process.end().code(), Some(0));
}

fn number(found: &Found) -> usize {
    String::from_utf8(found.value.clone().unwrap()).unwrap().parse().unwrap()
}

#[test]
fn what_is_deleted_from_the_source_under_its_lanes_is_counted_by_partition() {
    let probes = Probes::somewhere();
    let (scene, process, all) = held(&probes);
    let source = scene.pipeline.source.to_string();
    let partitions: BTreeSet<i32> = all.iter().map(|found| found.partition).collect();
    for partition in &partitions {
        delete_before(scene.kafka, &source, *partition, end_of(&all, *partition) - 10);
    }
    scene.handler.release();
    let last = |found: &&Found| found.offset + 1 == end_of(&all, found.partition);
    let last: BTreeSet<_> = all.iter().filter(last).map(|found| found.value.clone()).collect();
    let handled =
        || -> BTreeSet<_> { scene.kafka.read(scene.output()).into_iter().map(|found| found.value).collect() };
    eventually("the last of each partition is handled", || handled().is_superset(&last));
    let handled = handled();
    let missing = |partition: i32| {
        let own = all.iter().filter(|found| found.partition == partition);
        i64::try_from(own.filter(|found| !handled.contains(&found.value)).count()).unwrap()
    };
    let missing: Vec<(i32, i64)> =
        partitions.iter().map(|partition| (*partition, missing(*partition))).collect();
    assert!(missing.iter().all(|(_, count)| *count > 0), "something is deleted unread: {missing:?}");
    assert_eq!(lost(&probes, "source"), missing);
    assert_eq!(scene.kafka.read(scene.output()).len(), handled.len(), "none twice");
    assert_eq!(process.end().code(), Some(0));
}

#[test]
fn what_is_deleted_from_a_tier_under_its_lane_is_counted() {
    let kafka = Kafka::shared();
    let probes = Probes::somewhere();
    let draft = short_fetches(Draft::new(kafka, 1).listen(probes.address()));
    let draft = draft.tiers(&["8s"]).fail("", Some(1), "transient");
    let (topology, text) = (draft.made(kafka), draft.text(kafka));
    let pipeline = topology.pipelines.first().unwrap();
    let tier = pipeline.tiers[0].topic.name.as_str();
    write(kafka, pipeline, 0..2_000);
    let process = Binary::run(&text, 0);
    eventually("all wait", || kafka.read(tier).len() == 2_000);
    let waiting = kafka.read(tier);
    let kept = waiting[1_900].offset;
    delete_before(kafka, tier, 0, kept);
    let last = number(&waiting[1_999]);
    eventually("the last is handled", || outputs(kafka, pipeline).contains(&last));
    let handled = outputs(kafka, pipeline);
    let gone: Vec<i64> = waiting
        .iter()
        .filter(|found| handled.binary_search(&number(found)).is_err())
        .map(|found| found.offset)
        .collect();
    let (first, before) =
        (gone[0], waiting.iter().rfind(|found| found.offset < gone[0]).map_or(0, |f| f.offset + 1));
    let [(0, count)] = lost(&probes, "retry.8s")[..] else { panic!("{:?}", lost(&probes, "retry.8s")) };
    // Ends of transactions count, too; whether the one before the first record was passed already is a matter of time.
    assert!((kept - first..=kept - before).contains(&count), "{count} of {before}, {first} to {kept}");
    assert_eq!(handled.len() + gone.len(), 2_000, "none twice");
    assert_eq!(process.end().code(), Some(0));
}

#[test]
fn what_is_deleted_to_the_end_of_the_source_is_committed_as_passed() {
    let probes = Probes::somewhere();
    let (mut scene, process, all) = held(&probes);
    let source = scene.pipeline.source.to_string();
    let partitions: BTreeSet<i32> = all.iter().map(|found| found.partition).collect();
    for partition in &partitions {
        delete_before(scene.kafka, &source, *partition, end_of(&all, *partition));
    }
    scene.handler.release();
    eventually("every lane stands at the end", || {
        let commits =
            readback::commits(scene.kafka.bootstrap(), &scene.pipeline.group, &source, Role::Source);
        let commits = commits.expect("the group's offsets");
        partitions.iter().all(|partition| {
            commits
                .iter()
                .any(|commit| commit.partition == *partition && commit.offset == end_of(&all, *partition))
        })
    });
    let told: i64 = lost(&probes, "source").iter().map(|(_, count)| count).sum();
    let handled = i64::try_from(scene.kafka.read(scene.output()).len()).unwrap();
    assert_eq!((told > 0, told + handled), (true, 12_400));
    process.kill();

    let process = scene.run(0);
    eventually("it works again", || probes.are_good());
    scene.send(40, |_| Plan::Succeeds);
    eventually("it goes on", || {
        scene.kafka.read(scene.output()).len() >= usize::try_from(handled).unwrap() + 40
    });
    assert_eq!(lost(&probes, "source"), [], "it was counted before");
    assert_eq!(process.end().code(), Some(0));
}
