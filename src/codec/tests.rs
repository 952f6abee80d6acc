use super::*;
use crate::core::position::{Offset, TierIndex};
use crate::core::time::Timestamp;
use crate::topology::environment::Process;
use crate::topology::model::Topology;

const TIER: Lane = Lane::Tier(TierIndex(0));

/// The codec of a pipeline with these keys.
fn codec(keys: &str) -> Codec {
    let text = format!(
        "app = \"shop\"\nkafka.bootstrap = [\"k:1\"]\n[pipeline.p]\nsource = \"s\"\nstart = \"latest\"\n\
         handler.passthrough = {{}}\nretry.tiers = [\"5s\"]\n{keys}"
    );
    let topology = Topology::compile(&text, "test.toml", &Process).unwrap_or_else(|told| panic!("{told}"));
    Codec::new(&topology.pipelines[0])
}

const EVERYTHING: &str = r#"
decode = "json"
identity = { event-id = { json = "/id" }, operation-id = { json = "/op" } }
[pipeline.p.order]
key = { json = "/customer" }
co-partitioned = true
guard = "latest"
version = [{ json = "/new" }, { header = "rev" }, { json = "/old" }]
"#;

fn record(value: Option<&'static str>) -> Record {
    Record {
        offset: Offset(0),
        timestamp: Timestamp::from_millis(0),
        key: None,
        value: value.map(|value| Bytes::from_static(value.as_bytes())),
        headers: Vec::new(),
        unnamed_headers: 0,
        decoded: None,
    }
}

fn decoded(codec: &mut Codec, lane: Lane, value: &'static str) -> Option<Result<Decoded, Undecodable>> {
    let mut records = [record(Some(value))];
    codec.decode(lane, &mut records);
    let [Record { decoded, value: after, .. }] = records;
    assert_eq!(after.as_deref(), Some(value.as_bytes()), "the bytes stay");
    decoded.map(|decoded| *decoded)
}

fn text(text: &'static str) -> Option<Found> {
    Some(Found::Text(Bytes::from_static(text.as_bytes())))
}

#[test]
fn each_place_is_read_for_what_it_is_named_for() {
    let value = r#"{"id":"e-1","op":7,"new":8,"old":9,"customer":"c\u00e9"}"#;
    let found = decoded(&mut codec(EVERYTHING), Lane::Source, value).unwrap().unwrap();
    let whole = |digits: &'static str| Found::Whole(Bytes::from_static(digits.as_bytes()));
    let expected = Decoded {
        event_id: text("e-1"),
        operation_id: Some(whole("7")),
        version: Some((0, whole("8"))),
        order_key: text("cé"),
    };
    assert_eq!(found, expected);
}

#[test]
fn the_first_version_that_exists_is_told_with_its_place_in_the_list() {
    let mut codec = codec(EVERYTHING);
    let mut version = |value| decoded(&mut codec, Lane::Source, value).unwrap().unwrap().version;
    assert_eq!(version(r#"{"old":9}"#), Some((2, Found::Whole(Bytes::from_static(b"9")))));
    assert_eq!(version(r#"{"old":9,"new":null}"#), Some((0, Found::Other(Bytes::from_static(b"null")))));
    assert_eq!(version("{}"), None);
}

#[test]
fn a_tier_is_read_for_what_does_not_travel_with_the_record() {
    let found = decoded(&mut codec(EVERYTHING), TIER, r#"{"id":"e-1","op":7,"new":8,"customer":"c"}"#);
    let Some(Ok(Decoded { event_id: None, operation_id: None, version: Some(_), order_key })) = found else {
        panic!("{found:?}")
    };
    assert_eq!(order_key, text("c"));
    let ids = "decode = \"json\"\nidentity.event-id = { json = \"/id\" }";
    assert_eq!(decoded(&mut codec(ids), TIER, "no json"), None);
}

#[test]
fn a_value_that_is_none_is_told_wherever_it_was_to_be_read() {
    for keys in [EVERYTHING, "decode = \"json\""] {
        let told = decoded(&mut codec(keys), Lane::Source, "{\"id\":").unwrap().unwrap_err();
        assert!(told.detail.starts_with("the value is no JSON: byte 6 of 6"), "{}", told.detail);
    }
    assert!(decoded(&mut codec(EVERYTHING), TIER, "").unwrap().is_err());
}

#[test]
fn tombstones_requests_and_plain_bytes_are_not_read() {
    let mut tombstone = [record(None)];
    codec(EVERYTHING).decode(Lane::Source, &mut tombstone);
    assert_eq!(tombstone, [record(None)]);
    assert_eq!(decoded(&mut codec(EVERYTHING), Lane::Control, "no json"), None);
    for lane in [Lane::Source, TIER] {
        assert_eq!(decoded(&mut codec(""), lane, "no json"), None);
        assert_eq!(decoded(&mut codec("decode = \"bytes\""), lane, "no json"), None);
    }
}

#[test]
fn what_is_found_shares_the_bytes_of_the_value() {
    let value = Bytes::from(r#"{"id":"e-1","op":"","new":-0,"old":{},"customer":"a\tb"}"#.to_owned());
    let mut records = [Record { value: Some(value.clone()), ..record(None) }];
    codec(EVERYTHING).decode(Lane::Source, &mut records);
    let [Record { decoded, .. }] = records;
    let Ok(Decoded { event_id, operation_id, order_key, version }) = *decoded.unwrap() else { panic!() };
    let inside = |found: &Found| value.as_ptr_range().contains(&found.name().unwrap().as_ptr());
    assert!(inside(&event_id.unwrap()));
    assert_eq!(operation_id, text(""));
    assert_eq!(order_key, text("a\tb"), "escaped, so it is written anew");
    assert_eq!(version, Some((0, Found::Whole(Bytes::from_static(b"0")))));
}
