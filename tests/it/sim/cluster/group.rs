//! The group coordinator: members, generations, cooperative-sticky assignments.

use std::collections::{BTreeMap, BTreeSet};

use crate::sim::random::Random;

/// A member of the group, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MemberId(pub(crate) u32);

/// What a client says of itself with every offset that it commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Membership {
    pub(crate) member: MemberId,
    pub(crate) generation: u32,
}

/// Which process a member is: the worker and which of its lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Process {
    pub(crate) slot: usize,
    pub(crate) life: u32,
}

/// Why the group refuses offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    UnknownMember,
    IllegalGeneration,
    RebalanceInProgress,
}

/// Where the group is in a rebalance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Stable,
    /// Waits for all members to join.
    Preparing,
    /// All have joined; the assignment is being made.
    Completing,
}

#[derive(Clone, Debug)]
struct Member {
    process: Process,
    joined: bool,
    /// What it has not given back yet.
    holds: BTreeSet<i32>,
    assigned: BTreeSet<i32>,
}

/// The group.
#[derive(Debug)]
pub(crate) struct Group {
    partitions: i32,
    generation: u32,
    phase: Phase,
    next_member: u32,
    members: BTreeMap<MemberId, Member>,
}

impl Group {
    pub(crate) fn new(partitions: i32) -> Self {
        Self { partitions, generation: 0, phase: Phase::Stable, next_member: 1, members: BTreeMap::new() }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    pub(crate) fn knows(&self, member: MemberId) -> bool {
        self.members.contains_key(&member)
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = (MemberId, Process)> + '_ {
        self.members.iter().map(|(id, member)| (*id, member.process))
    }

    /// The process that may work on a partition: it has been given it and has not given it back.
    pub(crate) fn owner(&self, partition: i32) -> Option<Process> {
        let mut owners = self
            .members
            .values()
            .filter(|member| member.holds.contains(&partition) || member.assigned.contains(&partition));
        owners.next().map(|member| member.process)
    }

    /// Checks offsets as the broker does.
    pub(crate) fn check(&self, membership: Membership) -> Result<(), Refused> {
        if !self.knows(membership.member) {
            Err(Refused::UnknownMember)
        } else if membership.generation != self.generation {
            Err(Refused::IllegalGeneration)
        } else if self.phase == Phase::Completing {
            Err(Refused::RebalanceInProgress)
        } else {
            Ok(())
        }
    }

    /// A new member; it still has to join the rebalance that this begins.
    pub(crate) fn enter(&mut self, process: Process) -> MemberId {
        let id = MemberId(self.next_member);
        self.next_member += 1;
        let (holds, assigned) = (BTreeSet::new(), BTreeSet::new());
        self.members.insert(id, Member { process, joined: false, holds, assigned });
        id
    }

    /// Takes a member out: it left, its session expired, or it did not join in time.
    pub(crate) fn remove(&mut self, member: MemberId) -> bool {
        self.members.remove(&member).is_some()
    }

    /// Begins a rebalance, unless one is waiting for members already.
    pub(crate) fn prepare(&mut self) -> bool {
        if self.phase == Phase::Preparing {
            return false;
        }
        self.phase = Phase::Preparing;
        for member in self.members.values_mut() {
            member.joined = false;
        }
        true
    }

    /// The member has given back what it was told to; true where there was something.
    pub(crate) fn gave_back(&mut self, member: MemberId) -> bool {
        let Some(member) = self.members.get_mut(&member) else { return false };
        let had_more = member.holds.difference(&member.assigned).next().is_some();
        member.holds = member.assigned.clone();
        had_more
    }

    pub(crate) fn join(&mut self, member: MemberId) {
        if let Some(member) = self.members.get_mut(&member) {
            member.joined = true;
        }
    }

    pub(crate) fn all_joined(&self) -> bool {
        self.members.values().all(|member| member.joined)
    }

    pub(crate) fn missing(&self) -> Vec<MemberId> {
        self.members.iter().filter(|(_, member)| !member.joined).map(|(id, _)| *id).collect()
    }

    /// All have joined: a new generation, and who gets what. A partition that moves is given to nobody until its
    /// holder has given it back.
    pub(crate) fn complete(&mut self, random: &mut Random, shuffle: Shuffle) {
        self.generation += 1;
        self.phase = Phase::Completing;
        let wanted = self.targets(random, shuffle);
        let held: BTreeSet<i32> =
            self.members.values().flat_map(|member| member.holds.iter().copied()).collect();
        for (id, member) in &mut self.members {
            let mine = |partition: &i32| wanted.get(partition) == Some(id);
            let kept: Vec<i32> = member.holds.iter().copied().filter(mine).collect();
            let free = (0..self.partitions).filter(|partition| !held.contains(partition));
            member.assigned = kept.into_iter().chain(free.filter(mine)).collect();
        }
    }

    fn targets(&self, random: &mut Random, shuffle: Shuffle) -> BTreeMap<i32, MemberId> {
        let mut ids: Vec<MemberId> = self.members.keys().copied().collect();
        if ids.is_empty() {
            return BTreeMap::new();
        }
        let turn = random.index(ids.len());
        ids.rotate_left(turn);
        let partitions = self.partitions as usize;
        let mut room: BTreeMap<MemberId, usize> = BTreeMap::new();
        for (index, id) in ids.iter().enumerate() {
            let extra = usize::from(index < partitions % ids.len());
            room.insert(*id, partitions / ids.len() + extra);
        }
        let mut wanted = BTreeMap::new();
        if shuffle == Shuffle::Sticky {
            for (id, member) in &self.members {
                for partition in &member.holds {
                    if let Some(left) = room.get_mut(id).filter(|left| **left > 0) {
                        *left -= 1;
                        wanted.insert(*partition, *id);
                    }
                }
            }
        }
        for partition in 0..self.partitions {
            if let std::collections::btree_map::Entry::Vacant(vacant) = wanted.entry(partition) {
                let open: Vec<MemberId> = ids.iter().copied().filter(|id| room[id] > 0).collect();
                let id = *random.pick(&open);
                *room.entry(id).or_default() -= 1;
                vacant.insert(id);
            }
        }
        wanted
    }

    /// The assignment is known: offsets are taken again.
    pub(crate) fn stabilise(&mut self) {
        self.phase = Phase::Stable;
    }

    /// What a member is told: its partitions that move away, and its new ones. What it keeps and what it gains it
    /// holds from now on.
    pub(crate) fn news(&mut self, member: MemberId) -> Option<News> {
        let generation = self.generation;
        let member = self.members.get_mut(&member)?;
        let revoked: Vec<i32> = member.holds.difference(&member.assigned).copied().collect();
        let added: Vec<i32> = member.assigned.difference(&member.holds).copied().collect();
        if revoked.is_empty() {
            member.holds = member.assigned.clone();
        }
        Some(News { generation, revoked, added })
    }
}

/// How partitions are dealt out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shuffle {
    /// Everybody keeps what fits.
    Sticky,
    /// Anew.
    Anew,
}

/// An assignment as one member learns it.
#[derive(Clone, Debug)]
pub(crate) struct News {
    pub(crate) generation: u32,
    pub(crate) revoked: Vec<i32>,
    pub(crate) added: Vec<i32>,
}
