//! Which settled records of a task may be committed without each other.
//!
//! A transaction takes a prefix of each lane. Where an order of keys is guarded, a record may follow another of its key that was
//! read from another lane, and must not be committed before it:
//!
//! 1. version 11 of a key is handled, read from the source, and waits for its transaction,
//! 2. version 12 of it is handled, read from a tier,
//! 3. a transaction takes the tier's record alone, and the next one the source's: the output ends with version 11.
//!
//! So the prefixes that are taken must hold, with each record, whatever it follows. That may stand behind it in its own lane,
//! where a record was judged anew.

use crate::core::lane::{LaneState, Presence, Settled, Stage};
use crate::core::position::{Lane, Offset};

/// A record that another one follows.
pub(crate) type Place = (Lane, Offset);

/// Shortens the prefixes of `counts` records, by [`Lane::index`], until they hold whatever their records follow.
pub(crate) fn shrink(lanes: &[LaneState], counts: &mut [usize]) {
    while let Some((lane, _, at)) = open_end(lanes, counts) {
        if let Some(count) = counts.get_mut(lane) {
            *count = at;
        }
    }
}

/// Lengthens the prefixes until they hold whatever their records follow. `None` where some of that is not settled yet.
pub(crate) fn grow(lanes: &[LaneState], mut counts: Vec<usize>) -> Option<Vec<usize>> {
    while let Some((_, (lane, offset), _)) = open_end(lanes, &counts) {
        let state = lanes.get(lane.index())?;
        let place = state.place_behind(offset);
        if place > state.settled {
            return None;
        }
        *counts.get_mut(lane.index())? = place;
    }
    Some(counts)
}

/// The shortest prefixes that can be committed at all; all zero where there are none.
pub(crate) fn smallest(lanes: &[LaneState]) -> Vec<usize> {
    let none = || vec![0; lanes.len()];
    let ready = lanes.iter().enumerate().filter(|(_, state)| state.settled > 0);
    let from = |(lane, _): (usize, &LaneState)| {
        let mut counts = none();
        *counts.get_mut(lane)? = 1;
        grow(lanes, counts)
    };
    ready.filter_map(from).min_by_key(|counts| counts.iter().sum::<usize>()).unwrap_or_else(none)
}

/// A record of these prefixes, by lane and place, that follows one beyond them.
fn open_end(lanes: &[LaneState], counts: &[usize]) -> Option<(usize, Place, usize)> {
    let taken = |(lane, offset): Place| {
        let Some(state) = lanes.get(lane.index()) else { return true };
        if state.presence == Presence::Absent {
            // It will not be committed, and is not waited for.
            return true;
        }
        let count = counts.get(lane.index()).copied().unwrap_or_default();
        state.window.get(count).is_none_or(|first_left| offset < first_left.offset)
    };
    lanes.iter().zip(counts).enumerate().find_map(|(lane, (state, count))| {
        let records = state.window.iter().take(*count).enumerate();
        records.filter_map(|(at, entry)| Some((at, followed(&entry.stage)?))).find_map(|(at, place)| {
            let open = !taken(place);
            open.then_some((lane, place, at))
        })
    })
}

fn followed(stage: &Stage) -> Option<Place> {
    match stage {
        Stage::Settled(Settled { follows, .. }) => *follows,
        Stage::Queued(_) | Stage::Running(_) | Stage::Pausing(_) | Stage::Moving => None,
    }
}
