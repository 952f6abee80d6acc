use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use super::*;
use crate::kafka::broker::{self, PATIENCE};
use crate::kafka::fixture;
use crate::kafka::stopwatch::Stopwatch;
use crate::topology::model::Protocol;

struct Bell(Sender<()>);

impl Wake for Bell {
    fn lane(&self, _: LaneId) {}

    fn consumer(&self) {
        let _ = self.0.send(());
    }
}

fn member(kafka: &Kafka, pipeline: &Pipeline) -> (Source, Receiver<()>) {
    let (bell, rung) = channel();
    (Source::subscribe(kafka, pipeline, "t.p.0.0", Arc::new(Bell(bell))).unwrap(), rung)
}

/// Serves both until the first has such a change.
fn serve_until(
    first: &mut (Source, Receiver<()>),
    mut second: Option<&mut (Source, Receiver<()>)>,
    wanted: fn(&GroupChange) -> bool,
) -> GroupChange {
    let clock = Stopwatch::start();
    loop {
        assert!(clock.elapsed() < PATIENCE, "the group does not change");
        let _ = first.1.recv_timeout(Duration::from_millis(100));
        if let Some((source, _)) = second.as_deref_mut() {
            source.serve().unwrap();
        }
        if let Some(found) = first.0.serve().unwrap().into_iter().find(wanted) {
            return found;
        }
    }
}

#[test]
fn a_member_that_owes_the_group_an_answer_can_be_dropped() {
    owes(Protocol::Classic);
}

#[test]
fn a_member_of_the_protocol_consumer_that_owes_an_answer_can_be_dropped() {
    owes(Protocol::Consumer);
}

fn owes(protocol: Protocol) {
    let broker = broker::Kafka::shared();
    let kafka = Kafka { protocol, ..fixture::kafka(broker.bootstrap()) };
    let pipeline = fixture::pipeline(&broker.name("owes"));
    broker.create(pipeline.source.as_str(), 4, &[]);
    let mut first = member(&kafka, &pipeline);
    let assigned = |change: &GroupChange| matches!(change, GroupChange::Assigned(all) if !all.is_empty());
    let GroupChange::Assigned(partitions) = serve_until(&mut first, None, assigned) else { unreachable!() };
    for partition in partitions {
        first.0.begin(partition, Offset(0)).unwrap();
    }
    let mut second = member(&kafka, &pipeline);
    let revoked = |change: &GroupChange| matches!(change, GroupChange::Revoked(_));
    serve_until(&mut first, Some(&mut second), revoked);

    let (done, dropped) = channel();
    thread::spawn(move || {
        drop(first);
        let _ = done.send(());
    });

    assert_eq!(dropped.recv_timeout(PATIENCE), Ok(()));
}
