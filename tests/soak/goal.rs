//! How much a whole run is to do, and what share of it a round has.

use crate::chaos::{Done, Size};

/// A whole run.
pub(crate) const GOAL: Done =
    Done { records: 1_000_000, kills: 100, freezes: 10, node_kills: 15, node_stops: 8, rolls: 6 };

/// With so many records a round has its share of faults: six SIGKILLs, and most of the others once.
const SHARE: usize = 50_000;

/// What the round of this number holds.
pub(crate) fn size(number: usize, records: usize) -> Size {
    let of = |faults: usize| (faults * records).div_ceil(SHARE);
    // Those that are not in every round.
    let every_second = |odd: bool| if (number % 2 == 1) == odd { of(1) } else { 0 };
    Size {
        records,
        kills: of(6),
        freezes: of(1),
        node_kills: of(1),
        node_stops: every_second(true),
        rolls: every_second(false),
    }
}

/// What is done of what, with a name for each.
pub(crate) fn compared(done: &Done) -> [(&'static str, usize, usize); 6] {
    [
        ("records", done.records, GOAL.records),
        ("SIGKILL of a process", done.kills, GOAL.kills),
        ("SIGSTOP of a process", done.freezes, GOAL.freezes),
        ("SIGKILL of a node", done.node_kills, GOAL.node_kills),
        ("orderly stop of a node", done.node_stops, GOAL.node_stops),
        ("rolling restarts", done.rolls, GOAL.rolls),
    ]
}

pub(crate) fn is_reached(done: &Done) -> bool {
    compared(done).iter().all(|(_, done, goal)| done >= goal)
}
