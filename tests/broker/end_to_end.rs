//! The way of a record, from the source to where its fate takes it.

use crate::process::{Process, eventually};
use crate::support::{Found, Kafka};
use crate::topology::Draft;

#[test]
fn every_record_ends_in_the_output_or_in_the_dead_letter_topic() {
    let kafka = Kafka::shared();
    let topology = Draft::new(kafka, 2)
        .tiers(&["200ms"])
        .fail("once", Some(1), "transient")
        .fail("dead", None, "permanent")
        .made(kafka);
    let pipeline = topology.pipelines.first().unwrap();
    let (source, output) = (pipeline.source.as_str(), pipeline.output.as_ref().unwrap().as_str());
    let keys: Vec<String> = (0..300)
        .map(|number| match number % 3 {
            0 => format!("once-{number}"),
            1 => format!("dead-{number}"),
            _ => format!("good-{number}"),
        })
        .collect();
    let records: Vec<_> = keys.iter().map(|key| (Some(key.as_bytes()), Some(&b"value"[..]))).collect();
    kafka.produce(source, None, &records);

    let process = Process::start(&topology, "a");
    let dead = pipeline.dead_letter.name.as_str();
    eventually("200 outputs and 100 dead letters", || {
        kafka.read(output).len() >= 200 && kafka.read(dead).len() >= 100
    });
    process.end().expect("a clean end");

    let sorted = |found: Vec<Found>| {
        let mut keys: Vec<_> =
            found.into_iter().map(|found| String::from_utf8(found.key.unwrap()).unwrap()).collect();
        keys.sort();
        keys
    };
    let expected = |dead: bool| {
        let mut keys: Vec<_> = keys.iter().filter(|key| key.starts_with("dead") == dead).cloned().collect();
        keys.sort();
        keys
    };
    assert_eq!(sorted(kafka.read(output)), expected(false));
    assert_eq!(sorted(kafka.read(dead)), expected(true));
}
