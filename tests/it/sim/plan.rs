//! What a seed decides before the first step: the pipeline, its source records, and every fault with its time.

use std::sync::Arc;
use std::time::Duration;

use redrive::core::event::Target;
use redrive::core::policy::{
    Flow, IdentityPolicy, InPlace, Ladder, OrderPolicy, Outputs, Policy, Source, Twins, UnknownOutcome,
};
use redrive::core::position::{TierIndex, TopicName};
use redrive::core::record::{HeaderName, Record};

use super::cluster::Topic;
use super::lineage::topic_name;
use super::random::Random;

/// The header with the event id, where a plan configures one.
pub(crate) const EVENT_ID: &str = "ce-id";
/// The header with the operation id, where a plan configures one.
pub(crate) const OPERATION_ID: &str = "op-id";

/// A member whose heartbeats stop is taken out after this.
pub(crate) const SESSION: Duration = Duration::from_secs(15);
/// A member that does not join a rebalance is taken out after this.
pub(crate) const REBALANCE: Duration = Duration::from_secs(60);

/// One micro-step of the shell at which a fault can be armed: it strikes right before the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Micro {
    Begin,
    Produce,
    Check,
    Offsets,
    Commit,
    Verdict,
    Answer,
    Abort,
    Renew,
    ReadBack,
    Restore,
    Action,
    Event,
}

impl Micro {
    pub(crate) const ALL: [Self; 13] = [
        Self::Begin,
        Self::Produce,
        Self::Check,
        Self::Offsets,
        Self::Commit,
        Self::Verdict,
        Self::Answer,
        Self::Abort,
        Self::Renew,
        Self::ReadBack,
        Self::Restore,
        Self::Action,
        Self::Event,
    ];

    /// Those inside a transaction.
    pub(crate) const TRANSACT: [Self; 7] =
        [Self::Begin, Self::Produce, Self::Check, Self::Offsets, Self::Commit, Self::Verdict, Self::Answer];
}

/// What becomes of a commit whose verdict the client never sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LostVerdict {
    /// The request never arrives.
    RequestLost,
    /// It arrives, the answer is lost.
    ReplyLost,
    /// It arrives this much later than the client gave up.
    RequestLate(Duration),
    /// The answer is lost; the same producer sends it once more after this, and hears.
    Repeated(Duration),
}

/// What strikes a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strike {
    /// SIGKILL; started again after this.
    Crash(Duration),
    /// The whole process stands still.
    Pause(Duration),
    /// The transactor alone stands still.
    Delay(Duration),
    /// The group takes it out; it learns that after this.
    Expel(Duration),
    /// It gives up its membership by itself; the group learns that after this.
    SelfLoss(Duration),
    /// Another process initialises its transactional ids and goes away.
    Twin,
    /// The commit that is sent next gets no verdict.
    Verdict(LostVerdict),
    /// The transaction fails with an error that names nothing.
    Passing,
}

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Strikes now.
    Now {
        slot: usize,
        strike: Strike,
    },
    /// Strikes before the next micro-step of this kind.
    At {
        slot: usize,
        micro: Micro,
        strike: Strike,
    },
    /// Told to stop; started again this long after it ended.
    Drain {
        slot: usize,
        restart: Duration,
    },
    /// The group deals out all partitions anew.
    Rebalance,
    /// A topic cannot be written for a while.
    Unwritable {
        target: Target,
        lasts: Duration,
    },
    /// Records for a topic are refused as they are for a while.
    Refuse {
        target: Target,
        lasts: Duration,
    },
    /// The broker answers nothing for a while.
    Stall {
        lasts: Duration,
    },
    /// A worker's calendar jumps by this many milliseconds.
    ClockJump {
        slot: usize,
        millis: i64,
    },
    /// The handler fails every call, or answers none within its time limit.
    HandlerDown {
        lasts: Duration,
    },
    HandlerHangs {
        lasts: Duration,
    },
}

/// A rolling update of the topology: processes that start from then on have the other ladder.
#[derive(Clone, Debug)]
pub(crate) struct Update {
    pub(crate) at: Duration,
    before: Arc<Policy>,
    after: Arc<Policy>,
}

impl Update {
    fn draw(seed: u64, policy: &Policy, end: Duration) -> Option<Self> {
        let mut random = Random::new(seed ^ 0x0add_7e15);
        let (whole, mut short) = (policy.clone(), policy.clone());
        let last = short.ladder.delays.pop()?;
        let (before, after) = match random.below(6) {
            0 => {
                short.draining.push(last);
                (whole, short)
            }
            1 => {
                short.tiers.pop();
                (short, whole)
            }
            _ => return None,
        };
        let at = random.time(Duration::ZERO, end);
        Some(Self { at, before: Arc::new(before), after: Arc::new(after) })
    }
}

/// Everything a seed decides in advance.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    /// With every tier that there ever is.
    pub(crate) policy: Arc<Policy>,
    /// The last tier is taken out of the topology or comes into it.
    pub(crate) update: Option<Update>,
    pub(crate) workers: usize,
    pub(crate) partitions: i32,
    /// Records per source partition.
    pub(crate) records: usize,
    /// Keys per partition.
    pub(crate) keys: u64,
    /// When the source is written, and when the faults end.
    pub(crate) faults_end: Duration,
    pub(crate) faults: Vec<(Duration, Fault)>,
    /// Percent of handler calls that are slow.
    pub(crate) slow: u64,
    /// The group has offsets of the source from before.
    pub(crate) has_history: bool,
    /// Records that somebody else writes into the tiers.
    pub(crate) strangers: u64,
    /// Who has an identity of its own.
    pub(crate) identities: Identities,
    /// What operators ask, when, of which task.
    pub(crate) requests: Vec<(Duration, i32, Record)>,
}

/// Who has an identity of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Identities {
    Each,
    /// Two workers have the same.
    Twins,
}

impl Plan {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let tiers = random.between(2, 3) as usize;
        let workers = random.between(3, 4) as usize;
        let partitions = random.between(3, 5) as i32;
        let policy = Policy { order: super::versions::order(seed), ..policy(&mut random, tiers) };
        let faults_end = random.time(Duration::from_secs(20), Duration::from_secs(120));
        let count = random.between(56, 84);
        let mut faults: Vec<(Duration, Fault)> = (0..count)
            .map(|_| (random.time(Duration::ZERO, faults_end), fault(&mut random, workers, tiers)))
            .collect();
        let update = Update::draw(seed, &policy, faults_end);
        if let Some(update) = &update {
            // Every process is replaced, one after another.
            let gap = Duration::from_millis(500);
            let replaced =
                (0..workers).map(|slot| (update.at + gap * slot as u32, Fault::Drain { slot, restart: gap }));
            faults.extend(replaced);
        }
        faults.extend(super::asking::faults(seed, faults_end));
        faults.extend(super::versions::faults(seed, &policy.order, faults_end));
        faults.sort_by_key(|(at, _)| *at);
        Self {
            seed,
            update,
            policy: Arc::new(policy),
            workers,
            partitions,
            records: random.between(8, 48) as usize,
            keys: random.between(2, 8),
            faults_end,
            faults,
            slow: *random.pick(&[0, 5, 30]),
            has_history: random.chance(20),
            requests: super::asking::requests(seed, partitions, faults_end),
            strangers: if random.chance(20) { random.between(1, 4) } else { 0 },
            identities: Identities::Each,
        }
    }

    /// The policy of a process that starts now.
    pub(crate) fn policy_at(&self, now: Duration) -> Arc<Policy> {
        let policy = match &self.update {
            Some(update) if now < update.at => &update.before,
            Some(update) => &update.after,
            None => &self.policy,
        };
        Arc::clone(policy)
    }

    /// Two workers with one identity and plenty to do, and every fault that does not end a process.
    pub(crate) fn twins(seed: u64) -> Self {
        let mut plan = Self::new(seed);
        let lives = |strike: &Strike| !matches!(strike, Strike::Crash(_) | Strike::Twin);
        plan.faults.retain(|(_, fault)| match fault {
            Fault::Now { slot, strike } | Fault::At { slot, strike, .. } => *slot < 2 && lives(strike),
            Fault::ClockJump { slot, .. } => *slot < 2,
            Fault::Drain { .. } => false,
            Fault::Rebalance
            | Fault::Unwritable { .. }
            | Fault::Refuse { .. }
            | Fault::Stall { .. }
            | Fault::HandlerDown { .. }
            | Fault::HandlerHangs { .. } => true,
        });
        Self { workers: 2, records: 100, identities: Identities::Twins, update: None, ..plan }
    }

    /// By how many milliseconds clocks jump.
    pub(crate) fn clock_jumps(&self) -> impl Iterator<Item = i64> {
        self.faults.iter().filter_map(|(_, fault)| {
            if let Fault::ClockJump { millis, .. } = fault { Some(*millis) } else { None }
        })
    }

    /// After the faults every record must have its fate within this time.
    pub(crate) fn patience(&self) -> Duration {
        let ladder = &self.policy.ladder;
        let longest = ladder.delays.last().copied().unwrap_or_default();
        let one = (longest * ladder.most_attempts()).max(self.policy.deadline) + Duration::from_secs(1200);
        // Records of a key that parks go through the ladder one after another.
        let behind = if self.policy.order.holds() { 10 } else { 1 };
        one * behind
    }
}

fn policy(random: &mut Random, tiers: usize) -> Policy {
    let first = random.millis(100, 2_000);
    let delays = (0..tiers).map(|tier| first * [1, 5, 20][tier]).collect();
    let has_ids = random.chance(25);
    let header = |name| has_ids.then(|| Source::Header(HeaderName::from_static(name)));
    Policy {
        name: "orders".to_owned(),
        source: TopicName::new(&topic_name(Topic::Source)),
        control: TopicName::new(&topic_name(Topic::Control)),
        draining: Vec::new(),
        tiers: (0..tiers).map(|tier| TopicName::new(&topic_name(Topic::Tier(TierIndex::at(tier))))).collect(),
        outputs: Outputs { main: Some(TopicName::new(&topic_name(Topic::Output))), named: Vec::new() },
        identity: IdentityPolicy { event_id: header(EVENT_ID), operation_id: header(OPERATION_ID) },
        order: OrderPolicy::default(),
        in_place: InPlace {
            executions: *random.pick(&[1, 1, 2, 3]),
            base: random.millis(10, 200),
            cap: Duration::from_secs(2),
            budget: random.millis(500, 10_000),
        },
        ladder: Ladder { delays, last_tier_repeats: random.between(1, 3) as u32 },
        deadline: *random.pick(&[
            Duration::from_secs(86_400),
            Duration::from_secs(600),
            Duration::from_secs(20),
        ]),
        unknown: *random.pick(&[UnknownOutcome::DeadLetter, UnknownOutcome::Retry]),
        handler_timeout: if random.chance(15) { Duration::ZERO } else { random.millis(500, 5_000) },
        flow: Flow {
            window: *random.pick(&[1, 4, 16, 64]),
            commit_interval: random.millis(1, 100),
            drain: Duration::from_secs(20),
            revoke: Duration::from_secs(3),
            transaction_timeout: Duration::from_secs(10),
            recommit: *random.pick(&[Duration::from_secs(3600), Duration::from_secs(45)]),
            twins: Twins::Fences,
        },
    }
}

fn target(random: &mut Random, tiers: usize) -> Target {
    match random.index(tiers + 2) {
        0 => Target::Output,
        1 => Target::DeadLetter,
        tier => Target::Tier(TierIndex(u16::try_from(tier - 2).unwrap_or(0))),
    }
}

fn strike(random: &mut Random) -> Strike {
    match random.below(16) {
        0..=3 => Strike::Crash(random.millis(10, 5_000)),
        4 => Strike::Pause(random.millis(100, 9_000)),
        5 => Strike::Pause(random.millis(15_500, 25_000)),
        6 => Strike::Delay(random.millis(50, 12_000)),
        7..=9 => Strike::Expel(random.millis(1, 3_000)),
        10 => Strike::SelfLoss(random.millis(1, 3_000)),
        11 => Strike::Twin,
        12..=14 => Strike::Verdict(match random.below(4) {
            0 => LostVerdict::RequestLost,
            1 => LostVerdict::ReplyLost,
            2 => LostVerdict::Repeated(random.millis(100, 4_000)),
            _ => LostVerdict::RequestLate(random.millis(0, 3_000)),
        }),
        _ => Strike::Passing,
    }
}

fn fault(random: &mut Random, workers: usize, tiers: usize) -> Fault {
    let slot = random.index(workers);
    match random.below(24) {
        0..=3 => Fault::Now { slot, strike: strike(random) },
        4..=10 => Fault::At { slot, micro: *random.pick(&Micro::TRANSACT), strike: strike(random) },
        11..=12 => Fault::At { slot, micro: *random.pick(&Micro::ALL), strike: strike(random) },
        13..=14 => Fault::Drain { slot, restart: random.millis(10, 10_000) },
        15..=16 => Fault::Rebalance,
        17 => Fault::Unwritable { target: target(random, tiers), lasts: random.millis(50, 10_000) },
        18 => Fault::Refuse { target: target(random, tiers), lasts: random.millis(50, 5_000) },
        19 => Fault::Stall { lasts: random.millis(50, 14_000) },
        20..=21 => {
            let millis = random.between(0, 8_000) as i64 - 4_000;
            Fault::ClockJump { slot, millis }
        }
        22 => Fault::HandlerDown { lasts: random.millis(100, 8_000) },
        _ => Fault::HandlerHangs { lasts: random.millis(100, 8_000) },
    }
}
