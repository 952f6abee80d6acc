//! What a worker tells of its life: to logs and metrics, and to those who probe its health.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::admin::health::{Transacting, WorkerHealth};
use crate::core::event::{LaneStart, Part, Report, Restored, StopReason, TransactionResult};
use crate::core::position::{Lane, Offset, Partition};
use crate::core::record::Record;
use crate::core::time::Monotonic;
use crate::kafka::lookup::{Loss, Progress};
use crate::kafka::reader::LaneId;
use crate::kafka::source::NameTaken;
use crate::runtime::clock::Clock;
use crate::telemetry::Telemetry;
use crate::telemetry::blocked::BlockedBy;
use crate::telemetry::event::{
    APPLY, AccessRefused, BrokerFound, BrokerLost, FatalError, LaneBack, LaneBehindEnd, LaneRemade,
    LaneVanished, MemberNameGiven, MemberNameTaken, PartitionsFollowed, Rebalance, RebalanceSeen,
    RecordsFetched, RecordsLost, Reported, TaskLeft, TaskRestored, TaskRestores, TaskState, TaskWaits,
    TasksCounted, TimePassed, TooFewPartitions, TransactionEnded, TransactionLate, VersionsUnknown,
    WorkerStarted, WorkerStopped,
};

/// Time that tasks were blocked is counted this often.
const PASS_EVERY: Duration = Duration::from_secs(1);

/// The account of one worker.
#[derive(Debug)]
pub(super) struct Account {
    telemetry: Arc<Telemetry>,
    health: WorkerHealth,
    clock: Clock,
    tasks: BTreeMap<Partition, Taken>,
    blocked: BTreeMap<(BlockedBy, Stop), BTreeSet<Partition>>,
    passed: Monotonic,
    name: Name,
}

/// Whether the group lets this worker have its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    /// For all that is known.
    Ours,
    Taken,
}

/// What of a task does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stop {
    /// This part of it, until a topic can be written.
    Part(Part),
    /// Everything but its answers, until a person accepts repeats.
    Positions,
    /// All of it, until redrive's own topics have as many partitions as the source.
    Partitions,
}

#[derive(Debug)]
struct Taken {
    state: TaskState,
    since: Monotonic,
}

impl Account {
    pub(super) fn new(telemetry: Arc<Telemetry>, health: WorkerHealth, clock: Clock) -> Self {
        let passed = clock.now().mono;
        let (tasks, blocked) = (BTreeMap::new(), BTreeMap::new());
        Self { telemetry, health, clock, tasks, blocked, passed, name: Name::Ours }
    }

    /// For those who tell from other threads.
    pub(super) fn telemetry(&self) -> Arc<Telemetry> {
        Arc::clone(&self.telemetry)
    }

    /// The start goes on: brokers are waited for.
    pub(super) fn starting(&mut self) {
        let now = self.clock.now().mono;
        self.health.starting(now);
        self.pass(now);
    }

    /// Both producers are initialised and the source is subscribed.
    pub(super) fn started(&self, transactional_id: &str) {
        self.health.producers_ready();
        // One per producer.
        let ids = [0, 1].map(|slot| format!("{transactional_id}.{slot}"));
        self.telemetry.emit(WorkerStarted { transactional_ids: &ids });
    }

    /// A turn of the loop ended.
    pub(super) fn turn(&mut self) {
        let now = self.clock.now().mono;
        self.health.beat(now);
        self.pass(now);
    }

    fn pass(&mut self, now: Monotonic) {
        if now.since(self.passed) >= PASS_EVERY {
            self.passed = now;
            self.telemetry.emit(TimePassed { now });
        }
    }

    /// The group gave partitions; none is an assignment, too.
    pub(super) fn assigned(&mut self, partitions: &[Partition]) {
        self.named();
        let since = self.clock.now().mono;
        self.telemetry.emit(RebalanceSeen { kind: Rebalance::Assigned, partitions });
        let restoring = |partition: &Partition| (*partition, Taken { state: TaskState::Restoring, since });
        self.tasks.extend(partitions.iter().map(restoring));
        self.count();
        self.health.assigned(self.tasks.len());
    }

    /// A task that was stopped begins anew.
    pub(super) fn taken_anew(&mut self, partition: Partition) {
        let since = self.clock.now().mono;
        self.tasks.insert(partition, Taken { state: TaskState::Restoring, since });
        self.count();
    }

    /// What is known of the versions of a task's keys.
    pub(super) fn versions(&self, partition: Partition, found: &Restored) {
        let source = found.lanes.get(Lane::Source.index());
        if let (Some(keys), Some(LaneStart::Committed(next))) = (&found.keys, source)
            && keys.versions.is_empty()
            && next.0 > 0
        {
            self.telemetry.emit(VersionsUnknown { partition, next: *next });
        }
    }

    /// The group asks partitions back.
    pub(super) fn revoked(&mut self, partitions: &[Partition]) {
        self.telemetry.emit(RebalanceSeen { kind: Rebalance::Revoked, partitions });
        for partition in partitions {
            if let Some(task) = self.tasks.get_mut(partition) {
                task.state = TaskState::Leaving;
            }
        }
        self.count();
    }

    /// The group has taken partitions; this worker is outside until it is assigned again.
    pub(super) fn lost(&mut self, partitions: &[Partition]) {
        self.telemetry.emit(RebalanceSeen { kind: Rebalance::Lost, partitions });
        self.health.outside(self.clock.now().mono);
    }

    /// The lanes of a task are read.
    pub(super) fn opened(&mut self, partition: Partition) {
        let now = self.clock.now().mono;
        if let Some(task) = self.tasks.get_mut(&partition) {
            task.state = TaskState::Running;
            let took = now.since(task.since);
            self.telemetry.emit(TaskRestored { partition, took });
            self.health.restored(partition);
        }
        self.count();
    }

    /// A task is no longer worked on.
    pub(super) fn closed(&mut self, partition: Partition) {
        if self.tasks.remove(&partition).is_none() {
            return;
        }
        self.telemetry.emit(TaskLeft { partition });
        self.health.restored(partition);
        let parts = Part::ALL.map(Stop::Part);
        for stop in parts.into_iter().chain([Stop::Positions, Stop::Partitions]) {
            self.go_on(stop, &[partition]);
        }
        self.count();
    }

    /// This worker leaves its group.
    pub(super) fn stopped(&self, reason: &StopReason) {
        self.health.outside(self.clock.now().mono);
        self.telemetry.emit(WorkerStopped { reason });
    }

    /// It cannot go on.
    pub(super) fn fatal(&self, detail: &str) {
        self.telemetry.emit(FatalError { detail });
    }

    /// Records were read.
    pub(super) fn fetched(&self, lane: Lane, records: &[Record]) {
        self.telemetry.emit(RecordsFetched { lane, bytes: records.iter().map(size).sum() });
    }

    /// Retention deleted records before they were read.
    pub(super) fn records_lost(&self, loss: Loss) {
        let Loss { id: LaneId { partition, lane }, from, to } = loss;
        if from < to {
            self.telemetry.emit(RecordsLost { partition, lane, from, to });
        }
    }

    /// The state of a task is being read, so far to here.
    pub(super) fn restores(&self, Progress { partition, next, end }: Progress) {
        if self.tasks.get(&partition).is_some_and(|task| task.state == TaskState::Restoring) {
            self.telemetry.emit(TaskRestores { partition, next, end });
            self.health.restores(partition, (next, end));
        }
    }

    /// A task waits for what it must know to go on.
    pub(super) fn waits(&self, partition: Partition, detail: &str) {
        self.telemetry.emit(TaskWaits { partition, detail });
    }

    /// Topics of redrive's own do not have a task's partition: it waits until they have.
    pub(super) fn too_few_partitions(&mut self, partition: Partition, detail: &str) {
        if self.tasks.contains_key(&partition) {
            let now = self.clock.now().mono;
            self.telemetry.emit(TooFewPartitions { partition, detail, now });
            self.stop(Stop::Partitions, BlockedBy::Partitions, &[partition]);
            self.health.asks(partition, APPLY.to_owned());
        }
    }

    /// They have it.
    pub(super) fn has_partitions(&mut self, partition: Partition) {
        let waiting = self.blocked.get(&(BlockedBy::Partitions, Stop::Partitions));
        if waiting.is_some_and(|waiting| waiting.contains(&partition)) {
            self.telemetry.emit(PartitionsFollowed { partition, now: self.clock.now().mono });
            self.go_on(Stop::Partitions, &[partition]);
        }
    }

    /// A lane stands behind the end of its log.
    pub(super) fn behind_end(&self, id: LaneId, next: Offset, end: Offset) {
        let LaneId { partition, lane } = id;
        self.telemetry.emit(LaneBehindEnd { partition, lane, next, end });
    }

    /// The topic of a lane is gone: what that blocks waits until it is back.
    pub(super) fn vanished(&self, lane: Lane, blocks: Option<BlockedBy>) {
        blocks.into_iter().for_each(|by| self.health.blocked(by));
        self.telemetry.emit(LaneVanished { lane, blocks, now: self.clock.now().mono });
    }

    /// It is there again.
    pub(super) fn back(&self, lane: Lane, blocked: Option<BlockedBy>) {
        blocked.into_iter().for_each(|by| self.health.unblocked(by));
        self.telemetry.emit(LaneBack { lane, blocked, now: self.clock.now().mono });
    }

    /// A lane begins at the beginning of a topic that was made anew.
    pub(super) fn remade(&self, id: LaneId, left: Offset) {
        let LaneId { partition, lane } = id;
        self.telemetry.emit(LaneRemade { partition, lane, left });
    }

    /// A transaction came to a result.
    pub(super) fn transacted(&self, result: &TransactionResult, records: usize, took: Duration) {
        self.telemetry.emit(TransactionEnded { result, records, took });
    }

    /// What the transactor is at.
    pub(super) fn transacting(&self, at: Option<Transacting>) {
        self.health.transacting(at);
    }

    /// A transaction takes long.
    pub(super) fn transaction_late(&self, age: Duration) {
        self.telemetry.emit(TransactionLate { age });
    }

    /// The core reports.
    pub(super) fn reported(&mut self, mut report: Report) {
        // The core may still speak of tasks that have left: nothing would ever tell that they go on.
        if let Report::Blocked { partitions, .. } = &mut report {
            partitions.retain(|partition| self.tasks.contains_key(partition));
            if partitions.is_empty() {
                return;
            }
        }
        if let Report::Stale { partition, .. } = &report
            && !self.tasks.contains_key(partition)
        {
            return;
        }
        self.telemetry.emit(Reported { report: &report, now: self.clock.now().mono });
        match &report {
            Report::Blocked { part, partitions, target, .. } => {
                // A part is stopped by one topic at a time: what stopped it before no longer does.
                self.go_on(Stop::Part(*part), partitions);
                self.stop(Stop::Part(*part), (*target).into(), partitions);
            }
            Report::Stale { partition, ranges } => {
                self.stop(Stop::Positions, BlockedBy::PositionsStale, &[*partition]);
                self.health.asks(*partition, self.telemetry.resume_command(ranges));
            }
            Report::RepeatsAccepted { partition } => self.go_on(Stop::Positions, &[*partition]),
            Report::Unblocked { part, partitions, .. } => self.go_on(Stop::Part(*part), partitions),
            Report::Answered { .. } | Report::Settled(_) | Report::Broken(_) => {}
        }
    }

    /// The brokers do not let this worker read, or be in its group.
    pub(super) fn access_refused(&self, detail: &str) {
        self.telemetry.emit(AccessRefused { detail });
    }

    /// The group does not take this worker in yet: its name is taken.
    pub(super) fn name_taken(&mut self, taken: &NameTaken) {
        let now = self.clock.now().mono;
        self.name = Name::Taken;
        self.health.blocked(BlockedBy::MemberName);
        self.health.waits_for_name(now.plus(taken.within));
        let NameTaken { name, within, detail } = taken;
        self.telemetry.emit(MemberNameTaken { name, within: *within, detail, now });
    }

    /// The group has taken it in.
    fn named(&mut self) {
        match std::mem::replace(&mut self.name, Name::Ours) {
            Name::Ours => {}
            Name::Taken => {
                self.health.unblocked(BlockedBy::MemberName);
                self.telemetry.emit(MemberNameGiven { now: self.clock.now().mono });
            }
        }
    }

    /// No broker answers.
    pub(super) fn broker_lost(&self, detail: &str) {
        self.health.blocked(BlockedBy::Broker);
        self.telemetry.emit(BrokerLost { detail, now: self.clock.now().mono });
    }

    /// One answers again.
    pub(super) fn broker_found(&self) {
        self.health.unblocked(BlockedBy::Broker);
        self.telemetry.emit(BrokerFound { now: self.clock.now().mono });
    }

    fn stop(&mut self, stop: Stop, by: BlockedBy, partitions: &[Partition]) {
        self.blocked.entry((by, stop)).or_default().extend(partitions);
        self.health.blocked(by);
    }

    fn go_on(&mut self, stop: Stop, partitions: &[Partition]) {
        if matches!(stop, Stop::Positions | Stop::Partitions) {
            partitions.iter().for_each(|partition| self.health.asks_nothing(*partition));
        }
        for ((_, stopped), blocked) in &mut self.blocked {
            if *stopped == stop {
                blocked.retain(|partition| !partitions.contains(partition));
            }
        }
        let before: BTreeSet<BlockedBy> = self.blocked.keys().map(|(by, _)| *by).collect();
        self.blocked.retain(|_, blocked| !blocked.is_empty());
        for by in before.into_iter().filter(|by| self.blocked.keys().all(|(still, _)| still != by)) {
            self.health.unblocked(by);
        }
    }

    fn count(&self) {
        for state in TaskState::ALL {
            let count = self.tasks.values().filter(|task| task.state == state).count();
            self.telemetry.emit(TasksCounted { state, count });
        }
    }
}

/// The bytes of a record's key, value and headers.
fn size(record: &Record) -> usize {
    let of = |part: &Option<bytes::Bytes>| part.as_ref().map_or(0, bytes::Bytes::len);
    let headers =
        record.headers.iter().map(|header| header.name.as_str().len().saturating_add(of(&header.value)));
    headers.fold(of(&record.key).saturating_add(of(&record.value)), usize::saturating_add)
}
