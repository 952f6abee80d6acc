//! Every key of the language, table by table.

/// The keys of one table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keys {
    /// How the document names the table.
    #[cfg_attr(not(test), expect(dead_code, reason = "the test of the document goes by it"))]
    pub(crate) table: &'static str,
    /// Its keys.
    pub(crate) names: &'static [&'static str],
}

pub(crate) const TOP: Keys =
    Keys { table: "top level", names: &["app", "kafka", "http", "defaults", "pipeline"] };
pub(crate) const KAFKA: Keys = Keys { table: "kafka", names: &["bootstrap", "protocol", "properties"] };
pub(crate) const HTTP: Keys = Keys { table: "http", names: &["listen"] };
pub(crate) const DEFAULTS: Keys = Keys {
    table: "defaults",
    names: &["handler", "identity", "order", "retry", "dead-letter", "topics", "workers"],
};
pub(crate) const PIPELINE: Keys = Keys {
    table: "pipeline.NAME",
    names: &[
        "source",
        "start",
        "output",
        "outputs",
        "decode",
        "handler",
        "identity",
        "order",
        "retry",
        "dead-letter",
        "topics",
        "workers",
    ],
};
pub(crate) const START: Keys = Keys { table: "pipeline.NAME", names: &["group"] };
pub(crate) const HANDLER: Keys =
    Keys { table: "pipeline.NAME.handler", names: &["http", "passthrough", "rust"] };
pub(crate) const HANDLER_HTTP: Keys = Keys {
    table: "pipeline.NAME.handler.http",
    names: &["url", "timeout", "concurrency", "headers", "token", "ca-file", "forward-headers"],
};
pub(crate) const HANDLER_PASSTHROUGH: Keys =
    Keys { table: "pipeline.NAME.handler.passthrough", names: &["fail"] };
pub(crate) const FAIL: Keys = Keys {
    table: "pipeline.NAME.handler.passthrough",
    names: &["key-prefix", "attempts", "class", "reason", "after"],
};
pub(crate) const HANDLER_RUST: Keys = Keys { table: "pipeline.NAME.handler.rust", names: &["name"] };
pub(crate) const IDENTITY: Keys =
    Keys { table: "pipeline.NAME.identity", names: &["event-id", "operation-id"] };
pub(crate) const IDENTITY_SOURCE: Keys = Keys { table: "pipeline.NAME.identity", names: &["header", "json"] };
pub(crate) const ORDER: Keys = Keys {
    table: "pipeline.NAME.order",
    names: &[
        "key",
        "co-partitioned",
        "version",
        "guard",
        "equal",
        "tombstone-without-version",
        "stale-output",
        "gap-timeout",
        "first",
        "while-retrying",
        "on-exhausted",
        "held-per-key",
        "held-bytes",
    ],
};
pub(crate) const ORDER_KEY: Keys = Keys { table: "pipeline.NAME.order", names: &["json"] };
pub(crate) const VERSION_SOURCE: Keys = Keys { table: "pipeline.NAME.order", names: &["header", "json"] };
pub(crate) const RETRY: Keys = Keys {
    table: "pipeline.NAME.retry",
    names: &["tiers", "last-tier-repeats", "deadline", "unknown", "in-place"],
};
pub(crate) const IN_PLACE: Keys =
    Keys { table: "pipeline.NAME.retry.in-place", names: &["executions", "base", "cap", "budget"] };
pub(crate) const DEAD_LETTER: Keys = Keys { table: "pipeline.NAME.dead-letter", names: &["retention"] };
pub(crate) const TOPICS: Keys =
    Keys { table: "pipeline.NAME.topics", names: &["replication", "min-isr", "tier-retention", "names"] };
pub(crate) const WORKERS: Keys = Keys {
    table: "pipeline.NAME.workers",
    names: &[
        "threads",
        "window",
        "commit-interval",
        "drain",
        "session-timeout",
        "transaction-timeout",
        "static-membership",
    ],
};
pub(crate) const TEXT: Keys = Keys { table: "strings", names: &["env", "default", "file"] };

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Keys; 20] = [
        TOP,
        KAFKA,
        HTTP,
        DEFAULTS,
        PIPELINE,
        START,
        HANDLER,
        HANDLER_HTTP,
        HANDLER_PASSTHROUGH,
        FAIL,
        HANDLER_RUST,
        IDENTITY,
        IDENTITY_SOURCE,
        ORDER,
        VERSION_SOURCE,
        RETRY,
        IN_PLACE,
        DEAD_LETTER,
        TOPICS,
        WORKERS,
    ];

    #[test]
    fn every_key_is_in_the_document_under_its_table() {
        let document = include_str!("../../docs/topology.md");
        for Keys { table, names } in ALL.into_iter().chain([TEXT]) {
            let section = document.split("\n### ").find(|section| {
                section.starts_with(&format!("`{table}`\n")) || section.starts_with(&format!("{table}\n"))
            });
            let section = section.unwrap_or_else(|| panic!("no section `{table}`"));
            for name in names {
                assert!(section.contains(&format!("`{name}`")), "`{name}` is missing in section `{table}`");
            }
        }
    }
}
