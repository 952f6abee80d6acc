//! Key, value and foreign headers of a record are the same in the dead letter topic, whatever they hold.

use serde_json::Value;

use crate::process::{Process, eventually};
use crate::produce::{RawRecord, produce_raw};
use crate::support::{Found, Kafka};
use crate::topology::Draft;

const CASES: &str = include_str!("../cases/records.json");
/// The timestamp of cases that name none.
const LATELY: i64 = 1_700_000_000_000;

#[test]
fn every_vector_is_the_same_behind_source_tier_and_dead_letter_topic() {
    let kafka = Kafka::shared();
    let topology = Draft::new(kafka, 1).tiers(&["100ms"]).fail("", None, "transient").made(kafka);
    let pipeline = topology.pipelines.first().unwrap();
    let cases = cases();
    for (_, record) in &cases {
        produce_raw(kafka, pipeline.source.as_str(), 0, record);
    }

    let process = Process::start(&topology, "a");
    let dead = pipeline.dead_letter.name.as_str();
    eventually("a dead letter for each record", || kafka.read(dead).len() == cases.len());
    process.end().expect("a clean end");

    let dead = kafka.read(dead);
    for (offset, (name, record)) in cases.iter().enumerate() {
        let origin = offset.to_string();
        let letter =
            dead.iter().find(|found| header(found, "redrive-origin-offset") == Some(origin.as_bytes()));
        let letter = letter.unwrap_or_else(|| panic!("{name}: no dead letter"));
        assert_eq!(
            header(letter, "redrive-origin-timestamp"),
            Some(record.timestamp.to_string().as_bytes()),
            "{name}"
        );
        if name == "header_name_not_utf8" {
            assert_eq!(header(letter, "redrive-reason"), Some(&b"bad-header-name"[..]));
            let reference = format!("{}/0/{offset}", pipeline.source);
            assert_eq!(header(letter, "redrive-payload-ref"), Some(reference.as_bytes()));
            continue;
        }
        assert_eq!(header(letter, "redrive-attempt"), Some(&b"2"[..]), "{name}");
        assert_eq!(letter.key, record.key, "{name}");
        assert_eq!(letter.value, record.value, "{name}");
        assert_eq!(foreign(letter), foreign_of(record), "{name}");
    }
}

fn header<'found>(found: &'found Found, name: &str) -> Option<&'found [u8]> {
    found.headers.iter().find(|(found, _)| found == name).and_then(|(_, value)| value.as_deref())
}

fn foreign(found: &Found) -> Vec<(String, Option<Vec<u8>>)> {
    found.headers.iter().filter(|(name, _)| !name.starts_with("redrive-")).cloned().collect()
}

fn foreign_of(record: &RawRecord) -> Vec<(String, Option<Vec<u8>>)> {
    let named = |(name, value): &(Vec<u8>, Option<Vec<u8>>)| {
        (String::from_utf8(name.clone()).unwrap(), value.clone())
    };
    record.headers.iter().map(named).filter(|(name, _)| !name.starts_with("redrive-")).collect()
}

fn cases() -> Vec<(String, RawRecord)> {
    let file: Value = serde_json::from_str(CASES).unwrap();
    let cases = file["cases"].as_array().unwrap();
    cases
        .iter()
        .map(|case| {
            let headers = case["headers"].as_array().map(Vec::as_slice).unwrap_or_default();
            let record = RawRecord {
                timestamp: case["timestamp_ms"].as_i64().unwrap_or(LATELY),
                key: payload(&case["key"]),
                value: payload(&case["value"]),
                headers: headers.iter().map(|pair| (name(&pair[0]), payload(&pair[1]))).collect(),
            };
            (case["name"].as_str().unwrap().to_owned(), record)
        })
        .collect()
}

fn name(value: &Value) -> Vec<u8> {
    value.as_str().map_or_else(|| payload(value).unwrap(), |name| name.as_bytes().to_vec())
}

fn payload(value: &Value) -> Option<Vec<u8>> {
    value["b64"].as_str().map(base64)
}

fn base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for digit in text.bytes().filter(|digit| *digit != b'=') {
        let value = DIGITS.iter().position(|known| *known == digit).unwrap();
        bits = bits << 6 | u32::try_from(value).unwrap();
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).unwrap());
        }
    }
    bytes
}
