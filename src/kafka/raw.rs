//! What the client's C interface tells and its safe one does not: header names as bytes, and membership of the group.
//!
//! The safe interface panics at a header name that is not UTF-8, which any producer can write, and it does not show
//! whether a snapshot of the group's metadata names a member at all.
#![expect(unsafe_code, reason = "the safe interface panics on foreign header names and hides the membership")]

use std::ffi::{CStr, c_char, c_void};
use std::{ptr, slice};

use rdkafka::bindings;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::message::BorrowedMessage;
use rdkafka::types::RDKafkaRespErr;

/// One header as the client holds it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawHeader<'record> {
    /// The bytes of the name, up to the first NUL: the client holds names as C strings.
    pub(super) name: &'record [u8],
    /// The value; `None` is Kafka's null.
    pub(super) value: Option<&'record [u8]>,
}

/// The headers of a record, in order.
pub(super) fn headers<'record>(
    record: &'record BorrowedMessage<'_>,
) -> impl Iterator<Item = RawHeader<'record>> + use<'record> {
    let mut list = ptr::null_mut();
    // SAFETY: the pointer of a borrowed message is valid as long as the message; the list is owned by it.
    let found = unsafe { bindings::rd_kafka_message_headers(record.ptr(), &raw mut list) };
    let present = found == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR;
    (0..).map_while(move |index| if present { header(record, list, index) } else { None })
}

fn header<'record>(
    _owner: &'record BorrowedMessage<'_>,
    list: *const bindings::rd_kafka_headers_t,
    index: usize,
) -> Option<RawHeader<'record>> {
    let (mut name, mut value, mut length): (*const c_char, *const c_void, usize) =
        (ptr::null(), ptr::null(), 0);
    // SAFETY: `list` belongs to `_owner`, which is borrowed; an index behind the last is answered with an error.
    let found = unsafe {
        bindings::rd_kafka_header_get_all(list, index, &raw mut name, &raw mut value, &raw mut length)
    };
    if found != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR || name.is_null() {
        return None;
    }
    // SAFETY: the client ends each name with a NUL and keeps it as long as the list.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    // SAFETY: a value that is not null has `length` bytes and lives as long as the list.
    let value = (!value.is_null()).then(|| unsafe { slice::from_raw_parts(value.cast::<u8>(), length) });
    Some(RawHeader { name, value })
}

/// Whether a consumer is a member of its group at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Membership {
    /// It has a member id and a generation.
    Member,
    /// It has none, or none any more.
    Outside,
}

/// Asks the client whether it is a member of its group now.
pub(super) fn membership<C: ConsumerContext>(consumer: &BaseConsumer<C>) -> Membership {
    // SAFETY: the client lives as long as the consumer; the snapshot is destroyed below and used only before.
    unsafe {
        let snapshot = bindings::rd_kafka_consumer_group_metadata(consumer.client().native_ptr());
        if snapshot.is_null() {
            return Membership::Outside;
        }
        let member = bindings::rd_kafka_consumer_group_metadata_member_id(snapshot);
        let named = !member.is_null() && !CStr::from_ptr(member).is_empty();
        let generation = bindings::rd_kafka_consumer_group_metadata_generation_id(snapshot);
        bindings::rd_kafka_consumer_group_metadata_destroy(snapshot);
        // The first of a classic group is 1; a client that has an id of its own but has not joined with it yet has 0
        // (KIP-848).
        if named && generation > 0 { Membership::Member } else { Membership::Outside }
    }
}
