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

#[test]
fn a_missing_dead_letter_topic_stops_its_tasks_until_it_is_back_and_nothing_is_skipped() {
    let kafka = Kafka::shared();
    let draft = Draft::new(kafka, 1).fail("dead", None, "permanent");
    let topology = draft.made(kafka);
    let pipeline = topology.pipelines.first().unwrap();
    let (source, output) = (pipeline.source.as_str(), pipeline.output.as_ref().unwrap().as_str());
    let dead = pipeline.dead_letter.name.as_str();
    let process = Process::start(&topology, "a");
    kafka.produce(source, Some(0), &[(Some(b"good-1"), Some(b""))]);
    eventually("the first is handled", || kafka.read(output).len() == 1);

    kafka.delete(dead);
    kafka.produce(source, Some(0), &[(Some(b"dead-2"), Some(b"")), (Some(b"good-3"), Some(b""))]);
    eventually("the attempt to write it was aborted", || kafka.read_uncommitted(output).len() > 1);
    assert_eq!(kafka.read(output).len(), 1, "nothing overtakes what cannot be written");

    draft.apply(kafka);
    eventually("the dead letter is written", || kafka.read(dead).len() == 1);
    eventually("the next goes on", || kafka.read(output).len() == 2);
    process.end().expect("a clean end");
    assert_eq!((kafka.read(dead).len(), kafka.read(output).len()), (1, 2));
}
