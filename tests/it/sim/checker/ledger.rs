//! Every committed transaction against the logs: R1 (one fate for each record it consumes).

use std::collections::BTreeMap;

use redrive::core::invariant::{Breach, InvariantId};
use redrive::core::position::Lane;

use super::super::cluster::log::Stored;
use super::super::cluster::transactions::{Ending, Serial};
use super::super::cluster::{Cluster, Place, Topic};
use super::super::holding::{count, held_in};
use super::super::lineage::{self, Root};
use super::calls::Answer;
use super::copies::Consumed;
use super::{Author, Checker, State, broken};

/// What a transaction writes for one source record.
#[derive(Debug, Default)]
struct Written {
    outputs: usize,
    tiers: Vec<(Place, i64)>,
    dead: Vec<(Place, i64)>,
    stale: Vec<(Place, i64)>,
    held: Vec<(Place, i64)>,
}

impl Checker {
    /// A transaction was decided to be committed.
    pub(crate) fn committed(
        &mut self,
        cluster: &Cluster,
        serial: Serial,
        by: &Author<'_>,
    ) -> Result<(), Breach> {
        self.obeyed(cluster, serial)?;
        let mut consumed = self.released(cluster, serial, by)?;
        consumed.extend(self.consume(cluster, serial, by)?);
        self.holds.consumed = consumed.iter().map(|record| record.source).collect();
        let mut written = writes(cluster, serial)?;
        for record in &consumed {
            let fate = written.remove(&record.source).unwrap_or_default();
            self.judge(cluster, record, &fate, by)?;
        }
        if let Some((source, fate)) = written.first_key_value() {
            let detail = format!("{serial:?} writes {fate:?} for {source:?}, which it does not consume");
            return broken(InvariantId::R1, detail);
        }
        self.versions(cluster, serial, &consumed)?;
        self.counts(cluster, serial, &consumed)?;
        self.parked_in_order(cluster, serial)?;
        self.notes(cluster, serial)?;
        self.cut(cluster)
    }

    /// The records between the old and the new committed offsets.
    fn consume(
        &mut self,
        cluster: &Cluster,
        serial: Serial,
        by: &Author<'_>,
    ) -> Result<Vec<Consumed>, Breach> {
        let mut consumed = Vec::new();
        for (place, new, _) in &cluster.transactions.of(serial).offsets {
            let log = cluster.log(*place);
            let old = self.committed.insert(*place, *new).unwrap_or(0);
            if *new < old || *new > log.end() {
                let detail = format!("{place:?} is committed at {new} after {old}, its end is {}", log.end());
                return broken(InvariantId::R1, detail);
            }
            let lane = match place.topic {
                Topic::Source => Lane::Source,
                Topic::Tier(tier) => Lane::Tier(tier),
                Topic::Control => continue,
                Topic::Output
                | Topic::StaleOutput
                | Topic::DeadLetter
                | Topic::State
                | Topic::Cases
                | Topic::Audit => {
                    return broken(InvariantId::R1, format!("offsets are committed for {place:?}"));
                }
            };
            for (offset, stored) in log.data(old, *new) {
                match stored.by.map_or(Ending::Committed, |by| cluster.ending(by)) {
                    Ending::Committed => {}
                    Ending::Aborted => continue,
                    Ending::Open => {
                        let detail =
                            format!("{place:?} is committed past {offset}, whose transaction is open");
                        return broken(InvariantId::R1, detail);
                    }
                }
                let root = match stored.by.filter(|_| lane != Lane::Source) {
                    Some(_) => stored.origin,
                    None => Some(Root { place: *place, offset }),
                };
                let Some(root) = root.filter(|root| self.tales.contains_key(root)) else {
                    return broken(InvariantId::R7, format!("{place:?} {offset} leads to no source record"));
                };
                let is_here = match self.tales[&root].state {
                    State::Unread => root.place == *place && root.offset == offset,
                    State::Waiting(waits, at) => waits == *place && at == offset,
                    State::Emitted | State::Dropped | State::Dead => false,
                };
                if !is_here {
                    let state = self.tales[&root].state;
                    let detail = format!("{root:?} is consumed at {place:?} {offset}, but it is {state:?}");
                    return broken(InvariantId::R1, detail);
                }
                let answer = self.answer_of(by, *place, offset, root);
                consumed.push(Consumed { source: root, place: *place, offset, answer });
            }
        }
        Ok(consumed)
    }

    /// Exactly one fate, and the one that the handler's answer leads to.
    fn judge(
        &mut self,
        cluster: &Cluster,
        consumed: &Consumed,
        fate: &Written,
        by: &Author<'_>,
    ) -> Result<(), Breach> {
        let source = consumed.source;
        let expected = self.tales[&source].outputs;
        // What was handled may be judged anew, since the output of the version before it was refused.
        let judged = |(place, offset): &(Place, i64)| {
            let stored = cluster.log(*place).at(*offset);
            let reason = stored.and_then(|stored| lineage::text(&stored.record.headers, "redrive-reason"));
            matches!(reason, Some("version-gap" | "version-conflict"))
        };
        let nothing = fate.outputs + fate.tiers.len() + fate.dead.len() + fate.stale.len() == 0;
        let is_late = count(&self.policy.order).is_some()
            && (nothing && expected > 0
                || !fate.stale.is_empty()
                || !fate.held.is_empty()
                || !fate.tiers.is_empty()
                || fate.dead.iter().any(judged));
        let answer = consumed.answer.filter(|answer| !is_late || *answer != Answer::Done);
        let consumed = &Consumed { answer, ..*consumed };
        if let [copy] = fate.held.as_slice() {
            let others = fate.outputs + fate.tiers.len() + fate.dead.len() + fate.stale.len();
            if others > 0 {
                return broken(InvariantId::R1, format!("{source:?} is held and has another fate: {fate:?}"));
            }
            return self.held(cluster, consumed, *copy, by.now);
        }
        match (fate.outputs, fate.tiers.as_slice(), fate.dead.as_slice(), fate.stale.as_slice()) {
            (0, [copy], [], []) => match copy.0.topic {
                Topic::Tier(tier) => self.retried(cluster, consumed, tier, *copy, by),
                Topic::Source
                | Topic::Control
                | Topic::Output
                | Topic::StaleOutput
                | Topic::DeadLetter
                | Topic::State
                | Topic::Cases
                | Topic::Audit => Ok(()),
            },
            (0, [], [letter], []) => self.dead_lettered(cluster, consumed, *letter, by),
            (0, [], [], []) if self.may_be_dropped(consumed) => {
                self.finish(source, State::Dropped);
                Ok(())
            }
            (0, [], [], [copy]) if self.may_be_dropped(consumed) => {
                self.finish(source, State::Dropped);
                self.stale_copied(cluster, consumed, *copy)
            }
            (outputs, [], [], []) if outputs == expected => {
                let answer = consumed.answer;
                if answer != Some(Answer::Done) {
                    let detail = format!("{source:?} is let go though its handler said {answer:?}");
                    return broken(InvariantId::R1, detail);
                }
                self.finish(source, State::Emitted);
                Ok(())
            }
            _ => {
                let detail = format!("{source:?} has not one fate but {fate:?}, {expected} outputs expected");
                broken(InvariantId::R1, detail)
            }
        }
    }
}

/// The writes of a transaction by the source record that each leads back to.
fn writes(cluster: &Cluster, serial: Serial) -> Result<BTreeMap<Root, Written>, Breach> {
    let mut written: BTreeMap<Root, Written> = BTreeMap::new();
    for (place, offset) in &cluster.transactions.of(serial).writes {
        let stored = cluster.log(*place).at(*offset);
        let holds = |stored: &Stored| matches!(held_in(&stored.record), Some((_, _, Some(_))));
        let is_held = place.topic == Topic::State && stored.is_some_and(holds);
        if !is_held && matches!(place.topic, Topic::State | Topic::Cases | Topic::Audit) {
            continue;
        }
        let origin = stored.and_then(|stored| stored.origin);
        let Some(source) = origin else {
            return broken(InvariantId::R7, format!("{place:?} {offset} leads to no source record"));
        };
        let fate = written.entry(source).or_default();
        match place.topic {
            Topic::Output => fate.outputs += 1,
            Topic::Tier(_) => fate.tiers.push((*place, *offset)),
            Topic::DeadLetter => fate.dead.push((*place, *offset)),
            Topic::StaleOutput => fate.stale.push((*place, *offset)),
            Topic::State => fate.held.push((*place, *offset)),
            Topic::Source | Topic::Control | Topic::Cases | Topic::Audit => {
                return broken(InvariantId::R1, format!("{place:?} was written as the fate of a record"));
            }
        }
    }
    Ok(written)
}
