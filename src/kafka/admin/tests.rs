//! Topics on a real Kafka.

use std::time::Duration;

use super::*;
use crate::kafka::admin::plan::Verdict;
use crate::kafka::broker::{Kafka, PATIENCE};
use crate::kafka::fixture;

fn verify(topology: &Topology) -> Result<Verified, VerifyError> {
    Inquiry::of(topology)?.attempt(PATIENCE)
}

/// A pipeline whose source and output are there, and nothing else.
fn fresh(broker: &Kafka) -> Topology {
    let topology = fixture::topology(broker.bootstrap(), fixture::pipeline(&broker.name("topics")));
    let pipeline = &topology.pipelines[0];
    broker.create(pipeline.source.as_str(), 4, &[("max.message.bytes", "500000")]);
    broker.create(pipeline.output.as_ref().unwrap().as_str(), 2, &[("max.message.bytes", "300000")]);
    topology
}

fn steps(plan: &Plan) -> Vec<String> {
    plan.steps().iter().map(Step::in_words).collect()
}

#[test]
fn what_plan_lists_apply_does_and_then_nothing_is_left() {
    let topology = fresh(Kafka::shared());
    let first = plan(&topology).unwrap();
    assert_eq!(first.verdict(), Verdict::Changes, "{:?}", steps(&first));
    assert_eq!(plan(&topology).unwrap(), first, "planning changes nothing");

    apply(&topology, &first).unwrap();

    let second = plan(&topology).unwrap();
    assert_eq!(second.verdict(), Verdict::Nothing, "{:?}", steps(&second));
    let (audit, own) = second.steps()[2..].split_last().unwrap();
    assert!(own.iter().all(|step| step.change == Change::Keep { partitions: 4 }));
    assert_eq!(audit.change, Change::Keep { partitions: 1 });
    assert_eq!(second.warnings().len(), second.steps().len(), "one node has one replica of everything");
}

#[test]
fn a_verified_topology_says_what_the_workers_need() {
    let broker = Kafka::shared();
    let topology = fresh(broker);
    let name = &topology.pipelines[0].name;
    let refused = verify(&topology).unwrap_err().to_string();
    assert!(
        refused.contains(&format!("t.{name}.dlq")) && refused.contains("hint: redrive topics apply"),
        "{refused}"
    );

    apply(&topology, &plan(&topology).unwrap()).unwrap();

    let verified = verify(&topology).unwrap();
    assert_eq!(verified.offsets_retention, Some(Duration::from_secs(7 * 24 * 3600)));
    assert_eq!(
        verified.pipelines[name],
        VerifiedPipeline { partitions: 4, batch_bytes: 300_000, session: None }
    );
}

#[test]
fn a_transaction_must_not_outlive_the_session_that_the_brokers_have() {
    let mut topology = fresh(Kafka::shared());
    topology.kafka.protocol = Protocol::Consumer;
    let name = topology.pipelines[0].name.clone();
    // What the brokers of scripts/kafka say.
    let session = Duration::from_secs(6);
    topology.pipelines[0].policy.flow.transaction_timeout = session / 2;
    apply(&topology, &plan(&topology).unwrap()).unwrap();
    assert_eq!(verify(&topology).unwrap().pipelines[&name].session, Some(session));

    topology.pipelines[0].policy.flow.transaction_timeout = session;

    assert!(plan(&topology).unwrap().warnings().iter().any(|warning| warning.topic == format!("t.{name}")));
    let refused = verify(&topology).unwrap_err().to_string();
    assert!(refused.contains(&format!("group `t.{name}`")) && refused.contains("`6s`"), "{refused}");
}

#[test]
fn topics_follow_a_source_that_grew() {
    let broker = Kafka::shared();
    let topology = fresh(broker);
    apply(&topology, &plan(&topology).unwrap()).unwrap();
    let brokers = Brokers::connect(&topology).unwrap();
    brokers.grow(topology.pipelines[0].source.as_str(), 6, brokers::Trial::No).unwrap();

    let grown = until_changed(&topology);
    assert!(grown.open().all(|step| step.change == Change::Grow { from: 4, to: 6 }), "{:?}", steps(&grown));
    assert_eq!(grown.open().count(), 6);
    apply(&topology, &grown).unwrap();

    assert_eq!(verify(&topology).unwrap().pipelines[&topology.pipelines[0].name].partitions, 6);
}

/// A broker may show the old metadata for some ms.
fn until_changed(topology: &Topology) -> Plan {
    let clock = Stopwatch::start();
    loop {
        let plan = plan(topology).unwrap();
        if plan.verdict() == Verdict::Changes && plan.open().count() == 6 {
            return plan;
        }
        assert!(clock.elapsed() < PATIENCE, "{:?}", steps(&plan));
    }
}

#[test]
fn a_topic_that_somebody_else_made_wrong_is_refused_and_nothing_is_touched() {
    let broker = Kafka::shared();
    let topology = fresh(broker);
    let tier = topology.pipelines[0].tiers[0].topic.name.as_str();
    broker.create(tier, 4, &[("cleanup.policy", "compact"), ("retention.ms", "1000")]);

    let refused = plan(&topology).unwrap();
    assert_eq!(refused.verdict(), Verdict::Refused);
    let text = steps(&refused).join("\n");
    assert!(
        text.contains("`cleanup.policy` is `compact`") && text.contains("`retention.ms` is `1000`"),
        "{text}"
    );

    apply(&topology, &refused).unwrap();
    assert_eq!(plan(&topology).unwrap(), refused);
}

#[test]
fn what_the_broker_would_refuse_is_refused_by_the_plan() {
    let broker = Kafka::shared();
    let mut topology = fresh(broker);
    topology.pipelines[0].topics.replication = Some(3);

    let refused = plan(&topology).unwrap();

    assert_eq!(refused.verdict(), Verdict::Refused);
    assert!(refused.open().all(|step| matches!(step.change, Change::Refuse(_))));
}

#[test]
fn brokers_that_are_away_are_named_as_such() {
    let topology = fixture::topology("127.0.0.1:1", fixture::pipeline("p"));
    assert!(matches!(plan(&topology), Err(AdminError::Unreachable { .. })));
}
