//! The source records of a plan, with every kind of bytes that Kafka carries, and what the handler makes of them.

use std::time::Duration;

use bytes::Bytes;
use redrive::core::class::Class;
use redrive::core::event::Delivery;
use redrive::core::outcome::{Cause, Failure, Outcome, Output, OutputName};
use redrive::core::position::Offset;
use redrive::core::record::{Header, HeaderName, Record};
use redrive::core::time::Timestamp;

use super::lineage::Root;
use super::plan::{EVENT_ID, OPERATION_ID, Plan};
use super::random::{Random, mix};
use super::versions;

fn bytes(random: &mut Random, most: u64) -> Bytes {
    (0..random.below(most)).map(|_| random.below(256) as u8).collect()
}

/// One source record.
pub(crate) fn record(plan: &Plan, random: &mut Random, timestamp: Timestamp) -> Record {
    let key = match random.below(20) {
        0 => None,
        1 => Some(Bytes::new()),
        _ => Some(Bytes::from(format!("key-{}", random.below(plan.keys)))),
    };
    let value = match random.below(12) {
        0 => None,
        1 => Some(Bytes::new()),
        _ => Some(bytes(random, 24)),
    };
    let mut headers: Vec<Header> = (0..random.below(4))
        .map(|_| {
            let name = *random.pick(&["trace", "trace", "Redrive-Attempt", "x", "", "redrive"]);
            let value = (!random.chance(20)).then(|| bytes(random, 8));
            Header { name: HeaderName::from_static(name), value }
        })
        .collect();
    if random.chance(8) {
        // Control headers on a foreign topic mean nothing and are dropped.
        let name = *random.pick(&["redrive-attempt", "redrive-due", "redrive-origin-offset", "redrive-x"]);
        headers.push(Header { name: HeaderName::from_static(name), value: Some(Bytes::from_static(b"7")) });
    }
    for name in [EVENT_ID, OPERATION_ID] {
        if random.chance(90) {
            let value = format!("{name}-{}", random.next());
            headers.push(Header { name: HeaderName::from_static(name), value: Some(Bytes::from(value)) });
        }
    }
    let now = timestamp;
    // Whoever writes the source may stamp it as they like.
    let timestamp = match random.below(20) {
        0 => Timestamp::from_millis(-1),
        1 => Timestamp::from_millis(0),
        2 => timestamp.plus(Duration::from_secs(86_400 * 400)),
        _ => timestamp,
    };
    let unnamed_headers = usize::from(random.chance(2));
    let mut record =
        Record { offset: Offset(0), timestamp, key, value, headers, unnamed_headers, decoded: None };
    if versions::rules(&plan.policy.order).is_some() {
        versions::add(&mut record, random, now);
    }
    record
}

/// How many output records the handler makes of a source record.
pub(crate) fn outputs_of(seed: u64, source: Root) -> usize {
    match temper(seed, source, 1) % 20 {
        0 => 0,
        1 => 2,
        _ => 1,
    }
}

pub(crate) fn temper(seed: u64, source: Root, salt: u64) -> u64 {
    mix(seed ^ mix(source.place.partition as u64 ^ mix(source.offset as u64 ^ (salt << 48))))
}

/// How the handler is at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    Well,
    Down,
    Hanging,
}

/// What the handler answers, and after how long. What becomes of a record depends on the seed, the record and how
/// often it was tried, not on who tries it.
pub(crate) fn answer(
    plan: &Plan,
    mood: Mood,
    delivery: &Delivery,
    random: &mut Random,
) -> (Outcome, Duration) {
    let origin = &delivery.envelope.origin;
    let source = Root::source(origin.partition.0, origin.offset.0);
    let limit = plan.policy.handler_timeout;
    let timeout = if limit.is_zero() { Duration::from_secs(4) } else { limit };
    let quick = if random.chance(plan.slow) {
        random.time(Duration::ZERO, timeout)
    } else {
        random.time(Duration::ZERO, timeout / 50)
    };
    match mood {
        Mood::Well => {}
        Mood::Down => return (failed(Cause::NotSent, None), quick),
        Mood::Hanging => return (failed(Cause::TimedOut, None), timeout),
    }
    let attempt = delivery.attempt;
    let tries = (attempt - 1) * 2 + delivery.execution;
    let transient = Cause::Status { status: 500, reason: None };
    let longest = plan.policy.ladder.delays.last().copied().unwrap_or_default();
    let nature = temper(plan.seed, source, 2);
    let bad_tries = (nature >> 32) as u32 % 5 + 1;
    let outcome = match nature % 100 {
        0..=54 => done(plan.seed, source, delivery),
        55..=74 if tries <= bad_tries => failed(transient, None),
        75..=82 => failed(transient, None),
        83..=87 if tries >= bad_tries => failed(Cause::Status { status: 422, reason: None }, None),
        83..=87 => failed(Cause::NotSent, None),
        88..=93 if attempt <= bad_tries => {
            let wait = longest.mul_f64((nature >> 40) as f64 % 64.0 / 16.0);
            failed(Cause::Status { status: 429, reason: None }, Some(wait))
        }
        94..=95 if tries == 1 => failed(Cause::Cut, None),
        96 if tries == 1 => return (failed(Cause::TimedOut, None), timeout),
        97 if tries <= 2 => {
            let reason = "not-yet".parse().expect("a reason");
            failed(Cause::Named { class: Class::Transient, reason }, None)
        }
        98 => failed(Cause::Status { status: 503, reason: None }, Some(Duration::from_secs(300))),
        _ => done(plan.seed, source, delivery),
    };
    (outcome, quick)
}

fn failed(cause: Cause, retry_after: Option<Duration>) -> Outcome {
    Outcome::Failed(Failure { cause, detail: String::new(), retry_after })
}

fn done(seed: u64, source: Root, delivery: &Delivery) -> Outcome {
    let outputs = (0..outputs_of(seed, source))
        .map(|index| Output {
            to: OutputName::Main,
            key: delivery.envelope.key.clone(),
            value: Some(Bytes::from(format!("out {} {index}", source))),
            headers: Vec::new(),
        })
        .collect();
    Outcome::Done(outputs)
}
