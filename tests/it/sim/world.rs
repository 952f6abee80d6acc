//! The simulated world: one agenda in virtual time, the cluster, the workers, the checks after every step.

use std::collections::BTreeMap;
use std::time::Duration;

use redrive::core::envelope::DeliveryId;
use redrive::core::event::{Action, Event, Report, StopReason, Target, TransactionResult};
use redrive::core::invariant::Breach;
use redrive::core::outcome::Outcome;
use redrive::core::position::{Epoch, Lane, Partition, TierIndex};
use redrive::core::record::Record;
use redrive::core::time::Timestamp;

use super::checker::Checker;
use super::cluster::group::{MemberId, Shuffle};
use super::cluster::log::Isolation;
use super::cluster::transactions::{Ending, ProducerEpoch, Serial, TransactionalId};
use super::cluster::{Cluster, Place};
use super::holding::Counters;
use super::machine::describe;
use super::plan::{Fault, Identities, Micro, Plan};
use super::planted::Bug;
use super::random::{Random, mix};
use super::reached::{self, Reached, Situation};
use super::slot::{Doubt, Slot};
use super::source::{self, Mood};
use super::trace::Trace;
use super::transactor::SentCommit;

/// What is going to happen.
#[derive(Debug)]
pub(crate) enum Step {
    Fault(Fault),
    FaultsEnd,
    Writable(Target),
    Accepted(Target),
    Mood,
    SourceRecord(Place, Box<Record>),
    Request(Place, Box<Record>),
    ForeignEnds(Serial, Ending),
    Marker(Serial, Place),
    SettleOffsets(Serial),
    TransactionTimeout(Serial),
    EndArrives(SentCommit),
    SessionCheck(MemberId),
    RebalanceTimeout(u32),
    LeaderSyncs(u32),
    LeaveArrives(MemberId),
    Start(usize),
    Worker { slot: usize, life: u32, step: WorkerStep },
}

/// What is going to happen inside one process; void once that is dead.
#[derive(Debug)]
pub(crate) enum WorkerStep {
    Initialised,
    Enter,
    Join(MemberId),
    News(MemberId),
    Heartbeat(MemberId),
    Deliver(Box<Event>),
    Work,
    Tick(u64),
    Transactor,
    Verdict(Option<Serial>),
    FencedAfterSend,
    Answer(TransactionResult),
    Renewed(usize),
    ReadBack(Doubt),
    ReadMarks(Doubt),
    Restore(i32, Epoch),
    FetchReady(i32, Epoch, Lane),
    Watch(i32, Epoch, Lane),
    HandlerEnds(DeliveryId, Box<Outcome>),
}

/// What is counted behind the committed offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    /// All offsets, ends of transactions included, as Kafka's own tools count.
    Offsets,
    /// Records that a reader could still read. Whoever was thrown out of the group may leave ends of transactions behind it.
    Records,
}

/// Numbers of one run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) faults: u64,
    pub(crate) commits: u64,
    pub(crate) aborts: u64,
    pub(crate) handled: u64,
    pub(crate) records: u64,
}

/// Whether anything still goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Faults {
    Strike,
    Over,
}

/// Everything there is.
pub(crate) struct World {
    pub(crate) now: Duration,
    order: u64,
    agenda: BTreeMap<(Duration, u64), Step>,
    pub(crate) plan: Plan,
    pub(crate) bug: Option<Bug>,
    pub(crate) random: Random,
    pub(crate) cluster: Cluster,
    pub(crate) slots: Vec<Slot>,
    pub(crate) checker: Checker,
    pub(crate) trace: Trace,
    pub(crate) counts: Counts,
    pub(crate) reached: Reached,
    pub(crate) stalled_until: Duration,
    pub(crate) unwritable: BTreeMap<Target, Duration>,
    pub(crate) refused: BTreeMap<Target, Duration>,
    pub(crate) mood: (Mood, Duration),
    /// The versions of counted keys, and what draws them.
    pub(crate) counters: (Counters, Random),
    /// The next assignment deals everything out anew.
    pub(crate) shuffle: Shuffle,
    pub(crate) faults: Faults,
    pub(crate) closing: bool,
    /// Workers that ended since another one has their identity.
    pub(crate) twins_ended: usize,
    /// Since when every task that can answer has been asked, with nothing else of it going on.
    pub(crate) besieged: Option<Duration>,
    seen_version: u64,
    pub(crate) breach: Option<Breach>,
}

impl World {
    pub(crate) fn new(plan: Plan, bug: Option<Bug>, lines: Option<usize>) -> Self {
        let tiers = plan.policy.ladder.delays.len();
        let mut world = Self {
            now: Duration::ZERO,
            order: 0,
            agenda: BTreeMap::new(),
            bug,
            random: Random::new(plan.seed ^ 0x5eed),
            cluster: Cluster::new(plan.partitions, tiers),
            slots: (0..plan.workers).map(Slot::new).collect(),
            checker: Checker::new(&plan),
            trace: Trace::new(lines),
            counts: Counts::default(),
            reached: Reached::new(),
            stalled_until: Duration::ZERO,
            unwritable: BTreeMap::new(),
            refused: BTreeMap::new(),
            mood: (Mood::Well, Duration::ZERO),
            counters: (Counters::default(), Random::new(mix(plan.seed ^ 0xc0))),
            shuffle: Shuffle::Sticky,
            faults: Faults::Strike,
            closing: false,
            twins_ended: 0,
            besieged: None,
            seen_version: 0,
            breach: None,
            plan,
        };
        if world.plan.identities == Identities::Twins {
            world.slots.iter_mut().for_each(|slot| slot.identity = 0);
        }
        world.open_agenda();
        world
    }

    fn open_agenda(&mut self) {
        for slot in 0..self.slots.len() {
            let at = self.random.millis(0, 2_000);
            self.schedule(at, Step::Start(slot));
        }
        if self.plan.has_history {
            // Another program has committed offsets of the source with this group.
            (0..self.plan.partitions).for_each(|partition| self.cluster.commit_before(partition));
        }
        for (at, fault) in self.plan.faults.clone() {
            self.schedule(at, Step::Fault(fault));
        }
        let end = self.plan.faults_end;
        self.schedule(end, Step::FaultsEnd);
        // Twins must have something to do when nothing strikes any more, too.
        let last = match self.plan.identities {
            Identities::Each => end,
            Identities::Twins => end + Duration::from_secs(60),
        };
        for partition in 0..self.plan.partitions {
            for _ in 0..self.plan.records {
                let at = self.random.time(Duration::ZERO, last);
                let timestamp = Slot::new(0).wall(at);
                let record = source::record(&self.plan, &mut self.random, timestamp);
                let place = Place::lane(Lane::Source, partition);
                self.schedule(at, Step::SourceRecord(place, Box::new(record)));
            }
        }
        for (at, partition, record) in self.plan.requests.clone() {
            self.schedule(at, Step::Request(Place::lane(Lane::Control, partition), Box::new(record)));
        }
        for _ in 0..self.plan.strangers {
            let lane = Lane::Tier(TierIndex::at(self.random.index(self.plan.policy.ladder.delays.len())));
            let place = Place::lane(lane, self.random.index(self.plan.partitions as usize) as i32);
            let at = self.random.time(Duration::ZERO, end);
            let timestamp = Slot::new(0).wall(at);
            let record = source::record(&self.plan, &mut self.random, timestamp);
            self.schedule(at, Step::SourceRecord(place, Box::new(record)));
        }
    }

    pub(crate) fn schedule(&mut self, at: Duration, step: Step) {
        self.order += 1;
        self.agenda.insert((at.max(self.now), self.order), step);
    }

    pub(crate) fn after(&mut self, wait: Duration, step: Step) {
        self.schedule(self.now + wait, step);
    }

    /// Something in this worker's process, after a while.
    pub(crate) fn worker_after(&mut self, slot: usize, wait: Duration, step: WorkerStep) {
        let life = self.slots[slot].life;
        self.after(wait, Step::Worker { slot, life, step });
    }

    pub(crate) fn say(&mut self, text: std::fmt::Arguments<'_>) {
        self.trace.say(self.now, text);
    }

    /// Keeps the first breach.
    pub(crate) fn check(&mut self, result: Result<(), Breach>) {
        if let Err(breach) = result {
            self.breach.get_or_insert(breach);
        }
    }

    /// Takes the next step; false where there is none.
    pub(crate) fn step(&mut self) -> bool {
        let Some(((at, _), step)) = self.agenda.pop_first() else { return false };
        self.now = at;
        match step {
            Step::Worker { slot, life, step } => self.worker_step(slot, life, step),
            Step::Fault(fault) => self.strike_fault(fault),
            Step::FaultsEnd => self.end_faults(),
            Step::Writable(target) => {
                self.unwritable.retain(|known, until| *known != target || *until > at);
            }
            Step::Accepted(target) => self.refused.retain(|known, until| *known != target || *until > at),
            Step::Mood => {
                if self.mood.1 <= at {
                    self.mood = (Mood::Well, at);
                }
            }
            Step::SourceRecord(place, record) => self.write_source(place, *record),
            Step::Request(place, record) => self.write_request(place, *record),
            Step::ForeignEnds(serial, ending) => self.cluster.end_foreign(serial, ending),
            Step::Marker(serial, place) => self.cluster.write_marker(serial, place),
            Step::SettleOffsets(serial) => self.cluster.settle_offsets(serial),
            Step::TransactionTimeout(serial) => self.time_out(serial),
            Step::EndArrives(commit) => self.end_arrives(commit),
            Step::SessionCheck(member) => self.session_check(member),
            Step::RebalanceTimeout(generation) => self.rebalance_timeout(generation),
            Step::LeaderSyncs(generation) => self.leader_syncs(generation),
            Step::LeaveArrives(member) => self.remove_member(member, "left"),
            Step::Start(slot) => self.start(slot),
        }
        self.wake_readers();
        true
    }

    fn worker_step(&mut self, slot: usize, life: u32, step: WorkerStep) {
        let worker = &self.slots[slot];
        if worker.life != life || worker.machine.is_none() {
            return;
        }
        if worker.paused_until > self.now {
            let until = worker.paused_until;
            self.schedule(until, Step::Worker { slot, life, step });
            return;
        }
        match step {
            WorkerStep::Initialised => self.initialised(slot),
            WorkerStep::Enter => self.enter_group(slot),
            WorkerStep::Join(member) => self.join_group(slot, member),
            WorkerStep::News(member) => self.hear_news(slot, member),
            WorkerStep::Heartbeat(member) => self.heartbeat(slot, member),
            WorkerStep::Deliver(event) => self.feed(slot, *event),
            WorkerStep::Work => self.work(slot),
            WorkerStep::Tick(tick) => {
                if self.slots[slot].tick == tick {
                    self.feed(slot, Event::Tick);
                }
            }
            WorkerStep::Transactor => self.transactor_step(slot),
            WorkerStep::Verdict(serial) => self.hear_verdict(slot, serial),
            WorkerStep::FencedAfterSend => self.finish_job(slot, TransactionResult::Unknown),
            WorkerStep::Answer(result) => self.finish_job(slot, result),
            WorkerStep::Renewed(turn) => self.renewed(slot, turn),
            WorkerStep::ReadBack(doubt) => self.read_back(slot, doubt),
            WorkerStep::ReadMarks(doubt) => self.read_marks(slot, doubt),
            WorkerStep::Restore(partition, epoch) => self.restore(slot, partition, epoch),
            WorkerStep::FetchReady(partition, epoch, lane) => {
                self.fetch_ready(slot, Partition(partition), epoch, lane);
            }
            WorkerStep::Watch(partition, epoch, lane) => self.watch(slot, Partition(partition), epoch, lane),
            WorkerStep::HandlerEnds(delivery, outcome) => self.handler_ends(slot, delivery, *outcome),
        }
    }

    /// Hands an event to the worker's thread, which takes one after another.
    pub(crate) fn feed(&mut self, slot: usize, event: Event) {
        let worker = &mut self.slots[slot];
        worker.inbox.push_back(event);
        if worker.inbox.len() == 1 {
            self.work(slot);
        }
    }

    /// Takes events from the inbox until it is empty or the thread is held.
    fn work(&mut self, slot: usize) {
        while !self.slots[slot].inbox.is_empty() {
            if self.holds(slot, Micro::Event, || WorkerStep::Work) {
                return;
            }
            let Some(event) = self.slots[slot].inbox.front().cloned() else { return };
            self.take(slot, event);
            if self.breach.is_some() {
                return;
            }
            self.slots[slot].inbox.pop_front();
        }
    }

    /// Lets the worker's core take in an event and carries out what it asks for.
    fn take(&mut self, slot: usize, event: Event) {
        if let Event::Fetched { partition, epoch, lane, records } = &event {
            let worker = &self.slots[slot];
            let offsets = records.iter().map(|record| record.offset);
            let holding = (worker.process(), partition.0, *epoch);
            self.checker.records_seen(holding, *lane, offsets, (self.now, worker.skew()));
        }
        self.say(format_args!("w{slot} <- {}", describe::event(&event)));
        let clocks = self.slots[slot].clocks(self.now);
        if let Some(machine) = &mut self.slots[slot].machine {
            machine.handle(event, clocks);
        }
        loop {
            let life = self.slots[slot].life;
            let Some(action) = self.slots[slot].machine.as_mut().and_then(|core| core.poll_action()) else {
                break;
            };
            self.say(format_args!("w{slot} -> {}", describe::action(&action)));
            self.act(slot, action);
            let _ = self.struck(slot, Micro::Action);
            if self.slots[slot].life != life || self.breach.is_some() {
                return;
            }
        }
        let worker = &mut self.slots[slot];
        worker.tick += 1;
        let tick = worker.tick;
        let wait = worker.machine.as_ref().and_then(|machine| machine.poll_timeout(clocks));
        if let Some(wait) = wait {
            let late = Duration::from_micros(self.random.below(500));
            self.worker_after(slot, wait + late, WorkerStep::Tick(tick));
        }
    }

    fn act(&mut self, slot: usize, action: Action) {
        match action {
            Action::Restore { partition, epoch } => {
                self.slots[slot].epochs.insert(partition.0, epoch);
                let wait = self.random.millis(0, 5);
                self.worker_after(slot, wait, WorkerStep::Restore(partition.0, epoch));
            }
            Action::Open { partition, epoch, lanes } => self.open_task(slot, partition, epoch, &lanes),
            Action::Fetch { partition, epoch, lane, most } => {
                self.ask_records(slot, partition, epoch, lane, most);
            }
            Action::FindEnd { partition, epoch } => self.find_end(slot, partition, epoch),
            Action::Handle(delivery) => self.handle(slot, *delivery),
            Action::Transact(transaction) => self.begin_job(slot, transaction),
            Action::ReadBack { transaction, partitions } => {
                let partitions = partitions.into_iter().map(|partition| partition.0).collect();
                let mark = self.slots[slot].doubtful_mark;
                let doubt = Doubt { transaction, partitions, mark };
                let wait = self.random.millis(0, 2);
                self.worker_after(slot, wait, WorkerStep::ReadBack(doubt));
            }
            Action::GiveBack { partition, epoch } => self.give_back(slot, partition, epoch),
            Action::Report(report) => self.report(&report),
            Action::Stop(reason) => self.stop(slot, reason),
        }
    }

    fn report(&mut self, report: &Report) {
        self.reached.extend(reached::of_report(report));
        if let Report::Broken(breach) = report {
            // A planted bug must be seen from outside, not by the core itself.
            if self.bug.is_none() {
                let detail = format!("the core reports: {}", breach.detail);
                self.check(Err(Breach { id: breach.id, detail }));
            }
        }
    }

    fn stop(&mut self, slot: usize, reason: StopReason) {
        let after = match reason {
            // What is cut off is cut off like a crash: the next process ends what is open.
            StopReason::Drained | StopReason::CutOff { .. } => self.slots[slot].restart,
            StopReason::TwinProcess { .. } => {
                self.reached.insert(Situation::Twin);
                self.twins_ended += 1;
                Duration::from_secs(1)
            }
        };
        if let Some(membership) = self.slots[slot].membership {
            let wait = self.random.millis(0, 20);
            self.after(wait, Step::LeaveArrives(membership.member));
        }
        self.end_process(slot);
        if self.plan.identities == Identities::Each {
            self.after(after, Step::Start(slot));
        }
    }

    /// Whether nothing is left to do: every record has its fate, nothing lags, no transaction is open.
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_done() && self.lag(Behind::Offsets) == 0
    }

    fn is_done(&self) -> bool {
        self.faults == Faults::Over && self.checker.is_finished() && !self.cluster.transactions.any_open()
    }

    /// All workers are told to stop and stay down.
    pub(crate) fn close(&mut self) {
        self.say(format_args!("all workers are told to stop"));
        self.closing = true;
        for slot in 0..self.slots.len() {
            self.drain(slot, Duration::ZERO);
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        let unread = self.lag(Behind::Records);
        self.slots.iter().all(|slot| slot.machine.is_none()) && self.is_done() && unread == 0
    }

    /// What lies behind the committed offsets.
    pub(crate) fn lag(&self, what: Behind) -> i64 {
        let lanes = self.cluster.lanes().flat_map(|lane| {
            (0..self.cluster.partitions()).map(move |partition| Place::lane(lane, partition))
        });
        lanes
            .map(|place| {
                let from = self.cluster.committed(place).map_or(0, |committed| committed.offset);
                match what {
                    Behind::Offsets => self.cluster.log(place).end() - from,
                    Behind::Records => {
                        self.cluster.read(place, from, usize::MAX, Isolation::Committed).len() as i64
                    }
                }
            })
            .sum()
    }

    fn wake_readers(&mut self) {
        let version = self.cluster.readable_version();
        if version != self.seen_version {
            self.seen_version = version;
            for slot in 0..self.slots.len() {
                self.pump(slot);
            }
        }
    }

    /// The time now by this worker's calendar.
    pub(crate) fn wall(&self, slot: usize) -> Timestamp {
        self.slots[slot].wall(self.now)
    }

    pub(crate) fn producer(&self, slot: usize, turn: usize) -> (TransactionalId, ProducerEpoch) {
        let worker = &self.slots[slot];
        (worker.id(turn), worker.producers[turn])
    }

    /// How long one step of the shell takes.
    pub(crate) fn latency(&mut self) -> Duration {
        let base = Duration::from_micros(self.random.between(50, 1_500));
        let stalled = self.stalled_until.saturating_sub(self.now);
        base + stalled
    }
}
