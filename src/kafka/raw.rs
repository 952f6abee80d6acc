//! What the client's C interface tells and its safe one does not: header names as bytes, membership of the group, positions of
//! some partitions, and the ids of topics.
//!
//! The safe interface panics at a header name that is not UTF-8, which any producer can write; it does not show whether a
//! snapshot of the group's metadata names a member at all; it tells positions of all partitions or none; and it does not know
//! that topics have ids.
#![expect(unsafe_code, reason = "the safe interface panics on foreign header names and hides the rest")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::time::Duration;
use std::{ptr, slice};

use rdkafka::TopicPartitionList;
use rdkafka::bindings;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::BorrowedMessage;
use rdkafka::types::RDKafkaRespErr;

use crate::core::event::Generation;
use crate::core::position::{Partition, TopicId, TopicName};

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
    /// It has a member id and this generation.
    Member(Generation),
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
        if named && generation > 0 { Membership::Member(Generation(generation)) } else { Membership::Outside }
    }
}

/// Fills in where the client stands in the partitions of a list: behind the last record, or end of a transaction, that was
/// taken from its queue.
pub(super) fn position<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    list: &mut TopicPartitionList,
) -> KafkaResult<()> {
    // SAFETY: client and list live as long as their owners, which are borrowed; the call writes into the list's elements.
    let answer = unsafe { bindings::rd_kafka_position(consumer.client().native_ptr(), list.ptr()) };
    if answer == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
        Ok(())
    } else {
        Err(KafkaError::MetadataFetch(answer.into()))
    }
}

/// What the brokers say of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topic {
    /// It is there.
    There {
        /// Where the broker tells one.
        id: Option<TopicId>,
        /// Its partitions.
        partitions: usize,
    },
    /// There is no topic of this name.
    Missing,
}

impl Topic {
    /// Its id, where it is there and the broker tells one.
    pub(super) const fn id(self) -> Option<TopicId> {
        match self {
            Self::There { id, .. } => id,
            Self::Missing => None,
        }
    }

    /// How many partitions it has, where it is there and this one is not among them.
    pub(super) fn too_few_for(self, partition: Partition) -> Option<usize> {
        match self {
            Self::There { partitions, .. } => {
                usize::try_from(partition.0).is_ok_and(|place| place >= partitions).then_some(partitions)
            }
            Self::Missing => None,
        }
    }
}

/// Asks what topics there are, with their ids and how many partitions they have. In the order of `names`.
pub(super) fn topics<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    names: &[&TopicName],
    within: Duration,
) -> KafkaResult<Vec<Topic>> {
    let texts: Vec<CString> = names.iter().filter_map(|name| CString::new(name.as_str()).ok()).collect();
    let mut pointers: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
    let millis = c_int::try_from(within.as_millis()).unwrap_or(c_int::MAX);
    let client = consumer.client().native_ptr();
    // SAFETY: every object that is made here is destroyed here, once, after its last use; the names live until the
    // collection has copied them; results are read while their event lives.
    unsafe {
        let queue = bindings::rd_kafka_queue_new(client);
        let wanted = bindings::rd_kafka_TopicCollection_of_topic_names(pointers.as_mut_ptr(), pointers.len());
        let options = bindings::rd_kafka_AdminOptions_new(
            client,
            bindings::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS,
        );
        // A time that is out of bounds leaves the client's own.
        let _ = bindings::rd_kafka_AdminOptions_set_request_timeout(options, millis, ptr::null_mut(), 0);
        bindings::rd_kafka_DescribeTopics(client, wanted, options, queue);
        let event = bindings::rd_kafka_queue_poll(queue, millis.saturating_add(500));
        let found = if event.is_null() { Err(no_answer()) } else { described(event) };
        bindings::rd_kafka_event_destroy(event);
        bindings::rd_kafka_AdminOptions_destroy(options);
        bindings::rd_kafka_TopicCollection_destroy(wanted);
        bindings::rd_kafka_queue_destroy(queue);
        found
    }
}

const fn no_answer() -> KafkaError {
    KafkaError::MetadataFetch(rdkafka::error::RDKafkaErrorCode::OperationTimedOut)
}

/// # Safety
///
/// The event must live, and be the answer to a description of topics or an error.
unsafe fn described(event: *mut bindings::rd_kafka_event_t) -> KafkaResult<Vec<Topic>> {
    // SAFETY: by the caller; everything that is read belongs to the event.
    unsafe {
        let error = bindings::rd_kafka_event_error(event);
        if error != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
            return Err(KafkaError::MetadataFetch(error.into()));
        }
        let result = bindings::rd_kafka_event_DescribeTopics_result(event);
        if result.is_null() {
            return Err(no_answer());
        }
        let mut count = 0;
        let list = bindings::rd_kafka_DescribeTopics_result_topics(result, &raw mut count);
        let list = if list.is_null() { &[] } else { slice::from_raw_parts(list, count) };
        list.iter().map(|topic| one(*topic)).collect()
    }
}

/// # Safety
///
/// The description must live.
unsafe fn one(topic: *const bindings::rd_kafka_TopicDescription_t) -> KafkaResult<Topic> {
    // SAFETY: by the caller; error, id and partitions belong to the description.
    unsafe {
        let error = bindings::rd_kafka_error_code(bindings::rd_kafka_TopicDescription_error(topic));
        if error == RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART {
            return Ok(Topic::Missing);
        }
        if error != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
            return Err(KafkaError::MetadataFetch(error.into()));
        }
        let id = bindings::rd_kafka_TopicDescription_topic_id(topic);
        let half = |bits: i64| bits.to_be_bytes();
        let bits = (
            half(bindings::rd_kafka_Uuid_most_significant_bits(id)),
            half(bindings::rd_kafka_Uuid_least_significant_bits(id)),
        );
        let mut bytes = [0; 16];
        let (high, low) = bytes.split_at_mut(8);
        high.copy_from_slice(&bits.0);
        low.copy_from_slice(&bits.1);
        let mut partitions = 0;
        let _ = bindings::rd_kafka_TopicDescription_partitions(topic, &raw mut partitions);
        // A broker that knows no ids says zero.
        Ok(Topic::There { id: (bytes != [0; 16]).then_some(TopicId(bytes)), partitions })
    }
}
