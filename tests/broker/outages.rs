//! What a process does while its brokers are away: it waits, says so, and goes on when they are back.
#![expect(clippy::disallowed_methods, reason = "how long something is away, and bounds of waits")]

use std::thread;
use std::time::Instant;

use crate::binary::Binary;
use crate::probe::Probes;
use crate::process::eventually;
use crate::scene::{Plan, Scene};
use crate::size;
use crate::small_disk::SmallDisk;
use crate::support::Kafka;
use crate::topology::Draft;

/// A passthrough pipeline on a broker that is stopped in order, and where its process answers probes.
fn away() -> (Kafka, Draft, Probes) {
    let kafka = Kafka::start();
    let probes = Probes::somewhere();
    let draft = Draft::new(&kafka, 1).listen(probes.address());
    draft.made(&kafka);
    kafka.stop();
    (kafka, draft, probes)
}

fn lines<'a>(words: &'a str, what: &str) -> Vec<&'a str> {
    words.lines().filter(|line| line.contains(what)).collect()
}

#[test]
fn without_brokers_at_start_it_waits_says_so_once_and_works_when_they_come() {
    let (kafka, draft, probes) = away();
    let topology = draft.text(&kafka);
    let (process, words) = Binary::heard(&topology, 0);
    eventually("it says that no broker answers", || words.said().contains("no broker answers"));
    assert!(probes.says("/live", 200, ""), "{:?}", probes.ask("/live"));
    assert!(probes.says("/ready", 503, "reaches no broker"), "{:?}", probes.ask("/ready"));

    kafka.restart();
    eventually("it is ready", || probes.are_good());
    kafka.produce(&draft.source_topic(), None, &[(Some(b"key"), Some(b"value"))]);
    eventually("it works", || kafka.read(&draft.output_topic()).len() == 1);
    assert_eq!(process.end().code(), Some(0));
    let told = words.said();
    assert_eq!(lines(&told, "no broker answers").len(), 1, "{told}");
    assert!(told.contains("Connection refused"), "and why: {told}");
}

#[test]
fn told_to_end_while_no_broker_has_ever_answered_it_ends_at_once() {
    let (kafka, draft, _) = away();
    let (process, words) = Binary::heard(&draft.text(&kafka), 0);
    eventually("it says that no broker answers", || words.said().contains("no broker answers"));
    let told = Instant::now();
    assert_eq!(process.end().code(), Some(0), "nothing was begun");
    assert!(told.elapsed().as_secs() < 5, "{:?}", told.elapsed());
}

#[test]
fn an_outage_under_load_is_waited_out_visibly_and_nothing_is_lost_or_doubled() {
    let kafka = Kafka::leaked(&[]);
    let probes = Probes::somewhere();
    let mut scene = Scene::on(kafka, |draft| draft.tiers(&["1s"]).listen(probes.address()));
    let (mut process, words) = scene.run_heard(0);
    for _ in 0..size::repetitions() {
        scene.send(size::records(2_000), Plan::mixed);
        scene.next_commit();
        kafka.stop();
        let away = Instant::now();
        eventually("it says that it reaches no broker", || probes.says("/ready", 503, "reaches no broker"));
        // How long it is away is what is tried here.
        thread::sleep(size::outage().saturating_sub(away.elapsed()));
        assert!(probes.says("/live", 200, ""), "{:?}", probes.ask("/live"));
        assert!(probes.says("/ready", 503, "reaches no broker"), "{:?}", probes.ask("/ready"));
        assert!(process.runs(), "{}", words.said());
        kafka.restart();
        eventually("it is ready", || probes.are_good());
        scene.drain();
    }
    assert_eq!(lines(&words.said(), "no broker answers").len(), size::repetitions(), "{}", words.said());
    assert_eq!(process.end().code(), Some(0), "{}", words.said());
    let report = scene.audit();
    assert!(report.is_clean(), "{report}");
    kafka.kill();
}

#[test]
fn told_to_end_in_an_outage_it_ends_in_time_and_says_that_work_was_left() {
    let kafka = Kafka::leaked(&[]);
    let mut scene = Scene::on(kafka, |draft| draft.tiers(&["1s"]).drain("2s"));
    let (process, words) = scene.run_heard(0);
    scene.send(400, Plan::mixed);
    scene.next_commit();
    scene.handler.hold();
    scene.send(400, Plan::mixed);
    eventually("calls are in flight", || scene.handler.unanswered() > 0);
    kafka.stop();
    scene.handler.release();
    eventually("the calls are answered", || scene.handler.unanswered() == 0);

    let told = Instant::now();
    assert_eq!(process.end().code(), Some(1), "{}", words.said());
    let took = told.elapsed();
    println!("ended {took:?} after it was told");
    // Drain and transaction timeout are 2 s and 4 s; the calls to the brokers that are under way end after that.
    assert!(took.as_secs() < 60, "{took:?}");
    assert!(words.said().contains("nothing is lost"), "{}", words.said());

    kafka.restart();
    let next = scene.run(0);
    scene.drain();
    assert_eq!(next.end().code(), Some(0));
    let report = scene.audit();
    assert!(report.is_clean(), "{report}");
    kafka.kill();
}

#[test]
fn a_broker_whose_disk_is_full_is_waited_for_until_it_has_room_and_nothing_is_lost_or_doubled() {
    let disk = SmallDisk::of_megabytes(256);
    let data = format!("log.dirs={}", disk.path().join("data").display());
    let kafka: &'static Kafka = Box::leak(Box::new(Kafka::start_within(disk.prefix(), &[&data])));
    let probes = Probes::somewhere();
    let mut scene = Scene::on(kafka, |draft| draft.tiers(&["1s"]).listen(probes.address()));
    let (mut process, words) = scene.run_heard(0);
    scene.send(400, Plan::mixed);
    scene.drain();
    scene.handler.hold();
    scene.send(4_000, Plan::mixed);
    // Less than what becomes of these records.
    disk.fill_up_to(512);
    scene.handler.release();
    eventually("it says that it reaches no broker", || probes.says("/ready", 503, "reaches no broker"));
    assert!(process.runs(), "{}", words.said());
    assert!(probes.says("/live", 200, ""), "{:?}", probes.ask("/live"));

    disk.make_room();
    kafka.restart();
    eventually("it is ready", || probes.are_good());
    scene.drain();
    assert_eq!(process.end().code(), Some(0), "{}", words.said());
    let report = scene.audit();
    assert!(report.is_clean(), "{report}");
    kafka.kill();
}
