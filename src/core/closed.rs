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

use crate::core::lane::{LaneState, Presence};
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
        if place > state.settled || state.presence == Presence::Absent {
            return None;
        }
        *counts.get_mut(lane.index())? = place;
    }
    Some(counts)
}

/// The shortest prefixes that can be committed at all, none longer than `most` of its lane; all zero where there are none.
pub(crate) fn smallest(lanes: &[LaneState], most: &[usize]) -> Vec<usize> {
    let none = || vec![0; lanes.len()];
    let ready = most.iter().enumerate().filter(|(_, most)| **most > 0);
    let from = |(lane, _): (usize, &usize)| {
        let mut counts = none();
        *counts.get_mut(lane)? = 1;
        grow(lanes, counts).filter(|counts| counts.iter().zip(most).all(|(count, most)| count <= most))
    };
    ready.filter_map(from).min_by_key(|counts| counts.iter().sum::<usize>()).unwrap_or_else(none)
}

/// A record of these prefixes, by lane and place, that follows one beyond them.
fn open_end(lanes: &[LaneState], counts: &[usize]) -> Option<(usize, Place, usize)> {
    let taken = |(lane, offset): Place| {
        let Some(state) = lanes.get(lane.index()) else { return true };
        let count = counts.get(lane.index()).copied().unwrap_or_default();
        state.window.get(count).is_none_or(|first_left| offset < first_left.offset)
    };
    lanes.iter().zip(counts).enumerate().find_map(|(lane, (state, count))| {
        let records = state.window.iter().take(*count).enumerate();
        records.filter_map(|(at, entry)| Some((at, entry.stage.settled()?.follows?))).find_map(
            |(at, place)| {
                let open = !taken(place);
                open.then_some((lane, place, at))
            },
        )
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::core::envelope::{DeliveryId, Envelope};
    use crate::core::headers::from_source;
    use crate::core::lane::{Disposition, Entry, Form, Pending, Settled, Stage};
    use crate::core::policy::IdentityPolicy;
    use crate::core::position::{Epoch, Origin, Partition, TierIndex, TopicName};
    use crate::core::record::Record;
    use crate::core::time::{Monotonic, Timestamp};

    const SOURCE: Lane = Lane::Source;
    const TIER: Lane = Lane::Tier(TierIndex(0));

    fn envelope() -> Envelope {
        let origin = Origin { topic: TopicName::new("t"), partition: Partition(0), offset: Offset(0) };
        let timestamp = Timestamp::from_millis(0);
        let (key, value, headers, unnamed_headers) = (None, None, Vec::new(), 0);
        let record =
            Record { offset: Offset(0), timestamp, key, value, headers, unnamed_headers, decoded: None };
        from_source(record, None, origin, &IdentityPolicy::default()).0
    }

    /// A lane with records from offset 0 on, each settled and following what is given; `None`: not settled.
    fn lane(lane: Lane, records: &[Option<Option<Place>>]) -> LaneState {
        let mut state = LaneState::new(Offset(0), None);
        for (offset, record) in (0..).map(Offset).zip(records) {
            let id = DeliveryId { partition: Partition(0), epoch: Epoch(1), lane, offset };
            let stage = match record {
                None => Stage::Queued(Pending::new(Arc::new(envelope()), None)),
                Some(follows) => Stage::Settled(Settled {
                    id,
                    envelope: Arc::new(envelope()),
                    fate: Disposition::Emit(Vec::new()),
                    form: Form::Whole,
                    key: None,
                    follows: *follows,
                    due: None,
                    judged: None,
                    held: None,
                    admitted: false,
                    effect: None,
                    dead: None,
                    order: 0,
                    at: Monotonic::default(),
                }),
            };
            state.window.push_back(Entry { offset, stage });
        }
        state.extend_settled();
        state
    }

    /// Source, control and one tier.
    fn lanes(source: &[Option<Option<Place>>], tier: &[Option<Option<Place>>]) -> Vec<LaneState> {
        vec![lane(SOURCE, source), lane(Lane::Control, &[]), lane(Lane::Held, &[]), lane(TIER, tier)]
    }

    fn shrunk(lanes: &[LaneState]) -> Vec<usize> {
        let mut counts: Vec<usize> = lanes.iter().map(|lane| lane.settled).collect();
        shrink(lanes, &mut counts);
        counts
    }

    const FREE: Option<Option<Place>> = Some(None);

    const fn after(lane: Lane, offset: i64) -> Option<Option<Place>> {
        Some(Some((lane, Offset(offset))))
    }

    #[test]
    fn what_follows_a_record_that_is_not_settled_waits_and_so_does_what_stands_behind_it() {
        let lanes = lanes(&[FREE, None, FREE], &[after(SOURCE, 2), FREE]);
        assert_eq!(shrunk(&lanes), [1, 0, 0, 0]);
    }

    #[test]
    fn what_is_committed_holds_nothing_up() {
        let mut lanes = lanes(&[FREE, FREE], &[after(SOURCE, 0)]);
        lanes[0].window.pop_front();
        lanes[0].settled = 1;
        assert_eq!(shrunk(&lanes), [1, 0, 0, 1]);
    }

    /// The source's first follows the tier's second, the tier's first the source's second.
    #[test]
    fn records_that_follow_each_other_through_their_lanes_go_together_or_not_at_all() {
        let lanes = lanes(&[after(TIER, 1), FREE], &[after(SOURCE, 1), FREE]);
        assert_eq!(shrunk(&lanes), [2, 0, 0, 2]);
        let mut less = vec![1, 0, 0, 2];
        shrink(&lanes, &mut less);
        assert_eq!(less, [0, 0, 0, 0]);
        assert_eq!(grow(&lanes, vec![1, 0, 0, 0]), Some(vec![2, 0, 0, 2]));
        assert_eq!(smallest(&lanes, &[2, 0, 0, 2]), [2, 0, 0, 2]);
    }

    #[test]
    fn nothing_grows_over_what_is_not_settled_or_into_a_lane_that_is_not_to_be_taken() {
        let open = lanes(&[FREE, None], &[after(SOURCE, 1)]);
        assert_eq!(grow(&open, vec![0, 0, 0, 1]), None);
        let mut gone = lanes(&[FREE], &[after(SOURCE, 0)]);
        assert_eq!(smallest(&gone, &[0, 0, 0, 1]), [0, 0, 0, 0]);
        assert_eq!(smallest(&gone, &[1, 0, 0, 1]), [1, 0, 0, 0]);
        gone[0].presence = Presence::Absent;
        assert_eq!(grow(&gone, vec![0, 0, 0, 1]), None);
    }

    #[test]
    fn a_record_may_follow_one_behind_it_in_its_own_lane() {
        let lanes = lanes(&[after(SOURCE, 2), FREE, FREE], &[]);
        assert_eq!(grow(&lanes, vec![1, 0, 0, 0]), Some(vec![3, 0, 0, 0]));
        let mut counts = vec![2, 0, 0, 0];
        shrink(&lanes, &mut counts);
        assert_eq!(counts, [0, 0, 0, 0]);
    }
}
