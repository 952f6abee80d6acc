//! What the order of a pipeline means, in words and in JSON.

use serde_json::{Value, json};

use crate::core::policy::{Equal, Guard, Latest, OrderKey, OrderPolicy, TombstoneVersion, VersionSource};

/// What the order of a pipeline means; `None` where nothing but the key of a record is asked for.
pub(super) fn in_words(order: &OrderPolicy) -> Option<String> {
    let key = match order.key {
        OrderKey::Record => "by record key",
        OrderKey::Partition => "by partition",
    };
    match &order.guard {
        Guard::None if order.key == OrderKey::Record => None,
        Guard::None => Some(key.to_owned()),
        Guard::Latest(Latest { version, equal, tombstone, stale_output: _ }) => {
            let version: Vec<_> = version.iter().map(version_in_words).collect();
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

fn version_in_words(source: &VersionSource) -> String {
    match source {
        VersionSource::Header(name) => format!("header {}", name.as_str()),
    }
}

/// The order of a pipeline, for scripts.
pub(super) fn in_json(order: &OrderPolicy) -> Value {
    let key = match order.key {
        OrderKey::Record => "record-key",
        OrderKey::Partition => "partition",
    };
    match &order.guard {
        Guard::None => json!({ "key": key, "guard": "none" }),
        Guard::Latest(Latest { version, equal, tombstone, stale_output: _ }) => json!({
            "key": key,
            "guard": "latest",
            "version": version.iter().map(version_in_json).collect::<Vec<_>>(),
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

fn version_in_json(source: &VersionSource) -> Value {
    match source {
        VersionSource::Header(name) => json!({ "header": name.as_str() }),
    }
}
