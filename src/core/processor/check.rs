//! The invariants that are checked while running, where that costs nothing for a record.

use super::Processor;
use super::commit::OpenTask;
use crate::core::envelope::{DeliveryId, Envelope};
use crate::core::invariant::InvariantId;
use crate::core::lane::Disposition;
use crate::core::position::Lane;
use crate::core::task::Task;
use crate::core::time::{Monotonic, Now};

/// What became of the open transaction for one of its tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Committed,
    Aborted,
}

/// R1 of a commit, R6 of an abort: the records that are in the transaction are still there with their results, and the
/// offsets that it commits are those behind them.
pub(super) fn prefix(task: &Task, open: &OpenTask, ended: Ended) -> Option<(InvariantId, String)> {
    let id = match ended {
        Ended::Committed => InvariantId::R1,
        Ended::Aborted => InvariantId::R6,
    };
    let without_offset =
        open.counts.iter().enumerate().find(|(index, count)| {
            **count > 0 && open.offsets.iter().all(|(lane, _)| lane.index() != *index)
        });
    if let Some((index, count)) = without_offset {
        let (lane, partition) = (Lane::at(index), open.partition);
        let detail =
            format!("{ended:?} {count} records of {lane:?} of task {partition} without their offset");
        return Some((id, detail));
    }
    open.offsets.iter().find_map(|(lane, offset)| {
        let state = task.lanes.get(lane.index())?;
        let count = open.counts.get(lane.index()).copied().unwrap_or(0);
        let (behind, settled) = (state.behind(count), state.settled);
        // The lane may have passed more since.
        let fits = (behind..=state.offset_after(count)).contains(offset);
        (!fits || settled < count).then(|| {
            let partition = open.partition;
            let detail = format!(
                "{ended:?} up to {offset} of {lane:?} of task {partition} with {count} records, of which {settled} are \
                 settled up to {behind}"
            );
            (id, detail)
        })
    })
}

/// R2: what a transaction holds is given back only when it has ended.
pub(super) fn ownership(open: &OpenTask) -> Option<(InvariantId, String)> {
    (!open.lost).then(|| {
        let detail = format!("task {} was given back while its transaction was open", open.partition);
        (InvariantId::R2, detail)
    })
}

impl Processor {
    /// R3: what waits in a lane is handed on when its wait is over.
    pub(super) fn check_due(&mut self, id: DeliveryId, release: Option<Monotonic>, now: Now) {
        if let Some(release) = release.filter(|release| *release > now.mono) {
            let (early, DeliveryId { partition, lane, offset, .. }) = (release.since(now.mono), id);
            let detail =
                format!("{lane:?} of task {partition}: {offset} is handled {early:?} before it is due");
            self.broken(InvariantId::R3, detail);
        }
    }

    /// R4: the last attempt is no retry.
    pub(super) fn check_attempts(&mut self, id: DeliveryId, envelope: &Envelope, fate: &Disposition) {
        let most = self.policy.ladder.most_attempts();
        let attempt = envelope.life.attempt;
        if matches!(fate, Disposition::Retry { .. }) && attempt >= most {
            let DeliveryId { partition, lane, offset, .. } = id;
            let detail = format!(
                "{lane:?} of task {partition}: {offset} is tried again after attempt {attempt} of {most}"
            );
            self.broken(InvariantId::R4, detail);
        }
    }

    /// R9: the key of a record that was being handled is its own until it is settled.
    pub(super) fn key_was_free(&mut self, id: DeliveryId) {
        let DeliveryId { partition, lane, offset, .. } = id;
        let detail = format!("{lane:?} of task {partition}: {offset} was handled while its key was free");
        self.broken(InvariantId::R9, detail);
    }
}
