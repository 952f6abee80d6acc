//! Why a transaction is given up, and what that does to its producer.

use rdkafka::error::RDKafkaErrorCode;

use crate::core::event::{AbortCause, Flaw};
use crate::kafka::producer::{Trouble, flaw_of};

/// Why a transaction is given up before its commit was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is to be aborted.
    Abort(AbortCause, Wear),
    /// The producer was fenced.
    Fenced(String),
    /// The producer is dead, or nobody knows.
    Broken(String),
}

/// What is left of a producer after an abort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wear {
    /// It can go on.
    Sound,
    /// Its sequence numbers have a gap: its next transaction on that partition would fail, too, through no fault of the
    /// records in it.
    Worn,
}

/// What an error says about the record or the topic that met it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blame {
    /// The record is refused as it is, or one of its batch is.
    Record(Flaw),
    /// The topic cannot be written.
    Topic,
    /// No answer in time; the topic's metadata may show why.
    Unanswered,
    /// Neither.
    Nobody,
}

impl From<Trouble> for Fault {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Again(detail) => Self::Abort(AbortCause::Passing { detail }, Wear::Worn),
            Trouble::Abort { detail, .. } => Self::Abort(AbortCause::Passing { detail }, Wear::Sound),
            Trouble::Fenced(detail) => Self::Fenced(detail),
            Trouble::Broken(detail) => Self::Broken(detail),
        }
    }
}

/// Sorts an error of a record.
pub(super) fn blame(code: RDKafkaErrorCode) -> Blame {
    if let Some(flaw) = flaw_of(code) {
        return Blame::Record(flaw);
    }
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the client's list of errors grows; only these name somebody"
    )]
    match code {
        RDKafkaErrorCode::UnknownTopic
        | RDKafkaErrorCode::UnknownPartition
        | RDKafkaErrorCode::UnknownTopicOrPartition
        | RDKafkaErrorCode::InvalidTopic
        | RDKafkaErrorCode::TopicAuthorizationFailed
        | RDKafkaErrorCode::LeaderNotAvailable
        | RDKafkaErrorCode::NotEnoughReplicas
        | RDKafkaErrorCode::NotEnoughReplicasAfterAppend
        | RDKafkaErrorCode::PolicyViolation
        | RDKafkaErrorCode::UnsupportedForMessageFormat => Blame::Topic,
        RDKafkaErrorCode::MessageTimedOut
        | RDKafkaErrorCode::PurgeQueue
        | RDKafkaErrorCode::PurgeInflight => Blame::Unanswered,
        _ => Blame::Nobody,
    }
}
