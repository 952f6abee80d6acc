//! What a topic of our own must be like, made new or found.

use std::collections::BTreeMap;

use crate::core::position::TopicName;
use crate::kafka::admin::plan::{Change, Found, New, Problem, hidden};
use crate::kafka::admin::wanted::{BROKERS_OWN_MAX_MESSAGE_BYTES, ROOM_FOR_HEADERS, SMALL_RECORD, Shape};
use crate::topology::model::{Cleanup, TopicSettings};

/// What is to be done with one of our topics, given the source that its shape follows.
pub(super) fn own(
    shape: &Shape,
    source: Option<(&TopicName, &Found)>,
    cleanup: Cleanup,
    settings: TopicSettings,
    here: &Found,
) -> Change {
    let needed = match source {
        None => Needed { partitions: 1, bytes: i128::from(SMALL_RECORD), cleanup },
        Some((_, Found::Present { partitions, config, .. })) => {
            let bytes = match shape {
                Shape::AsSource(_) => {
                    number(config, "max.message.bytes")
                        .unwrap_or(i128::try_from(BROKERS_OWN_MAX_MESSAGE_BYTES).unwrap_or(i128::MAX))
                        + i128::from(ROOM_FOR_HEADERS)
                }
                Shape::Small(_) | Shape::Single => i128::from(SMALL_RECORD),
            };
            Needed { partitions: *partitions, bytes, cleanup }
        }
        Some((source, Found::Missing | Found::Hidden { .. })) => {
            return Change::Refuse(vec![Problem {
                text: format!("has as many partitions as its source `{source}`, which is not there"),
                hint: None,
            }]);
        }
    };
    match here {
        Found::Missing => Change::Create(needed.new_topic(settings)),
        Found::Hidden { detail } => Change::Refuse(vec![hidden(detail)]),
        Found::Present { partitions, config, .. } => {
            let mut problems = needed.problems(config);
            if let Some((source, _)) = source.filter(|_| *partitions > needed.partitions) {
                problems.push(Problem {
                    text: format!(
                        "has `{partitions}` partitions, its source `{source}` has `{}`",
                        needed.partitions
                    ),
                    hint: Some(format!(
                        "records there would wait for ever; grow `{source}` to `{partitions}`"
                    )),
                });
            }
            match (problems.is_empty(), *partitions < needed.partitions) {
                (false, _) => Change::Refuse(problems),
                (true, true) => Change::Grow { from: *partitions, to: needed.partitions },
                (true, false) => Change::Keep { partitions: *partitions },
            }
        }
    }
}

struct Needed {
    partitions: usize,
    bytes: i128,
    cleanup: Cleanup,
}

impl Needed {
    fn new_topic(&self, settings: TopicSettings) -> New {
        let mut config = BTreeMap::from([
            ("max.message.bytes", self.bytes.to_string()),
            // The wait in a tier counts from the writer's time, not from the broker's.
            ("message.timestamp.type", "CreateTime".to_owned()),
        ]);
        match self.cleanup {
            Cleanup::Delete(retention) => {
                config.insert("cleanup.policy", "delete".to_owned());
                config.insert("retention.ms", retention.as_millis().to_string());
                config.insert("retention.bytes", "-1".to_owned());
            }
            Cleanup::Compact => {
                config.insert("cleanup.policy", "compact".to_owned());
                // It is read whole at every take-over, and only closed segments are compacted: what a take-over reads stays in
                // proportion to the keys, not to what was written since Kafka's own day of 1 GiB and a week.
                config.insert("segment.bytes", (64 << 20).to_string());
                config.insert("segment.ms", (60 * 60 * 1000).to_string());
                config.insert("min.cleanable.dirty.ratio", "0.2".to_owned());
            }
            Cleanup::CompactDelete(retention) => {
                config.insert("cleanup.policy", "compact,delete".to_owned());
                config.insert("retention.ms", retention.as_millis().to_string());
                config.insert("retention.bytes", "-1".to_owned());
            }
        }
        if let Some(min_isr) = settings.min_isr {
            config.insert("min.insync.replicas", min_isr.to_string());
        }
        let config = config.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        New { partitions: self.partitions, replication: settings.replication, config }
    }

    fn problems(&self, config: &BTreeMap<String, String>) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut must = |name: &str, needed: &str, why: &str| {
            let found = config.get(name).map_or("unknown", String::as_str);
            problems.push(Problem {
                text: format!("`{name}` is `{found}` and must be {needed}: {why}"),
                hint: Some(format!("change `{name}` of the topic")),
            });
        };
        let is = |name: &str, wanted: &str| config.get(name).is_some_and(|found| found == wanted);
        match self.cleanup {
            Cleanup::Delete(_) if !is("cleanup.policy", "delete") => {
                must(
                    "cleanup.policy",
                    "`delete`",
                    "compaction would remove records that wait for their time",
                );
            }
            Cleanup::Compact if !is("cleanup.policy", "compact") => {
                must("cleanup.policy", "`compact`", "deletion would forget what is still valid");
            }
            Cleanup::CompactDelete(_)
                if !is("cleanup.policy", "compact,delete") && !is("cleanup.policy", "delete,compact") =>
            {
                must(
                    "cleanup.policy",
                    "`compact,delete`",
                    "what is old goes, and of each key the newest stays",
                );
            }
            Cleanup::Delete(_) | Cleanup::Compact | Cleanup::CompactDelete(_) => {}
        }
        match self.cleanup {
            Cleanup::Delete(retention) | Cleanup::CompactDelete(retention) => {
                let needed = i128::try_from(retention.as_millis()).unwrap_or(i128::MAX);
                if number(config, "retention.ms").is_none_or(|found| found >= 0 && found < needed) {
                    must(
                        "retention.ms",
                        &format!("at least `{needed}`"),
                        "records would be deleted too early",
                    );
                }
                if number(config, "retention.bytes").is_none_or(|found| found >= 0) {
                    must("retention.bytes", "`-1`", "records would be deleted by size, whatever their age");
                }
            }
            Cleanup::Compact => {}
        }
        if number(config, "max.message.bytes").is_none_or(|found| found < self.bytes) {
            let needed = format!("at least `{}`", self.bytes);
            must("max.message.bytes", &needed, "the source's largest record and its headers must fit");
        }
        if !is("message.timestamp.type", "CreateTime") {
            must(
                "message.timestamp.type",
                "`CreateTime`",
                "the wait in a tier counts from the writer's time",
            );
        }
        problems
    }
}

fn number(config: &BTreeMap<String, String>, name: &str) -> Option<i128> {
    config.get(name)?.parse().ok()
}
