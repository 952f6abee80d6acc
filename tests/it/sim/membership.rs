//! Group membership in time: joining, rebalances, giving back, losing, leaving.

use std::time::Duration;

use redrive::core::event::Event;
use redrive::core::position::{Epoch, Partition};

use super::cluster::group::{MemberId, Membership, Phase, Shuffle};
use super::plan::{REBALANCE, SESSION};
use super::planted::Bug;
use super::reached::Situation;
use super::world::{Step, WorkerStep, World};

impl World {
    pub(crate) fn enter_group(&mut self, slot: usize) {
        if self.slots[slot].membership.is_some() || self.slots[slot].draining {
            return;
        }
        if self.stalled_until > self.now {
            let wait = self.latency();
            return self.worker_after(slot, wait, WorkerStep::Enter);
        }
        let member = self.cluster.group.enter(self.slots[slot].process());
        self.slots[slot].membership = Some(Membership { member, generation: 0 });
        self.say(format_args!("w{slot} enters the group as {member:?}"));
        self.begin_rebalance();
        self.join_group(slot, member);
    }

    /// Begins a rebalance and tells the members, who notice with their next heartbeat.
    pub(crate) fn begin_rebalance(&mut self) {
        if !self.cluster.group.prepare() {
            return self.complete_if_joined();
        }
        let generation = self.cluster.group.generation();
        self.say(format_args!("group rebalances after generation {generation}"));
        self.after(REBALANCE, Step::RebalanceTimeout(generation));
        let members: Vec<_> = self.cluster.group.members().collect();
        for (member, process) in members {
            let wait = self.random.millis(1, 400);
            let (slot, life) = (process.slot, process.life);
            self.after(wait, Step::Worker { slot, life, step: WorkerStep::Join(member) });
        }
        self.complete_if_joined();
    }

    pub(crate) fn join_group(&mut self, slot: usize, member: MemberId) {
        let worker = &self.slots[slot];
        let is_me = worker.membership.is_some_and(|membership| membership.member == member);
        let is_free = worker.revoking.is_empty() && !worker.awaits_news;
        if !is_me || !is_free || self.cluster.group.phase() != Phase::Preparing {
            return;
        }
        if self.stalled_until > self.now {
            let wait = self.latency();
            return self.worker_after(slot, wait, WorkerStep::Join(member));
        }
        self.cluster.group.join(member);
        if self.cluster.group.knows(member) {
            self.slots[slot].awaits_news = true;
        }
        self.complete_if_joined();
    }

    fn complete_if_joined(&mut self) {
        if self.cluster.group.phase() != Phase::Preparing || !self.cluster.group.all_joined() {
            return;
        }
        let shuffle = std::mem::replace(&mut self.shuffle, Shuffle::Sticky);
        self.cluster.group.complete(&mut self.random, shuffle);
        let generation = self.cluster.group.generation();
        let wait = self.random.millis(1, 100);
        self.after(wait, Step::LeaderSyncs(generation));
    }

    pub(crate) fn leader_syncs(&mut self, generation: u32) {
        if self.cluster.group.phase() != Phase::Completing || self.cluster.group.generation() != generation {
            return;
        }
        self.cluster.group.stabilise();
        let members: Vec<_> = self.cluster.group.members().collect();
        for (member, process) in members {
            let wait = self.random.millis(0, 50);
            let (slot, life) = (process.slot, process.life);
            self.after(wait, Step::Worker { slot, life, step: WorkerStep::News(member) });
        }
    }

    pub(crate) fn hear_news(&mut self, slot: usize, member: MemberId) {
        let is_me = self.slots[slot].membership.is_some_and(|membership| membership.member == member);
        if !is_me || !self.slots[slot].awaits_news {
            return;
        }
        let Some(news) = self.cluster.group.news(member) else { return };
        let generation = news.generation;
        self.say(format_args!(
            "w{slot} hears generation {generation}: -{:?} +{:?}",
            news.revoked, news.added
        ));
        let worker = &mut self.slots[slot];
        worker.awaits_news = false;
        worker.membership = Some(Membership { member, generation });
        worker.assigned.extend(&news.added);
        let held = news.revoked;
        if self.bug == Some(Bug::NoWaitForGiveBack) && !held.is_empty() {
            // Told, but not waited for.
            self.slots[slot].assigned.retain(|partition| !held.contains(partition));
            self.slots[slot].adding = news.added;
            self.all_given_back(slot);
            let partitions = held.into_iter().map(Partition).collect();
            let wait = self.random.millis(1, 300);
            let event = Box::new(Event::Revoked(partitions));
            return self.worker_after(slot, wait, WorkerStep::Deliver(event));
        }
        worker.revoking = held.iter().copied().collect();
        worker.adding = news.added;
        if held.is_empty() {
            self.all_given_back(slot);
        } else {
            self.feed(slot, Event::Revoked(held.into_iter().map(Partition).collect()));
        }
    }

    pub(crate) fn give_back(&mut self, slot: usize, partition: Partition, epoch: Epoch) {
        let worker = &mut self.slots[slot];
        // A task that was given back before is answered for once more, with whatever epoch.
        let known = worker.epochs.remove(&partition.0);
        assert!(known.is_none_or(|known| known == epoch), "an epoch is given back that is not current");
        worker.readers.retain(|(known, _), _| *known != partition.0);
        let in_hand = worker.job.iter().flat_map(|job| &job.transaction.tasks);
        let is_held = known.is_some()
            && in_hand.into_iter().any(|task| task.partition == partition && task.epoch == epoch);
        let process = self.slots[slot].process();
        let checked = self.checker.given_back(partition.0, is_held, process, self.now);
        self.check(checked);
        if self.checker.is_handling(self.slots[slot].process(), partition, epoch) {
            self.reached.insert(Situation::GivenBackWhileRunning);
        }
        let worker = &mut self.slots[slot];
        if worker.revoking.remove(&partition.0) {
            worker.assigned.remove(&partition.0);
            if worker.revoking.is_empty() {
                self.all_given_back(slot);
            }
        }
    }

    /// What was revoked is back: tell what is new, and let the group deal out the rest.
    fn all_given_back(&mut self, slot: usize) {
        let Some(membership) = self.slots[slot].membership else { return };
        let member = membership.member;
        let added = std::mem::take(&mut self.slots[slot].adding);
        if !added.is_empty() {
            let event = Event::Assigned(added.into_iter().map(Partition).collect());
            self.worker_after(slot, Duration::ZERO, WorkerStep::Deliver(Box::new(event)));
        }
        if self.cluster.group.gave_back(member) {
            self.begin_rebalance();
        }
        let wait = self.random.millis(0, 20);
        self.worker_after(slot, wait, WorkerStep::Join(member));
    }

    /// The next heartbeat tells the client that the group does not know it any more.
    pub(crate) fn heartbeat(&mut self, slot: usize, member: MemberId) {
        let is_me = self.slots[slot].membership.is_some_and(|membership| membership.member == member);
        if is_me && !self.cluster.group.knows(member) {
            self.lose_all(slot);
        }
    }

    /// The client gives up its membership: epochs are made invalid first, then the core is told.
    pub(crate) fn lose_all(&mut self, slot: usize) {
        let worker = &mut self.slots[slot];
        worker.membership = None;
        worker.awaits_news = false;
        worker.revoking.clear();
        // What was not told yet the core never hears of.
        let untold = std::mem::take(&mut worker.adding);
        let told = std::mem::take(&mut worker.assigned);
        let lost: Vec<Partition> =
            told.into_iter().filter(|partition| !untold.contains(partition)).map(Partition).collect();
        worker.epochs.clear();
        worker.readers.clear();
        self.say(format_args!("w{slot} has lost its membership"));
        if !lost.is_empty() {
            self.worker_after(slot, Duration::ZERO, WorkerStep::Deliver(Box::new(Event::Lost(lost))));
        }
        let wait = self.random.millis(1, 500);
        self.worker_after(slot, wait, WorkerStep::Enter);
    }

    /// The group takes a member out; its client hears of it after a while.
    pub(crate) fn expel(&mut self, member: MemberId, notice: Duration) {
        let found = self.cluster.group.members().find(|(id, _)| *id == member);
        let Some((_, process)) = found else { return };
        let (slot, life) = (process.slot, process.life);
        self.after(notice, Step::Worker { slot, life, step: WorkerStep::Heartbeat(member) });
        self.remove_member(member, "expelled");
    }

    pub(crate) fn remove_member(&mut self, member: MemberId, how: &str) {
        if self.cluster.group.remove(member) {
            self.say(format_args!("{member:?} {how}"));
            self.begin_rebalance();
        }
    }

    /// The member's heartbeats may have been missing for a whole session.
    pub(crate) fn session_check(&mut self, member: MemberId) {
        let found = self.cluster.group.members().find(|(id, _)| *id == member);
        let Some((_, process)) = found else { return };
        let worker = &self.slots[process.slot];
        let is_dead = worker.life != process.life || worker.machine.is_none();
        let is_silent = worker.silent_since.is_some_and(|since| self.now >= since + SESSION)
            && worker.paused_until > self.now;
        if is_dead || is_silent {
            let notice = self.random.millis(1, 1_000);
            self.expel(member, notice);
        }
    }

    pub(crate) fn rebalance_timeout(&mut self, generation: u32) {
        let group = &self.cluster.group;
        if group.phase() != Phase::Preparing || group.generation() != generation {
            return;
        }
        for member in group.missing() {
            let notice = self.random.millis(1, 1_000);
            self.expel(member, notice);
        }
    }
}
