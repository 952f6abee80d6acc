//! Tasks move between processes with the group, and records keep having one fate.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use redrive::core::event::Delivery;
use redrive::core::outcome::{Outcome, Output, OutputName};
use redrive::handler::{Handler, Handlers};
use redrive::topology::model::Topology;

use crate::group::{expel, members};
use crate::process::{Process, eventually};
use crate::support::Kafka;
use crate::topology::Draft;

/// Writes the name of its process as the value.
struct Named(&'static str);

impl Handler for Named {
    async fn handle(&self, delivery: Delivery) -> Outcome {
        done(&delivery, self.0)
    }
}

fn done(delivery: &Delivery, value: &'static str) -> Outcome {
    let key = delivery.envelope.key.clone();
    Outcome::Done(vec![Output {
        to: OutputName::Main,
        key,
        value: Some(value.as_bytes().into()),
        headers: Vec::new(),
    }])
}

fn topology(kafka: &Kafka) -> Topology {
    Draft::new(kafka, 4).tiers(&["500ms"]).handler("test").made(kafka)
}

fn start(topology: &Topology, instance: &'static str) -> Process {
    Process::start_with(topology, instance, Handlers::new().with("test", Named(instance)))
}

/// Writes `count` records with new keys over all partitions.
fn write(kafka: &Kafka, source: &str, keys: &mut Vec<String>, count: usize) {
    let first = keys.len();
    keys.extend((first..first + count).map(|number| format!("key-{number}")));
    for (partition, part) in (0..4).zip(keys[first..].chunks(count.div_ceil(4))) {
        let records: Vec<_> = part.iter().map(|key| (Some(key.as_bytes()), Some(&b"in"[..]))).collect();
        kafka.produce(source, Some(partition), &records);
    }
}

fn output_keys(kafka: &Kafka, output: &str) -> Vec<String> {
    let mut keys: Vec<_> =
        kafka.read(output).into_iter().map(|found| String::from_utf8(found.key.unwrap()).unwrap()).collect();
    keys.sort();
    keys
}

fn by(kafka: &Kafka, output: &str, instance: &str) -> usize {
    kafka.read(output).iter().filter(|found| found.value.as_deref() == Some(instance.as_bytes())).count()
}

#[test]
fn tasks_go_to_a_second_process_and_come_back_when_it_leaves() {
    let kafka = Kafka::shared();
    let topology = topology(kafka);
    let pipeline = topology.pipelines.first().unwrap();
    let (source, output) = (pipeline.source.as_str(), pipeline.output.as_ref().unwrap().as_str());
    let mut keys = Vec::new();

    write(kafka, source, &mut keys, 200);
    let first = start(&topology, "first");
    eventually("the first handles everything", || by(kafka, output, "first") == 200);

    let second = start(&topology, "second");
    eventually("the second handles its share", || {
        write(kafka, source, &mut keys, 40);
        by(kafka, output, "second") > 0
    });
    assert_eq!(members(kafka, &pipeline.group).len(), 2);
    second.end().expect("a clean end");
    eventually("the second is gone", || members(kafka, &pipeline.group).len() == 1);

    write(kafka, source, &mut keys, 200);
    keys.sort();
    eventually("the first handles the rest", || kafka.read(output).len() >= keys.len());
    first.end().expect("a clean end");
    assert_eq!(output_keys(kafka, output), keys);
}

/// Never answers the first delivery, and counts all.
struct Stuck(Arc<AtomicUsize>);

impl Handler for Stuck {
    async fn handle(&self, delivery: Delivery) -> Outcome {
        if self.0.fetch_add(1, Ordering::SeqCst) == 0 {
            std::future::pending::<()>().await;
        }
        done(&delivery, "done")
    }
}

#[test]
fn a_member_that_was_expelled_drops_its_tasks_and_begins_anew() {
    let kafka = Kafka::shared();
    let topology = topology(kafka);
    let pipeline = topology.pipelines.first().unwrap();
    let (source, output) = (pipeline.source.as_str(), pipeline.output.as_ref().unwrap().as_str());
    let mut keys = Vec::new();
    let deliveries = Arc::new(AtomicUsize::new(0));
    let handlers = Handlers::new().with("test", Stuck(Arc::clone(&deliveries)));
    let process = Process::start_with(&topology, "a", handlers);
    write(kafka, source, &mut keys, 1);
    eventually("the record is being handled", || deliveries.load(Ordering::SeqCst) == 1);

    for member in members(kafka, &pipeline.group) {
        expel(kafka, &pipeline.group, &member);
    }
    eventually("the record is delivered again", || deliveries.load(Ordering::SeqCst) == 2);
    write(kafka, source, &mut keys, 100);
    keys.sort();
    eventually("everything is handled", || kafka.read(output).len() >= keys.len());
    process.end().expect("a clean end");
    assert_eq!(output_keys(kafka, output), keys);
}
