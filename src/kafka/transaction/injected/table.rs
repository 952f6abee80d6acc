//! Which error on which request ends how.

use rdkafka::types::RDKafkaApiKey::{
    self, AddOffsetsToTxn, AddPartitionsToTxn, EndTxn, FindCoordinator, InitProducerId, Produce,
    TxnOffsetCommit,
};
use rdkafka::types::RDKafkaRespErr::{self, *};

use super::FOR_EVER;

/// What is under way when the error comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occasion {
    /// The producers are made for the first time.
    Start,
    /// A transaction that is to be committed.
    Commit,
    /// A transaction that is to be aborted, since its task has left.
    Abort,
    /// A producer is made anew, since a record of its transaction failed.
    Remake,
}

/// How it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// Committed, by the client's own patience.
    Committed,
    /// Aborted, nothing named; the producer goes on.
    Passing,
    /// As [`Self::Passing`], with a new producer.
    PassingAndRemade,
    /// Aborted, the topic named; the producer goes on.
    Unwritable,
    /// As [`Self::Unwritable`], with a new producer.
    UnwritableAndRemade,
    /// Aborted, the record's place named; the producer goes on.
    Refused,
    /// As [`Self::Refused`], with a new producer.
    RefusedAndRemade,
    /// Fenced, with a new producer.
    Fenced,
    /// Without a verdict; the marks are read once the producer is made anew.
    UnknownAndReadBack,
    /// The transactor says why and ends.
    Fatal,
    /// It does not even start.
    RefusedAtStart,
}

/// What an error is to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It asks again by itself.
    Retried,
    /// It wants the transaction aborted.
    Abortable,
    /// The producer is dead.
    Fatal,
}

impl Ends {
    pub(super) fn is_of(self, kind: Kind) -> bool {
        match self {
            Self::Committed => kind == Kind::Retried,
            Self::Passing | Self::Unwritable | Self::Refused => kind == Kind::Abortable,
            Self::UnwritableAndRemade | Self::RefusedAndRemade => kind == Kind::Abortable,
            // A record that failed wears its producer out; what kills a producer before its commit is seen the same way.
            Self::PassingAndRemade => kind != Kind::Retried,
            Self::Fenced | Self::UnknownAndReadBack | Self::Fatal | Self::RefusedAtStart => {
                kind == Kind::Fatal
            }
        }
    }
}

/// One error.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) request: RDKafkaApiKey,
    pub(super) error: RDKafkaRespErr,
    pub(super) times: usize,
    pub(super) occasion: Occasion,
    pub(super) ends: Ends,
}

/// What a transaction must know of its brokers' errors: none of these may be without a row.
pub(super) const LISTED: [(Kind, &[RDKafkaApiKey], &[RDKafkaRespErr]); 11] = [
    // A coordinator that loads, has moved or is busy with the last transaction.
    (
        Kind::Retried,
        &[AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn, InitProducerId],
        &[
            RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
            RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE,
            RD_KAFKA_RESP_ERR_NOT_COORDINATOR,
            RD_KAFKA_RESP_ERR_CONCURRENT_TRANSACTIONS,
        ],
    ),
    // A topic that is not known everywhere yet.
    (
        Kind::Retried,
        &[AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, Produce],
        &[RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART],
    ),
    // A leader that has moved, and replicas that lag.
    (
        Kind::Retried,
        &[Produce],
        &[
            RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
            RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE,
            RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
            RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ],
    ),
    // A connection that breaks.
    (
        Kind::Retried,
        &[Produce, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn, InitProducerId],
        &[RD_KAFKA_RESP_ERR__TRANSPORT],
    ),
    // A member that the group has left behind.
    (
        Kind::Abortable,
        &[TxnOffsetCommit],
        &[
            RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION,
            RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID,
            RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID,
            RD_KAFKA_RESP_ERR_STALE_MEMBER_EPOCH,
            RD_KAFKA_RESP_ERR_FENCED_MEMBER_EPOCH,
            RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS,
            RD_KAFKA_RESP_ERR_OFFSET_METADATA_TOO_LARGE,
        ],
    ),
    // Rights that are missing.
    (
        Kind::Abortable,
        &[AddOffsetsToTxn, TxnOffsetCommit],
        &[RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED],
    ),
    (Kind::Abortable, &[AddPartitionsToTxn], &[RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED]),
    // Records that are not taken.
    (
        Kind::Abortable,
        &[Produce],
        &[
            RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED,
            RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE,
            RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE,
            RD_KAFKA_RESP_ERR_INVALID_RECORD,
            RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP,
            RD_KAFKA_RESP_ERR_INVALID_TXN_STATE,
        ],
    ),
    // A producer whose time is over: another has its id, or its transaction ran out of time at the broker.
    (
        Kind::Fatal,
        &[AddPartitionsToTxn, EndTxn],
        &[RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH, RD_KAFKA_RESP_ERR_PRODUCER_FENCED],
    ),
    // An id that may not be used.
    (
        Kind::Fatal,
        &[AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn, InitProducerId, FindCoordinator],
        &[RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED],
    ),
    (Kind::Fatal, &[InitProducerId], &[RD_KAFKA_RESP_ERR_INVALID_TRANSACTION_TIMEOUT]),
];

/// The table.
pub(super) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |occasion, times, request, ends, errors: &[RDKafkaRespErr]| {
        rows.extend(errors.iter().map(|error| Row { request, error: *error, times, occasion, ends }));
    };
    let coordinator = [
        RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
        RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE,
        RD_KAFKA_RESP_ERR_NOT_COORDINATOR,
        RD_KAFKA_RESP_ERR_CONCURRENT_TRANSACTIONS,
        RD_KAFKA_RESP_ERR__TRANSPORT,
    ];
    let unknown_topic = [RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART];
    let denied_id = [RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED];

    // Asked again until there is an answer: by the client, or where that hands the error out as retriable (adding offsets),
    // by the recipe.
    for request in [AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn] {
        add(Occasion::Commit, 1, request, Ends::Committed, &coordinator);
    }
    for request in [AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, Produce] {
        add(Occasion::Commit, 1, request, Ends::Committed, &unknown_topic);
    }
    add(
        Occasion::Commit,
        1,
        Produce,
        Ends::Committed,
        &[
            RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
            RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE,
            RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
            RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            // Bytes that changed on the way.
            RD_KAFKA_RESP_ERR_INVALID_MSG,
            RD_KAFKA_RESP_ERR__TRANSPORT,
        ],
    );
    add(Occasion::Start, 1, InitProducerId, Ends::Committed, &coordinator);
    add(Occasion::Start, 1, FindCoordinator, Ends::Committed, &[RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE]);

    // Not answered within the transaction's time: nothing is to blame that the brokers can name, and nobody knows what the
    // producer still has under way.
    add(
        Occasion::Commit,
        FOR_EVER,
        Produce,
        Ends::PassingAndRemade,
        &[RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION],
    );
    add(
        Occasion::Commit,
        FOR_EVER,
        AddPartitionsToTxn,
        Ends::PassingAndRemade,
        &[RD_KAFKA_RESP_ERR_CONCURRENT_TRANSACTIONS, RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART],
    );
    add(
        Occasion::Commit,
        FOR_EVER,
        AddOffsetsToTxn,
        Ends::PassingAndRemade,
        &[RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS],
    );
    // The client makes this one abortable when its time is over.
    add(
        Occasion::Commit,
        FOR_EVER,
        TxnOffsetCommit,
        Ends::Passing,
        &[RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS],
    );

    // The transaction is aborted and tried again with the group's metadata of that moment, if the task is still ours.
    add(
        Occasion::Commit,
        1,
        TxnOffsetCommit,
        Ends::Passing,
        &[
            RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION,
            RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID,
            RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID,
            RD_KAFKA_RESP_ERR_STALE_MEMBER_EPOCH,
            RD_KAFKA_RESP_ERR_FENCED_MEMBER_EPOCH,
            RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS,
            RD_KAFKA_RESP_ERR_OFFSET_METADATA_TOO_LARGE,
        ],
    );
    for request in [AddOffsetsToTxn, TxnOffsetCommit] {
        add(
            Occasion::Commit,
            1,
            request,
            Ends::Passing,
            &[RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED],
        );
    }

    // The topic is to blame. Its records failed, so that sequence numbers are missing.
    for request in [AddPartitionsToTxn, Produce] {
        add(
            Occasion::Commit,
            1,
            request,
            Ends::UnwritableAndRemade,
            &[RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED],
        );
    }
    add(
        Occasion::Commit,
        1,
        Produce,
        Ends::UnwritableAndRemade,
        &[
            RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION,
            RD_KAFKA_RESP_ERR_POLICY_VIOLATION,
            RD_KAFKA_RESP_ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ],
    );
    // The record is to blame.
    add(
        Occasion::Commit,
        1,
        Produce,
        Ends::RefusedAndRemade,
        &[
            RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE,
            RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE,
            RD_KAFKA_RESP_ERR_INVALID_RECORD,
            RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP,
            RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE,
        ],
    );
    // Nobody is: the broker has another picture of this producer, or of nothing at all.
    add(
        Occasion::Commit,
        1,
        Produce,
        Ends::PassingAndRemade,
        &[
            RD_KAFKA_RESP_ERR_INVALID_TXN_STATE,
            RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER,
            RD_KAFKA_RESP_ERR_UNKNOWN_PRODUCER_ID,
            RD_KAFKA_RESP_ERR_INVALID_PRODUCER_ID_MAPPING,
            RD_KAFKA_RESP_ERR_UNKNOWN,
        ],
    );

    // Fenced, or given up by the broker since its time was over. Before the commit was sent.
    let fenced = [RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH, RD_KAFKA_RESP_ERR_PRODUCER_FENCED];
    add(Occasion::Commit, 1, AddPartitionsToTxn, Ends::Fenced, &fenced);
    add(Occasion::Abort, 1, EndTxn, Ends::Fenced, &fenced);
    for request in [Produce, AddOffsetsToTxn, TxnOffsetCommit] {
        add(Occasion::Commit, 1, request, Ends::Fenced, &[RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH]);
    }
    // After it was sent nobody knows, whatever the error says.
    add(Occasion::Commit, 1, EndTxn, Ends::UnknownAndReadBack, &fenced);
    add(
        Occasion::Commit,
        1,
        EndTxn,
        Ends::UnknownAndReadBack,
        &[
            RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            RD_KAFKA_RESP_ERR_INVALID_TXN_STATE,
            RD_KAFKA_RESP_ERR_INVALID_PRODUCER_ID_MAPPING,
            RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
            RD_KAFKA_RESP_ERR_UNKNOWN,
        ],
    );
    add(Occasion::Commit, FOR_EVER, EndTxn, Ends::UnknownAndReadBack, &[RD_KAFKA_RESP_ERR__TRANSPORT]);
    // An abort needs no verdict: a new producer ends what the old one left open.
    add(
        Occasion::Abort,
        1,
        EndTxn,
        Ends::PassingAndRemade,
        &[RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED, RD_KAFKA_RESP_ERR_INVALID_TXN_STATE],
    );
    add(Occasion::Abort, 1, EndTxn, Ends::Passing, &coordinator);

    // The producer is dead; whether its id can be used again is asked by making it anew.
    for request in [AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit] {
        add(Occasion::Commit, 1, request, Ends::PassingAndRemade, &denied_id);
        add(Occasion::Commit, 1, request, Ends::PassingAndRemade, &[RD_KAFKA_RESP_ERR_INVALID_TXN_STATE]);
    }
    for request in [InitProducerId, FindCoordinator] {
        add(Occasion::Start, FOR_EVER, request, Ends::RefusedAtStart, &denied_id);
    }
    add(
        Occasion::Start,
        FOR_EVER,
        InitProducerId,
        Ends::RefusedAtStart,
        &[RD_KAFKA_RESP_ERR_INVALID_TRANSACTION_TIMEOUT, RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED],
    );
    add(Occasion::Remake, FOR_EVER, InitProducerId, Ends::Fatal, &denied_id);
    add(Occasion::Remake, 1, InitProducerId, Ends::PassingAndRemade, &coordinator);
    // Somebody else was initialised at the same moment: it is tried again with a newer epoch.
    add(Occasion::Start, 1, InitProducerId, Ends::Committed, &fenced);
    add(Occasion::Remake, 1, InitProducerId, Ends::PassingAndRemade, &fenced);
    rows
}
