//! What operators ask and are answered, through Kafka and on the command line.

use std::io::Write as _;
use std::process::{Command, Output};

use redrive::core::control::{Answer, Command as Asked, Compliance, Request, RequestId};
use redrive::core::position::{Offset, OffsetRange, Partition};
use redrive::core::time::Timestamp;
use redrive::topology::model::{Pipeline, Topology};
use serde_json::Value;

use crate::binary::Binary;
use crate::process::{Process, eventually};
use crate::readback::{self};
use crate::support::Kafka;
use crate::topology::Draft;

/// A request of a version that every worker here knows.
fn request(pipeline: &Pipeline, partition: i32, id: &str) -> Request {
    let range = OffsetRange {
        topic: pipeline.source.clone(),
        partition: Partition(partition),
        from: Offset(0),
        to: Offset(1),
    };
    Request {
        id: id.parse().unwrap(),
        by: "ada".to_owned(),
        at: Timestamp::from_millis(1_700_000_000_000),
        ticket: Some("OPS-1".to_owned()),
        command: Asked::AcceptRepeats(vec![range]),
    }
}

fn ask(kafka: &Kafka, pipeline: &Pipeline, partition: i32, ids: &[String]) {
    let requests: Vec<Request> = ids.iter().map(|id| request(pipeline, partition, id)).collect();
    let pairs: Vec<_> = requests.iter().map(|request| (request.key(), request.value())).collect();
    let records: Vec<_> = pairs.iter().map(|(key, value)| (Some(&key[..]), Some(&value[..]))).collect();
    kafka.produce(pipeline.control.name.as_str(), Some(partition), &records);
}

/// All answers that were committed, in order.
fn answers(kafka: &Kafka, pipeline: &Pipeline) -> Vec<(RequestId, Answer)> {
    let found = kafka.read(pipeline.cases.name.as_str());
    let read = |key: Option<Vec<u8>>, value: Option<Vec<u8>>| {
        let (id, answer) = Answer::read(&key?, value.as_deref())?;
        Some((id, answer.expect("an answer of this version")))
    };
    found.into_iter().filter_map(|found| read(found.key, found.value)).collect()
}

/// The lines of the audit about a pipeline.
fn audits(kafka: &Kafka, topology: &Topology, pipeline: &Pipeline) -> Vec<Value> {
    let found = kafka.read(topology.audit.name.as_str());
    let lines = found.into_iter().map(|found| serde_json::from_slice(&found.value.unwrap()).expect("JSON"));
    lines.filter(|line: &Value| line["pipeline"] == pipeline.name.as_str()).collect()
}

/// Runs a command of the binary on the text of a topology: exit code, stdout, stderr.
pub(crate) fn redrive(text: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("write the topology");
    let mut command = Command::new(env!("CARGO_BIN_EXE_redrive"));
    let command = command.args(arguments).arg("-f").arg(file.path()).env("USER", "grace");
    let Output { status, stdout, stderr } = command.output().expect("run redrive");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn what_is_no_request_or_not_known_is_refused_while_the_pipeline_works() {
    let kafka = Kafka::shared();
    let topology = Draft::new(kafka, 1).made(kafka);
    let pipeline = topology.pipelines.first().unwrap();
    let control = pipeline.control.name.as_str();
    let newer: &[u8] = br#"{"version":9,"by":"ada","command":"claim"}"#;
    kafka.produce(
        control,
        Some(0),
        &[(None, None), (Some(b"\xff"), Some(b"\xff")), (Some(b"one"), Some(newer))],
    );

    let process = Process::start(&topology, "a");
    kafka.produce(pipeline.source.as_str(), Some(0), &[(Some(b"key"), Some(b""))]);
    eventually("the request is answered", || !answers(kafka, pipeline).is_empty());
    let output = pipeline.output.as_ref().unwrap().as_str();
    eventually("the record is handled", || kafka.read(output).len() == 1);
    process.end().expect("a clean end");

    let (id, answer) = &answers(kafka, pipeline)[0];
    assert_eq!((id.as_str(), answer.compliance), ("one", Compliance::Refused));
    assert!(answer.words.contains("older"), "{}", answer.words);
    let told: Vec<_> = audits(kafka, &topology, pipeline).iter().map(|line| line["by"].clone()).collect();
    assert_eq!(told, [Value::Null, Value::Null, "ada".into()], "one line each, in order");
    let commits = readback::commits(kafka.bootstrap(), &pipeline.group, control, crate::ledger::Role::Source);
    assert_eq!(commits.unwrap()[0].offset, 3);
}

#[test]
fn a_task_that_cannot_write_its_dead_letter_answers_and_skips_nothing() {
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

    let range = format!("{source}/0/0-1");
    let (code, stdout, stderr) =
        redrive(&draft.text(kafka), &["resume", "--accept-repeats", &range, "--yes"]);
    assert_eq!(code, Some(1), "{stdout}{stderr}");
    assert!(stdout.starts_with("task 0  refused: ") && stdout.contains("waits for nothing"), "{stdout}");
    assert_eq!(kafka.read(output).len(), 1, "nothing overtakes what cannot be written");
    let lines = audits(kafka, &topology, pipeline);
    assert_eq!((lines.len(), &lines[0]["by"], &lines[0]["result"]), (1, &"grace".into(), &"refused".into()));

    draft.apply(kafka);
    eventually("the dead letter is written", || kafka.read(dead).len() == 1);
    eventually("the next goes on", || kafka.read(output).len() == 2);
    process.end().expect("a clean end");
}

#[test]
fn answers_wait_for_a_missing_audit_and_records_do_not() {
    // Its own broker: the audit of an app is everybody's.
    let kafka = Kafka::start();
    let draft = Draft::new(&kafka, 1);
    let topology = draft.made(&kafka);
    let pipeline = topology.pipelines.first().unwrap();
    let (source, output) = (pipeline.source.as_str(), pipeline.output.as_ref().unwrap().as_str());
    let process = Process::start(&topology, "a");
    kafka.produce(source, Some(0), &[(Some(b"1"), Some(b""))]);
    eventually("the first is handled", || kafka.read(output).len() == 1);

    kafka.delete(topology.audit.name.as_str());
    ask(&kafka, pipeline, 0, &["one".to_owned()]);
    eventually("the attempt to answer was aborted", || {
        !kafka.read_uncommitted(pipeline.cases.name.as_str()).is_empty()
    });
    kafka.produce(source, Some(0), &[(Some(b"2"), Some(b""))]);
    eventually("records go on", || kafka.read(output).len() == 2);
    assert!(answers(&kafka, pipeline).is_empty());

    draft.apply(&kafka);
    eventually("the answer is given", || !answers(&kafka, pipeline).is_empty());
    process.end().expect("a clean end");
    assert_eq!((answers(&kafka, pipeline).len(), audits(&kafka, &topology, pipeline).len()), (1, 1));
}

#[test]
fn each_request_has_one_answer_and_one_line_in_the_audit_though_its_owner_is_killed() {
    let kafka = Kafka::shared();
    let draft = Draft::new(kafka, 2);
    let topology = draft.made(kafka);
    let pipeline = topology.pipelines.first().unwrap();
    let mut asked = Vec::new();
    for round in 0..3 {
        let process = Binary::run(&draft.text(kafka), 0);
        let before = answers(kafka, pipeline).len();
        for burst in 0..10 {
            let ids: Vec<String> = (0..20).map(|number| format!("{round}-{burst}-{number}")).collect();
            ask(kafka, pipeline, burst % 2, &ids);
            asked.extend(ids);
        }
        eventually("some are answered", || answers(kafka, pipeline).len() > before);
        process.kill();
    }
    let process = Process::start(&topology, "0");
    eventually("all are answered", || answers(kafka, pipeline).len() >= asked.len());
    process.end().expect("a clean end");

    asked.sort();
    let sorted = |ids: Vec<String>| {
        let mut ids = ids;
        ids.sort();
        ids
    };
    let answered = answers(kafka, pipeline).into_iter().map(|(id, _)| id.to_string()).collect();
    assert_eq!(sorted(answered), asked);
    let lines = audits(kafka, &topology, pipeline);
    assert_eq!(
        sorted(lines.iter().map(|line| line["request"].as_str().unwrap().to_owned()).collect()),
        asked
    );
}

#[test]
fn without_a_worker_a_request_is_queued_and_answered_when_one_starts() {
    let kafka = Kafka::shared();
    let draft = Draft::new(kafka, 2);
    let topology = draft.made(kafka);
    let pipeline = topology.pipelines.first().unwrap();
    let (name, text) = (pipeline.name.as_str(), draft.text(kafka));
    let ranges = [0, 1].map(|partition| format!("{}/{partition}/0-1", pipeline.source));
    let [one, two] = ranges.each_ref().map(String::as_str);
    let arguments =
        ["resume", name, "--accept-repeats", one, "--accept-repeats", two, "--ticket", "OPS-7", "--yes"];
    let (code, stdout, stderr) = redrive(&text, &[&arguments[..], &["--output", "json"]].concat());
    assert_eq!((code, stderr.as_str()), (Some(1), ""), "{stdout}");
    let listed: Value = serde_json::from_str(&stdout).expect("JSON");
    let told: Vec<_> = listed["answers"].as_array().unwrap().iter().map(|answer| &answer["result"]).collect();
    assert_eq!(told, ["queued", "queued"]);
    let ids: Vec<&str> = listed["answers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|answer| answer["request"].as_str().unwrap())
        .collect();

    let process = Process::start(&topology, "a");
    let (code, stdout, _) = redrive(&text, &[&["answer"][..], &ids].concat());
    assert_eq!(code, Some(1));
    assert_eq!(stdout.lines().filter(|line| line.contains("refused: task")).count(), 2, "{stdout}");
    process.end().expect("a clean end");
    let tickets: Vec<_> =
        audits(kafka, &topology, pipeline).iter().map(|line| line["ticket"].clone()).collect();
    assert_eq!(tickets, ["OPS-7", "OPS-7"]);
}

#[test]
fn a_request_to_a_task_or_topic_that_is_not_there_is_written_nowhere() {
    let kafka = Kafka::shared();
    let draft = Draft::new(kafka, 1);
    let topology = draft.made(kafka);
    let pipeline = topology.pipelines.first().unwrap();
    let range = format!("{}/7/0-1", pipeline.source);
    let (code, stdout, stderr) =
        redrive(&draft.text(kafka), &["resume", "--accept-repeats", &range, "--yes"]);
    assert_eq!((code, stdout.as_str()), (Some(1), ""), "{stderr}");
    assert!(stderr.contains("partition `7` is missing"), "{stderr}");
    assert!(kafka.read(pipeline.control.name.as_str()).is_empty());
}

/// Between the moment when a task is told where its lanes begin and the one when it begins.
#[test]
fn a_control_lane_that_is_back_before_its_task_has_begun_is_read() {
    let kafka = Kafka::shared();
    let draft = Draft::new(kafka, 1).property("topic.metadata.refresh.interval.ms", "\"1000\"");
    let topology = draft.made(kafka);
    let pipeline = topology.pipelines.first().unwrap();
    let control = pipeline.control.name.as_str();
    let file = |name: &str| std::env::temp_dir().join(format!("redrive-{control}-{name}"));
    let (started, begins) = (file("started"), file("begins"));
    let orders =
        format!("between-slots=park({}),before-commit=park({})", started.display(), begins.display());
    let (process, words) = Binary::heard_to(&draft.text(kafka), 0, &orders);
    eventually("its topics were looked at", || started.exists());
    kafka.delete(control);
    std::fs::remove_file(&started).unwrap();
    eventually("the start of its task is about to be committed", || begins.exists());
    kafka.create(control, 1, &[]);
    // The topics are looked at every 3 s; nothing tells that a task had nothing to begin anew.
    std::thread::sleep(std::time::Duration::from_secs(5));
    std::fs::remove_file(&begins).unwrap();
    ask(kafka, pipeline, 0, &["1-1-1".to_owned()]);
    eventually("the request is answered", || !answers(kafka, pipeline).is_empty());
    assert_eq!(process.end().code(), Some(0), "{}", words.said());
}
