//! Held records on a real Kafka: what is counted comes once and in order, and what is parked waits for an outage to end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use tokio::runtime::Runtime;

use crate::binary::Binary;
use crate::found::Found;
use crate::guard::{self, KEYS, move_tasks, output, pipeline};
use crate::handler::{Answer, HttpHandler, told};
use crate::process::eventually;
use crate::size;
use crate::support::Kafka;
use crate::topology::Draft;

/// The values of each key's outputs, in order.
fn by_key(outputs: &[Found]) -> BTreeMap<Vec<u8>, Vec<i64>> {
    outputs.iter().fold(BTreeMap::new(), |mut keys: BTreeMap<_, Vec<i64>>, found| {
        let text = String::from_utf8(found.value.clone().unwrap()).unwrap();
        let number = text.rsplit(' ').next().unwrap().parse().unwrap();
        keys.entry(found.key.clone().unwrap()).or_default().push(number);
        keys
    })
}

#[test]
fn while_tasks_move_under_load_every_counted_version_comes_once_and_in_order() {
    let kafka = Kafka::shared();
    let runtime = Runtime::new().unwrap();
    let handler = runtime.block_on(HttpHandler::start("/work", guard::answer)).unwrap();
    let order = "guard = \"contiguous\"\nversion = { header = \"rev\" }\ngap-timeout = \"30m\"\nfirst = 1\n";
    let draft = Draft::new(kafka, 4).http(&handler.url).tiers(&["300ms", "1s"]).order(order);
    let draft = draft.retry("last-tier-repeats", "100");
    let topology = draft.made(kafka);
    let text = draft.text(kafka);
    let settled = Binary::run(&text, 0);
    let (version, moves) = move_tasks(kafka, &topology, &text, Duration::from_secs(10));
    let sent = KEYS * usize::try_from(version).unwrap();
    eventually("every version has its effect", || output(kafka, &topology).len() >= sent);
    assert_eq!(settled.end().code(), Some(0));

    let keys = by_key(&output(kafka, &topology));
    let all: Vec<i64> = (1..=version).collect();
    let wrong: Vec<_> = keys.iter().filter(|(_, versions)| **versions != all).collect();
    assert!(keys.len() == KEYS && wrong.is_empty(), "{wrong:?}");
    assert!(kafka.read(pipeline(&topology).dead_letter.name.as_str()).is_empty());
    println!("{sent} records, {moves} moves");
}

/// Whether the handler of some keys is away.
static IS_AWAY: AtomicBool = AtomicBool::new(false);

fn away(_: u32, value: Bytes) -> Answer {
    if value.starts_with(b"down") && IS_AWAY.load(Ordering::SeqCst) {
        return told(StatusCode::SERVICE_UNAVAILABLE, "try later");
    }
    (StatusCode::OK, [(CONTENT_TYPE, "text/plain")], value)
}

#[test]
#[expect(clippy::disallowed_methods, reason = "an outage lasts a while")]
fn after_an_outage_what_was_parked_goes_in_order_and_other_keys_never_waited() {
    const DOWN: usize = 1_000;
    const EACH: usize = 5;
    let kafka = Kafka::shared();
    let runtime = Runtime::new().unwrap();
    let handler = runtime.block_on(HttpHandler::start("/work", away)).unwrap();
    let draft = Draft::new(kafka, 4).http(&handler.url).tiers(&["500ms", "2s"]);
    let draft = draft.retry("last-tier-repeats", "1000").order("while-retrying = \"park\"\n");
    let topology = draft.made(kafka);
    let process = Binary::run(&draft.text(kafka), 0);
    let source = pipeline(&topology).source.as_str();
    let send = |word: &str, keys: usize, number: usize| {
        let records: Vec<(String, String)> =
            (0..keys).map(|key| (format!("{word}-{key}"), format!("{word} {number}"))).collect();
        let records: Vec<_> =
            records.iter().map(|(key, value)| (Some(key.as_bytes()), Some(value.as_bytes()))).collect();
        kafka.produce(source, None, &records);
    };
    IS_AWAY.store(true, Ordering::SeqCst);
    for number in 0..EACH {
        send("down", DOWN, number);
    }
    let (begun, mut up, mut memory) = (std::time::Instant::now(), 0, 0);
    let lasts = Duration::from_secs(if size::is_full() { 60 } else { 15 });
    while begun.elapsed() < lasts {
        send("up", 10, up);
        up += 1;
        let all = up * 10;
        eventually("other keys go on", || output(kafka, &topology).len() >= all);
        memory = memory.max(process.memory());
    }
    IS_AWAY.store(false, Ordering::SeqCst);
    let sent = DOWN * EACH + up * 10;
    eventually("every record has its effect", || output(kafka, &topology).len() >= sent);
    assert_eq!(process.end().code(), Some(0));

    let keys = by_key(&output(kafka, &topology));
    assert_eq!(keys.len(), DOWN + 10);
    for (key, numbers) in keys {
        let all = i64::try_from(if key.starts_with(b"down") { EACH } else { up }).unwrap();
        assert_eq!(numbers, (0..all).collect::<Vec<_>>(), "{}", String::from_utf8_lossy(&key));
    }
    println!("{} parked keys, {up} rounds of others, {} MB resident", DOWN, memory >> 20);
    assert!(memory < 400 << 20, "{memory} bytes");
}
