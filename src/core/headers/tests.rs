use std::time::Duration;

use serde_json::Value;

use super::read::Problem;
use super::*;
use crate::core::class::{Class, Reason};
use crate::core::position::{Offset, Partition, TopicName};

const CASES: &str = include_str!("../../../tests/cases/records.json");
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn in_header(name: &str) -> Source {
    Source::Header(HeaderName::new(name))
}

fn header(name: &str, value: Option<&[u8]>) -> Header {
    Header { name: HeaderName::new(name), value: value.map(Bytes::copy_from_slice) }
}

fn record(headers: Vec<Header>) -> Record {
    let (key, value) = (Some(Bytes::from_static(b"k1")), Some(Bytes::from_static(b"v")));
    let timestamp = Timestamp::from_millis(1_000_000);
    Record { offset: Offset(42), timestamp, key, value, headers, unnamed_headers: 0, decoded: None }
}

fn origin() -> Origin {
    Origin { topic: TopicName::new("orders"), partition: Partition(3), offset: Offset(42) }
}

/// An envelope as it is after one failed attempt of two executions.
fn failed(record: Record) -> Envelope {
    let (mut envelope, found) = from_source(record, None, origin(), &IdentityPolicy::default());
    found.unwrap();
    let verdict = Verdict { class: Class::Transient, reason: Reason::Http(500) };
    let at = Timestamp::from_millis(1_000_100);
    let life = &mut envelope.life;
    (life.attempt, life.executions) = (1, 2);
    life.first_attempt_at = Some(Timestamp::from_millis(1_000_050));
    life.deadline_at = Some(Timestamp::from_millis(2_000_050));
    let Verdict { class, reason } = verdict.clone();
    life.first_failure =
        Some(FirstFailure { at, class, reason: reason.clone(), lane: Bytes::from_static(b"source") });
    life.last_failure = Some(LastFailure { class, reason, detail: "status 500".to_owned() });
    life.history.add("source", &verdict, at);
    life.history.add("source", &verdict, at);
    envelope
}

fn waiting(envelope: &Envelope) -> Record {
    let headers = of_waiting(envelope, Timestamp::from_millis(1_005_000));
    Record { key: envelope.key.clone(), value: envelope.value.clone(), ..record(headers) }
}

/// The headers of one case of the vectors whose names can be carried.
fn vector_headers(case: &Value) -> Vec<Header> {
    use base64::Engine as _;
    let bytes = |value: &Value| {
        let text = value.get("b64")?.as_str()?;
        Some(Bytes::from(base64::engine::general_purpose::STANDARD.decode(text).unwrap()))
    };
    let pairs = case["headers"].as_array().unwrap();
    let named = pairs.iter().filter_map(|pair| Some((pair[0].as_str()?, bytes(&pair[1]))));
    named.map(|(name, value)| Header { name: HeaderName::new(name), value }).collect()
}

#[test]
fn foreign_headers_of_every_vector_survive_any_number_of_passes_byte_for_byte() {
    let cases: Value = serde_json::from_str(CASES).unwrap();
    for case in cases["cases"].as_array().unwrap() {
        let given = vector_headers(case);
        let expected = foreign(given.clone());
        let mut envelope = failed(record(given));
        for _ in 0..3 {
            let copy = waiting(&envelope);
            assert_eq!(copy.headers[..expected.len()], expected, "{}", case["name"]);
            envelope = read_waiting(&copy, DAY).unwrap().envelope;
            assert_eq!(envelope.foreign, expected, "{}", case["name"]);
        }
    }
}

#[test]
fn what_a_tier_carries_is_read_back_as_it_was() {
    let envelope = failed(record(vec![header("trace", Some(b"x"))]));
    let read = read_waiting(&waiting(&envelope), DAY).unwrap();
    assert_eq!(read.due, Timestamp::from_millis(1_005_000));
    assert_eq!(read.envelope.life, envelope.life);
    assert_eq!(read.envelope.origin, envelope.origin);
    assert_eq!(read.envelope.event_id(), "orders/3/42");
    assert_eq!(read.envelope.operation_id(), "orders/3/42");
}

#[test]
fn control_headers_on_the_source_are_ignored_and_dropped() {
    let forged = vec![header("redrive-attempt", Some(b"-1")), header("redrive-due", Some(b"99999999999999"))];
    let (envelope, found) = from_source(record(forged), None, origin(), &IdentityPolicy::default());
    assert_eq!(found, Ok(()));
    assert_eq!(envelope.life, Life::default());
    assert!(envelope.foreign.is_empty());
}

#[test]
fn a_missing_repeated_or_malformed_control_header_is_never_guessed_at() {
    let good = waiting(&failed(record(Vec::new())));
    assert!(read_waiting(&good, DAY).is_ok());
    let required = good.headers.iter().map(|header| header.name.clone());
    for name in required.filter(|name| !["redrive-detail", "redrive-history"].contains(&name.as_str())) {
        let mut missing = good.clone();
        missing.headers.retain(|header| header.name != name);
        assert_eq!(read_waiting(&missing, DAY), Err(BadControlHeader { name, problem: Problem::Missing }));
    }
    for again in &good.headers {
        let mut repeated = good.clone();
        repeated.headers.push(again.clone());
        let name = again.name.clone();
        assert_eq!(read_waiting(&repeated, DAY), Err(BadControlHeader { name, problem: Problem::Repeated }));
    }
}

#[test]
fn values_that_are_not_of_their_form_or_out_of_bounds_are_poison() {
    let good = waiting(&failed(record(Vec::new())));
    let bad = [
        (name::ATTEMPT, &b"-1"[..], Problem::Malformed),
        (name::ATTEMPT, b"+1", Problem::Malformed),
        (name::ATTEMPT, b" 1", Problem::Malformed),
        (name::ATTEMPT, b"", Problem::Malformed),
        (name::ATTEMPT, b"1000001", Problem::OutOfBounds),
        (name::ATTEMPT, b"99999999999", Problem::Malformed),
        (name::ORIGIN_PARTITION, b"-7", Problem::Malformed),
        (name::DUE, b"99999999999999", Problem::OutOfBounds),
        (name::DUE, b"soon", Problem::Malformed),
        (name::CLASS, b"bad", Problem::Malformed),
        (name::REASON, b"Not A Word", Problem::Malformed),
        (name::EVENT_ID, b"\xff", Problem::Malformed),
        (name::HISTORY, b"source", Problem::Malformed),
    ];
    for (name, value, problem) in bad {
        let mut forged = good.clone();
        let header = forged.headers.iter_mut().find(|header| header.name == name).unwrap();
        header.value = Some(Bytes::from_static(value));
        assert_eq!(read_waiting(&forged, DAY), Err(BadControlHeader { name, problem }));
    }
}

#[test]
fn identity_comes_from_the_configured_headers_and_falls_back_as_documented() {
    let policy = IdentityPolicy { event_id: Some(in_header("ce-id")), operation_id: Some(in_header("op")) };
    let given =
        vec![header("ce-id", Some(b"first")), header("ce-id", Some(b"e1")), header("op", Some(b"o1"))];
    let (envelope, found) = from_source(record(given), None, origin(), &policy);
    assert_eq!((found, envelope.event_id(), envelope.operation_id()), (Ok(()), "e1".into(), "o1".into()));

    for unusable in [None, Some(&b""[..]), Some(b"\xff"), Some(&[b'x'; LONGEST_ID + 1])] {
        let given = vec![header("ce-id", unusable), header("op", unusable)];
        let (envelope, found) = from_source(record(given), None, origin(), &policy);
        assert_eq!(envelope.event_id(), "orders/3/42");
        assert_eq!(found, Err(NoOperationId { source: in_header("op") }));
    }
}

#[test]
fn the_longest_default_id_can_be_read_back() {
    let topic = TopicName::new(&"t".repeat(249));
    let origin = Origin { topic, partition: Partition(i32::MAX), offset: Offset(i64::MAX) };
    let (envelope, _) = from_source(record(Vec::new()), None, origin, &IdentityPolicy::default());
    assert!(
        read_waiting(&waiting(&Envelope { life: failed(record(Vec::new())).life, ..envelope }), DAY).is_ok()
    );
}

#[test]
fn control_headers_stay_within_4_kib_however_many_failures_there_were() {
    let policy = IdentityPolicy { event_id: Some(in_header("e")), operation_id: Some(in_header("o")) };
    let id = [b'i'; LONGEST_ID];
    let given = record(vec![header("e", Some(&id)), header("o", Some(&id))]);
    let topic = TopicName::new(&"t".repeat(249));
    let origin = Origin { topic, partition: Partition(i32::MAX), offset: Offset(i64::MAX) };
    let (mut envelope, _) = from_source(given, None, origin, &policy);
    envelope.life = failed(record(Vec::new())).life;
    envelope.life.attempt = 1_000_000;
    envelope.life.executions = u32::MAX;
    for number in 0..1_000 {
        let reason: Reason =
            format!("{number:0>4}{}", "r".repeat(50)).replace('0', "z").parse().unwrap_or(Reason::Cut);
        let verdict = Verdict { class: Class::Permanent, reason };
        envelope.life.history.add("retry.123456789ms", &verdict, Timestamp::from_millis(i64::MAX));
    }
    envelope.life.last_failure = Some(LastFailure {
        class: Class::Permanent,
        reason: "r".repeat(64).parse().unwrap(),
        detail: cut_detail("d".repeat(5_000)),
    });
    let verdict = Verdict { class: Class::Permanent, reason: "r".repeat(64).parse().unwrap() };
    for headers in [
        of_waiting(&envelope, Timestamp::from_millis(i64::MAX)),
        of_dead_letter(&envelope, &verdict, Payload::AtOrigin),
    ] {
        let control = headers.iter().filter(|header| header.name.as_str().starts_with(PREFIX));
        let size: usize = control
            .map(|header| header.name.as_str().len() + header.value.as_ref().map_or(0, Bytes::len))
            .sum();
        assert!(size <= 4096, "{size} bytes");
    }
}

#[test]
fn a_detail_is_cut_on_a_character_border() {
    let cut = cut_detail("é".repeat(1_000));
    assert_eq!(cut, "é".repeat(512));
}
