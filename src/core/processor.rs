//! The state machine of one worker: everything that decides a record's fate and when it is committed.
//!
//! Owns the tasks of the worker, the window of each lane, the one open transaction, and all timers. Not its own: how
//! a failure is classed and routed ([`crate::core::classify`], [`crate::core::route`]) and how records are written
//! ([`crate::core::headers`]).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::core::envelope::DeliveryId;
use crate::core::event::{Action, Event, LaneStart, Report, Restored, StopReason, TransactionId};
use crate::core::invariant::{Breach, InvariantId};
use crate::core::lane::{LaneState, Presence};
use crate::core::policy::Policy;
use crate::core::position::{Epoch, Lane, Offset, Partition, WriterId};
use crate::core::random::Random;
use crate::core::task::{Guarded, Phase, Stale, Task};
use crate::core::time::{Monotonic, Now};

mod abort;
mod absent;
mod blocks;
mod check;
mod commit;
mod deliver;
mod effects;
mod give_back;
mod hold;
mod look;
mod obey;
mod order;
mod pace;
mod positions;
mod refused;
mod stale;
mod suspect;
mod take_back;
mod twin;
mod version;
mod write;

use commit::Open;
use pace::Pace;
pub use stale::NotAccepted;
use suspect::Search;

/// The state machine of one worker. It has no clock and no IO: time and answers come in with [`Processor::handle`],
/// work goes out through [`Processor::poll_action`].
#[derive(Debug)]
pub struct Processor {
    policy: Arc<Policy>,
    writer: WriterId,
    random: Random,
    seed: u64,
    /// By [`Lane::index`]: `source`, `control`, `retry.5s`.
    words: Vec<bytes::Bytes>,
    tasks: BTreeMap<Partition, Task>,
    last_epoch: Epoch,
    actions: VecDeque<Action>,
    timers: BTreeSet<(Monotonic, Timer)>,
    /// Tasks that an event touched and that have not been looked at since.
    touched: BTreeSet<Partition>,
    /// Tasks that are being given back.
    leaving: BTreeSet<Partition>,
    /// Tasks of which a part waits until something can be written again.
    blocked: BTreeSet<Partition>,
    open: Option<Open>,
    pace: Pace,
    search: Search,
    next_transaction: TransactionId,
    /// Counts everything that was settled, so that writes leave in that order.
    settled: u64,
    /// Executions that a handler has, over all tasks.
    running: usize,
    mode: Mode,
    /// While draining: when it ends whatever is under way.
    cut_off_at: Option<Monotonic>,
    /// While draining: settled records of tasks that were given back without them.
    cut_off: usize,
}

/// Whether the worker takes on work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Working,
    Draining,
    Stopped,
}

/// What a timer is for. Those of a task that has gone are passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// The record at the front of a lane may be handed on.
    Release(Partition, Epoch, Lane),
    /// A delivery goes on with its next execution.
    Execution(DeliveryId),
    /// A task is given back, whatever still runs.
    GiveBack(Partition, Epoch),
    /// Offsets of idle lanes are committed again.
    Recommit(Partition, Epoch),
    /// The positions in the state topic may be old.
    Note(Partition, Epoch),
    /// A gap before a held record may be over.
    Gap(Partition, Epoch),
    /// What the clock of a task shows is to be noted.
    Clock(Partition, Epoch),
}

impl Timer {
    /// The task it belongs to.
    const fn task(&self) -> (Partition, Epoch) {
        match self {
            Self::Release(partition, epoch, _)
            | Self::GiveBack(partition, epoch)
            | Self::Recommit(partition, epoch)
            | Self::Note(partition, epoch)
            | Self::Gap(partition, epoch)
            | Self::Clock(partition, epoch) => (*partition, *epoch),
            Self::Execution(DeliveryId { partition, epoch, .. }) => (*partition, *epoch),
        }
    }
}

impl Processor {
    /// A worker without tasks. `writer` must differ from that of every other worker that ever lived; `seed` feeds
    /// jitter and the hashing of keys.
    pub fn new(policy: Arc<Policy>, writer: WriterId, seed: u64) -> Self {
        let words = policy.all_lanes().map(|lane| bytes::Bytes::from(policy.word(lane))).collect();
        Self {
            policy,
            writer,
            random: Random::new(seed),
            seed,
            words,
            tasks: BTreeMap::new(),
            last_epoch: Epoch(0),
            actions: VecDeque::new(),
            timers: BTreeSet::new(),
            touched: BTreeSet::new(),
            leaving: BTreeSet::new(),
            blocked: BTreeSet::new(),
            open: None,
            pace: Pace::default(),
            search: Search::default(),
            next_transaction: TransactionId(1),
            settled: 0,
            running: 0,
            mode: Mode::Working,
            cut_off_at: None,
            cut_off: 0,
        }
    }

    /// Takes in one event. Time enters here only and never goes back by its monotonic part.
    pub fn handle(&mut self, event: Event, now: Now) {
        if self.mode == Mode::Stopped {
            return;
        }
        match event {
            Event::Assigned(partitions) => self.assigned(partitions),
            Event::Restored { partition, epoch, found } => self.restored(partition, epoch, found, now),
            Event::Revoked(partitions) => self.revoked(partitions, now),
            Event::Lost(partitions) => self.lost(&partitions),
            Event::Fetched { partition, epoch, lane, records } => {
                self.fetched((partition, epoch, lane), records, now);
            }
            Event::Passed { partition, epoch, lane, next } => self.passed((partition, epoch, lane), next),
            Event::Absent { lane } => self.is_now(lane, Presence::Absent),
            Event::Present { lane } => self.is_now(lane, Presence::There),
            Event::End { partition, epoch, end } => self.found_end(partition, epoch, end),
            Event::Handled { delivery, outcome } => self.handled(delivery, outcome, now),
            Event::Transacted { transaction, result } => self.transacted(transaction, result, now),
            Event::ReadBack { transaction, marks } => self.read_back(transaction, &marks, now),
            Event::Tick => {}
            Event::Drain => self.drain(now),
        }
        if self.mode == Mode::Stopped {
            return;
        }
        self.fire(now);
        self.note_before_giving_back();
        while let Some(partition) = self.touched.pop_first() {
            self.admit(partition, now);
            if self.touched.is_empty() {
                // Forming a transaction makes room in the windows of its tasks.
                self.transact_if_time(now);
            }
        }
        self.transact_if_time(now);
        self.give_back_what_is_done(now);
    }

    /// The next thing for the shell to do, until `None`. The shell carries actions out in this order.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// How long the shell may wait before it sends [`Event::Tick`], if nothing else happens. `None`: for ever.
    pub fn poll_timeout(&self, now: Now) -> Option<Duration> {
        let timer = self.timers.first().map(|(at, _)| *at);
        let commit = self.next_commit_at();
        let at = [timer, commit, self.cut_off_at].into_iter().flatten().min()?;
        Some(at.since(now.mono))
    }

    /// The partitions of the tasks that this worker has, whatever their phase.
    pub fn tasks(&self) -> impl Iterator<Item = Partition> + '_ {
        self.tasks.keys().copied()
    }

    fn assigned(&mut self, partitions: Vec<Partition>) {
        if self.mode != Mode::Working {
            return;
        }
        // A task that is assigned again without having been given back was lost in between.
        self.lost(&partitions);
        for partition in partitions {
            self.last_epoch = self.last_epoch.next();
            self.tasks.insert(partition, Task::new(self.last_epoch, self.seed));
            self.actions.push_back(Action::Restore { partition, epoch: self.last_epoch });
        }
    }

    fn restored(&mut self, partition: Partition, epoch: Epoch, found: Restored, now: Now) {
        let repeats = self.repeats(partition, &found.lanes);
        let Some(task) = self.tasks.get_mut(&partition).filter(|task| task.epoch == epoch) else { return };
        if task.phase != Phase::Restoring {
            return;
        }
        if self.policy.order.keeps_state() && found.keys.is_none() {
            let detail = format!("task {partition} was restored without what is known of its keys");
            self.broken(InvariantId::R5, detail);
            return;
        }
        task.sequence = found.mark.map(|mark| mark.sequence).unwrap_or_default();
        task.founding = found.founding;
        task.topics = found.topics;
        if !task.topics.is_empty() {
            task.topics.insert(Lane::Held.index().min(task.topics.len()), None);
        }
        let order = &self.policy.order;
        task.guarded = found.keys.map(|keys| Box::new(Guarded::new(*keys, order, self.seed)));
        let fresh =
            found.lanes.iter().any(|lane| !matches!(lane, LaneStart::Committed(_) | LaneStart::Absent));
        task.lanes = found
            .lanes
            .into_iter()
            .map(|lane| match lane {
                LaneStart::Committed(offset) => LaneState::new(offset, Some(now.mono)),
                LaneStart::Fresh(offset) | LaneStart::Stale { from: offset, .. } => {
                    LaneState::new(offset, None)
                }
                LaneStart::Absent => LaneState::absent(),
            })
            .collect();
        task.lanes
            .insert(Lane::Held.index().min(task.lanes.len()), LaneState::new(Offset(0), Some(now.mono)));
        let recommit = now.mono.plus(self.policy.flow.recommit);
        self.timers.insert((recommit, Timer::Recommit(partition, epoch)));
        if !repeats.is_empty() {
            task.stale = Some(Stale::Asked(repeats.clone()));
            self.begin(partition, now);
            self.actions.push_back(Action::Report(Report::Stale { partition, ranges: repeats }));
        } else if fresh {
            task.phase = Phase::Starting;
            task.notes.due = true;
            self.pace.wanted.insert(partition);
        } else {
            self.begin(partition, now);
        }
    }

    /// Opens the lanes of a task whose start is committed.
    fn begin(&mut self, partition: Partition, now: Now) {
        let Some(task) = self.tasks.get_mut(&partition) else { return };
        task.phase = Phase::Running;
        task.notes.begun = task.stale.is_none();
        let read = task.lanes().filter(|(lane, _)| *lane != Lane::Held);
        let lanes = read.map(|(lane, state)| (lane, state.committed)).collect();
        self.actions.push_back(Action::Open { partition, epoch: task.epoch, lanes });
        self.touched.insert(partition);
        self.set_clock(partition, now);
        self.time_the_next_note(partition, now.mono);
    }

    /// Does what the timers ask for whose time has come.
    fn fire(&mut self, now: Now) {
        while let Some((at, timer)) = self.timers.first().copied() {
            if at > now.mono {
                return;
            }
            self.timers.pop_first();
            let (partition, epoch) = timer.task();
            let Some(task) = self.tasks.get_mut(&partition).filter(|task| task.epoch == epoch) else {
                continue;
            };
            match timer {
                Timer::Release(_, _, lane) => {
                    if let Some(lane) = task.lane(lane) {
                        lane.wakes_at = None;
                    }
                    self.touched.insert(partition);
                }
                Timer::Execution(delivery) => self.execute(delivery, now),
                Timer::Recommit(..) => {
                    self.pace.wanted.insert(partition);
                    let next = now.mono.plus(self.policy.flow.recommit);
                    self.timers.insert((next, timer));
                }
                Timer::Note(..) => self.note_by_time(partition, now.mono),
                Timer::Gap(..) => self.gap_may_be_over(partition),
                Timer::Clock(..) => self.note_clock(partition, now),
                Timer::GiveBack(..) => {}
            }
        }
    }

    /// Tells that something happened that must never happen.
    fn broken(&mut self, id: InvariantId, detail: String) {
        self.actions.push_back(Action::Report(Report::Broken(Breach { id, detail })));
    }

    fn stop(&mut self, reason: StopReason) {
        self.mode = Mode::Stopped;
        self.actions.push_back(Action::Stop(reason));
    }
}

#[cfg(test)]
mod tests;
