//! What the order of a pipeline means, in words and in JSON.

use serde_json::{Value, json};

use crate::core::policy::{Equal, Guard, Latest, OrderKey, OrderPolicy, Source, TombstoneVersion};

/// What the order of a pipeline means; `None` where nothing but the key of a record is asked for.
pub(super) fn in_words(order: &OrderPolicy) -> Option<String> {
    let key = match &order.key {
        OrderKey::Record => "by record key".to_owned(),
        OrderKey::Partition => "by partition".to_owned(),
        OrderKey::Json(pointer) => format!("by `{pointer}` of the value"),
    };
    match &order.guard {
        Guard::None if order.key == OrderKey::Record => None,
        Guard::None => Some(key),
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
            Some(format!("{key}, latest version in {}, {equal}{tombstone}", version.join(" or ")))
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
    match &order.guard {
        Guard::None => json!({ "key": key, "guard": "none" }),
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
