//! What the order of a pipeline means, in words and in JSON.

use serde_json::{Value, json};

use crate::core::policy::{
    Contiguous, Equal, First, Guard, Latest, OnExhausted, OrderKey, OrderPolicy, Source, TombstoneVersion,
};
use crate::core::time::in_words as in_words_of_time;

/// What the order of a pipeline means; `None` where nothing but the key of a record is asked for.
pub(super) fn in_words(order: &OrderPolicy) -> Option<String> {
    let key = match &order.key {
        OrderKey::Record => "by record key".to_owned(),
        OrderKey::Partition => "by partition".to_owned(),
        OrderKey::Json(pointer) => format!("by `{pointer}` of the value"),
    };
    let parks = match order.parks() {
        None => "",
        Some(OnExhausted::Continue) => ", parked behind a record that waits in a tier",
        Some(OnExhausted::Follow) => ", parked behind a record that waits in a tier and dead with it",
    };
    match &order.guard {
        Guard::None if order.key == OrderKey::Record && parks.is_empty() => None,
        Guard::None => Some(format!("{key}{parks}")),
        Guard::Contiguous(Contiguous { version, gap_timeout, first, stale_output: _ }) => {
            let version: Vec<_> = version.iter().map(source_in_words).collect();
            let first = match first {
                First::Any => "any version".to_owned(),
                First::At(first) => format!("version {first}"),
            };
            let (version, gap) = (version.join(" or "), in_words_of_time(*gap_timeout));
            Some(format!("{key}, contiguous versions in {version} from {first} on, gaps wait {gap}"))
        }
        Guard::Latest(Latest { version, equal, tombstone, stale_output: _ }) => {
            let version: Vec<_> = version.iter().map(source_in_words).collect();
            let equal = match equal {
                Equal::Conflict => "another value under it is a dead letter",
                Equal::Apply => "another value under it is handled",
                Equal::Drop => "another value under it is dropped",
            };
            let tombstone = match tombstone {
                TombstoneVersion::DeadLetter => "",
                TombstoneVersion::Next => ", a tombstone without one is the next",
            };
            Some(format!("{key}, latest version in {}, {equal}{tombstone}{parks}", version.join(" or ")))
        }
    }
}

pub(super) fn source_in_words(source: &Source) -> String {
    match source {
        Source::Header(name) => format!("header {}", name.as_str()),
        Source::Json(pointer) => format!("`{pointer}` of the value"),
    }
}

/// The order of a pipeline, for scripts.
pub(super) fn in_json(order: &OrderPolicy) -> Value {
    let key = match &order.key {
        OrderKey::Record => json!("record-key"),
        OrderKey::Partition => json!("partition"),
        OrderKey::Json(pointer) => json!({ "json": pointer.as_str() }),
    };
    let mut value = guard_in_json(&order.guard, key);
    let on_exhausted = order.parks().map(|on_exhausted| match on_exhausted {
        OnExhausted::Continue => "continue",
        OnExhausted::Follow => "follow",
    });
    if let Some(table) = value.as_object_mut() {
        let retrying = on_exhausted.map_or("overtake", |_| "park");
        table.insert("while_retrying".to_owned(), json!(retrying));
        if let Some(on_exhausted) = on_exhausted {
            table.insert("on_exhausted".to_owned(), json!(on_exhausted));
        }
        if order.holds() {
            table.insert("held_per_key".to_owned(), json!(order.held.per_key));
            table.insert("held_bytes".to_owned(), json!(order.held.bytes));
        }
    }
    value
}

fn guard_in_json(guard: &Guard, key: Value) -> Value {
    match guard {
        Guard::None => json!({ "key": key, "guard": "none" }),
        Guard::Contiguous(Contiguous { version, gap_timeout, first, stale_output: _ }) => json!({
            "key": key,
            "guard": "contiguous",
            "version": version.iter().map(source_in_json).collect::<Vec<_>>(),
            "gap_timeout": in_words_of_time(*gap_timeout),
            "first": match first {
                First::Any => json!("any"),
                First::At(first) => json!(first.0),
            },
        }),
        Guard::Latest(Latest { version, equal, tombstone, stale_output: _ }) => json!({
            "key": key,
            "guard": "latest",
            "version": version.iter().map(source_in_json).collect::<Vec<_>>(),
            "equal": match equal {
                Equal::Conflict => "conflict",
                Equal::Apply => "apply",
                Equal::Drop => "drop",
            },
            "tombstone_without_version": match tombstone {
                TombstoneVersion::DeadLetter => "dead-letter",
                TombstoneVersion::Next => "next",
            },
        }),
    }
}

fn source_in_json(source: &Source) -> Value {
    match source {
        Source::Header(name) => json!({ "header": name.as_str() }),
        Source::Json(pointer) => json!({ "json": pointer.as_str() }),
    }
}
