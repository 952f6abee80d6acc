//! The simulated transactor: carries out one transaction in micro-steps, between any two of which a fault may strike.

use std::sync::Arc;
use std::time::Duration;

use redrive::core::event::{AbortCause, Event, Target, TaskCommit, Transaction, TransactionResult, Write};
use redrive::core::policy::Policy;
use redrive::core::position::{Epoch, Lane, Offset};
use redrive::core::record::{Header, Record};

use super::checker::Author;
use super::cluster::group::Process;
use super::cluster::transactions::{Ending, ProducerEpoch, Refusal, Serial};
use super::cluster::{Place, Topic};
use super::plan::{Identities, LostVerdict, Micro};
use super::planted::Bug;
use super::random::mix;
use super::reached::of_result;
use super::slot::Job;
use super::versions::rules;
use super::world::{Step, WorkerStep, World};

/// The next micro-step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Begin,
    Produce(usize),
    Check,
    Offsets,
    Commit,
    Abort(AbortCause),
    /// The commit is on its way; this becomes of its verdict.
    Sent,
}

impl Stage {
    const fn micro(&self) -> Micro {
        match self {
            Self::Begin => Micro::Begin,
            Self::Produce(_) => Micro::Produce,
            Self::Check => Micro::Check,
            Self::Offsets => Micro::Offsets,
            Self::Commit => Micro::Commit,
            Self::Abort(_) => Micro::Abort,
            Self::Sent => Micro::Verdict,
        }
    }
}

/// A commit on its way to the broker; it arrives whether its sender lives or not.
#[derive(Clone, Debug)]
pub(crate) struct SentCommit {
    process: Process,
    turn: usize,
    epoch: ProducerEpoch,
    reply: Reply,
    /// The tasks it is for.
    tasks: Vec<(i32, Epoch)>,
    /// What its sender goes by.
    policy: Arc<Policy>,
}

/// Whether the client hears how its commit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    Heard,
    Lost,
}

fn passing(detail: &str) -> AbortCause {
    AbortCause::Passing { detail: detail.to_owned() }
}

impl World {
    pub(crate) fn begin_job(&mut self, slot: usize, transaction: Box<Transaction>) {
        let formed = self.checker.transaction_formed(
            &self.cluster,
            self.slots[slot].process(),
            &transaction,
            self.slots[slot].job.is_some(),
            self.now,
        );
        self.check(formed);
        let worker = &mut self.slots[slot];
        let turn = worker.turn;
        worker.turn = 1 - turn;
        worker.job = Some(Job {
            transaction,
            turn,
            membership: worker.membership,
            begun: self.now,
            stage: Stage::Begin,
            stale: false,
            offsets_taken: false,
        });
        self.next_stage(slot, Stage::Begin);
    }

    pub(crate) fn next_stage(&mut self, slot: usize, stage: Stage) {
        if let Some(job) = &mut self.slots[slot].job {
            job.stage = stage;
        }
        let wait = self.latency();
        self.worker_after(slot, wait, WorkerStep::Transactor);
    }

    pub(crate) fn transactor_step(&mut self, slot: usize) {
        let Some(job) = &self.slots[slot].job else { return };
        let stage = job.stage.clone();
        if self.holds(slot, stage.micro(), || WorkerStep::Transactor) {
            return;
        }
        // A strike may have turned the transaction towards its abort.
        let Some(job) = &self.slots[slot].job else { return };
        let stage = job.stage.clone();
        if self.stalled_until > self.now {
            self.next_stage(slot, stage);
            return;
        }
        match stage {
            Stage::Begin => self.begin(slot),
            Stage::Produce(index) => self.produce(slot, index),
            Stage::Check => self.check_epochs(slot),
            Stage::Offsets => self.send_offsets(slot),
            Stage::Commit => {
                let lost = self.slots[slot].lose_verdict.take();
                self.send_commit(slot, lost);
            }
            Stage::Abort(cause) => self.abort(slot, cause),
            Stage::Sent => {}
        }
    }

    pub(crate) fn job(&self, slot: usize) -> &Job {
        self.slots[slot].job.as_ref().expect("a transaction in hand")
    }

    fn begin(&mut self, slot: usize) {
        if let Some(turn) = (0..2).find(|turn| self.slots[slot].discarded[*turn]) {
            self.fence(slot, turn);
            let wait = self.latency();
            return self.worker_after(slot, wait, WorkerStep::Renewed(turn));
        }
        let job = self.job(slot);
        let id = self.slots[slot].id(job.turn);
        if !self.cluster.transactions.is_settled(id) {
            // The markers of the last transaction of this producer are being written.
            self.worker_after(slot, Duration::from_millis(20), WorkerStep::Transactor);
            return;
        }
        if let Some(target) = job.transaction.probe.filter(|target| self.unwritable.contains_key(target)) {
            let detail = "still away".to_owned();
            return self.next_stage(slot, Stage::Abort(AbortCause::Unwritable { target, detail }));
        }
        if let Some(job) = &mut self.slots[slot].job {
            job.begun = self.now;
        }
        let first = match self.bug {
            Some(Bug::CommitBeforeProduce) => Stage::Check,
            Some(_) | None => Stage::Produce(0),
        };
        self.next_stage(slot, first);
    }

    fn produce(&mut self, slot: usize, index: usize) {
        let job = self.job(slot);
        let Some(write) = job.transaction.writes.get(index).cloned() else {
            return self.next_stage(slot, Stage::Check);
        };
        let turn = job.turn;
        let (place, record) = self.to_send(slot, &write);
        let failed = if self.unwritable.contains_key(&write.target) {
            let detail = "as planned".to_owned();
            Some(AbortCause::Unwritable { target: write.target, detail })
        } else {
            self.refusal(slot, (index, &write), (place, &record))
        };
        if let Some(cause) = failed {
            if self.bug == Some(Bug::SendErrorSwallowed) {
                return self.next_stage(slot, Stage::Produce(index + 1));
            }
            return self.next_stage(slot, Stage::Abort(cause));
        }
        if self.bug.is_some_and(|bug| bug.puts_outside(write.target)) {
            self.cluster.append_plain(place, record);
            return self.next_stage(slot, Stage::Produce(index + 1));
        }
        let producer = self.producer(slot, turn);
        match self.cluster.append(producer, place, record) {
            Ok(serial) => {
                self.broker_began(slot, serial);
                self.next_stage(slot, Stage::Produce(index + 1));
            }
            // The client itself says Ok to sends of a fenced producer; the end will tell.
            Err(refusal) => self.refused(slot, refusal),
        }
    }

    pub(crate) fn to_send(&self, slot: usize, write: &Write) -> (Place, Record) {
        let partition = match write.target {
            Target::Output | Target::Named(_) | Target::StaleOutput => {
                let word = write.key.iter().flat_map(|key| key.iter());
                let hash = word.fold(0, |hash, byte| mix(hash ^ u64::from(*byte)));
                (hash % self.plan.partitions as u64) as i32
            }
            Target::Tier(_) | Target::DeadLetter | Target::State | Target::Cases => write.partition.0,
            Target::Audit => 0,
        };
        let mut headers: Vec<Header> = write.headers.clone();
        let foreign = headers.iter().position(|header| !header.name.as_str().starts_with("redrive-"));
        if let Some(index) = foreign
            && self.bug == Some(Bug::HeaderDropped)
            && write.target != Target::Output
        {
            headers.remove(index);
        }
        let record = Record {
            offset: Offset(0),
            timestamp: write.timestamp.unwrap_or(self.wall(slot)),
            key: write.key.clone(),
            value: write.value.clone(),
            headers,
            unnamed_headers: 0,
            decoded: None,
        };
        (Place { topic: Topic::from(write.target), partition }, record)
    }

    /// The broker knows of the transaction since now or before: it will give it up when it gets too old.
    fn broker_began(&mut self, slot: usize, serial: Serial) {
        let txn = self.cluster.transactions.of(serial);
        if txn.writes.len() + usize::from(!txn.offsets.is_empty()) == 1 {
            let check = self.random.millis(0, 500);
            let wait = self.plan.policy.flow.transaction_timeout + check;
            self.after(wait, Step::TransactionTimeout(serial));
            let open = self.cluster.transactions.open_of(slot);
            // Of two workers with one identity each may have one open.
            if self.plan.identities == Identities::Each {
                let checked = self.checker.transaction_begun(slot, open);
                self.check(checked);
            }
        }
    }

    fn check_epochs(&mut self, slot: usize) {
        let worker = &self.slots[slot];
        let job = self.job(slot);
        let tasks = &job.transaction.tasks;
        let stale = tasks.iter().any(|task| worker.epochs.get(&task.partition.0) != Some(&task.epoch));
        if let Some(job) = &mut self.slots[slot].job {
            job.stale = stale;
        }
        if stale && self.bug != Some(Bug::EpochUnchecked) {
            return self.next_stage(slot, Stage::Abort(passing("a task was lost meanwhile")));
        }
        self.next_stage(slot, Stage::Offsets);
    }

    fn send_offsets(&mut self, slot: usize) {
        let job = self.job(slot);
        let membership = match self.bug {
            Some(Bug::LaneMetadata) => None,
            Some(Bug::MetadataRefreshed) => self.slots[slot].membership,
            Some(_) | None => job.membership,
        };
        if membership.is_none() && self.bug != Some(Bug::LaneMetadata) {
            return self.next_stage(slot, Stage::Abort(passing("no member of the group")));
        }
        let mut offsets = Vec::new();
        for task in &job.transaction.tasks {
            for (lane, offset) in &task.offsets {
                let metadata = if *lane == Lane::Source { task.mark.to_string() } else { String::new() };
                offsets.push((Place::lane(*lane, task.partition.0), offset.0, metadata));
            }
        }
        let (turn, stale) = (job.turn, job.stale);
        let tasks: Vec<i32> = job.transaction.tasks.iter().map(|task| task.partition.0).collect();
        // A task that was lost after the check may still be taken; one that has a new epoch since may not.
        let epochs = &self.slots[slot].epochs;
        let is_newer =
            |task: &TaskCommit| epochs.get(&task.partition.0).is_some_and(|epoch| *epoch != task.epoch);
        let stale = stale || job.transaction.tasks.iter().any(is_newer);
        let producer = self.producer(slot, turn);
        match self.cluster.send_offsets(producer, membership, offsets) {
            Ok(serial) => {
                self.broker_began(slot, serial);
                let process = self.slots[slot].process();
                let owned = self.offsets_accepted(process, &tasks, stale);
                self.check(owned);
                if let Some(job) = &mut self.slots[slot].job {
                    job.offsets_taken = true;
                }
                self.next_stage(slot, Stage::Commit);
            }
            Err(refusal) => self.refused(slot, refusal),
        }
    }

    fn offsets_accepted(
        &self,
        process: Process,
        tasks: &[i32],
        stale: bool,
    ) -> Result<(), redrive::core::invariant::Breach> {
        for partition in tasks {
            let owner = self.cluster.group.owner(*partition);
            self.checker.offsets_accepted(*partition, process, owner, stale)?;
        }
        Ok(())
    }

    /// The broker refused a step before the commit.
    fn refused(&mut self, slot: usize, refusal: Refusal) {
        match refusal {
            Refusal::Fenced => self.fenced(slot),
            Refusal::Concurrent => {
                self.worker_after(slot, Duration::from_millis(20), WorkerStep::Transactor);
            }
            Refusal::Group(reason) => {
                self.next_stage(slot, Stage::Abort(passing(&format!("{reason:?}"))));
            }
        }
    }

    /// Sends the commit. Its verdict arrives on its own, or never.
    pub(crate) fn send_commit(&mut self, slot: usize, lost: Option<LostVerdict>) {
        let turn = self.job(slot).turn;
        let process = self.slots[slot].process();
        let (_, epoch) = self.producer(slot, turn);
        let way = self.latency();
        let sent = match lost {
            None => vec![(way, Reply::Heard)],
            Some(LostVerdict::ReplyLost) => vec![(way, Reply::Lost)],
            Some(LostVerdict::RequestLost) => Vec::new(),
            Some(LostVerdict::RequestLate(late)) => vec![(way + late, Reply::Lost)],
            Some(LostVerdict::Repeated(later)) => vec![(way, Reply::Lost), (way + later, Reply::Heard)],
        };
        let is_told = sent.iter().any(|(_, reply)| *reply == Reply::Heard);
        let tasks: Vec<_> =
            self.job(slot).transaction.tasks.iter().map(|task| (task.partition.0, task.epoch)).collect();
        let policy = self.slots[slot].machine.as_ref().map(|machine| Arc::clone(machine.policy()));
        let policy = policy.unwrap_or_else(|| Arc::clone(&self.plan.policy));
        if let Some(job) = &mut self.slots[slot].job {
            job.stage = Stage::Sent;
        }
        self.say(format_args!("w{slot} sends its commit, {lost:?}"));
        for (wait, reply) in sent {
            let (tasks, policy) = (tasks.clone(), Arc::clone(&policy));
            let commit = SentCommit { process, turn, epoch, reply, tasks, policy };
            self.after(wait, Step::EndArrives(commit));
        }
        if !is_told {
            let result = match self.bug {
                Some(Bug::UnknownAsAborted) => TransactionResult::Aborted(passing("no verdict")),
                Some(_) | None => TransactionResult::Unknown,
            };
            self.worker_after(slot, way, WorkerStep::Answer(result));
        } else if self.bug == Some(Bug::CommittedTooEarly) {
            self.finish_job(slot, TransactionResult::Committed);
        }
    }

    pub(crate) fn end_arrives(&mut self, commit: SentCommit) {
        if self.stalled_until > self.now {
            let until = self.stalled_until;
            return self.schedule(until, Step::EndArrives(commit));
        }
        let SentCommit { process: Process { slot, life }, turn, epoch, reply, ref tasks, ref policy } =
            commit;
        let id = self.slots[slot].id(turn);
        let ended = self.cluster.end((id, epoch), Ending::Committed);
        let back = self.latency();
        match ended {
            Ok(Some(serial)) => {
                self.ended(serial, Ending::Committed);
                self.counts.commits += 1;
                let skew = self.slots[slot].largest_skew(Duration::ZERO);
                let by = Author { now: self.now, process: commit.process, tasks, skew, policy };
                let checked = self.checker.committed(&self.cluster, serial, &by);
                self.check(checked);
                if reply == Reply::Heard {
                    let step = WorkerStep::Verdict(Some(serial));
                    self.after(back, Step::Worker { slot, life, step });
                }
            }
            Ok(None) => {
                // Sent again after it was carried out: the broker says the same once more.
                self.say(format_args!("commit of w{slot} is repeated"));
                if reply == Reply::Heard {
                    self.after(back, Step::Worker { slot, life, step: WorkerStep::Verdict(None) });
                }
            }
            Err(refusal) => {
                self.say(format_args!("commit of w{slot} is refused, {refusal:?}"));
                if reply == Reply::Heard {
                    self.after(back, Step::Worker { slot, life, step: WorkerStep::FencedAfterSend });
                }
            }
        }
    }

    /// A transaction was decided: its markers follow one by one.
    pub(crate) fn ended(&mut self, serial: Serial, ending: Ending) {
        if ending == Ending::Aborted {
            self.counts.aborts += 1;
            if self.bug == Some(Bug::AbortedVisible) {
                self.cluster.reveal(serial);
            }
            let checked = self.checker.cut(&self.cluster);
            self.check(checked);
        }
        self.say(format_args!("{serial:?} is {ending:?}"));
        let (places, has_offsets) = self.cluster.unmarked(serial);
        let slowest = if self.random.chance(5) { 300 } else { 3 };
        for place in places {
            let mut wait = self.random.millis(0, slowest);
            if place.topic == Topic::State && rules(&self.plan.policy.order).is_some() {
                // Whoever takes a task over meets what it is to wait for.
                wait *= 30;
            }
            self.after(wait, Step::Marker(serial, place));
        }
        if has_offsets {
            let wait = self.random.millis(0, slowest);
            self.after(wait, Step::SettleOffsets(serial));
        }
    }

    pub(crate) fn time_out(&mut self, serial: Serial) {
        if self.cluster.time_out(serial) {
            self.say(format_args!("{serial:?} is given up by the broker"));
            self.ended(serial, Ending::Aborted);
        }
    }

    pub(crate) fn hear_verdict(&mut self, slot: usize, serial: Option<Serial>) {
        if self.slots[slot].job.is_none() {
            return;
        }
        if self.holds(slot, Micro::Verdict, || WorkerStep::Verdict(serial)) {
            return;
        }
        let wait = self.random.millis(0, 1);
        self.worker_after(slot, wait, WorkerStep::Answer(TransactionResult::Committed));
    }

    fn abort(&mut self, slot: usize, cause: AbortCause) {
        let turn = self.job(slot).turn;
        let producer = self.producer(slot, turn);
        match self.cluster.end(producer, Ending::Aborted) {
            Ok(serial) => {
                if let Some(serial) = serial {
                    self.ended(serial, Ending::Aborted);
                }
                let wait = self.latency();
                let result = TransactionResult::Aborted(cause);
                self.worker_after(slot, wait, WorkerStep::Answer(result));
            }
            Err(_) => self.fenced(slot),
        }
    }

    pub(crate) fn finish_job(&mut self, slot: usize, result: TransactionResult) {
        if self.slots[slot].job.is_none() {
            return;
        }
        if self.holds(slot, Micro::Answer, || WorkerStep::Answer(result.clone())) {
            return;
        }
        let Some(job) = self.slots[slot].job.take() else { return };
        self.reached.insert(of_result(&result));
        if result == TransactionResult::Unknown {
            self.slots[slot].doubtful = Some(job.turn);
            self.slots[slot].doubtful_mark = job.transaction.tasks.first().map(|task| task.mark);
        }
        let transaction = job.transaction.id;
        self.feed(slot, Event::Transacted { transaction, result });
    }
}
