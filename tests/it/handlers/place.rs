//! Small builders: a pipeline around a handler, and a record that is delivered to it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redrive::core::envelope::{DeliveryId, Envelope, Identity, Life};
use redrive::core::event::Delivery;
use redrive::core::outcome::{Cause, Failure, Outcome};
use redrive::core::policy::{
    Flow, IdentityPolicy, InPlace, Ladder, OrderPolicy, Outputs, Policy, Twins, UnknownOutcome,
};
use redrive::core::position::{Epoch, Lane, Offset, Origin, Partition, TopicName};
use redrive::core::record::{Header, HeaderName};
use redrive::core::time::Timestamp;
use redrive::handler::{AnyHandler, Handlers, build};
use redrive::topology::model::{
    Cleanup, Format, HandlerSpec, HttpHandler, Membership, OwnTopic, Pipeline, Start, TopicSettings, Workers,
};

/// Longer than anything here takes, so that a test that waits for it fails.
const LONG: Duration = Duration::from_secs(20);

pub(crate) fn pipeline(handler: HandlerSpec) -> Pipeline {
    let topic = |name: &str| OwnTopic { name: TopicName::new(name), cleanup: Cleanup::Compact };
    Pipeline {
        name: "payments".into(),
        group: "shop.payments".into(),
        source: TopicName::new("payments.in"),
        start: Start::Earliest,
        output: Some(TopicName::new("payments.applied")),
        outputs: BTreeMap::new(),
        decode: Format::Bytes,
        handler,
        policy: policy(),
        tiers: Vec::new(),
        retired: Vec::new(),
        drained: Vec::new(),
        dead_letter: topic("shop.payments.dlq"),
        state: topic("shop.payments.state"),
        control: topic("shop.payments.control"),
        cases: topic("shop.payments.cases"),
        topics: TopicSettings { replication: None, min_isr: None },
        workers: Workers { threads: 1, session_timeout: LONG, membership: Membership::Dynamic },
    }
}

fn policy() -> Policy {
    Policy {
        name: "payments".to_owned(),
        source: TopicName::new("payments.in"),
        control: TopicName::new("shop.payments.control"),
        draining: Vec::new(),
        tiers: Vec::new(),
        outputs: Outputs::default(),
        identity: IdentityPolicy::default(),
        order: OrderPolicy::default(),
        in_place: InPlace { executions: 1, base: LONG, cap: LONG, budget: LONG },
        ladder: Ladder { delays: Vec::new(), last_tier_repeats: 1 },
        deadline: LONG,
        unknown: UnknownOutcome::DeadLetter,
        handler_timeout: LONG,
        flow: Flow {
            window: 1,
            commit_interval: LONG,
            drain: LONG,
            revoke: LONG,
            transaction_timeout: LONG,
            recommit: LONG,
            twins: Twins::Fences,
        },
    }
}

pub(crate) fn http(url: &str) -> HttpHandler {
    HttpHandler {
        url: url.into(),
        timeout: LONG,
        concurrency: 64,
        headers: Vec::new(),
        token: None,
        ca_file: None,
        forward_headers: Vec::new(),
    }
}

/// The handler of a pipeline with an output.
pub(crate) fn writing(spec: HttpHandler) -> AnyHandler {
    built(&pipeline(HandlerSpec::Http(Box::new(spec))))
}

/// The handler of a pipeline without an output.
pub(crate) fn silent(spec: HttpHandler) -> AnyHandler {
    built(&Pipeline { output: None, ..pipeline(HandlerSpec::Http(Box::new(spec))) })
}

pub(crate) fn built(pipeline: &Pipeline) -> AnyHandler {
    build("shop", pipeline, &Handlers::new()).unwrap()
}

/// Why the handler is not built.
pub(crate) fn refused(spec: HttpHandler) -> String {
    build("shop", &pipeline(HandlerSpec::Http(Box::new(spec))), &Handlers::new()).unwrap_err().to_string()
}

pub(crate) fn envelope(value: Option<&[u8]>) -> Envelope {
    let (topic, partition, offset) = (TopicName::new("payments.in"), Partition(3), Offset(42));
    Envelope {
        key: Some(Bytes::from_static(b"customer-7")),
        value: value.map(Bytes::copy_from_slice),
        foreign: vec![header("trace", Some(b"abc"))],
        identity: Identity::default(),
        origin: Origin { topic, partition, offset },
        origin_timestamp: Timestamp::from_millis(1_700_000_000_123),
        version: None,
        gap_due: None,
        order_key: None,
        life: Life::default(),
    }
}

pub(crate) fn header(name: &str, value: Option<&[u8]>) -> Header {
    Header { name: HeaderName::new(name), value: value.map(Bytes::copy_from_slice) }
}

pub(crate) fn delivery(envelope: Envelope) -> Delivery {
    let (partition, epoch) = (envelope.origin.partition, Epoch(1));
    Delivery {
        id: DeliveryId { partition, epoch, lane: Lane::Source, offset: envelope.origin.offset },
        envelope: Arc::new(envelope),
        attempt: 2,
        execution: 3,
        due: None,
        lateness: None,
    }
}

/// Delivers a record with this value.
pub(crate) async fn deliver(handler: &AnyHandler, value: &[u8]) -> Outcome {
    handler.handle(delivery(envelope(Some(value)))).await
}

/// The failure of a delivery that must fail.
pub(crate) async fn failure(handler: &AnyHandler) -> Failure {
    match deliver(handler, b"{}").await {
        Outcome::Failed(failure) => failure,
        Outcome::Done(outputs) => panic!("done with {outputs:?}"),
    }
}

/// The cause of a failure of a delivery that must fail.
pub(crate) async fn cause(handler: &AnyHandler) -> Cause {
    failure(handler).await.cause
}

pub(crate) const fn status(status: u16) -> Cause {
    Cause::Status { status, reason: None }
}
