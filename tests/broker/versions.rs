//! What operators are told of keys and their versions, from a real state topic.

use rdkafka::message::{Header, OwnedHeaders};
use redrive::core::state::{applied_key, held_key};
use redrive::topology::model::{Pipeline, Topology};
use serde_json::Value;

use crate::control::redrive;
use crate::process::{Process, eventually};
use crate::support::Kafka;
use crate::topology::Draft;

const ORDER: &str = "guard = \"contiguous\"\nversion = { header = \"rev\" }\ngap-timeout = \"1h\"\n";
const KEY: &str = "order 7";

fn pipeline(topology: &Topology) -> &Pipeline {
    &topology.pipelines[0]
}

fn send(kafka: &Kafka, topology: &Topology, key: &str, versions: &[i64]) {
    let versions = versions.iter().map(ToString::to_string).collect::<Vec<_>>();
    let records = versions.iter().map(|version| {
        let headers = OwnedHeaders::new().insert(Header { key: "rev", value: Some(version) });
        (Some(key.as_bytes()), Some(version.as_bytes()), headers)
    });
    kafka.produce_with_headers(pipeline(topology).source.as_str(), None, records);
}

/// What a command says in JSON, and its exit code.
fn asked(text: &str, arguments: &[&str]) -> (Option<i32>, Value) {
    let (code, stdout, stderr) =
        redrive(text, &[&["versions"][..], arguments, &["--output", "json"]].concat());
    let told = serde_json::from_str(&stdout);
    (code, told.unwrap_or_else(|error| panic!("{error}: {stdout}{stderr}")))
}

/// Waits until so many records are held behind a key.
fn is_held(text: &str, key: &str, count: usize) {
    eventually("they are held", || {
        let (_, told) = asked(text, &["ls", "--held"]);
        let keys = told["keys"].as_array().unwrap();
        let line = keys.iter().find(|line| line["key"] == key);
        line.map_or(0, |line| usize::try_from(line["held"].as_u64().unwrap()).unwrap()) == count
    });
}

#[test]
fn a_gap_is_shown_listed_and_nothing_wrong_and_a_key_on_two_partitions_is_found() {
    let kafka = Kafka::shared();
    let draft = Draft::new(kafka, 3).tiers(&["30m"]).order(ORDER).fail("waits", Some(1), "transient");
    let topology = draft.made(kafka);
    let text = draft.text(kafka);
    let process = Process::start(&topology, "a");
    send(kafka, &topology, KEY, &[10, 13, 12]);
    send(kafka, &topology, "waits", &[1, 2]);
    is_held(&text, KEY, 2);
    is_held(&text, "waits", 1);

    let (code, told) = asked(&text, &[KEY, "waits", "nobody"]);
    assert_eq!((code, &told["unknown"][0]["key"]), (Some(1), &"nobody".into()), "{told}");
    let keys = told["keys"].as_array().unwrap();
    let [one, other] = keys.as_slice() else { panic!("{told}") };
    assert_eq!((&one["applied"]["version"], &one["applied"]["first"]), (&10.into(), &10.into()), "{told}");
    let held: Vec<_> = one["held"].as_array().unwrap().iter().map(|held| &held["version"]).collect();
    assert_eq!(held, [12, 13]);
    assert_eq!(one["held"][0]["why"], "version 11 is missing");
    let left = one["held"][0]["gap_left_ms"].as_u64().unwrap();
    assert!((60_000..=3_600_000).contains(&left), "{left}");
    let why = other["held"][0]["why"].as_str().unwrap();
    assert!(why.starts_with("version 1 is missing; version 1 waits in a tier ("), "{why}");
    assert_eq!(other["applied"]["version"], Value::Null, "the count has begun, and nothing is applied");

    let (code, stdout, stderr) = redrive(&text, &["versions", KEY]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert!(stdout.contains("applied  version 10 at 2") && stdout.contains("of processing time"), "{stdout}");

    let (code, stdout, _) = redrive(&text, &["versions", "verify"]);
    let state = pipeline(&topology).state.name.as_str();
    assert_eq!((code, stdout.as_str()), (Some(0), format!("`{state}`: 2 keys, nothing wrong\n").as_str()));
    process.end().expect("a clean end");

    // Without a worker too, and however a key came where it does not belong.
    let found = kafka.read(state);
    let entry = found.iter().find(|found| found.key.as_deref() == Some(&applied_key(KEY.as_bytes())[..]));
    let entry = entry.expect("what is applied");
    let elsewhere = (entry.partition + 1) % 3;
    kafka.produce(state, Some(elsewhere), &[(entry.key.as_deref(), entry.value.as_deref())]);
    kafka.produce(state, Some(elsewhere), &[(Some(&held_key(b"other", 1)), Some(b"\xff"))]);
    let (code, told) = asked(&text, &["verify"]);
    let kinds: Vec<_> = told["found"].as_array().unwrap().iter().map(|flaw| &flaw["kind"]).collect();
    assert_eq!((code, kinds.len()), (Some(1), 2), "{told}");
    let of =
        |kind: &str| told["found"].as_array().unwrap().iter().find(|flaw| flaw["kind"] == kind).expect(kind);
    let apart = of("two-partitions");
    assert_eq!((&apart["key"], apart["places"].as_array().unwrap().len()), (&KEY.into(), 2), "{told}");
    let partitions: Vec<_> = apart["places"]
        .as_array()
        .unwrap()
        .iter()
        .map(|place| place["partition"].as_i64().unwrap())
        .collect();
    assert!(partitions.contains(&i64::from(elsewhere)) && partitions.contains(&i64::from(entry.partition)));
    assert!(of("unreadable")["words"].as_str().unwrap().contains("`other`"), "{told}");
}

#[test]
fn a_skip_frees_what_follows_and_what_comes_after_all_is_stale() {
    let kafka = Kafka::shared();
    let draft = Draft::new(kafka, 3).tiers(&["30m"]).order(ORDER);
    let topology = draft.made(kafka);
    let text = draft.text(kafka);
    let output = pipeline(&topology).output.as_ref().unwrap().as_str();
    let effects = || -> Vec<String> {
        let found = kafka.read(output).into_iter();
        found.map(|found| String::from_utf8(found.value.unwrap()).unwrap()).collect()
    };
    let process = Process::start(&topology, "a");
    send(kafka, &topology, KEY, &[10, 12, 13, 15]);
    is_held(&text, KEY, 3);

    let skip = |arguments: &[&str]| redrive(&text, &[&["versions", "skip"][..], arguments].concat());
    let (code, stdout, stderr) = skip(&[KEY, "--to", "11"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert!(stdout.contains("would be asked: skip-versions `order 7` to 11  (by grace)"), "{stdout}");
    assert!(stdout.contains("held behind it: 3\nnext: redrive versions skip --base64 "), "{stdout}");
    assert_eq!(effects(), ["10"], "nothing is asked until it is told yes");

    let (code, stdout, _) = skip(&[KEY, "--to", "9", "--yes"]);
    assert_eq!(code, Some(1), "{stdout}");
    assert!(stdout.contains("refused: version `10` counts as applied"), "{stdout}");
    let (code, stdout, stderr) = skip(&["nobody", "--to", "9", "--yes"]);
    assert_eq!((code, stdout.as_str()), (Some(2), ""), "{stderr}");
    assert!(stderr.contains("nothing is known of the key `nobody`\nhint: "), "{stderr}");

    let (code, stdout, stderr) = skip(&[KEY, "--to", "11", "--ticket", "OPS-7", "--yes"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    assert!(stdout.contains("obeyed: versions `11` to `11` are skipped, the next is `12`"), "{stdout}");
    eventually("what follows goes on", || effects() == ["10", "12", "13"]);
    is_held(&text, KEY, 1);
    process.end().expect("a clean end");

    // Another owner knows the same.
    let process = Process::start(&topology, "b");
    send(kafka, &topology, KEY, &[11, 14]);
    eventually("the count goes on", || effects() == ["10", "12", "13", "14", "15"]);
    process.end().expect("a clean end");
    let (_, told) = asked(&text, &[KEY]);
    let applied = &told["keys"][0]["applied"];
    assert_eq!((&applied["version"], &applied["first"]), (&15.into(), &12.into()), "{told}");
    let (code, stdout, _) = redrive(&text, &["versions", "verify"]);
    assert_eq!(code, Some(0), "{stdout}");

    let audits = kafka.read(topology.audit.name.as_str());
    let audits =
        audits.into_iter().map(|found| serde_json::from_slice::<Value>(&found.value.unwrap()).unwrap());
    let audits: Vec<_> =
        audits.filter(|line| line["pipeline"] == pipeline(&topology).name.as_str()).collect();
    let results: Vec<_> = audits.iter().map(|line| &line["result"]).collect();
    assert_eq!(results, ["refused", "obeyed"]);
    let obeyed = &audits[1];
    assert_eq!(
        (&obeyed["what"], &obeyed["ticket"]),
        (&"skip-versions `order 7` to 11".into(), &"OPS-7".into())
    );
}

#[test]
fn a_state_topic_that_is_not_there_is_said_so() {
    let kafka = Kafka::shared();
    let draft = Draft::new(kafka, 1).tiers(&["30m"]).order(ORDER);
    let topology = draft.made(kafka);
    let (code, stdout, _) = redrive(&draft.text(kafka), &["versions", "ls", "--held"]);
    assert_eq!((code, stdout.starts_with("nothing is held")), (Some(0), true), "{stdout}");
    kafka.delete(pipeline(&topology).state.name.as_str());
    let (code, stdout, stderr) = redrive(&draft.text(kafka), &["versions", "verify"]);
    assert_eq!((code, stdout.as_str()), (Some(1), ""), "{stderr}");
    assert!(stderr.contains("hint: `redrive topics plan`"), "{stderr}");
}
