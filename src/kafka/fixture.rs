//! A pipeline for tests.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::core::policy::{
    Flow, IdentityPolicy, InPlace, Ladder, OrderPolicy, Outputs, Policy, Twins, UnknownOutcome,
};
use crate::core::position::TopicName;
use crate::topology::model::{
    Cleanup, Format, HandlerSpec, Http, Kafka, Membership, OwnTopic, Passthrough, Pipeline, Protocol, Start,
    Tier, TopicSettings, Topology, Workers,
};

pub(crate) fn kafka(bootstrap: &str) -> Kafka {
    Kafka { bootstrap: vec![bootstrap.to_owned()], protocol: Protocol::Classic, properties: BTreeMap::new() }
}

/// A topology of that pipeline alone.
pub(crate) fn topology(bootstrap: &str, pipeline: Pipeline) -> Topology {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    Topology {
        app: "t".to_owned(),
        kafka: kafka(bootstrap),
        http: Http { listen },
        audit: OwnTopic {
            name: TopicName::new(&format!("t.{}.audit", pipeline.name)),
            cleanup: Cleanup::Delete(Duration::from_secs(90 * 24 * 3600)),
        },
        pipelines: vec![pipeline],
    }
}

/// Pipeline `<name>` of app `t`: reads `<name>.in`, writes `<name>.out`, with tiers of 5 s and 1 min.
pub(crate) fn pipeline(name: &str) -> Pipeline {
    let delays = [("5s", Duration::from_secs(5)), ("1m", Duration::from_secs(60))];
    let own =
        |suffix: &str, cleanup| OwnTopic { name: TopicName::new(&format!("t.{name}.{suffix}")), cleanup };
    let week = Duration::from_secs(7 * 24 * 3600);
    let source = TopicName::new(&format!("{name}.in"));
    Pipeline {
        name: name.to_owned(),
        group: format!("t.{name}"),
        source: source.clone(),
        start: Start::Earliest,
        output: Some(TopicName::new(&format!("{name}.out"))),
        outputs: BTreeMap::new(),
        decode: Format::Bytes,
        handler: HandlerSpec::Passthrough(Passthrough::default()),
        policy: Policy {
            name: name.to_owned(),
            source,
            control: TopicName::new(&format!("t.{name}.control")),
            draining: Vec::new(),
            tiers: delays.map(|(label, _)| TopicName::new(&format!("t.{name}.retry.{label}"))).to_vec(),
            outputs: Outputs { main: Some(TopicName::new(&format!("{name}.out"))), named: Vec::new() },
            identity: IdentityPolicy::default(),
            order: OrderPolicy::default(),
            in_place: InPlace {
                executions: 1,
                base: Duration::from_millis(100),
                cap: Duration::from_secs(2),
                budget: Duration::from_secs(10),
            },
            ladder: Ladder { delays: delays.map(|(_, delay)| delay).to_vec(), last_tier_repeats: 1 },
            deadline: Duration::from_secs(3600),
            unknown: UnknownOutcome::DeadLetter,
            handler_timeout: Duration::ZERO,
            flow: Flow {
                window: 256,
                commit_interval: Duration::from_millis(50),
                drain: Duration::from_secs(20),
                revoke: Duration::from_secs(5),
                transaction_timeout: Duration::from_secs(10),
                recommit: Duration::from_secs(3600),
                twins: Twins::Fences,
            },
        },
        tiers: delays
            .iter()
            .map(|(label, delay)| Tier {
                label: format!("retry.{label}"),
                delay: *delay,
                topic: own(&format!("retry.{label}"), Cleanup::Delete(week)),
            })
            .collect(),
        retired: Vec::new(),
        drained: Vec::new(),
        dead_letter: own("dlq", Cleanup::Delete(week * 2)),
        state: own("state", Cleanup::Compact),
        control: own("control", Cleanup::Delete(week)),
        cases: own("cases", Cleanup::CompactDelete(week * 6)),
        topics: TopicSettings { replication: None, min_isr: None },
        workers: Workers {
            threads: 1,
            session_timeout: Duration::from_secs(15),
            membership: Membership::Dynamic,
        },
    }
}
