//! The command as it is typed, on a real Kafka.

use clap::Parser;

use super::*;
use crate::kafka::broker::Kafka;
use crate::kafka::fixture;

#[derive(Parser)]
struct Typed {
    #[command(flatten)]
    topics: TopicsArgs,
}

/// What was printed, and whether the exit code is `code`.
fn typed(line: &str, topology: &Topology, code: u8) -> String {
    let args = Typed::parse_from(format!("topics {line}").split(' ')).topics;
    let mut out = Vec::new();
    let exit = run(&args, topology, &mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    assert_eq!(format!("{exit:?}"), format!("{:?}", ExitCode::from(code)), "{line}:\n{out}");
    out
}

#[test]
fn plan_exits_1_apply_0_and_plan_then_0() {
    let broker = Kafka::shared();
    let topology = fixture::topology(broker.bootstrap(), fixture::pipeline(&broker.name("cli")));
    let pipeline = &topology.pipelines[0];

    let out = typed("plan", &topology, 2);
    assert!(out.contains("the source topic does not exist"), "{out}");
    assert_eq!(
        typed("apply", &topology, 2),
        format!("{out}nothing is made as long as something is refused\n")
    );

    broker.create(pipeline.source.as_str(), 2, &[]);
    broker.create(pipeline.output.as_ref().unwrap().as_str(), 2, &[]);
    let planned = typed("plan", &topology, 1);
    assert!(planned.ends_with("7 to create, 0 to grow, 0 refused, 2 as they must be\n"), "{planned}");
    assert_eq!(typed("apply --dry-run", &topology, 1), planned);
    assert_eq!(typed("apply", &topology, 0), format!("{planned}done\n"));

    let out = typed("plan", &topology, 0);
    assert!(out.ends_with("0 to create, 0 to grow, 0 refused, 9 as they must be\n"), "{out}");
}

#[test]
fn json_says_the_same() {
    let broker = Kafka::shared();
    let topology = fixture::topology(broker.bootstrap(), fixture::pipeline(&broker.name("json")));
    let pipeline = &topology.pipelines[0];
    broker.create(pipeline.source.as_str(), 2, &[]);
    broker.create(pipeline.output.as_ref().unwrap().as_str(), 2, &[]);

    let out: serde_json::Value = serde_json::from_str(&typed("plan --output json", &topology, 1)).unwrap();

    assert_eq!(out["verdict"], "changes");
    assert_eq!(out["topics"][0]["action"], "keep");
    assert_eq!(out["topics"][2]["action"], "create");
    assert_eq!(out["topics"][2]["role"], "retry.5s");
    assert_eq!(out["topics"][2]["detail"]["config"]["cleanup.policy"], "delete");
}
