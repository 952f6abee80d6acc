//! Identity, version and order key in values that are JSON, from the source through a tier and a crash, on a real Kafka.

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use redrive::core::position::{Lane, TierIndex};
use redrive::core::state::applied_key;
use tokio::runtime::Runtime;

use crate::binary::Binary;
use crate::expired::committed_of;
use crate::found::Found;
use crate::handler::{Answer, HttpHandler, told};
use crate::process::eventually;
use crate::support::Kafka;
use crate::topology::Draft;

/// What fails at its first attempt holds this.
const FAILS: &[u8] = b"\"fails\"";

fn answer(attempt: u32, value: Bytes) -> Answer {
    if attempt == 1 && value.windows(FAILS.len()).any(|part| part == FAILS) {
        return told(StatusCode::SERVICE_UNAVAILABLE, "try later");
    }
    (StatusCode::OK, [(CONTENT_TYPE, "application/json")], value)
}

/// Key and value of a source record, and the reason where it is a dead letter at once.
type Given = (&'static str, Option<&'static [u8]>, Option<&'static str>);

const RECORDS: [Given; 12] = [
    ("a", Some(br#"{"id":"e-0","op":"o-0","of":{"customer":"c"},"v":10,"x":["fails"]}"#), None),
    ("b", Some(br#" {"v":"11", "of": {"customer":"\u0063"}, "op":1, "id":"e-1"} "#), None),
    (
        "c",
        Some(br#"{"id":"e-2","op":"o-2","of":{"customer":7},"v":"2024-05-01T00:00:00Z","x":"fails"}"#),
        None,
    ),
    ("d", Some(br#"{"op":"o-3","of":{"customer":"\u00e9"},"v":-1}"#), None),
    ("e", Some(b"{\"id\":\"e-4\",\"op\":\"\xff\"}"), Some("decode-failed")),
    ("f", Some(br#"{"id":"e-5","op":"o-5","of":{"customer":"c"},"v":12"#), Some("decode-failed")),
    ("g", Some(b""), Some("decode-failed")),
    ("h", None, Some("no-operation-id")),
    ("i", Some(br#"{"id":"e-8","of":{"customer":"c"},"v":12}"#), Some("no-operation-id")),
    ("j", Some(br#"{"id":"e-9","op":"o-9","of":{"customer":null},"v":12}"#), Some("no-key")),
    ("k", Some(br#"{"id":"e-10","op":"o-10","of":{"customer":"c"},"v":12.5}"#), Some("no-version")),
    ("l", Some(br#"{"id":"e-11","op":"o-11","of":{"customer":"c"}}"#), Some("no-version")),
];

/// Key, value, event id and operation id.
fn identified(found: &Found) -> (String, Vec<u8>, String, String) {
    let key = String::from_utf8(found.key.clone().unwrap()).unwrap();
    let (event, operation) = (found.text("redrive-event-id"), found.text("redrive-operation-id"));
    (key, found.value.clone().unwrap(), event, operation)
}

fn expected(place: usize, event: &str, operation: &str) -> (String, Vec<u8>, String, String) {
    let (key, value, _) = RECORDS[place];
    (key.to_owned(), value.unwrap().to_vec(), event.to_owned(), operation.to_owned())
}

#[test]
fn what_stands_in_json_holds_through_a_tier_and_a_crash_and_what_is_none_is_a_dead_letter_as_it_was() {
    let kafka = Kafka::shared();
    let runtime = Runtime::new().unwrap();
    let handler = runtime.block_on(HttpHandler::start("/work", answer)).unwrap();
    let stale = kafka.topic("stale", 1);
    let order = format!(
        "guard = \"latest\"\nversion = [{{ header = \"rev\" }}, {{ json = \"/v\" }}]\n\
         key = {{ json = \"/of/customer\" }}\nco-partitioned = true\nstale-output = \"{stale}\"\n"
    );
    let draft = Draft::new(kafka, 1).http(&handler.url).tiers(&["3s"]).order(&order);
    let draft = draft.key("decode", "\"json\"").workers("static-membership", "true");
    let draft = draft.key("identity", r#"{ event-id = { json = "/id" }, operation-id = { json = "/op" } }"#);
    let topology = draft.made(kafka);
    let (pipeline, text) = (&topology.pipelines[0], draft.text(kafka));
    let records = RECORDS.map(|(key, value, _)| (Some(key.as_bytes()), value));
    kafka.produce(pipeline.source.as_str(), Some(0), &records);

    let process = Binary::run(&text, 0);
    let all = i64::try_from(RECORDS.len()).unwrap();
    eventually("each has its first fate", || committed_of(kafka, pipeline, Lane::Source) >= all);
    // What waits is read out of its copy by another process.
    process.kill();
    let process = Binary::run(&text, 0);
    eventually("each copy has its fate", || committed_of(kafka, pipeline, Lane::Tier(TierIndex(0))) >= 2);
    assert_eq!(process.end().code(), Some(0));

    let origin = format!("{}/0/3", pipeline.source);
    let mut outputs: Vec<_> =
        kafka.read(pipeline.output.as_ref().unwrap().as_str()).iter().map(identified).collect();
    outputs.sort_unstable();
    assert_eq!(outputs, [expected(1, "e-1", "1"), expected(2, "e-2", "o-2"), expected(3, &origin, "o-3")]);
    let stale = kafka.read(&stale);
    assert_eq!(stale.iter().map(identified).collect::<Vec<_>>(), [expected(0, "e-0", "o-0")]);
    assert_eq!(stale[0].number("redrive-version"), 10);

    let letters = kafka.read(pipeline.dead_letter.name.as_str());
    let dead: Vec<_> =
        RECORDS.iter().filter_map(|(key, value, reason)| Some((*key, *value, (*reason)?))).collect();
    assert_eq!(letters.len(), dead.len());
    for (letter, (key, value, reason)) in letters.iter().zip(dead) {
        assert_eq!((letter.key.as_deref(), letter.value.as_deref()), (Some(key.as_bytes()), value));
        assert_eq!(letter.text("redrive-reason"), reason, "{key}");
        let class = if reason == "decode-failed" { "poison" } else { "permanent" };
        assert_eq!(letter.text("redrive-class"), class, "{key}");
    }
    assert_eq!(letters[0].text("redrive-detail"), "the value is no JSON: byte 18 of 21 should be UTF-8");
    assert_eq!(letters[0].text("redrive-event-id"), format!("{}/0/4", pipeline.source));

    let keys: Vec<_> =
        kafka.read(pipeline.state.name.as_str()).into_iter().filter_map(|entry| entry.key).collect();
    for key in ["c", "7", "é"] {
        assert!(keys.contains(&applied_key(key.as_bytes()).to_vec()), "{key}");
    }
}
