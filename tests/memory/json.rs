//! Values that are JSON: nothing is allocated to read a document, and one thing for what is found in it.

use std::hint::black_box;
use std::time::Instant;

use bytes::Bytes;
use redrive::codec::Codec;
use redrive::codec::json::Finder;
use redrive::core::position::{Lane, Offset};
use redrive::core::record::Record;
use redrive::core::time::Timestamp;
use redrive::topology::environment::Process;
use redrive::topology::model::Topology;

use crate::counted::count;

/// About 1 KiB, as orders look: half of it short, half of it one text.
fn document() -> String {
    let item = r#"{"sku":"A-1234","quantity":3,"price":12.50,"tags":["x","y"]}"#;
    let items = [item; 8].join(",");
    let note = "Leave it with the neighbours. ".repeat(13);
    format!(
        r#"{{"operation":{{"id":"op-00001234"}},"version":1234567,"customer":{{"id":"c-42"}},"items":[{items}],"note":"{note}"}}"#
    )
}

const PLACES: [&str; 3] = ["/operation/id", "/version", "/customer/id"];

#[test]
fn to_read_a_document_allocates_nothing_once_one_of_its_depth_was_read() {
    let document = document();
    let mut finder = Finder::new(PLACES.map(|place| place.parse().unwrap()).to_vec());
    let mut read = || finder.read(document.as_bytes()).unwrap().flatten().count();
    assert_eq!(read(), PLACES.len());
    let before = count();
    for _ in 0..1_000 {
        black_box(read());
    }
    assert_eq!(count().allocations, before.allocations);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "what it takes is printed")]
fn what_is_found_in_a_record_is_one_allocation_and_none_where_values_are_bytes() {
    let keys = r#"
decode = "json"
identity.operation-id = { json = "/operation/id" }
order = { guard = "latest", version = { json = "/version" }, key = { json = "/customer/id" }, co-partitioned = true }
"#;
    // As records come: each value a part of what the whole record was copied to.
    let whole = Bytes::from([b"key", document().as_bytes()].concat());
    let (key, value) = (whole.slice(..3), whole.slice(3..));
    for (keys, each) in [(keys, 1), ("", 0)] {
        let text = format!(
            "app = \"a\"\nkafka.bootstrap = [\"k:1\"]\n[pipeline.p]\nsource = \"s\"\nstart = \"latest\"\n\
             handler.passthrough = {{}}\nretry.tiers = []\n{keys}"
        );
        let topology = Topology::compile(&text, "t.toml", &Process).unwrap();
        let mut codec = Codec::new(&topology.pipelines[0]);
        let record = |offset| Record {
            offset: Offset(offset),
            timestamp: Timestamp::from_millis(0),
            key: Some(key.clone()),
            value: Some(value.clone()),
            headers: Vec::new(),
            unnamed_headers: 0,
            decoded: None,
        };
        codec.decode(Lane::Source, &mut [record(0)]);
        let mut records: Vec<Record> = (0..10_000).map(record).collect();
        let (before, begun) = (count(), Instant::now());
        codec.decode(Lane::Source, &mut records);
        let (took, after) = (begun.elapsed(), count());
        assert_eq!(after.allocations - before.allocations, each * records.len());
        let bytes = (after.bytes - before.bytes) / records.len();
        println!("{} bytes of JSON: {:?} and {bytes} bytes a record", value.len(), took / 10_000);
        assert!(bytes <= 256, "{bytes}");
    }
    assert!(size_of::<Record>() <= 120, "{}", size_of::<Record>());
}
