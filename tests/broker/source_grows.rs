//! A source that gets further partitions before redrive's own topics have them: what can go on does, the rest waits visibly.

use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions};
use rdkafka::client::DefaultClientContext;
use redrive::topology::model::Pipeline;

use crate::binary::Binary;
use crate::expired::outputs;
use crate::probe::Probes;
use crate::process::eventually;
use crate::support::Kafka;
use crate::topology::Draft;

/// Writes to one partition; every second record fails once.
fn write(kafka: &Kafka, pipeline: &Pipeline, partition: i32, numbers: std::ops::Range<usize>) {
    let pairs: Vec<(String, String)> = numbers
        .map(|number| (format!("{}{number}", if number % 2 == 0 { "fails" } else { "" }), number.to_string()))
        .collect();
    let records: Vec<_> =
        pairs.iter().map(|(key, value)| (Some(key.as_bytes()), Some(value.as_bytes()))).collect();
    kafka.produce(pipeline.source.as_str(), Some(partition), &records);
}

pub(crate) fn grow(kafka: &Kafka, topic: &str, partitions: usize) {
    let admin: AdminClient<DefaultClientContext> = kafka.config().create().expect("make an admin client");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let grown = NewPartitions::new(topic, partitions);
    let told = runtime.block_on(admin.create_partitions([&grown], &AdminOptions::new())).expect("grow");
    assert!(told.iter().all(Result::is_ok), "{told:?}");
}

fn draft(kafka: &Kafka, probes: &Probes) -> Draft {
    let draft = Draft::new(kafka, 2).tiers(&["1s"]).fail("fails", Some(1), "transient");
    draft.property("topic.metadata.refresh.interval.ms", "\"1000\"").listen(probes.address())
}

/// Waits until everybody who looks sees what is missing and what to do.
fn tells(probes: &Probes, pipeline: &Pipeline, said: impl Fn() -> String) {
    let tier = pipeline.tiers[0].topic.name.as_str();
    eventually("/ready tells", || {
        probes.says("/ready", 200, "too few partitions")
            && probes.says("/ready", 200, "hint: redrive topics apply")
    });
    eventually("the log tells", || said().contains(tier) && said().contains("redrive topics apply"));
    eventually("the time is counted", || {
        let told = probes.ask("/metrics").map(|said| said.text).unwrap_or_default();
        let blocked = told.lines().find(|line| line.contains("by=\"partitions\""));
        blocked.is_some_and(|line| !line.ends_with(" 0"))
    });
}

#[test]
fn a_source_that_grows_under_its_tasks_waits_for_its_topics_in_the_new_partition_only() {
    let kafka = Kafka::shared();
    let probes = Probes::somewhere();
    let draft = draft(kafka, &probes);
    let topology = draft.made(kafka);
    let pipeline = topology.pipelines.first().unwrap();
    let (process, words) = Binary::heard(&draft.text(kafka), 0);
    write(kafka, pipeline, 0, 0..10);
    write(kafka, pipeline, 1, 10..20);
    eventually("the first are handled", || outputs(kafka, pipeline).len() == 20);

    grow(kafka, pipeline.source.as_str(), 3);
    write(kafka, pipeline, 2, 1_000..1_020);
    tells(&probes, pipeline, || words.said());
    for round in 0..3_usize {
        write(kafka, pipeline, 0, 20 + round * 20..30 + round * 20);
        write(kafka, pipeline, 1, 30 + round * 20..40 + round * 20);
        eventually("the others go on", || outputs(kafka, pipeline).len() == 40 + round * 20);
    }
    assert_eq!(outputs(kafka, pipeline), (0..80).collect::<Vec<_>>(), "the new partition waits");

    draft.apply(kafka);
    eventually("it goes on", || outputs(kafka, pipeline).len() >= 100);
    assert!(probes.are_good() && !probes.says("/ready", 200, "partitions"), "nothing waits");
    assert_eq!(process.end().code(), Some(0), "{}", words.said());
    assert_eq!(outputs(kafka, pipeline), (0..80).chain(1_000..1_020).collect::<Vec<_>>());
}

#[test]
fn a_process_starts_on_a_source_that_has_grown_and_does_what_it_can_until_its_topics_follow() {
    let kafka = Kafka::shared();
    let probes = Probes::somewhere();
    let draft = draft(kafka, &probes);
    let topology = draft.made(kafka);
    let pipeline = topology.pipelines.first().unwrap();
    write(kafka, pipeline, 0, 0..10);
    grow(kafka, pipeline.source.as_str(), 3);
    write(kafka, pipeline, 2, 1_000..1_020);
    let planned = draft.topics("plan", kafka);
    assert_eq!(planned.status.code(), Some(1), "there is something to apply: {planned:?}");

    for round in 1..=2_usize {
        let (process, words) = Binary::heard(&draft.text(kafka), 0);
        tells(&probes, pipeline, || words.said());
        write(kafka, pipeline, 1, round * 10..round * 10 + 10);
        eventually("the others go on", || outputs(kafka, pipeline).len() == round * 10 + 10);
        assert_eq!(process.end().code(), Some(0), "{}", words.said());
    }
    draft.apply(kafka);
    let process = Binary::run(&draft.text(kafka), 0);
    eventually("all of it is handled", || outputs(kafka, pipeline).len() >= 50);
    assert!(!probes.says("/ready", 200, "partitions"), "nothing waits");
    assert_eq!(process.end().code(), Some(0));
    assert_eq!(outputs(kafka, pipeline), (0..30).chain(1_000..1_020).collect::<Vec<_>>());
}
