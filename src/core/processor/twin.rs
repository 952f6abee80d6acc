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
//! The one that came later ends at its first fence. The one that was there first, and has committed, ends only when it goes on
//! like that: it has to outlive a twin that its supervisor starts again and again.

use crate::core::event::Slot;
use crate::core::policy::Twins;

/// So many fences, with hardly a commit in between, end a worker that was there first.
const FENCES: usize = 5;
/// So many commits in a row show that the last fence was not one of two that go on fencing each other: the slower of them has
/// one or two before it is fenced again.
const CALM: usize = 10;

/// What a worker knows of another one that has its identity.
#[derive(Debug)]
pub(super) struct Twin {
    standing: Standing,
    /// How often its deciding producer was fenced without calm in between.
    fences: usize,
    /// Commits since the last of them.
    commits: usize,
}

/// Since when a worker has its identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It has not committed anything since it started.
    Newcomer,
    /// It has, so it was there before whoever fences it.
    Settled,
    /// It is told to end: somebody else has taken its place already.
    Leaving,
}

impl Default for Twin {
    fn default() -> Self {
        Self { standing: Standing::Newcomer, fences: 0, commits: 0 }
    }
}

impl Twin {
    pub(super) fn committed(&mut self) {
        match self.standing {
            Standing::Newcomer => self.standing = Standing::Settled,
            Standing::Settled | Standing::Leaving => {}
        }
        self.commits = self.commits.saturating_add(1);
        if self.commits >= CALM {
            self.fences = 0;
        }
    }

    pub(super) fn leaves(&mut self) {
        self.standing = Standing::Leaving;
    }

    /// A producer was fenced. Says after how many fences this worker has to end, where it has to; its producer must not be
    /// made anew then.
    pub(super) fn fenced(&mut self, slot: Slot, twins: Twins) -> Option<usize> {
        match (twins, slot) {
            (Twins::Group, Slot::First | Slot::Second) | (Twins::Fences, Slot::Second) => return None,
            (Twins::Fences, Slot::First) => {}
        }
        self.fences = self.fences.saturating_add(1);
        self.commits = 0;
        let most = match self.standing {
            Standing::Newcomer | Standing::Leaving => 1,
            Standing::Settled => FENCES,
        };
        (self.fences >= most).then_some(self.fences)
    }
}
