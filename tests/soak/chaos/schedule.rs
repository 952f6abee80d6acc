//! Which fault comes when: determined by a seed, in equal parts of a round's records.

use std::time::Duration;

use crate::random::Random;

/// How much a round holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) records: usize,
    /// Processes by SIGKILL.
    pub(crate) kills: usize,
    /// Processes by SIGSTOP, until long after their session has ended.
    pub(crate) freezes: usize,
    /// Nodes of Kafka by SIGKILL.
    pub(crate) node_kills: usize,
    /// Nodes of Kafka in order.
    pub(crate) node_stops: usize,
    /// All processes in order, one after another.
    pub(crate) rolls: usize,
}

/// What is done to a process or a node; the number chooses which, the time is how long it is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Kill { pick: usize, away: Duration },
    Freeze { pick: usize, away: Duration },
    KillNode { pick: usize, away: Duration },
    StopNode { pick: usize, away: Duration },
    Roll,
}

/// A fault with its place: it comes when so many records have their fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) after: usize,
    pub(crate) fault: Fault,
}

/// The faults of a round in their order. `session` is how long Kafka waits for a process before it gives it up.
pub(crate) fn schedule(seed: u64, round: usize, size: &Size, session: Duration) -> Vec<Planned> {
    let mut random = Random::new(seed ^ u64::try_from(round).unwrap_or(u64::MAX).rotate_left(32));
    let mut pick = |low: Duration, high: Duration| (random.index(usize::MAX), random.time(low, high));
    let (none, second) = (Duration::ZERO, Duration::from_secs(1));
    let mut faults = Vec::new();
    for _ in 0..size.kills {
        let (pick, away) = pick(none, second * 2);
        faults.push(Fault::Kill { pick, away });
    }
    for _ in 0..size.freezes {
        let (pick, away) = pick(session + second, session + second * 4);
        faults.push(Fault::Freeze { pick, away });
    }
    for _ in 0..size.node_kills {
        let (pick, away) = pick(none, second * 4);
        faults.push(Fault::KillNode { pick, away });
    }
    for _ in 0..size.node_stops {
        let (pick, away) = pick(none, second * 4);
        faults.push(Fault::StopNode { pick, away });
    }
    faults.extend(std::iter::repeat_n(Fault::Roll, size.rolls));
    // Fisher and Yates.
    for last in (1..faults.len()).rev() {
        faults.swap(last, random.index(last + 1));
    }
    let part = size.part();
    let places = (1..).map(|number| number * part + random.index(part / 2));
    places.zip(faults).map(|(after, fault)| Planned { after, fault }).collect()
}

impl Size {
    fn faults(&self) -> usize {
        self.kills + self.freezes + self.node_kills + self.node_stops + self.rolls
    }

    /// Each fault has a part of the records to itself, and the first part and half of the last have none.
    fn part(&self) -> usize {
        self.records / (self.faults() + 2)
    }

    /// How many records may be sent when so many faults are done: what a fault is to meet is not worked off before it.
    pub(crate) fn sent_after(&self, faults: usize) -> usize {
        if faults >= self.faults() { self.records } else { (faults + 2) * self.part() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { records: 9_000, kills: 6, freezes: 1, node_kills: 2, node_stops: 1, rolls: 1 };

    #[test]
    fn a_seed_and_a_round_determine_the_schedule_and_every_fault_meets_work() {
        let session = Duration::from_secs(6);
        let faults = schedule(7, 1, &SIZE, session);
        assert_eq!(faults, schedule(7, 1, &SIZE, session));
        assert_ne!(faults, schedule(7, 2, &SIZE, session));
        assert_ne!(faults, schedule(8, 1, &SIZE, session));
        assert_eq!(faults.len(), SIZE.faults());
        let kills = faults.iter().filter(|planned| matches!(planned.fault, Fault::Kill { .. }));
        assert_eq!(kills.count(), SIZE.kills);
        for (done, planned) in faults.iter().enumerate() {
            let sent = SIZE.sent_after(done);
            assert!(planned.after + SIZE.part() / 2 <= sent && sent <= SIZE.records, "{planned:?}");
        }
    }

    #[test]
    fn who_is_frozen_stays_so_until_its_session_has_ended() {
        let session = Duration::from_secs(6);
        for planned in schedule(1, 1, &Size { freezes: 100, ..SIZE }, session) {
            if let Fault::Freeze { away, .. } = planned.fault {
                assert!(away > session);
            }
        }
    }
}
