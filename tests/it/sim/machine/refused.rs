//! Bugs that can be planted where a record is refused.

use bytes::Bytes;
use redrive::core::event::{AbortCause, Flaw, Suspects, Transaction, TransactionResult, Write};
use redrive::core::record::{Header, HeaderName};

use super::super::lineage;
use super::super::planted::Bug;

/// Has the wrong record accused.
pub(super) fn accuse(bug: Bug, result: &mut TransactionResult, open: &Transaction) {
    let TransactionResult::Aborted(cause) = result else { return };
    match (bug, &mut *cause) {
        (Bug::GroupErrorAccuses, AbortCause::Passing { detail }) => {
            if let Some(first) = open.writes.first() {
                *cause = AbortCause::Refused {
                    target: first.target,
                    partition: first.partition,
                    flaw: Flaw::TooLarge,
                    suspects: Suspects::Each(vec![0]),
                    detail: detail.clone(),
                };
            }
        }
        (Bug::MateAccused, AbortCause::Refused { target, suspects, .. }) => {
            let (Suspects::Each(places) | Suspects::OneOf(places)) = &*suspects;
            let is_mate = |place: usize| open.writes[place].target == *target && !places.contains(&place);
            if let Some(mate) = (0..open.writes.len()).find(|place| is_mate(*place)) {
                *suspects = Suspects::Each(vec![mate]);
            }
        }
        _ => {}
    }
}

/// Whether results are forgotten after this abort.
pub(super) fn forgets(bug: Bug, cause: &AbortCause) -> bool {
    match bug {
        Bug::ResultsForgotten => true,
        Bug::RefusedHandledAgain => matches!(cause, AbortCause::Refused { .. }),
        _ => false,
    }
}

/// Has a dead letter name the origin instead of its value.
pub(super) fn leave_behind(write: &mut Write) {
    let text = |name| lineage::text(&write.headers, name).unwrap_or_default();
    let (topic, partition) = (text("redrive-origin-topic"), text("redrive-origin-partition"));
    let origin = format!("{topic}/{partition}/{}", text("redrive-origin-offset"));
    let name = HeaderName::from_static("redrive-payload-ref");
    write.headers.push(Header { name, value: Some(Bytes::from(origin)) });
    write.value = None;
}
