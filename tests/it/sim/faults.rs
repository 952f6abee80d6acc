//! How faults strike, and how a process begins and ends.

use std::time::Duration;

use redrive::core::event::{AbortCause, Event};
use redrive::core::position::WriterId;

use super::cluster::group::Shuffle;
use super::machine::Machine;
use super::plan::{Fault, Micro, SESSION, Strike};
use super::random::mix;
use super::reached::{Situation, word};
use super::source::Mood;
use super::transactor::Stage;
use super::world::{Faults, Step, WorkerStep, World};

/// Whether the step that a fault struck goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Struck {
    GoesOn,
    /// Goes on after this.
    Later(Duration),
    Dead,
}

impl World {
    pub(crate) fn start(&mut self, slot: usize) {
        if self.slots[slot].machine.is_some() || self.closing {
            return;
        }
        let life = self.slots[slot].life + 1;
        let writer = WriterId(mix(self.plan.seed ^ ((slot as u64) << 32) ^ u64::from(life)));
        let machine = Machine::new(self.plan.seed, self.plan.policy_at(self.now), writer, self.bug);
        let worker = &mut self.slots[slot];
        worker.life = life;
        worker.born = self.now;
        worker.machine = Some(machine);
        self.say(format_args!("w{slot} starts, life {life}"));
        for turn in 0..2 {
            self.fence(slot, turn);
        }
        let wait = self.latency();
        self.worker_after(slot, wait, WorkerStep::Initialised);
    }

    /// Joins the group once both producers are initialised.
    pub(crate) fn initialised(&mut self, slot: usize) {
        let ids = [self.slots[slot].id(0), self.slots[slot].id(1)];
        let settled = ids.iter().all(|id| self.cluster.transactions.is_settled(*id));
        let (wait, step) = if settled {
            (self.latency(), WorkerStep::Enter)
        } else {
            (Duration::from_millis(20), WorkerStep::Initialised)
        };
        self.worker_after(slot, wait, step);
    }

    /// The process ends; the group notices when its session is over, unless it has left.
    pub(crate) fn end_process(&mut self, slot: usize) {
        if let Some(membership) = self.slots[slot].membership {
            self.after(SESSION, Step::SessionCheck(membership.member));
        }
        let process = self.slots[slot].process();
        self.checker.process_ends(process, self.now);
        self.slots[slot].die();
    }

    pub(crate) fn strike_fault(&mut self, fault: Fault) {
        self.say(format_args!("fault: {fault:?}"));
        match fault {
            // These count when they strike.
            Fault::Now { .. } | Fault::At { .. } | Fault::Drain { .. } => {}
            Fault::Rebalance
            | Fault::Unwritable { .. }
            | Fault::Refuse { .. }
            | Fault::Stall { .. }
            | Fault::ClockJump { .. }
            | Fault::HandlerDown { .. }
            | Fault::HandlerHangs { .. } => self.counts.faults += 1,
        }
        match fault {
            Fault::Now { slot, strike } => {
                let _ = self.strike(slot, strike);
            }
            Fault::At { slot, micro, strike } => self.slots[slot].armed.push((micro, strike)),
            Fault::Drain { slot, restart } => self.drain(slot, restart),
            Fault::Rebalance => {
                self.shuffle = Shuffle::Anew;
                self.begin_rebalance();
            }
            Fault::Unwritable { target, lasts } => {
                let until = self.now + lasts;
                self.unwritable.insert(target, until);
                self.schedule(until, Step::Writable(target));
            }
            Fault::Refuse { target, lasts } => {
                let until = self.now + lasts;
                self.refused.insert(target, until);
                self.schedule(until, Step::Accepted(target));
            }
            Fault::Stall { lasts } => self.stalled_until = self.stalled_until.max(self.now + lasts),
            Fault::ClockJump { slot, millis } => {
                let skew = self.slots[slot].skew() + millis;
                let at = self.now;
                self.slots[slot].skews.push((at, skew));
            }
            Fault::HandlerDown { lasts } => self.handler_mood(Mood::Down, lasts),
            Fault::HandlerHangs { lasts } => self.handler_mood(Mood::Hanging, lasts),
        }
    }

    fn handler_mood(&mut self, mood: Mood, lasts: Duration) {
        self.mood = (mood, self.now + lasts);
        self.after(lasts, Step::Mood);
    }

    pub(crate) fn drain(&mut self, slot: usize, restart: Duration) {
        if self.slots[slot].machine.is_none() || self.slots[slot].draining {
            return;
        }
        self.slots[slot].draining = true;
        self.counts.faults += u64::from(!self.closing);
        self.slots[slot].restart = restart;
        self.worker_after(slot, Duration::ZERO, WorkerStep::Deliver(Box::new(Event::Drain)));
    }

    /// Takes what is armed for this micro-step and lets it strike. True where the step does not go on now; it comes
    /// again if the process lives.
    pub(crate) fn holds(&mut self, slot: usize, micro: Micro, again: impl FnOnce() -> WorkerStep) -> bool {
        match self.struck(slot, micro) {
            Struck::GoesOn => false,
            Struck::Later(wait) => {
                self.worker_after(slot, wait, again());
                true
            }
            Struck::Dead => true,
        }
    }

    pub(crate) fn struck(&mut self, slot: usize, micro: Micro) -> Struck {
        let armed = &mut self.slots[slot].armed;
        let Some(index) = armed.iter().position(|(at, _)| *at == micro) else { return Struck::GoesOn };
        let (_, strike) = armed.remove(index);
        self.say(format_args!("w{slot} is struck before {micro:?}: {strike:?}"));
        self.reached.insert(Situation::Struck(micro, word(strike)));
        self.strike(slot, strike)
    }

    fn strike(&mut self, slot: usize, strike: Strike) -> Struck {
        if self.slots[slot].machine.is_none() {
            return Struck::GoesOn;
        }
        self.counts.faults += 1;
        match strike {
            Strike::Crash(restart) => {
                self.end_process(slot);
                self.after(restart, Step::Start(slot));
                return Struck::Dead;
            }
            Strike::Pause(lasts) => {
                let until = self.now + lasts;
                let worker = &mut self.slots[slot];
                worker.paused_until = worker.paused_until.max(until);
                worker.silent_since = Some(self.now);
                if let Some(membership) = worker.membership {
                    self.after(SESSION, Step::SessionCheck(membership.member));
                }
                return Struck::Later(Duration::ZERO);
            }
            Strike::Delay(lasts) => return Struck::Later(lasts),
            Strike::Expel(notice) => {
                if let Some(membership) = self.slots[slot].membership {
                    self.expel(membership.member, notice);
                }
                return self.lag_behind(notice);
            }
            Strike::SelfLoss(notice) => {
                if let Some(membership) = self.slots[slot].membership {
                    self.lose_all(slot);
                    self.after(notice, Step::LeaveArrives(membership.member));
                }
                return self.lag_behind(notice / 8);
            }
            Strike::Twin => {
                for turn in 0..2 {
                    // The twin's epochs are not ours: ours are fenced from now on.
                    let ours = self.slots[slot].producers[turn];
                    self.fence(slot, turn);
                    self.slots[slot].producers[turn] = ours;
                }
            }
            Strike::Verdict(lost) => self.slots[slot].lose_verdict = Some(lost),
            Strike::Passing => {
                let detail = "a broker moved".to_owned();
                let job = self.slots[slot].job.as_mut();
                if let Some(job) = job.filter(|job| !matches!(job.stage, Stage::Abort(_) | Stage::Sent)) {
                    job.stage = Stage::Abort(AbortCause::Passing { detail });
                }
            }
        }
        Struck::GoesOn
    }

    /// The struck step may lag until the news of the strike has come, or go on at once.
    fn lag_behind(&mut self, notice: Duration) -> Struck {
        if self.random.chance(50) {
            Struck::Later(notice + self.random.millis(0, 1_500))
        } else {
            Struck::GoesOn
        }
    }

    /// From here on nothing goes wrong any more.
    pub(crate) fn end_faults(&mut self) {
        self.say(format_args!("faults end"));
        self.faults = Faults::Over;
        self.stalled_until = self.now;
        self.mood = (Mood::Well, self.now);
        self.unwritable.clear();
        self.refused.clear();
        for slot in 0..self.slots.len() {
            let worker = &mut self.slots[slot];
            worker.armed.clear();
            worker.lose_verdict = None;
        }
    }
}
