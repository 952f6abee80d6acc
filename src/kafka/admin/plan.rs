//! What is to be done so that the brokers' topics are as a topology needs them.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::core::position::TopicName;
use crate::kafka::admin::drained::Drained;
use crate::kafka::admin::wanted::{self, Kind, Wanted};
use crate::topology::model::Topology;

mod existing;

/// Replicas below which one lost broker stops a pipeline or loses records.
const SAFE_REPLICATION: usize = 3;

/// What the brokers show of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// It does not exist.
    Missing,
    /// It exists.
    Present {
        /// Its partitions.
        partitions: usize,
        /// The replicas of the partition that has fewest.
        replicas: usize,
        /// Its settings, the broker's defaults included.
        config: BTreeMap<String, String>,
    },
    /// The brokers do not let us see it.
    Hidden {
        /// The broker's words.
        detail: String,
    },
}

impl Found {
    /// Its partitions, 0 where it is not seen.
    pub(super) fn partitions(&self) -> usize {
        match self {
            Self::Present { partitions, .. } => *partitions,
            Self::Missing | Self::Hidden { .. } => 0,
        }
    }

    /// The most bytes of one batch.
    pub(super) fn max_message_bytes(&self) -> Option<usize> {
        match self {
            Self::Present { config, .. } => config.get("max.message.bytes")?.parse().ok(),
            Self::Missing | Self::Hidden { .. } => None,
        }
    }
}

/// Every topic of a topology with what is to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Plan {
    steps: Vec<Step>,
    warnings: Vec<Warning>,
}

/// One topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Step {
    /// The pipeline.
    pub(crate) pipeline: String,
    /// What it is to the pipeline.
    pub(crate) role: String,
    /// Its name.
    pub(crate) topic: String,
    /// What is to be done.
    #[serde(flatten)]
    pub(crate) change: Change,
}

/// What is to be done with a topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "action", content = "detail", rename_all = "kebab-case")]
pub(crate) enum Change {
    /// Nothing: it is as it must be.
    Keep {
        /// Its partitions.
        partitions: usize,
    },
    /// Nothing: what waits in it is delivered, and nothing is written to it, since the topology has no such tier.
    Drain {
        /// Its partitions.
        partitions: usize,
        /// So many records wait in it, at most: transaction markers count. `None`: nobody asked.
        waiting: Option<u64>,
    },
    /// It is missing and will be made.
    Create(New),
    /// It has too few partitions.
    Grow {
        /// As many as it has.
        from: usize,
        /// As many as it needs.
        to: usize,
    },
    /// It has too few partitions, and is not grown: the keys of a guarded pipeline may have moved to other partitions, where
    /// their versions are not known.
    Hold {
        /// As many as it has.
        from: usize,
        /// As many as its source has.
        to: usize,
    },
    /// It is not as it must be, and only its owner may change it.
    Refuse(Vec<Problem>),
}

/// A topic to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct New {
    /// Its partitions.
    pub(crate) partitions: usize,
    /// Its replicas; `None`: the broker's default.
    pub(crate) replication: Option<u16>,
    /// Its settings.
    pub(crate) config: BTreeMap<String, String>,
}

/// Why a topic cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Problem {
    /// What is wrong, with the numbers.
    pub(crate) text: String,
    /// What to do.
    pub(crate) hint: Option<String>,
}

/// What works, but not as well as it should.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Warning {
    /// The topic, or the group.
    pub(crate) topic: String,
    /// What is not as it should be.
    pub(crate) text: String,
}

/// What a plan comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    /// Everything is as it must be.
    Nothing,
    /// Something is to be made or grown.
    Changes,
    /// Something is wrong that only a person can change.
    Refused,
}

impl Plan {
    /// Compares what is needed with what was found.
    pub(super) fn of(topology: &Topology, drained: &Drained, found: &BTreeMap<TopicName, Found>) -> Self {
        let mut plan = Self { steps: Vec::new(), warnings: Vec::new() };
        for wanted in wanted::topics(topology, drained) {
            let missing = Found::Missing;
            let here = found.get(&wanted.topic).unwrap_or(&missing);
            let change = match &wanted.kind {
                Kind::Foreign => foreign(&wanted, here),
                Kind::Drained(source) => drain(here, found.get(source).unwrap_or(&missing)),
                Kind::Own { shape, cleanup, settings } => {
                    let source = shape.source().map(|source| (source, found.get(source).unwrap_or(&missing)));
                    existing::own(shape, source, *cleanup, *settings, here)
                }
            };
            let is_guarded = topology
                .pipelines
                .iter()
                .any(|pipeline| pipeline.name == wanted.pipeline && pipeline.policy.order.keeps_state());
            let change = if let Change::Grow { from, to } = change
                && is_guarded
            {
                Change::Hold { from, to }
            } else {
                change
            };
            plan.warn(&wanted, here, &change);
            plan.steps.push(Step {
                pipeline: wanted.pipeline,
                role: wanted.role,
                topic: wanted.topic.as_str().to_owned(),
                change,
            });
        }
        plan.warnings.extend(drained.shadowed().iter().map(|(topic, other)| Warning {
            topic: topic.as_str().to_owned(),
            text: format!("bears the name of a tier whose topic is `{other}`: nobody reads what is in it"),
        }));
        plan
    }

    /// Every topic, in the topology's order.
    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    pub(super) fn steps_mut(&mut self) -> &mut [Step] {
        &mut self.steps
    }

    /// What works, but not as well as it should.
    pub(crate) fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The topics that are not as they must be.
    pub(crate) fn open(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|step| !matches!(step.change, Change::Keep { .. } | Change::Drain { .. }))
    }

    /// Whether topics of redrive's own need further partitions, and nothing else is to be done.
    pub(super) fn only_grows(&self) -> bool {
        self.open().all(|step| matches!(step.change, Change::Grow { .. } | Change::Hold { .. }))
    }

    /// What it comes to.
    pub(crate) fn verdict(&self) -> Verdict {
        self.open().fold(Verdict::Nothing, |so_far, step| match (&step.change, so_far) {
            (Change::Refuse(_) | Change::Hold { .. }, _) | (_, Verdict::Refused) => Verdict::Refused,
            (Change::Keep { .. } | Change::Drain { .. }, so_far) => so_far,
            (Change::Create(_) | Change::Grow { .. }, Verdict::Nothing | Verdict::Changes) => {
                Verdict::Changes
            }
        })
    }

    pub(super) fn add_warning(&mut self, about: &str, text: String) {
        self.warnings.push(Warning { topic: about.to_owned(), text });
    }

    fn warn(&mut self, wanted: &Wanted, here: &Found, change: &Change) {
        let replicas = match (change, here) {
            (Change::Create(new), _) => new.replication.map(usize::from),
            (
                Change::Keep { .. } | Change::Grow { .. } | Change::Hold { .. },
                Found::Present { replicas, .. },
            ) => Some(*replicas),
            (
                Change::Keep { .. }
                | Change::Grow { .. }
                | Change::Hold { .. }
                | Change::Refuse(_)
                | Change::Drain { .. },
                _,
            ) => None,
        };
        if let Some(replicas) = replicas.filter(|replicas| *replicas < SAFE_REPLICATION) {
            self.warnings.push(Warning {
                topic: wanted.topic.as_str().to_owned(),
                text: format!(
                    "`{replicas}` of the {SAFE_REPLICATION} replicas that are safe: a broker that is lost may take records with it"
                ),
            });
        }
    }
}

impl Step {
    /// One line, or one per problem.
    pub(crate) fn in_words(&self) -> String {
        let Self { role, topic, change, .. } = self;
        match change {
            Change::Keep { partitions } => format!("keep {topic} ({role}): {partitions} partitions"),
            Change::Drain { partitions, waiting } => {
                format!("drain {topic} ({role}): {}", drained_in_words(*partitions, *waiting))
            }
            Change::Create(new) => format!("create {topic} ({role}): {}", new.in_words()),
            Change::Grow { from, to } => format!("grow {topic} ({role}): from {from} to {to} partitions"),
            Change::Hold { from, to } => {
                format!("hold {topic} ({role}): {}; {HOLD_HINT}", held_in_words(*from, *to))
            }
            Change::Refuse(problems) => {
                let list: Vec<_> = problems.iter().map(|problem| problem.text.as_str()).collect();
                format!("refuse {topic} ({role}): {}", list.join("; "))
            }
        }
    }
}

impl New {
    /// Partitions and settings.
    pub(crate) fn in_words(&self) -> String {
        let mut text = format!("{} partitions", self.partitions);
        if let Some(replication) = self.replication {
            text.push_str(&format!(", {replication} replicas"));
        }
        for (name, value) in &self.config {
            text.push_str(&format!(", {name}={value}"));
        }
        text
    }
}

/// What to do about a topic that is held.
pub(crate) const HOLD_HINT: &str = "its other tasks go on; let it drain, and read the source in a pipeline of another name, \
     whose guard begins anew";

/// What is to be said of a topic of a guarded pipeline that does not follow its source.
pub(crate) fn held_in_words(from: usize, to: usize) -> String {
    format!(
        "has {from} partitions, its source {to}: keys may have moved to other partitions, where the guard does not know \
         their versions"
    )
}

/// What is to be said of a tier that is only drained.
pub(crate) fn drained_in_words(partitions: usize, waiting: Option<u64>) -> String {
    let waits = match waiting {
        None => String::new(),
        Some(0) => ", nothing waits: it can be deleted".to_owned(),
        Some(waiting) => format!(", up to {waiting} records wait"),
    };
    format!("{partitions} partitions{waits}")
}

fn drain(here: &Found, source: &Found) -> Change {
    match here {
        Found::Present { partitions, .. } if *partitions < source.partitions() => {
            Change::Grow { from: *partitions, to: source.partitions() }
        }
        Found::Present { partitions, .. } => Change::Drain { partitions: *partitions, waiting: None },
        // It was there when the brokers listed it.
        Found::Missing => Change::Drain { partitions: 0, waiting: Some(0) },
        Found::Hidden { detail } => Change::Refuse(vec![hidden(detail)]),
    }
}

fn foreign(wanted: &Wanted, here: &Found) -> Change {
    match here {
        Found::Present { partitions, .. } => Change::Keep { partitions: *partitions },
        Found::Missing => Change::Refuse(vec![Problem {
            text: format!("the {} topic does not exist", wanted.role),
            hint: Some("redrive makes only topics of its own; create it, or correct its name".to_owned()),
        }]),
        Found::Hidden { detail } => Change::Refuse(vec![hidden(detail)]),
    }
}

fn hidden(detail: &str) -> Problem {
    Problem {
        text: format!("cannot be looked at: {detail}"),
        hint: Some("the right DESCRIBE and DESCRIBE_CONFIGS on the topic is missing".to_owned()),
    }
}

#[cfg(test)]
mod tests;
