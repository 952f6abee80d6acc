//! Records that wait: through a standstill, through many moves, and in large numbers.

use redrive::topology::model::Topology;

use crate::binary::Binary;
use crate::found::Found;
use crate::handler::now;
use crate::process::{Process, eventually};
use crate::size;
use crate::support::Kafka;
use crate::topology::Draft;

/// What a process may hold more for 100 times as many waiting records.
const MORE_MEMORY: u64 = 10 << 20;

fn output(topology: &Topology) -> &str {
    topology.pipelines[0].output.as_ref().unwrap().as_str()
}

fn tier(topology: &Topology) -> &str {
    topology.pipelines[0].tiers[0].topic.name.as_str()
}

fn send(kafka: &Kafka, topology: &Topology, count: usize) {
    let values: Vec<String> = (0..count).map(|number| format!("{number}")).collect();
    let records: Vec<_> =
        values.iter().map(|value| (Some(value.as_bytes()), Some(value.as_bytes()))).collect();
    kafka.produce(topology.pipelines[0].source.as_str(), None, &records);
}

/// The values of a topic by partition, in order.
fn by_partition(found: &[Found]) -> Vec<Vec<Option<Vec<u8>>>> {
    let most = found.iter().map(|found| found.partition).max().unwrap_or(0);
    let of = |partition| found.iter().filter(move |found| found.partition == partition);
    (0..=most).map(|partition| of(partition).map(|found| found.value.clone()).collect()).collect()
}

#[test]
fn after_a_standstill_longer_than_the_delay_late_records_run_at_once_in_lane_order_and_none_twice() {
    let kafka = Kafka::shared();
    let topology = Draft::new(kafka, 2).tiers(&["3s"]).fail("", Some(1), "transient").made(kafka);
    let count = size::records(400);
    send(kafka, &topology, count);
    let process = Process::start(&topology, "a");
    eventually("all wait", || kafka.read(tier(&topology)).len() >= count);
    process.end().expect("a clean end");
    let before = kafka.read(output(&topology)).len();
    let waiting = kafka.read(tier(&topology));
    let last_due = waiting.iter().map(|found| found.number("redrive-due")).max().unwrap();
    eventually("all are late", || now() > last_due);

    let process = Process::start(&topology, "a");
    eventually("all run", || kafka.read(output(&topology)).len() >= count);
    process.end().expect("a clean end");

    let outputs = kafka.read(output(&topology));
    assert_eq!(outputs.len(), count, "{before} had run before, and none runs twice");
    assert_eq!(by_partition(&outputs), by_partition(&waiting), "in lane order");
}

#[test]
fn a_record_whose_task_moves_again_and_again_while_it_waits_is_delivered_once_and_on_time() {
    let kafka = Kafka::shared();
    let (moves, delay) = if size::repetitions() > 1 { (50, "4m") } else { (5, "25s") };
    let topology = Draft::new(kafka, 1).tiers(&[delay]).fail("", Some(1), "transient").made(kafka);
    send(kafka, &topology, 1);
    let mut owner = Process::start(&topology, "0");
    eventually("it waits", || kafka.read(tier(&topology)).len() == 1);
    let due = kafka.read(tier(&topology))[0].number("redrive-due");

    for number in 1..=moves {
        let next = Process::start(&topology, &format!("{number}"));
        owner.end().expect("a clean end");
        owner = next;
    }
    assert!(now() < due, "it moved {moves} times while it waited");
    eventually("it is delivered", || !kafka.read(output(&topology)).is_empty());
    owner.end().expect("a clean end");

    let outputs = kafka.read(output(&topology));
    let lateness = outputs[0].timestamp.unwrap() - due;
    println!("after {moves} moves it was delivered {lateness} ms after it was due");
    assert_eq!(outputs.len(), 1);
    // A take-over takes some 100 ms, and on a busy machine more.
    assert!((0..10_000).contains(&lateness), "{lateness} ms after it was due");
}

/// The memory of a fresh process while so many records wait, none of which is due.
fn memory_with(waiting: usize) -> u64 {
    let kafka = Kafka::shared();
    let draft = Draft::new(kafka, 4).tiers(&["30m"]).fail("", Some(1), "transient");
    let topology = draft.made(kafka);
    send(kafka, &topology, waiting);
    let text = draft.text(kafka);
    let first = Binary::run(&text, 0);
    eventually("all wait", || kafka.read(tier(&topology)).len() >= waiting);
    assert_eq!(first.end().code(), Some(0));

    let process = Binary::run(&text, 0);
    // Until what it reads ahead has arrived.
    let (mut memory, mut steady) = (0, 0);
    eventually("its memory is steady", || {
        let now = process.memory();
        steady = if now == memory && now > 0 { steady + 1 } else { 0 };
        memory = now;
        steady >= 40
    });
    assert_eq!(process.end().code(), Some(0));
    memory
}

#[test]
fn a_hundred_times_as_many_waiting_records_take_no_more_memory() {
    let many = size::records(10_000);
    let (few, many) = (memory_with(many / 100), memory_with(many));
    println!("{} KiB with few waiting, {} KiB with a hundred times as many", few >> 10, many >> 10);
    assert!(many < few + MORE_MEMORY, "{many} bytes instead of {few}");
}
