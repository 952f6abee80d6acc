//! From a settled record to what its transaction writes.

use bytes::Bytes;

use crate::core::class::Reason;
use crate::core::event::{Dropped, Target, Write};
use crate::core::headers::{self, Payload};
use crate::core::lane::{Disposition, Form, Settled};
use crate::core::outcome::Verdict;
use crate::core::policy::Policy;
use crate::core::position::{Partition, TierIndex};
use crate::core::record::Header;
use crate::core::state::{Held, held_key};
use crate::core::time::Timestamp;

/// Adds what a settled record writes. Formed anew for every try, so that the copies carry the time of writing.
pub(super) fn write_of(settled: &Settled, policy: &Policy, now: Timestamp, writes: &mut Vec<Write>) {
    let envelope = &*settled.envelope;
    let partition = settled.id.partition;
    match &settled.fate {
        Disposition::Emit(outputs) => writes.extend(outputs.iter().filter_map(|output| {
            Some(Write {
                // Checked when the handler answered.
                target: policy.outputs.target(&output.to)?,
                partition,
                timestamp: None,
                key: output.key.clone(),
                value: output.value.clone(),
                headers: headers::of_output(&output.headers, envelope),
            })
        })),
        Disposition::Retry { tier, due, .. } | Disposition::Hop { tier, due } => {
            let due = lane_due(policy, *tier, now).max(*due);
            writes.push(copy(settled, Target::Tier(*tier), now, headers::of_waiting(envelope, due)));
        }
        Disposition::Hold { place, due } => {
            let order_key = policy.order.key_of(envelope).unwrap_or_default();
            let mut headers = headers::of_held(envelope);
            if settled.form != Form::Whole {
                headers::strip(&mut headers);
            }
            writes.push(Write {
                target: Target::State,
                partition,
                timestamp: Some(now),
                key: Some(held_key(order_key, *place)),
                value: Some(Held::of(envelope, *due).to_bytes()),
                headers,
            });
        }
        Disposition::DeadLetter(verdict) => {
            let headers = headers::of_dead_letter(envelope, verdict, payload_of(verdict, settled.form));
            writes.push(copy(settled, Target::DeadLetter, now, headers));
        }
        Disposition::Drop(Dropped::Stale) if policy.order.stale_output().is_some() => {
            let (key, value) = (envelope.key.clone(), value_of(settled).cloned());
            let headers = headers::of_stale(envelope);
            writes.push(Write {
                target: Target::StaleOutput,
                partition,
                timestamp: None,
                key,
                value,
                headers,
            });
        }
        Disposition::Drop(Dropped::Stale | Dropped::Duplicate) => {}
        Disposition::Obeyed(reply) => super::obey::writes_of(reply, partition, policy, now, writes),
    }
}

/// A record of redrive's own, without headers.
pub(super) const fn entry(
    target: Target,
    partition: Partition,
    key: Option<Bytes>,
    value: Bytes,
    now: Timestamp,
) -> Write {
    Write { target, partition, timestamp: Some(now), key, value: Some(value), headers: Vec::new() }
}

/// About how many bytes a settled record writes.
pub(super) fn weight_of(settled: &Settled) -> usize {
    let payload: usize = match &settled.fate {
        Disposition::Emit(outputs) => {
            outputs.iter().map(|output| size(output.key.as_ref()) + size(output.value.as_ref())).sum()
        }
        Disposition::Retry { .. }
        | Disposition::Hop { .. }
        | Disposition::Hold { .. }
        | Disposition::DeadLetter(_)
        | Disposition::Drop(Dropped::Stale) => size(settled.envelope.key.as_ref()) + size(value_of(settled)),
        Disposition::Drop(Dropped::Duplicate) => return 0,
        Disposition::Obeyed(reply) => reply.weight(),
    };
    payload + HEADERS
}

/// How many bytes of key and value a settled record writes to a target, at most in one record.
pub(super) fn size_for(settled: &Settled, target: Target, policy: &Policy) -> usize {
    match &settled.fate {
        Disposition::Emit(outputs) => {
            let there = outputs.iter().filter(|output| policy.outputs.target(&output.to) == Some(target));
            there
                .map(|output| size(output.key.as_ref()) + size(output.value.as_ref()))
                .max()
                .unwrap_or_default()
        }
        Disposition::Retry { .. }
        | Disposition::Hop { .. }
        | Disposition::Hold { .. }
        | Disposition::DeadLetter(_)
        | Disposition::Drop(Dropped::Stale) => size(settled.envelope.key.as_ref()) + size(value_of(settled)),
        Disposition::Drop(Dropped::Duplicate) | Disposition::Obeyed(_) => 0,
    }
}

fn size(bytes: Option<&Bytes>) -> usize {
    bytes.map_or(0, Bytes::len)
}

/// What the headers of a record weigh, about.
const HEADERS: usize = 512;

fn copy(settled: &Settled, target: Target, now: Timestamp, mut headers: Vec<Header>) -> Write {
    match settled.form {
        Form::Whole => {}
        Form::Bare | Form::Reference => headers::strip(&mut headers),
    }
    let (key, value) = (settled.envelope.key.clone(), value_of(settled).cloned());
    Write { target, partition: settled.id.partition, timestamp: Some(now), key, value, headers }
}

/// What a copy or a dead letter carries of the value.
fn value_of(settled: &Settled) -> Option<&Bytes> {
    match settled.form {
        Form::Whole | Form::Bare => settled.envelope.value.as_ref(),
        Form::Reference => None,
    }
}

fn lane_due(policy: &Policy, tier: TierIndex, now: Timestamp) -> Timestamp {
    now.plus(policy.ladder.delay(tier).unwrap_or_default())
}

fn payload_of(verdict: &Verdict, form: Form) -> Payload {
    match form {
        Form::Reference => return Payload::AtOrigin,
        Form::Whole | Form::Bare => {}
    }
    match verdict.reason {
        Reason::BadHeaderName => Payload::AtOrigin,
        Reason::Exhausted
        | Reason::Deadline
        | Reason::NoOperationId
        | Reason::NoKey
        | Reason::NoVersion
        | Reason::VersionConflict
        | Reason::VersionGap
        | Reason::PredecessorDead
        | Reason::DecodeFailed
        | Reason::BadControlHeader
        | Reason::TooLarge
        | Reason::Refused
        | Reason::Connect
        | Reason::Cut
        | Reason::Timeout
        | Reason::Http(_)
        | Reason::Named(_) => Payload::Carried,
    }
}
