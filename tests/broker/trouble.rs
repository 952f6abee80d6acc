//! What a process does when it cannot go on, and when it can again.

use redrive::runtime::Ended;

use crate::process::{Process, eventually};
use crate::support::Kafka;
use crate::topology::Draft;

fn write(kafka: &Kafka, topic: &str, keys: &mut usize) {
    for partition in 0..4 {
        let key = format!("key-{keys}");
        kafka.produce(topic, Some(partition), &[(Some(key.as_bytes()), Some(b"value"))]);
        *keys += 1;
    }
}

#[test]
fn a_process_without_its_topics_does_not_start_and_names_them() {
    let kafka = Kafka::shared();
    let topology = Draft::new(kafka, 1).made(kafka);
    let missing = topology.pipelines.first().unwrap().dead_letter.name.as_str();
    kafka.delete(missing);
    let error = Process::start(&topology, "a").wait().expect_err("it must not start");
    assert_eq!(error.ended, Ended::NeedsPerson);
    assert!(error.to_string().contains(missing), "{error}");
}

#[test]
fn two_processes_with_one_identity_end_as_fatal_and_nothing_is_doubled() {
    let kafka = Kafka::shared();
    let topology = Draft::new(kafka, 4).made(kafka);
    let pipeline = topology.pipelines.first().unwrap();
    let (source, output) = (pipeline.source.as_str(), pipeline.output.as_ref().unwrap().as_str());
    let mut keys = 0;
    let twins = ["same", "same"].map(|instance| Process::start(&topology, instance));
    eventually("one gives up", || {
        write(kafka, source, &mut keys);
        twins.iter().any(Process::has_ended)
    });
    // They fence each other by turns: the other may give up, too, or be alone in time.
    let ends = twins.map(Process::end);
    let fatal =
        ends.into_iter().filter_map(Result::err).inspect(|error| assert_eq!(error.ended, Ended::Fatal));
    assert!(fatal.count() > 0);

    let process = Process::start(&topology, "same");
    eventually("everything is done", || kafka.read(output).len() >= keys);
    process.end().expect("a clean end");
    assert_eq!(kafka.read(output).len(), keys);
}

#[test]
fn work_goes_on_when_the_broker_is_back() {
    let kafka = Kafka::start();
    let topology = Draft::new(&kafka, 4).made(&kafka);
    let pipeline = topology.pipelines.first().unwrap();
    let (source, output) = (pipeline.source.as_str(), pipeline.output.as_ref().unwrap().as_str());
    let mut keys = 0;
    write(&kafka, source, &mut keys);
    let process = Process::start(&topology, "a");
    eventually("the first are handled", || kafka.read(output).len() == keys);

    kafka.kill();
    kafka.restart();
    write(&kafka, source, &mut keys);
    eventually("the rest are handled", || kafka.read(output).len() >= keys);
    process.end().expect("a clean end");
    assert_eq!(kafka.read(output).len(), keys);
}
