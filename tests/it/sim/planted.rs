//! Bugs that a run can be told to have, so that a test can tell whether the checks see them.

use redrive::core::event::Target;
use redrive::core::invariant::InvariantId::{self, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};

/// One planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// Offsets go without member and generation, as a consumer that never subscribed would send them.
    LaneMetadata,
    /// Member and generation are taken when the offsets are sent, not when the batch is formed.
    MetadataRefreshed,
    /// The commit is sent before the records.
    CommitBeforeProduce,
    /// Epochs are not checked before offsets are sent.
    EpochUnchecked,
    /// A task is taken over without waiting for pending offsets.
    UnstableRestore,
    /// The read-back looks before it has fenced the producer in doubt.
    ReadBackBeforeInit,
    /// The read-back reports the mark one too high.
    MarkOffByOne,
    /// A revoked task goes back at once.
    NoWaitForGiveBack,
    /// A foreign header is lost on the way to the broker.
    HeaderDropped,
    /// The lanes are opened one record too far.
    RecordSkippedAtOpen,
    /// A failed send is passed over.
    SendErrorSwallowed,
    /// The lanes are read without waiting for transactions to end.
    ReadUncommitted,
    /// A commit without a verdict is taken for aborted.
    UnknownAsAborted,
    /// A commit that was sent is taken for committed.
    CommittedTooEarly,
    /// The broker leaves the records of aborted transactions to be read.
    AbortedVisible,
    /// Output goes out beside the transaction.
    OutputOutside,
    /// The handler's answer is reported before the handler has ended.
    AnswerBeforeEnd,
    /// Due times are read as if every lane were the first tier.
    DueFromWrongTier,
    /// The committed offset is one too high.
    OffsetTooHigh,
    /// The committed offset of a tier is one too low.
    OffsetTooLow,
    /// A write is lost.
    WriteDropped,
    /// A write is made twice.
    WriteDoubled,
    /// A hop counts as an attempt.
    HopCountsAsAttempt,
    /// A retry does not count as an attempt.
    AttemptNotCounted,
    /// The sequence number stays where it is.
    SequenceNotRaised,
    /// The origin's offset is wrong in retry copies.
    OriginChanged,
    /// The deadline is set anew with every retry.
    DeadlineMoved,
    /// A task is given back while its transaction is open.
    GiveBackTooEarly,
    /// Results are forgotten when a transaction is aborted: the handlers run again.
    ResultsForgotten,
    /// An answer goes out beside the transaction.
    AnswerOutside,
    /// After an abort a request is answered once more than it was asked.
    AnsweredTwice,
    /// The control lane is not read while a task is blocked.
    DeafWhileBlocked,
    /// A transaction without any change is begun over and over.
    IdleTransaction,
    /// An abort that names no record is taken for a refusal of the first.
    GroupErrorAccuses,
    /// Another record of the batch is taken for the one that is refused.
    MateAccused,
    /// A refused record is handled again.
    RefusedHandledAgain,
    /// A dead letter leaves a value behind that its topic would take.
    ValueLeftBehind,
    /// A worker that ends for a twin has fenced it once more before.
    TwinTakesIdBack,
    /// An idle lane is said to have passed the end of its log, which was asked for, not what it has given.
    EndAsked,
    /// Positions in the state topic are not taken back when their lanes go on.
    NoteKept,
    /// What is noted of a lane is one offset too far.
    NoteTooHigh,
    /// A new owner reads the state topic up to what is stable, and does not wait for its end.
    StateReadToLastStable,
    /// A worker that had a task before keeps the versions that it read then.
    VersionsKept,
    /// Versions count as applied before their commit.
    UncommittedVersions,
    /// The version of a record that failed and waits counts as applied: its retry is taken for a duplicate.
    FailedVersions,
    /// A record that follows one of its key from another lane is committed before it.
    FollowerFirst,
    /// A new owner forgets which records of its keys wait in tiers.
    BlockerForgotten,
    /// The clock by which gaps end has run while the task was stopped.
    ClockWhileStopped,
    /// A hold whose transaction was aborted is not written again.
    HoldLostOnAbort,
}

impl Bug {
    /// Each with the invariants of which one must be named; none where only a standstill shows it.
    pub(crate) const ALL: [(Self, &'static [InvariantId]); 48] = [
        (Self::LaneMetadata, &[R2]),
        (Self::MetadataRefreshed, &[R2]),
        (Self::CommitBeforeProduce, &[R1]),
        (Self::EpochUnchecked, &[R2]),
        (Self::UnstableRestore, &[R1]),
        (Self::ReadBackBeforeInit, &[R1]),
        (Self::MarkOffByOne, &[R1]),
        (Self::NoWaitForGiveBack, &[R2]),
        (Self::HeaderDropped, &[R7]),
        (Self::RecordSkippedAtOpen, &[R1]),
        (Self::SendErrorSwallowed, &[R1]),
        (Self::ReadUncommitted, &[R1, R3]),
        (Self::UnknownAsAborted, &[R1, R8]),
        (Self::CommittedTooEarly, &[R1, R8]),
        (Self::AbortedVisible, &[R10]),
        (Self::OutputOutside, &[R1, R10]),
        (Self::AnswerBeforeEnd, &[R9]),
        (Self::DueFromWrongTier, &[R3]),
        (Self::OffsetTooHigh, &[R1]),
        (Self::OffsetTooLow, &[R1, R8]),
        (Self::WriteDropped, &[R1]),
        (Self::WriteDoubled, &[R1]),
        (Self::HopCountsAsAttempt, &[R4]),
        (Self::AttemptNotCounted, &[R4]),
        (Self::SequenceNotRaised, &[R1]),
        (Self::OriginChanged, &[R1, R7]),
        (Self::DeadlineMoved, &[R7]),
        (Self::GiveBackTooEarly, &[R2]),
        (Self::ResultsForgotten, &[R6]),
        (Self::AnswerOutside, &[R1, R10]),
        (Self::AnsweredTwice, &[R1]),
        (Self::DeafWhileBlocked, &[]),
        (Self::IdleTransaction, &[R8]),
        (Self::GroupErrorAccuses, &[R1, R7]),
        (Self::MateAccused, &[R1, R7]),
        (Self::RefusedHandledAgain, &[R6]),
        (Self::ValueLeftBehind, &[R7]),
        (Self::EndAsked, &[R1]),
        (Self::NoteKept, &[R1]),
        (Self::NoteTooHigh, &[R1]),
        (Self::StateReadToLastStable, &[R1, R5]),
        (Self::VersionsKept, &[R5]),
        (Self::UncommittedVersions, &[R1]),
        (Self::FailedVersions, &[R1]),
        (Self::FollowerFirst, &[R5]),
        (Self::BlockerForgotten, &[R1, R9]),
        (Self::ClockWhileStopped, &[R1]),
        (Self::HoldLostOnAbort, &[R1, R10]),
    ];

    /// Whether a write goes out beside the transaction.
    pub(crate) fn puts_outside(self, target: Target) -> bool {
        let outside = match self {
            Self::OutputOutside => Some(Target::Output),
            Self::AnswerOutside => Some(Target::Cases),
            _ => None,
        };
        outside == Some(target)
    }
}
