//! Takes a right from every client of a broker and gives it back. The broker must have an authorizer that allows what no
//! rule speaks of.
#![expect(unsafe_code, reason = "the safe interface has no access rules")]

use std::ffi::CString;
use std::ptr;

use rdkafka::bindings as c;
use rdkafka::bindings::rd_kafka_AclOperation_t as Operation;
use rdkafka::bindings::rd_kafka_AclPermissionType_t as Permission;
use rdkafka::bindings::rd_kafka_ResourcePatternType_t::RD_KAFKA_RESOURCE_PATTERN_LITERAL as LITERAL;
use rdkafka::bindings::rd_kafka_ResourceType_t as Resource;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::types::RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR;

use crate::support::{Kafka, PATIENCE};

/// What a broker with rules is started with.
pub(crate) const RULES: [&str; 2] = [
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found=true",
];

/// What may be taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    ReadTopic,
    WriteTopic,
    JoinGroup,
    UseTransactionalId,
}

impl Right {
    const fn parts(self) -> (Resource, Operation) {
        match self {
            Self::ReadTopic => (Resource::RD_KAFKA_RESOURCE_TOPIC, Operation::RD_KAFKA_ACL_OPERATION_READ),
            Self::WriteTopic => (Resource::RD_KAFKA_RESOURCE_TOPIC, Operation::RD_KAFKA_ACL_OPERATION_WRITE),
            Self::JoinGroup => (Resource::RD_KAFKA_RESOURCE_GROUP, Operation::RD_KAFKA_ACL_OPERATION_READ),
            Self::UseTransactionalId => {
                (Resource::RD_KAFKA_RESOURCE_TRANSACTIONAL_ID, Operation::RD_KAFKA_ACL_OPERATION_WRITE)
            }
        }
    }
}

/// From now on nobody has this right on what is named.
pub(crate) fn take(kafka: &Kafka, right: Right, name: &str) {
    let (resource, operation) = right.parts();
    // Where one rule speaks of a resource, nothing else is allowed by itself.
    rule(
        kafka,
        resource,
        name,
        Operation::RD_KAFKA_ACL_OPERATION_ALL,
        Permission::RD_KAFKA_ACL_PERMISSION_TYPE_ALLOW,
    );
    rule(kafka, resource, name, operation, Permission::RD_KAFKA_ACL_PERMISSION_TYPE_DENY);
}

fn rule(kafka: &Kafka, resource: Resource, name: &str, operation: Operation, permission: Permission) {
    let client: BaseConsumer = kafka.config().create().expect("a client");
    let name = CString::new(name).expect("a name");
    let mut words = [0; 200];
    // SAFETY: all strings and the client outlive the calls; everything made here is destroyed here, in the order that the
    // client's manual gives.
    unsafe {
        let rk = client.client().native_ptr();
        let mut acl = c::rd_kafka_AclBinding_new(
            resource,
            name.as_ptr(),
            LITERAL,
            c"User:*".as_ptr(),
            c"*".as_ptr(),
            operation,
            permission,
            words.as_mut_ptr(),
            words.len(),
        );
        assert!(!acl.is_null(), "{words:?}");
        let queue = c::rd_kafka_queue_new(rk);
        c::rd_kafka_CreateAcls(rk, &raw mut acl, 1, ptr::null(), queue);
        let event = c::rd_kafka_queue_poll(queue, millis());
        assert!(!event.is_null(), "no answer");
        assert_eq!(c::rd_kafka_event_error(event), RD_KAFKA_RESP_ERR_NO_ERROR);
        let mut count = 0;
        let results =
            c::rd_kafka_CreateAcls_result_acls(c::rd_kafka_event_CreateAcls_result(event), &raw mut count);
        assert_eq!(count, 1);
        assert!(c::rd_kafka_acl_result_error(*results).is_null(), "the rule is refused");
        c::rd_kafka_event_destroy(event);
        c::rd_kafka_queue_destroy(queue);
        c::rd_kafka_AclBinding_destroy(acl);
    }
}

/// Everybody has every right on it again.
pub(crate) fn give_back(kafka: &Kafka, right: Right, name: &str) {
    let client: BaseConsumer = kafka.config().create().expect("a client");
    let name = CString::new(name).expect("a name");
    let mut words = [0; 200];
    // SAFETY: as above.
    unsafe {
        let rk = client.client().native_ptr();
        let mut filter = c::rd_kafka_AclBindingFilter_new(
            right.parts().0,
            name.as_ptr(),
            LITERAL,
            ptr::null(),
            ptr::null(),
            Operation::RD_KAFKA_ACL_OPERATION_ANY,
            Permission::RD_KAFKA_ACL_PERMISSION_TYPE_ANY,
            words.as_mut_ptr(),
            words.len(),
        );
        assert!(!filter.is_null(), "{words:?}");
        let queue = c::rd_kafka_queue_new(rk);
        c::rd_kafka_DeleteAcls(rk, &raw mut filter, 1, ptr::null(), queue);
        let event = c::rd_kafka_queue_poll(queue, millis());
        assert!(!event.is_null(), "no answer");
        assert_eq!(c::rd_kafka_event_error(event), RD_KAFKA_RESP_ERR_NO_ERROR);
        c::rd_kafka_event_destroy(event);
        c::rd_kafka_queue_destroy(queue);
        c::rd_kafka_AclBinding_destroy(filter);
    }
}

fn millis() -> i32 {
    i32::try_from(PATIENCE.as_millis()).expect("within an integer")
}
