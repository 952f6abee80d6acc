//! What a topic of our own must be like, made new or found.

use std::collections::BTreeMap;

use crate::core::position::TopicName;
use crate::kafka::admin::plan::{Change, Found, New, Problem, hidden};
use crate::kafka::admin::wanted::{BROKERS_OWN_MAX_MESSAGE_BYTES, Cleanup, ROOM_FOR_HEADERS};
use crate::topology::model::TopicSettings;

/// What is to be done with one of our topics.
pub(super) fn own(
    source: &TopicName,
    source_here: &Found,
    cleanup: Cleanup,
    settings: TopicSettings,
    here: &Found,
) -> Change {
    let needed = match source_here {
        Found::Present { partitions, config, .. } => Needed {
            partitions: *partitions,
            bytes: number(config, "max.message.bytes")
                .unwrap_or(i128::try_from(BROKERS_OWN_MAX_MESSAGE_BYTES).unwrap_or(i128::MAX))
                + i128::from(ROOM_FOR_HEADERS),
            cleanup,
        },
        Found::Missing | Found::Hidden { .. } => {
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
            if *partitions > needed.partitions {
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
            Cleanup::Delete(retention) => {
                if !is("cleanup.policy", "delete") {
                    must(
                        "cleanup.policy",
                        "`delete`",
                        "compaction would remove records that wait for their time",
                    );
                }
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
            Cleanup::Compact => {
                if !is("cleanup.policy", "compact") {
                    must("cleanup.policy", "`compact`", "deletion would forget what is still valid");
                }
            }
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
