//! Which of two living workers with one transactional id ends, so that the other can go on.
//!
//! Each of them takes the id from the other whenever it makes a producer anew:
//!
//! 1. B starts and makes its producers: those of A are fenced,
//! 2. A meets that, and makes a producer anew: that of B is fenced,
//! 3. B meets that, and so on, for ever.
//!
//! So one has to end, and *exactly* one does if whoever ends does not make its producer anew before: then the other's is the
//! newest there will ever be. That holds for one producer, whatever each of them goes by. With two of them both could end, each
//! by a fence of another one, so only the first decides; the second is merely made anew.
//!
//! The one that came later ends at its first fence. The one that was there first ends only when it goes on like that, and never
//! for a twin that its supervisor starts again and again, however seldom it commits itself:
//!
//! 1. each life of the twin fences it once, when that makes its producers, and ends at the first fence that it meets,
//! 2. to meet one it must have a task, so it has joined the group by then,
//! 3. so of all fences within one generation of the group two at most are of such lives: one before the twin joined, and one of
//!    its next life, which has not joined yet.
//!
//! Two that were both there first go on fencing each other in one generation.

use std::time::Duration;

use crate::core::event::{Generation, Slot};
use crate::core::policy::Twins;
use crate::core::time::Monotonic;

/// So many fences in one generation, with hardly a commit in between, end a worker that was there first.
const FENCES: usize = 5;
/// So many commits in a row show that the last fence was not one of two that go on fencing each other: the slower of them has
/// one or two before it is fenced again.
const CALM: usize = 10;
/// A worker that has had neither calm nor so long since its first commit is the later one: whoever was there first may not have
/// had anything to commit since it came.
const PROBATION: Duration = Duration::from_secs(60);

/// What a worker knows of another one that has its identity.
#[derive(Debug)]
pub(super) struct Twin {
    standing: Standing,
    streak: Option<Streak>,
    first_commit: Option<Monotonic>,
    /// Commits since the last fence.
    commits: usize,
}

/// Fences of the deciding producer, in one generation and without calm in between.
#[derive(Debug)]
struct Streak {
    generation: Generation,
    since: Monotonic,
    fences: usize,
}

/// A producer was fenced.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fence {
    pub(super) slot: Slot,
    /// The group's when the transaction was formed that met it.
    pub(super) generation: Generation,
    pub(super) at: Monotonic,
}

/// Since when a worker has its identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It has not committed in calm, nor long ago.
    Newcomer,
    /// It has, so it was there before whoever fences it.
    Settled,
    /// It is told to end: somebody else has taken its place already.
    Leaving,
}

impl Default for Twin {
    fn default() -> Self {
        Self { standing: Standing::Newcomer, streak: None, first_commit: None, commits: 0 }
    }
}

impl Twin {
    pub(super) fn committed(&mut self, now: Monotonic) {
        self.first_commit.get_or_insert(now);
        self.commits = self.commits.saturating_add(1);
        if self.commits < CALM {
            return;
        }
        self.streak = None;
        self.settle();
    }

    fn settle(&mut self) {
        match self.standing {
            Standing::Newcomer => self.standing = Standing::Settled,
            Standing::Settled | Standing::Leaving => {}
        }
    }

    pub(super) fn leaves(&mut self) {
        self.standing = Standing::Leaving;
    }

    /// Says after how many fences this worker has to end, where it has to; its producer must not be made anew then.
    pub(super) fn fenced(&mut self, fence: Fence, twins: Twins) -> Option<usize> {
        match (twins, fence.slot) {
            (Twins::Group, _) | (_, Slot::Second) => return None,
            (Twins::Fences | Twins::GroupWithin(_), Slot::First) => {}
        }
        self.commits = 0;
        let Fence { generation, at, slot: _ } = fence;
        if self.first_commit.is_some_and(|first| at.since(first) >= PROBATION) {
            self.settle();
        }
        let known = self.streak.take().filter(|streak| streak.generation == generation);
        let streak = self.streak.insert(known.unwrap_or(Streak { generation, since: at, fences: 0 }));
        streak.fences = streak.fences.saturating_add(1);
        let go_on = streak.fences >= FENCES;
        let ends = match (twins, self.standing) {
            (Twins::Fences, Standing::Newcomer | Standing::Leaving) => true,
            (Twins::Fences, Standing::Settled) => go_on,
            (Twins::GroupWithin(session), _) => go_on && at.since(streak.since) > session,
            (Twins::Group, _) => false,
        };
        ends.then_some(streak.fences)
    }
}
