//! What a process does while its brokers are away: it waits, says so, and goes on when they are back.

use std::time::Instant;

use crate::binary::Binary;
use crate::probe::Probes;
use crate::process::eventually;
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
#[expect(clippy::disallowed_methods, reason = "a bound, ten times what it takes")]
fn told_to_end_while_no_broker_has_ever_answered_it_ends_at_once() {
    let (kafka, draft, _) = away();
    let (process, words) = Binary::heard(&draft.text(&kafka), 0);
    eventually("it says that no broker answers", || words.said().contains("no broker answers"));
    let told = Instant::now();
    assert_eq!(process.end().code(), Some(0), "nothing was begun");
    assert!(told.elapsed().as_secs() < 5, "{:?}", told.elapsed());
}
