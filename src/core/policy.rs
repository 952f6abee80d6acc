//! What a pipeline's topology asks of the core, checked and in the core's own types.

use std::fmt;
use std::time::Duration;

use crate::core::envelope::Envelope;
use crate::core::event::Target;
use crate::core::guard::Version;
use crate::core::outcome::OutputName;
use crate::core::pointer::Pointer;
use crate::core::position::{Lane, TierIndex, TopicName};
use crate::core::record::HeaderName;
use crate::core::time::in_words;

/// Everything the core needs to know of one pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The name of the pipeline, for audits.
    pub name: String,
    /// The source topic: the first part of every origin.
    pub source: TopicName,
    /// The control lane: requests of operators.
    pub control: TopicName,
    /// The topic of each tier, in the ladder's order; then those of the tiers that are only drained.
    pub tiers: Vec<TopicName>,
    /// The delays of tiers that the ladder does not have and that still hold records: read, never written.
    pub draining: Vec<Duration>,
    /// Where handlers may write.
    pub outputs: Outputs,
    /// Where the identity of a source record comes from.
    pub identity: IdentityPolicy,
    /// What belongs together, and what may overtake what.
    pub order: OrderPolicy,
    /// The tries inside one delivery.
    pub in_place: InPlace,
    /// The tiers and how often the last is repeated.
    pub ladder: Ladder,
    /// From the first attempt; nothing is scheduled that could end after it.
    pub deadline: Duration,
    /// What an unknown outcome becomes.
    pub unknown: UnknownOutcome,
    /// The longest that one execution may take; zero where the handler has no time limit.
    pub handler_timeout: Duration,
    /// The bounds of what is in flight.
    pub flow: Flow,
}

impl Policy {
    /// The topic of a lane; of what was held the source, where it is from.
    pub fn topic(&self, lane: Lane) -> &TopicName {
        match lane {
            Lane::Source | Lane::Held => &self.source,
            Lane::Control => &self.control,
            Lane::Tier(tier) => self.tiers.get(tier.index()).unwrap_or(&self.source),
        }
    }

    /// The lanes of a task that are read from a topic, in the order of [`Lane::index`].
    pub fn lanes(&self) -> impl Iterator<Item = Lane> + use<> {
        self.all_lanes().filter(|lane| *lane != Lane::Held)
    }

    /// All lanes of a task, in the order of [`Lane::index`].
    pub(crate) fn all_lanes(&self) -> impl Iterator<Item = Lane> + use<> {
        let tiers = self.ladder.delays.len().saturating_add(self.draining.len());
        let first = Lane::Tier(TierIndex(0)).index();
        (0..first.saturating_add(tiers)).map(Lane::at)
    }

    /// How long a record waits in a lane; `None` where it does not.
    pub fn lane_delay(&self, lane: Lane) -> Option<Duration> {
        match lane {
            Lane::Source | Lane::Control | Lane::Held => None,
            Lane::Tier(tier) => self.ladder.delay(tier).or_else(|| {
                let place = tier.index().checked_sub(self.ladder.delays.len())?;
                self.draining.get(place).copied()
            }),
        }
    }

    /// Whether tasks wait for the topic of a lane where it is missing: not for requests that nobody can make, nor for a tier
    /// that is only drained and so may be deleted.
    pub fn needs(&self, lane: Lane) -> bool {
        match lane {
            Lane::Source => true,
            Lane::Control | Lane::Held => false,
            Lane::Tier(tier) => self.ladder.delay(tier).is_some(),
        }
    }

    /// The word of a lane in headers, logs and metrics: `source`, `control`, `held`, `retry.5s`.
    pub fn word(&self, lane: Lane) -> String {
        match lane {
            Lane::Source => "source".to_owned(),
            Lane::Control => "control".to_owned(),
            Lane::Held => "held".to_owned(),
            Lane::Tier(_) => format!("retry.{}", in_words(self.lane_delay(lane).unwrap_or_default())),
        }
    }
}

/// The outputs of a pipeline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outputs {
    /// The topic of its output.
    pub main: Option<TopicName>,
    /// Further outputs, by name.
    pub named: Vec<(String, TopicName)>,
}

impl Outputs {
    /// Where a handler's output goes; `None` where the topology has no such output.
    pub fn target(&self, name: &OutputName) -> Option<Target> {
        match name {
            OutputName::Main => self.main.as_ref().map(|_| Target::Output),
            OutputName::Named(name) => {
                let place = self.named.iter().position(|(named, _)| named == name)?;
                u16::try_from(place).ok().map(Target::Named)
            }
        }
    }
}

/// Where event id and operation id are read from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdentityPolicy {
    /// Where the event id stands; absent (here or on the record): the origin is the event id.
    pub event_id: Option<Source>,
    /// Where the operation id stands. Absent here: the event id. Absent on the record: `no-operation-id`.
    pub operation_id: Option<Source>,
}

/// Where a record says something of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// In a header.
    Header(HeaderName),
    /// In its value, which is JSON.
    Json(Pointer),
}

/// For people.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "header `{}`", name.as_str()),
            Self::Json(pointer) => write!(f, "`{pointer}` of its value"),
        }
    }
}

/// What belongs together, and what may overtake what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrderPolicy {
    /// What the records of one order have in common.
    pub key: OrderKey,
    /// What keeps an older version from following a newer one.
    pub guard: Guard,
    /// What becomes of later records of a key of which one waits in a tier.
    pub retrying: WhileRetrying,
    /// How much is held behind keys.
    pub held: HeldBounds,
}

impl OrderPolicy {
    /// Whether versions decide what has an effect.
    pub const fn is_guarded(&self) -> bool {
        match self.guard {
            Guard::None => false,
            Guard::Latest(_) | Guard::Contiguous(_) => true,
        }
    }

    /// Whether records are held behind their key, by version or by arrival.
    pub const fn holds(&self) -> bool {
        self.parks().is_some() || matches!(self.guard, Guard::Contiguous(_))
    }

    /// Whether later records of a key are held while one of it waits in a tier, and what becomes of them when that one dies.
    pub const fn parks(&self) -> Option<OnExhausted> {
        match self.retrying {
            WhileRetrying::Overtake => None,
            WhileRetrying::Park(on_exhausted) => Some(on_exhausted),
        }
    }

    /// Whether what is known of keys is kept in the state topic, and must be known before a record is handled.
    pub const fn keeps_state(&self) -> bool {
        self.is_guarded() || self.holds()
    }

    /// Where records go that are stale, beside being dropped.
    pub const fn stale_output(&self) -> Option<&TopicName> {
        match &self.guard {
            Guard::Latest(Latest { stale_output, .. })
            | Guard::Contiguous(Contiguous { stale_output, .. }) => stale_output.as_ref(),
            Guard::None => None,
        }
    }

    /// The key of a record's order; `None` where it has none.
    pub fn key_of<'a>(&self, envelope: &'a Envelope) -> Option<&'a [u8]> {
        match &self.key {
            OrderKey::Record => envelope.key.as_deref(),
            OrderKey::Partition => Some(&[]),
            OrderKey::Json(_) => envelope.order_key.as_deref(),
        }
    }

    /// Where versions stand; nowhere without a guard.
    pub fn versions(&self) -> &[Source] {
        match &self.guard {
            Guard::None => &[],
            Guard::Latest(Latest { version, .. }) | Guard::Contiguous(Contiguous { version, .. }) => version,
        }
    }
}

/// What the records of one order have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OrderKey {
    /// The key of the record.
    #[default]
    Record,
    /// The partition: everything in it is one order.
    Partition,
    /// What stands in the value, which is JSON.
    Json(Pointer),
}

/// What keeps an older version from following a newer one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Guard {
    /// Nothing: versions are not looked at.
    #[default]
    None,
    /// Only a version newer than the newest applied one is handled.
    Latest(Latest),
    /// Only the version after the applied one is handled; later ones are held until it is theirs.
    Contiguous(Contiguous),
}

/// How `guard = "contiguous"` judges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contiguous {
    /// Where the version stands; the first that exists counts. Never empty.
    pub version: Vec<Source>,
    /// How long a version may wait for the one before it, in time in which its task processes.
    pub gap_timeout: Duration,
    /// With which version the count of a key starts.
    pub first: First,
    /// Where records go that are stale, beside being dropped.
    pub stale_output: Option<TopicName>,
}

/// With which version the count of a key starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum First {
    /// With the first one that is admitted.
    #[default]
    Any,
    /// With this one.
    At(Version),
}

impl First {
    /// The first version of a count that this one is admitted to, or waits for.
    pub(crate) const fn or(self, version: Version) -> Version {
        match self {
            Self::Any => version,
            Self::At(first) => first,
        }
    }
}

/// What becomes of later records of a key of which one waits in a tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhileRetrying {
    /// They are handled.
    #[default]
    Overtake,
    /// They are held in the order in which they arrived.
    Park(OnExhausted),
}

/// What becomes of records that are held behind one that ends as a dead letter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnExhausted {
    /// They are handled.
    #[default]
    Continue,
    /// They are dead letters too, `predecessor-dead`.
    Follow,
}

/// How much is held behind keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldBounds {
    /// The most records of one key, at least 1.
    pub per_key: usize,
    /// The most bytes of held records of all tasks of a worker.
    pub bytes: usize,
}

impl Default for HeldBounds {
    fn default() -> Self {
        Self { per_key: 10_000, bytes: 64 << 20 }
    }
}

/// How `guard = "latest"` judges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latest {
    /// Where the version stands, as a decimal number or as an RFC 3339 time, which counts in milliseconds; the first that exists
    /// counts. Never empty.
    pub version: Vec<Source>,
    /// What becomes of another value under the version that is applied.
    pub equal: Equal,
    /// What a tombstone without a version counts as.
    pub tombstone: TombstoneVersion,
    /// Where records that are stale go, beside being dropped.
    pub stale_output: Option<TopicName>,
}

/// What becomes of another value under the version that is applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Equal {
    /// It is a dead letter, `version-conflict`.
    #[default]
    Conflict,
    /// It is handled.
    Apply,
    /// It is dropped as a duplicate.
    Drop,
}

/// What a tombstone without a version counts as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TombstoneVersion {
    /// A dead letter, `no-version`.
    #[default]
    DeadLetter,
    /// The version after the applied one.
    Next,
}

/// The tries inside one delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InPlace {
    /// How many executions one delivery may have, at least 1.
    pub executions: u32,
    /// The wait after execution *k* is uniform in `[0, min(cap, base·2^k)]`.
    pub base: Duration,
    /// The longest wait between two executions.
    pub cap: Duration,
    /// From the start of the delivery; no wait is started that would end after it.
    pub budget: Duration,
}

/// The ordered tiers of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ladder {
    /// The delay of each tier, rising. May be empty.
    pub delays: Vec<Duration>,
    /// How often the last tier is used before a record is exhausted, at least 1.
    pub last_tier_repeats: u32,
}

impl Ladder {
    /// The delay of a tier of this ladder.
    pub fn delay(&self, tier: TierIndex) -> Option<Duration> {
        self.delays.get(tier.index()).copied()
    }

    /// The tiers with their delays, shortest first.
    pub fn tiers(&self) -> impl DoubleEndedIterator<Item = (TierIndex, Duration)> + '_ {
        self.delays.iter().enumerate().map(|(index, delay)| (TierIndex::at(index), *delay))
    }

    /// The most attempts a record can have in one life.
    pub fn most_attempts(&self) -> u32 {
        let tiers = u32::try_from(self.delays.len()).unwrap_or(u32::MAX);
        match tiers {
            0 => 1,
            _ => tiers.saturating_add(self.last_tier_repeats),
        }
    }
}

/// What follows when a request went out and no verdict came back, and nothing can verify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownOutcome {
    /// A person decides: money is never taken twice because a timeout was read as a failure.
    DeadLetter,
    /// The handler is idempotent by operation id: it is treated as transient.
    Retry,
}

/// Who tells two living workers with one name apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twins {
    /// They themselves, by the fences that they deal each other.
    Fences,
    /// The group, which knows its members by name and turns the older of two away at once. One that is still fenced after a
    /// session is fenced by somebody whom the group does not know by this name: then they themselves.
    GroupWithin(Duration),
    /// The group, which turns the newer of two away for as long as the older one lives.
    Group,
}

/// The bounds of what is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Records of one task that are being handled or wait for their commit to begin.
    pub window: usize,
    /// The oldest settled record waits no longer than this for its transaction.
    pub commit_interval: Duration,
    /// How long running handlers may take to end when the worker is told to stop.
    pub drain: Duration,
    /// How long running handlers may take to end when Kafka takes a task back; far below the session timeout.
    pub revoke: Duration,
    /// The broker gives up a transaction that is older than this.
    pub transaction_timeout: Duration,
    /// Offsets of idle lanes are committed again this often, so that the broker never expires them.
    pub recommit: Duration,
    /// Who tells two living workers with one name apart.
    pub twins: Twins,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A policy with tiers of these many seconds, three executions in place, and generous bounds.
    pub(crate) fn policy(tiers: &[u64]) -> Policy {
        let delays: Vec<Duration> = tiers.iter().map(|seconds| Duration::from_secs(*seconds)).collect();
        Policy {
            name: "orders".to_owned(),
            source: TopicName::new("orders"),
            control: TopicName::new("shop.orders.control"),
            draining: Vec::new(),
            tiers: tiers
                .iter()
                .map(|seconds| TopicName::new(&format!("shop.orders.retry.{seconds}s")))
                .collect(),
            outputs: Outputs { main: Some(TopicName::new("orders.done")), named: Vec::new() },
            identity: IdentityPolicy::default(),
            order: OrderPolicy::default(),
            in_place: InPlace {
                executions: 3,
                base: Duration::from_millis(100),
                cap: Duration::from_secs(2),
                budget: Duration::from_secs(10),
            },
            ladder: Ladder { delays, last_tier_repeats: 1 },
            deadline: Duration::from_secs(24 * 60 * 60),
            unknown: UnknownOutcome::DeadLetter,
            handler_timeout: Duration::ZERO,
            flow: Flow {
                window: 16,
                commit_interval: Duration::from_millis(50),
                drain: Duration::from_secs(20),
                revoke: Duration::from_secs(5),
                transaction_timeout: Duration::from_secs(10),
                recommit: Duration::from_secs(3600),
                twins: Twins::Fences,
            },
        }
    }

    #[test]
    fn lanes_are_named_by_the_largest_unit_that_holds_their_delay() {
        let mut policy = policy(&[5, 60, 90, 7200]);
        policy.draining = vec![Duration::from_secs(86_400)];
        let words: Vec<String> = policy.lanes().map(|lane| policy.word(lane)).collect();
        assert_eq!(words, ["source", "control", "retry.5s", "retry.1m", "retry.90s", "retry.2h", "retry.1d"]);
    }
}
