//! A snapshot of the source consumer's membership: what lets the broker refuse the offsets of an old owner.

use std::fmt;

use rdkafka::consumer::ConsumerGroupMetadata;

use crate::core::event::Generation;

/// Member and generation of a source consumer at the moment when a transaction was formed.
///
/// Made only by [`Source::metadata`](crate::kafka::source::Source::metadata), which refuses to make one without a member: the
/// broker would take the offsets of nobody without asking who owns the partition.
pub(crate) struct GroupMetadata {
    pub(super) snapshot: ConsumerGroupMetadata,
    /// As it was at that moment, or a moment later.
    pub(super) generation: Generation,
}

impl fmt::Debug for GroupMetadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GroupMetadata")
    }
}
