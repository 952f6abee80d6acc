//! Checks the invariants after every step, from the cluster's logs and from what the handlers were called with.
//!
//! It knows nothing of how a worker decides; whatever it holds it has read from the logs, the group's offsets or the
//! calls themselves.

mod calls;
mod copies;
mod cut;
mod held;
mod ledger;
mod lesser;
mod notes;
mod requests;
mod versions;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use redrive::core::event::Transaction;
use redrive::core::guard::Version;
use redrive::core::invariant::{Breach, InvariantId};
use redrive::core::policy::Policy;
use redrive::core::position::{Epoch, Lane, Offset, Partition};
use redrive::core::state::LanePosition;

use self::calls::{Call, CallKey};
use self::held::Holds;
use self::lesser::Refused;
use self::requests::Asked;
use self::versions::Versions;
use super::cluster::group::Process;
use super::cluster::{Cluster, Place};
use super::lineage::Root;
use super::plan::Plan;
use super::source::outputs_of;

/// What a run's logs say of one record.
#[derive(Clone, Debug)]
struct Tale {
    state: State,
    attempt: i64,
    first_attempt_at: Option<i64>,
    deadline_at: Option<i64>,
    due: i64,
    /// How many output records its handler makes.
    outputs: usize,
}

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unread,
    Waiting(Place, i64),
    Emitted,
    /// Without any effect, since it was not newer than what is applied.
    Dropped,
    Dead,
}

/// Who sent a commit, for which tasks, how far its calendar may have been ahead, and what it goes by.
#[derive(Debug)]
pub(crate) struct Author<'a> {
    pub(crate) now: Duration,
    pub(crate) process: Process,
    pub(crate) tasks: &'a [(i32, Epoch)],
    pub(crate) skew: i64,
    pub(crate) policy: &'a Policy,
}

/// The offset and the version of a record whose handling began.
type Started = (i64, Option<Version>);

/// One task as one process had it at one time.
pub(crate) type Holding = (Process, i32, Epoch);

/// When a record was handed to a worker, and how far its calendar was ahead then.
pub(crate) type Seen = (Duration, i64);

/// The checks and what they have read so far.
#[derive(Debug)]
pub(crate) struct Checker {
    policy: Arc<Policy>,
    tales: BTreeMap<Root, Tale>,
    unfinished: usize,
    requests: BTreeMap<Root, Asked>,
    /// The committed offsets as the decided transactions say.
    committed: BTreeMap<Place, i64>,
    /// What the state topic says of each lane.
    noted: BTreeMap<Place, LanePosition>,
    /// When a task's offsets were last committed without any change.
    recommitted: BTreeMap<i32, Duration>,
    /// When the lanes of a task were opened.
    opened: BTreeMap<Holding, Duration>,
    calls: BTreeMap<CallKey, Call>,
    running_keys: BTreeSet<(Holding, Vec<u8>)>,
    last_started: BTreeMap<(Holding, Lane, Vec<u8>), Started>,
    /// Records before this offset got their fate in a transaction that was formed.
    formed: BTreeMap<(Holding, Lane), i64>,
    seen: BTreeMap<(Holding, Lane, i64), Seen>,
    /// How far the calendar was ahead of whoever wrote a due time.
    due_skews: BTreeMap<(Place, i64), i64>,
    /// How records were refused, of which no batch-mate was to blame.
    refusals: BTreeMap<Root, BTreeSet<Refused>>,
    /// What is applied of each key.
    versions: Versions,
    holds: Holds,
    /// The most that two clocks can differ, in milliseconds.
    widest_skew: i64,
}

pub(super) fn broken<T>(id: InvariantId, detail: String) -> Result<T, Breach> {
    Err(Breach { id, detail })
}

impl Checker {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            policy: Arc::clone(&plan.policy),
            tales: BTreeMap::new(),
            unfinished: 0,
            requests: BTreeMap::new(),
            committed: BTreeMap::new(),
            noted: BTreeMap::new(),
            recommitted: BTreeMap::new(),
            opened: BTreeMap::new(),
            calls: BTreeMap::new(),
            running_keys: BTreeSet::new(),
            last_started: BTreeMap::new(),
            formed: BTreeMap::new(),
            seen: BTreeMap::new(),
            due_skews: BTreeMap::new(),
            refusals: BTreeMap::new(),
            versions: Versions::default(),
            holds: Holds::default(),
            widest_skew: plan.clock_jumps().map(i64::abs).sum(),
        }
    }

    /// A record that will count was written to the source, or by somebody else to a tier.
    pub(crate) fn root_written(&mut self, root: Root, plan: &Plan) {
        let tale = Tale {
            state: State::Unread,
            attempt: 0,
            first_attempt_at: None,
            deadline_at: None,
            due: 0,
            outputs: outputs_of(plan.seed, root),
        };
        self.tales.insert(root, tale);
        self.unfinished += 1;
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.unfinished == 0 && self.has_answered()
    }

    /// The records that have no final fate, with where they are.
    pub(crate) fn unfinished(&self) -> Vec<String> {
        let open = self
            .tales
            .iter()
            .filter(|(_, tale)| !matches!(tale.state, State::Emitted | State::Dropped | State::Dead));
        open.map(|(source, tale)| format!("{source:?} {:?} attempt {}", tale.state, tale.attempt)).collect()
    }

    /// R6 and R8 as far as a transaction's form tells.
    pub(crate) fn transaction_formed(
        &mut self,
        cluster: &Cluster,
        process: Process,
        transaction: &Transaction,
        has_another: bool,
        now: Duration,
    ) -> Result<(), Breach> {
        if has_another {
            return broken(InvariantId::R8, format!("{process:?} forms a transaction while one is open"));
        }
        let mut changes = !transaction.writes.is_empty();
        for task in &transaction.tasks {
            let holding = (process, task.partition.0, task.epoch);
            if task.offsets.iter().all(|(lane, _)| *lane != Lane::Source) {
                return broken(InvariantId::R1, format!("task {} without a source offset", task.partition));
            }
            for (lane, offset) in &task.offsets {
                let formed = self.formed.entry((holding, *lane)).or_insert(0);
                *formed = offset.0.max(*formed);
                let place = Place::lane(*lane, task.partition.0);
                // One that has lost the task may not know what is committed.
                changes |= cluster.group.owner(task.partition.0) != Some(process);
                changes |= cluster.committed(place).is_none_or(|known| known.offset != offset.0);
            }
        }
        if changes {
            return Ok(());
        }
        // Offsets of idle lanes are committed again, but not sooner than the policy says.
        for task in &transaction.tasks {
            let holding = (process, task.partition.0, task.epoch);
            // A start is committed before the lanes are opened.
            let Some(first) = self.opened.get(&holding).copied() else { continue };
            let last = self.recommitted.get(&task.partition.0).copied();
            if now < last.map_or(first, |last: Duration| last.max(first)) + self.policy.flow.recommit / 2 {
                let detail =
                    format!("a transaction of task {} changes nothing, and none is due", task.partition);
                return broken(InvariantId::R8, detail);
            }
            self.recommitted.insert(task.partition.0, now);
        }
        Ok(())
    }

    /// The lanes of a task are read from now on.
    pub(crate) fn task_opened(
        &mut self,
        process: Process,
        partition: Partition,
        epoch: Epoch,
        now: Duration,
    ) {
        self.opened.insert((process, partition.0, epoch), now);
        self.holds.opened(partition.0, process, now);
    }

    /// R8: a worker's two producers never have transactions open at the same time.
    pub(crate) fn transaction_begun(&self, slot: usize, open: usize) -> Result<(), Breach> {
        if open > 1 {
            return broken(InvariantId::R8, format!("w{slot} has {open} open transactions"));
        }
        Ok(())
    }

    /// R2: the broker took offsets of a task.
    pub(crate) fn offsets_accepted(
        &self,
        partition: i32,
        process: Process,
        owner: Option<Process>,
        stale: bool,
    ) -> Result<(), Breach> {
        if owner != Some(process) {
            let detail =
                format!("offsets of task {partition} taken from {process:?}, its owner is {owner:?}");
            return broken(InvariantId::R2, detail);
        }
        if stale {
            return broken(InvariantId::R2, format!("offsets of task {partition} taken for an old epoch"));
        }
        Ok(())
    }

    /// R2: a task goes back.
    pub(crate) fn given_back(
        &mut self,
        partition: i32,
        in_transaction: bool,
        process: Process,
        now: Duration,
    ) -> Result<(), Breach> {
        self.holds.closed(partition, process, now);
        if in_transaction {
            let detail = format!("task {partition} is given back while a transaction that holds it is open");
            return broken(InvariantId::R2, detail);
        }
        Ok(())
    }

    /// Whether a handler runs for a keyed record of a task.
    pub(crate) fn is_handling(&self, process: Process, partition: Partition, epoch: Epoch) -> bool {
        self.running_keys.iter().any(|(holding, _)| *holding == (process, partition.0, epoch))
    }

    /// Records were handed to a core.
    pub(crate) fn records_seen(
        &mut self,
        holding: Holding,
        lane: Lane,
        offsets: impl Iterator<Item = Offset>,
        seen: Seen,
    ) {
        for offset in offsets {
            self.seen.insert((holding, lane, offset.0), seen);
        }
    }

    /// What a dead process had in hand vanishes. Its answers stay: a commit that it sent may still arrive.
    pub(crate) fn process_ends(&mut self, process: Process, now: Duration) {
        self.holds.process_ends(process, now);
        self.running_keys.retain(|(holding, _)| holding.0 != process);
        self.last_started.retain(|(holding, _, _), _| holding.0 != process);
        self.formed.retain(|(holding, _), _| holding.0 != process);
        self.seen.retain(|(holding, _, _), _| holding.0 != process);
    }
}
