//! Topics that are deleted, and made anew, under the pipelines that read them.

use redrive::topology::model::Pipeline;

use crate::binary::Binary;
use crate::expired::outputs;
use crate::process::{Process, eventually};
use crate::support::Kafka;
use crate::topology::Draft;

fn write(kafka: &Kafka, pipeline: &Pipeline, values: std::ops::Range<usize>) {
    let values: Vec<String> = values.map(|number| format!("{number}")).collect();
    let records: Vec<_> =
        values.iter().map(|value| (Some(value.as_bytes()), Some(value.as_bytes()))).collect();
    kafka.produce(pipeline.source.as_str(), Some(0), &records);
}

/// Deletes the source and makes it again, as soon as the broker takes that name.
fn make_source_anew(kafka: &Kafka, pipeline: &Pipeline) {
    let source = pipeline.source.as_str();
    kafka.delete(source);
    kafka.create(source, 1, &[("retention.ms", "-1")]);
}

#[test]
fn a_source_made_anew_while_it_is_stopped_is_read_from_its_beginning() {
    let kafka = Kafka::shared();
    let topology = Draft::new(kafka, 1).start("\"latest\"").made(kafka);
    let pipeline = topology.pipelines.first().unwrap();
    let process = Process::start(&topology, "a");
    let mut next = 0;
    eventually("records written after the start are handled", || {
        write(kafka, pipeline, next..next + 1);
        next += 1;
        outputs(kafka, pipeline).len() > 5
    });
    eventually("all of them are", || outputs(kafka, pipeline).contains(&(next - 1)));
    process.end().expect("a clean end");
    let before = outputs(kafka, pipeline);

    make_source_anew(kafka, pipeline);
    write(kafka, pipeline, 1_000..1_200);
    let process = Process::start(&topology, "a");
    eventually("the last is handled", || outputs(kafka, pipeline).contains(&1_199));
    process.end().expect("a clean end");
    assert_eq!(outputs(kafka, pipeline), before.into_iter().chain(1_000..1_200).collect::<Vec<_>>());
}

#[test]
fn a_source_made_anew_under_its_lane_is_read_from_its_beginning() {
    let kafka = Kafka::shared();
    let topology = Draft::new(kafka, 1).made(kafka);
    let pipeline = topology.pipelines.first().unwrap();
    write(kafka, pipeline, 0..20);
    let process = Process::start(&topology, "a");
    eventually("the first are handled", || outputs(kafka, pipeline).len() == 20);

    make_source_anew(kafka, pipeline);
    // Longer at once than the old one was.
    write(kafka, pipeline, 20..70);
    let all = || {
        let mut all = outputs(kafka, pipeline);
        all.dedup();
        all
    };
    eventually("all of the new one are handled", || all().len() == 70);
    process.end().expect("a clean end");
    assert_eq!(all(), (0..70).collect::<Vec<_>>());
}

#[test]
fn a_source_that_vanishes_is_told_and_read_again_when_it_is_back() {
    let kafka = Kafka::shared();
    let draft = Draft::new(kafka, 1).property("topic.metadata.refresh.interval.ms", "\"1000\"");
    let topology = draft.made(kafka);
    let pipeline = topology.pipelines.first().unwrap();
    write(kafka, pipeline, 0..20);
    let (process, words) = Binary::heard(&draft.text(kafka), 0);
    let said = |what: &str| words.said().contains(what);
    eventually("the first are handled", || outputs(kafka, pipeline).len() == 20);

    kafka.delete(pipeline.source.as_str());
    eventually("it says so", || said("the topic of a lane is gone"));
    kafka.create(pipeline.source.as_str(), 1, &[("retention.ms", "-1")]);
    write(kafka, pipeline, 20..30);
    eventually("the new ones are handled", || outputs(kafka, pipeline).len() >= 30);
    assert_eq!(process.end().code(), Some(0));
    assert_eq!(outputs(kafka, pipeline), (0..30).collect::<Vec<_>>());
}
