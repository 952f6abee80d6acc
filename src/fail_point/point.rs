//! The closed list of the points, each with where it lies.

use std::fmt;

macro_rules! points {
    ($($(#[doc = $place:literal])+ $point:ident = $name:literal,)+) => {
        /// A place in a worker's work. Each is passed by some test, which has the process killed there.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FailPoint {
            $($(#[doc = $place])+ $point,)+
        }

        impl FailPoint {
            /// All of them, in the order of a worker's life.
            pub const ALL: &'static [Self] = &[$(Self::$point),+];

            /// The name in orders.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$point => $name,)+
                }
            }
        }
    };
}

points! {
    /// The first producer is initialised, and with it the past of that slot is ended; the second is not.
    BetweenSlots = "between-slots",
    /// Both producers are initialised; the source is not subscribed.
    BeforeSubscribe = "before-subscribe",
    /// The group gave partitions; it was answered, and the core does not know.
    Assigned = "assigned",
    /// A task is taken over; its committed offsets are not asked for.
    BeforeCommitted = "before-committed",
    /// The committed offsets of a task are known; what its logs hold is not, and nobody was told.
    AfterCommitted = "after-committed",
    /// The start of a task is committed, by this process or one before it; none of its lanes is open.
    BeforeOpen = "before-open",
    /// The source lane of a task is open; its tiers are not.
    BetweenLanes = "between-lanes",
    /// All lanes of a task are open.
    AfterOpen = "after-open",
    /// A transaction is formed, with the group's metadata; the transactor does not have it.
    Formed = "formed",
    /// A producer is about to begin; from the second passing on, the other one has just ended a transaction.
    BeforeBegin = "before-begin",
    /// A transaction has begun on this side; the broker knows nothing of it.
    AfterBegin = "after-begin",
    /// One record of a transaction is queued.
    AfterProduce = "after-produce",
    /// All records are queued; not all were delivered.
    BeforeDeliveries = "before-deliveries",
    /// The broker has all records of the transaction.
    AfterDeliveries = "after-deliveries",
    /// The epochs are checked; the offsets are not sent.
    BeforeOffsets = "before-offsets",
    /// The offsets are part of the transaction.
    AfterOffsets = "after-offsets",
    /// The commit is about to be sent.
    BeforeCommit = "before-commit",
    /// The commit was sent and the coordinator has not answered within one call.
    Unanswered = "unanswered",
    /// A producer was given up with its commit in doubt; nobody was told.
    InDoubt = "in-doubt",
    /// The broker said committed; the worker's thread does not know.
    AfterCommit = "after-commit",
    /// The worker's thread has a transaction's result; the core does not.
    ResultArrived = "result-arrived",
    /// The producers are sound again; the committed marks are not fetched.
    BeforeMarks = "before-marks",
    /// The committed marks are known; the core does not know.
    AfterMarks = "after-marks",
    /// A transaction is about to be aborted.
    BeforeAbort = "before-abort",
    /// A transaction is aborted; its producer is still there.
    AfterAbort = "after-abort",
    /// A producer was given up; the one in its place is not made.
    BeforeRemake = "before-remake",
    /// A producer was made anew, and with it the past of its slot is ended; nobody was told.
    AfterRemake = "after-remake",
    /// The group asks for partitions back; the core does not know.
    Revoked = "revoked",
    /// The core gave a task back, and nothing works for it; the group has no answer.
    LanesEnded = "lanes-ended",
    /// The group has what it asked back.
    GivenBack = "given-back",
    /// The group took partitions without asking; what works for them goes on.
    Lost = "lost",
    /// The process was told to end; the core does not know.
    Draining = "draining",
    /// Everything settled is committed and given back; the group still has this member.
    Drained = "drained",
    /// The transactor has ended; the group still has this member.
    BeforeLeave = "before-leave",
    /// The member unsubscribed; the group's last question is not answered.
    Leaving = "leaving",
}

impl fmt::Display for FailPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
