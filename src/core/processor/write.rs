//! From a settled record to what its transaction writes.

use bytes::Bytes;

use crate::core::class::Reason;
use crate::core::event::{Target, Write};
use crate::core::headers::{self, Payload};
use crate::core::lane::{Disposition, Settled};
use crate::core::outcome::Verdict;
use crate::core::policy::Policy;
use crate::core::position::{Partition, TierIndex};
use crate::core::time::Timestamp;

/// Adds what a settled record writes. Formed anew for every try, so that the copies carry the time of writing.
pub(super) fn write_of(
    settled: &Settled,
    partition: Partition,
    policy: &Policy,
    now: Timestamp,
    writes: &mut Vec<Write>,
) {
    let envelope = &*settled.envelope;
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
            writes.push(copy(
                settled,
                Target::Tier(*tier),
                partition,
                now,
                headers::of_waiting(envelope, due),
            ));
        }
        Disposition::DeadLetter(verdict) => {
            let headers = headers::of_dead_letter(envelope, verdict, payload_of(verdict));
            writes.push(copy(settled, Target::DeadLetter, partition, now, headers));
        }
        Disposition::Obeyed => {}
    }
}

/// About how many bytes a settled record writes.
pub(super) fn weight_of(settled: &Settled) -> usize {
    let size = |bytes: &Option<Bytes>| bytes.as_ref().map_or(0, Bytes::len);
    let payload: usize = match &settled.fate {
        Disposition::Emit(outputs) => {
            outputs.iter().map(|output| size(&output.key) + size(&output.value)).sum()
        }
        Disposition::Retry { .. } | Disposition::Hop { .. } | Disposition::DeadLetter(_) => {
            size(&settled.envelope.key) + size(&settled.envelope.value)
        }
        Disposition::Obeyed => 0,
    };
    payload + HEADERS
}

/// What the headers of a record weigh, about.
const HEADERS: usize = 512;

fn copy(
    settled: &Settled,
    target: Target,
    partition: Partition,
    now: Timestamp,
    headers: Vec<crate::core::record::Header>,
) -> Write {
    let (key, value) = (settled.envelope.key.clone(), settled.envelope.value.clone());
    Write { target, partition, timestamp: Some(now), key, value, headers }
}

fn lane_due(policy: &Policy, tier: TierIndex, now: Timestamp) -> Timestamp {
    now.plus(policy.ladder.delay(tier).unwrap_or_default())
}

fn payload_of(verdict: &Verdict) -> Payload {
    match verdict.reason {
        Reason::BadHeaderName => Payload::AtOrigin,
        Reason::Exhausted
        | Reason::Deadline
        | Reason::NoOperationId
        | Reason::BadControlHeader
        | Reason::Connect
        | Reason::Cut
        | Reason::Timeout
        | Reason::Http(_)
        | Reason::Named(_) => Payload::Carried,
    }
}
