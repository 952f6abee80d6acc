//! The topics of a topology in Kafka: what is there, what is missing, what is wrong; and making what is missing.
//!
//! Owns the questions to the brokers. What a topic must be like is [`wanted`]'s, what follows from the difference is
//! [`plan`]'s. Never deletes a topic, shrinks one, or changes a setting of one that exists.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use crate::core::position::TopicName;
use crate::core::time::in_words;
use crate::kafka::settings::SettingsError;
use crate::kafka::stopwatch::Stopwatch;
use crate::topology::model::{Pipeline, Protocol, Topology};

mod brokers;
pub(crate) mod drained;
pub(crate) mod plan;
mod wanted;

use brokers::Brokers;
pub(super) use brokers::{Refusals, unreachable};
use drained::Drained;
use plan::{Change, Plan, Step};

/// Every broker knows of a new topic within this; usually some ms.
const KNOWN_WITHIN: Duration = Duration::from_secs(15);

/// The topics could not be looked at or made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdminError {
    /// The client refuses its settings.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The brokers refuse who we say we are.
    #[error(
        "the brokers refuse the login: {detail}\nhint: look at `sasl.*` and `ssl.*` under [kafka.properties]"
    )]
    Authentication {
        /// The client's words.
        detail: String,
    },
    /// No answer from the brokers.
    #[error("the brokers do not answer: {detail}\nhint: are the brokers of `bootstrap` up and reachable?")]
    Unreachable {
        /// The client's words.
        detail: String,
    },
    /// The brokers refuse to make or grow a topic.
    #[error("topic `{topic}`: {detail}")]
    Refused {
        /// Which topic.
        topic: String,
        /// The broker's words.
        detail: String,
    },
    /// What was made is not seen.
    #[error("the brokers made {topics} but do not show them `{seconds}` s later\nhint: try again")]
    NotSeen {
        /// Which topics.
        topics: String,
        /// How long it was waited.
        seconds: u64,
    },
}

/// Topics are missing or wrong: redrive does not start on them.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VerifyError {
    /// The brokers could not be asked.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// The brokers would give a member up while its transaction is still open.
    #[error(
        "group `{group}`: `consumer.session.timeout.ms` of the brokers is `{session}`, not longer than `transaction-timeout` \
         `{transaction}`\nhint: raise the one for this group, or lower the other under [pipeline.NAME.workers]"
    )]
    Session {
        /// Which group.
        group: String,
        /// The brokers' session timeout.
        session: String,
        /// Our transaction timeout.
        transaction: String,
    },
    /// Some topics are not as they must be.
    #[error("the topics are not as the topology needs them:{list}\nhint: {hint}")]
    Topics {
        /// One line each.
        list: String,
        /// What to do.
        hint: &'static str,
    },
}

/// What a running redrive needs to know of the topics that it was started on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verified {
    /// How long the broker keeps the offsets of topics that the group is not subscribed to; `None`: it does not say.
    pub(crate) offsets_retention: Option<Duration>,
    /// Tiers that are only drained.
    pub(crate) drained: Drained,
    /// By the pipeline's name.
    pub(crate) pipelines: BTreeMap<String, VerifiedPipeline>,
}

/// Of one pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VerifiedPipeline {
    /// The partitions of its source.
    pub(crate) partitions: usize,
    /// The smallest `max.message.bytes` of the topics that it writes.
    pub(crate) batch_bytes: usize,
    /// The session timeout of its group where that is the brokers' own; `None`: it is the members', or they do not say.
    pub(crate) session: Option<Duration>,
}

/// Compares the topology with the brokers' topics.
pub(crate) fn plan(topology: &Topology) -> Result<Plan, AdminError> {
    let brokers = Brokers::connect(topology)?;
    let Looked { mut plan, .. } = look(&brokers, topology)?;
    for step in plan.steps_mut() {
        let Change::Drain { partitions, waiting } = &mut step.change else { continue };
        let pipeline = topology.pipelines.iter().find(|pipeline| pipeline.name == step.pipeline);
        if let Some(pipeline) = pipeline {
            *waiting = Some(brokers.waiting(&topology.kafka, pipeline, &step.topic, *partitions)?);
        }
    }
    for pipeline in &topology.pipelines {
        match session(&brokers, topology, pipeline) {
            Ok(_) => {}
            Err(VerifyError::Admin(error)) => return Err(error),
            Err(refused @ (VerifyError::Session { .. } | VerifyError::Topics { .. })) => {
                plan.add_warning(&pipeline.group, refused.to_string());
            }
        }
    }
    Ok(plan)
}

/// Does what `plan` lists, unless it refuses anything. Comes back when the brokers show it.
pub(crate) fn apply(topology: &Topology, plan: &Plan) -> Result<(), AdminError> {
    if plan.verdict() != plan::Verdict::Changes {
        return Ok(());
    }
    let brokers = Brokers::connect(topology)?;
    for step in plan.steps() {
        match &step.change {
            Change::Keep { .. } | Change::Drain { .. } | Change::Hold { .. } | Change::Refuse(_) => {}
            Change::Create(new) => brokers.create(&step.topic, new, brokers::Trial::No)?,
            Change::Grow { to, .. } => brokers.grow(&step.topic, *to, brokers::Trial::No)?,
        }
    }
    let clock = Stopwatch::start();
    loop {
        let Looked { plan: now, .. } = look(&brokers, topology)?;
        if now.verdict() == plan::Verdict::Nothing {
            return Ok(());
        }
        if clock.left_of(KNOWN_WITHIN).is_none() {
            let topics = now.open().map(|step| format!("`{}`", step.topic)).collect::<Vec<_>>().join(", ");
            return Err(AdminError::NotSeen { topics, seconds: KNOWN_WITHIN.as_secs() });
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// What `redrive run` asks before it starts: every topic is there and as it must be.
pub(crate) struct Inquiry<'a> {
    brokers: Brokers,
    topology: &'a Topology,
}

impl<'a> Inquiry<'a> {
    /// Begins to connect to the brokers.
    pub(crate) fn of(topology: &'a Topology) -> Result<Self, VerifyError> {
        Ok(Self { brokers: Brokers::connect(topology)?, topology })
    }

    /// Asks, if any broker answers within `bound`. May be called again after [`AdminError::Unreachable`].
    pub(crate) fn attempt(&self, bound: Duration) -> Result<Verified, VerifyError> {
        self.brokers.reach(any_source(self.topology), bound)?;
        verify(&self.brokers, self.topology)
    }
}

/// A topic to ask about where any will do.
fn any_source(topology: &Topology) -> Option<&TopicName> {
    topology.pipelines.first().map(|pipeline| &pipeline.source)
}

fn verify(brokers: &Brokers, topology: &Topology) -> Result<Verified, VerifyError> {
    let mut looked = compare(brokers, topology)?;
    // A source that has grown is no reason to leave everything: the tasks of its new partitions wait for theirs.
    if !looked.plan.only_grows() {
        try_out(brokers, &mut looked.plan)?;
    }
    let Looked { plan, found, drained } = looked;
    if !plan.only_grows() {
        let list = plan.open().map(|step| format!("\n  {}", step.in_words())).collect();
        let hint = match plan.verdict() {
            plan::Verdict::Refused => "correct what is refused, then `redrive topics apply`",
            plan::Verdict::Nothing | plan::Verdict::Changes => "redrive topics apply",
        };
        return Err(VerifyError::Topics { list, hint });
    }
    let pipelines = topology.pipelines.iter().map(|pipeline| {
        let session = session(brokers, topology, pipeline)?;
        let partitions = found.get(&pipeline.source).map_or(0, plan::Found::partitions);
        let batch_bytes = wanted::written(pipeline)
            .filter_map(|topic| found.get(topic).and_then(plan::Found::max_message_bytes))
            .min()
            .unwrap_or(wanted::BROKERS_OWN_MAX_MESSAGE_BYTES);
        Ok((pipeline.name.clone(), VerifiedPipeline { partitions, batch_bytes, session }))
    });
    let pipelines = pipelines.collect::<Result<_, VerifyError>>()?;
    let offsets_retention = brokers.offsets_retention(any_source(topology))?;
    Ok(Verified { offsets_retention, drained, pipelines })
}

/// The session timeout that the brokers have for the group of a pipeline. No transaction may outlive it: the next owner of
/// its partitions would wait for it.
fn session(
    brokers: &Brokers,
    topology: &Topology,
    pipeline: &Pipeline,
) -> Result<Option<Duration>, VerifyError> {
    let session = match topology.kafka.protocol {
        Protocol::Classic => None,
        Protocol::Consumer => brokers.group_session(&pipeline.group)?,
    };
    let transaction = pipeline.policy.flow.transaction_timeout;
    match session {
        Some(session) if session <= transaction => Err(VerifyError::Session {
            group: pipeline.group.clone(),
            session: in_words(session),
            transaction: in_words(transaction),
        }),
        Some(_) | None => Ok(session),
    }
}

type Topics = BTreeMap<TopicName, plan::Found>;

struct Looked {
    plan: Plan,
    found: Topics,
    drained: Drained,
}

/// Compares, and has the brokers say of each change whether they would make it.
fn look(brokers: &Brokers, topology: &Topology) -> Result<Looked, AdminError> {
    let mut looked = compare(brokers, topology)?;
    try_out(brokers, &mut looked.plan)?;
    Ok(looked)
}

fn compare(brokers: &Brokers, topology: &Topology) -> Result<Looked, AdminError> {
    let drained = Drained::among(topology, &brokers.topics()?);
    let mut found = Topics::new();
    for wanted in wanted::topics(topology, &drained) {
        if !found.contains_key(&wanted.topic) {
            found.insert(wanted.topic.clone(), brokers.look(&wanted.topic)?);
        }
    }
    let plan = Plan::of(topology, &drained, &found);
    Ok(Looked { plan, found, drained })
}

/// Only the broker knows whether we may, and what its own policies say.
fn try_out(brokers: &Brokers, plan: &mut Plan) -> Result<(), AdminError> {
    for step in plan.steps_mut() {
        let tried = match &step.change {
            Change::Keep { .. } | Change::Drain { .. } | Change::Hold { .. } | Change::Refuse(_) => Ok(()),
            Change::Create(new) => brokers.create(&step.topic, new, brokers::Trial::Yes),
            Change::Grow { to, .. } => brokers.grow(&step.topic, *to, brokers::Trial::Yes),
        };
        match tried {
            Ok(()) => {}
            Err(AdminError::Refused { detail, .. }) => refuse(step, detail),
            Err(other) => return Err(other),
        }
    }
    Ok(())
}

fn refuse(step: &mut Step, detail: String) {
    let problem = plan::Problem {
        text: detail,
        hint: Some("ask the cluster's owner for the right to do it".to_owned()),
    };
    step.change = Change::Refuse(vec![problem]);
}

#[cfg(test)]
#[cfg(feature = "broker-tests")]
mod tests;
