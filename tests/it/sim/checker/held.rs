//! Records that are held behind their key: R1 and R7 (they stand whole and have their fate once), R9 (they leave in order), R5 (counted
//! versions without a gap).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redrive::core::invariant::{Breach, InvariantId};
use redrive::core::policy::{Contiguous, First};
use redrive::core::position::Epoch;

use super::super::cluster::group::Process;
use super::super::cluster::log::Stored;
use super::super::cluster::transactions::Serial;
use super::super::cluster::{Cluster, Place, Topic};
use super::super::holding::{self, count, held_in};
use super::super::lineage::{self, Root};
use super::super::versions::{applied_in, order_key, version_of_copy};
use super::calls::CallKey;
use super::copies::Consumed;
use super::{Author, Checker, State, broken};

/// A key of a task.
type KeyOf = (i32, Vec<u8>);

/// So long may a hold that is decided wait for its commit, while the clock of its task runs.
const UNCOMMITTED: Duration = Duration::from_secs(45);

/// What the logs say of held records.
#[derive(Debug, Default)]
pub(super) struct Holds {
    /// Those that stand in the state topic: what they are of, and where the entry is.
    standing: BTreeMap<(KeyOf, i64), (Root, i64)>,
    /// How long the task had been open when each was first held, or put aside.
    since: BTreeMap<Root, Duration>,
    /// The newest delivery of each from there.
    pub(super) calls: BTreeMap<(Process, i32, Epoch, Root), CallKey>,
    /// What waits in a tier since there was no room to hold it.
    pub(super) aside: BTreeSet<Root>,
    /// What has left the state topic with this transaction.
    left: BTreeSet<(KeyOf, i64)>,
    /// What this transaction consumes.
    pub(super) consumed: BTreeSet<Root>,
    /// What this transaction has follow a dead record.
    pub(super) followers: Vec<Root>,
    /// What is applied of each key that is counted, and the first version of the count.
    counted: BTreeMap<KeyOf, (i64, i64)>,
    /// The last output of each key.
    emitted: BTreeMap<KeyOf, Root>,
    /// Who has each task open, since when, and how long it was open before.
    open: BTreeMap<i32, (Process, Duration)>,
    was_open: BTreeMap<i32, Duration>,
}

impl Holds {
    pub(super) fn opened(&mut self, partition: i32, process: Process, now: Duration) {
        self.close(partition, now);
        self.open.insert(partition, (process, now));
    }

    pub(super) fn closed(&mut self, partition: i32, process: Process, now: Duration) {
        if self.open.get(&partition).is_some_and(|(by, _)| *by == process) {
            self.close(partition, now);
        }
    }

    pub(super) fn process_ends(&mut self, process: Process, now: Duration) {
        for partition in self.open.keys().copied().collect::<Vec<_>>() {
            self.closed(partition, process, now);
        }
    }

    fn close(&mut self, partition: i32, now: Duration) {
        if let Some((_, since)) = self.open.remove(&partition) {
            *self.was_open.entry(partition).or_default() += now - since;
        }
    }

    /// For how long a task has been open by now.
    fn open_time(&self, partition: i32, now: Duration) -> Duration {
        let open = self.open.get(&partition).map(|(_, since)| now.saturating_sub(*since));
        self.was_open.get(&partition).copied().unwrap_or_default() + open.unwrap_or_default()
    }
}

impl Checker {
    /// The held record that a task hands to its handler.
    pub(super) fn held_record(&self, cluster: &Cluster, partition: i32, root: Root) -> Option<Stored> {
        let place = Place { topic: Topic::State, partition };
        let log = cluster.log(place);
        let offsets: Vec<i64> = log
            .data(0, log.end())
            .filter(|(_, stored)| stored.origin == Some(root) && cluster.counts(stored.by))
            .map(|(offset, _)| offset)
            .collect();
        let last = offsets.into_iter().rev().find_map(|offset| holding::stored(cluster, place, offset))?;
        Some(last.into_owned())
    }

    /// The held records whose entries a transaction deletes: they are consumed by that.
    pub(super) fn released(
        &mut self,
        cluster: &Cluster,
        serial: Serial,
        by: &Author<'_>,
    ) -> Result<Vec<Consumed>, Breach> {
        let mut consumed = Vec::new();
        self.holds.left.clear();
        for (place, _, stored) in cluster.written(serial, Topic::State) {
            let Some((key, at, None)) = held_in(&stored.record) else { continue };
            let at = ((place.partition, key), at);
            self.holds.left.insert(at.clone());
            let Some((root, offset)) = self.holds.standing.remove(&at) else {
                let detail = format!("{serial:?} deletes what is not held: {:?}", stored.record.key);
                return broken(InvariantId::R1, detail);
            };
            let answer = self.answer_of(by, place, offset, root);
            consumed.push(Consumed { source: root, place, offset, answer });
        }
        Ok(consumed)
    }

    /// A record is held.
    pub(super) fn held(
        &mut self,
        cluster: &Cluster,
        consumed: &Consumed,
        (place, offset): (Place, i64),
        now: Duration,
    ) -> Result<(), Breach> {
        let source = consumed.source;
        let Some(copy) = holding::stored(cluster, place, offset) else { return Ok(()) };
        self.kept(cluster, source, place, &copy)?;
        let before = self.tales[&source].attempt;
        let attempt = lineage::number(&copy.record.headers, "redrive-attempt");
        if attempt != Some(before) {
            let detail = format!("{source:?} is held with {attempt:?} attempts after {before}");
            return broken(InvariantId::R4, detail);
        }
        let stored = cluster.log(place).at(offset).expect("it was written");
        let Some((key, at, _)) = held_in(&stored.record) else { return Ok(()) };
        if order_key(&self.policy.order, &copy.record).as_ref() != Some(&key) {
            return broken(InvariantId::R9, format!("{source:?} is held behind another key: {key:?}"));
        }
        let open = self.holds.open_time(place.partition, now);
        self.holds.since.entry(source).or_insert(open);
        // What was said of it before it was held once more was of another stay.
        self.holds.calls.retain(|(.., of), _| *of != source);
        if self.holds.standing.insert(((place.partition, key), at), (source, offset)).is_some() {
            return broken(InvariantId::R1, format!("{source:?} takes the place of another held record"));
        }
        if let Some(tale) = self.tales.get_mut(&source) {
            tale.state = State::Waiting(place, offset);
        }
        Ok(())
    }

    /// A record for which there is no room behind its key waits in the first tier, without an attempt. Whether it is one of those.
    pub(super) fn is_put_aside(&self, consumed: &Consumed, copy: &Stored) -> bool {
        let never = lineage::number(&copy.record.headers, "redrive-attempt") == Some(0);
        self.policy.order.holds() && consumed.answer.is_none() && never
    }

    /// A record waits in the first tier, and its gap goes on.
    pub(super) fn put_aside(&mut self, source: Root, now: Duration) {
        let open = self.holds.open_time(source.place.partition, now);
        self.holds.since.entry(source).or_insert(open);
        self.holds.aside.insert(source);
    }

    /// How many of the records that were read stand in the state topic now, by what they are of: counted anew.
    pub(super) fn standing_in_logs(&self, cluster: &Cluster) -> BTreeMap<Root, usize> {
        let mut standing: BTreeMap<(i32, Vec<u8>, i64), Root> = BTreeMap::new();
        for partition in 0..cluster.partitions() {
            let log = cluster.log(Place { topic: Topic::State, partition });
            for (_, stored) in log.data(0, log.end()).filter(|(_, stored)| cluster.counts(stored.by)) {
                let Some((key, at, held)) = held_in(&stored.record) else { continue };
                match (held, stored.origin) {
                    (Some(_), Some(root)) => drop(standing.insert((partition, key, at), root)),
                    (_, _) => drop(standing.remove(&(partition, key, at))),
                }
            }
        }
        let mut found = BTreeMap::new();
        standing.into_values().for_each(|root| *found.entry(root).or_default() += 1);
        found
    }

    /// Where a key parks: who reads its output sees its records as they stood in the source, and what follows a dead record does.
    pub(super) fn parked_in_order(&mut self, cluster: &Cluster, serial: Serial) -> Result<(), Breach> {
        if self.policy.order.parks().is_none() {
            return Ok(());
        }
        for follower in std::mem::take(&mut self.holds.followers) {
            if !self.follows_a_dead_one(cluster, follower) {
                return broken(InvariantId::R1, format!("{follower:?} follows no dead record"));
            }
        }
        let outputs = cluster.written(serial, Topic::Output).filter_map(|(.., stored)| stored.origin);
        for root in outputs.filter(|root| root.place.topic == Topic::Source) {
            let Some(original) = cluster.log(root.place).at(root.offset) else { continue };
            let Some(key) = order_key(&self.policy.order, &original.record) else { continue };
            let last = self.holds.emitted.insert((root.place.partition, key), root);
            if let Some(last) = last.filter(|last| last.offset > root.offset) {
                return broken(InvariantId::R9, format!("the output of {root:?} follows that of {last:?}"));
            }
        }
        Ok(())
    }

    /// R1 of a dead letter that follows another: there is one.
    fn follows_a_dead_one(&self, cluster: &Cluster, follower: Root) -> bool {
        let key = |root: Root| {
            let original = cluster.log(root.place).at(root.offset)?;
            order_key(&self.policy.order, &original.record)
        };
        let own = key(follower);
        self.tales.iter().any(|(root, tale)| {
            *root != follower
                && root.place.partition == follower.place.partition
                && tale.state == State::Dead
                && key(*root) == own
        })
    }

    /// R5 and R1 where versions are counted: a transaction was decided to be committed.
    pub(super) fn counts(
        &mut self,
        cluster: &Cluster,
        serial: Serial,
        consumed: &[Consumed],
    ) -> Result<(), Breach> {
        let policy = self.policy.clone();
        let Some(rules) = count(&policy.order) else { return Ok(()) };
        let before = self.holds.counted.clone();
        self.take_counts(cluster, serial)?;
        let mut emitted: BTreeMap<KeyOf, BTreeSet<i64>> = BTreeMap::new();
        for record in consumed {
            let Some((key, version)) = self.counted_of(cluster, record) else { continue };
            let applied = self.holds.counted.get(&key).copied();
            let source = record.source;
            let wrong = match self.tales[&source].state {
                State::Emitted => !emitted.entry(key).or_default().insert(version),
                State::Dropped => {
                    let known = applied.is_some_and(|(applied, _)| version <= applied);
                    let early = matches!(rules.first, First::At(first) if version < first.0);
                    let at = (key, version);
                    let copy = self.holds.standing.contains_key(&at) || self.holds.left.contains(&at);
                    !(known || early || copy)
                }
                State::Unread | State::Waiting(..) | State::Dead => false,
            };
            if wrong {
                let detail =
                    format!("{source:?}, version {version}, has no effect, or one twice: {applied:?}");
                return broken(InvariantId::R1, detail);
            }
        }
        for (key, versions) in &emitted {
            let next = match (before.get(key), self.holds.counted.get(key), rules.first) {
                (Some((applied, _)), ..) => applied + 1,
                (None, _, First::At(first)) => first.0,
                (None, Some((_, first)), First::Any) => *first,
                (None, None, First::Any) => i64::MIN,
            };
            let expected: BTreeSet<i64> = (next..).take(versions.len()).collect();
            let newest = self.holds.counted.get(key).map(|(applied, _)| *applied);
            if *versions != expected || newest != versions.last().copied() {
                let detail = format!(
                    "{key:?}: {versions:?} are applied where {next} is next, and {newest:?} is noted"
                );
                return broken(InvariantId::R5, detail);
            }
        }
        Ok(())
    }

    /// Takes in what a transaction says of counts.
    fn take_counts(&mut self, cluster: &Cluster, serial: Serial) -> Result<(), Breach> {
        let mut written = BTreeSet::new();
        for (place, _, stored) in cluster.written(serial, Topic::State) {
            let Some((key, applied)) = applied_in(&stored.record) else { continue };
            let key = (place.partition, key);
            let Some((applied, first)) = applied.and_then(|known| Some((known.version.0, known.first?.0)))
            else {
                return broken(InvariantId::R5, format!("the count of {key:?} is forgotten"));
            };
            let was = self.holds.counted.insert(key.clone(), (applied, first));
            if was.is_some_and(|(was, begun)| was > applied || begun != first) || !written.insert(key.clone())
            {
                let detail = format!("{key:?} goes from {was:?} to {applied} from {first} on");
                return broken(InvariantId::R5, detail);
            }
        }
        Ok(())
    }

    fn counted_of(&self, cluster: &Cluster, record: &Consumed) -> Option<(KeyOf, i64)> {
        let stored = holding::stored(cluster, record.place, record.offset)?;
        let key = order_key(&self.policy.order, &stored.record)?;
        Some(((record.place.partition, key), version_of_copy(&stored.record)?))
    }

    /// R1 of a dead letter for a gap: there is one, nothing that could fill it waits, and its time is over.
    pub(super) fn gap_is_over(
        &self,
        cluster: &Cluster,
        consumed: &Consumed,
        rules: &Contiguous,
        now: Duration,
    ) -> bool {
        let Some((key, version)) = self.counted_of(cluster, consumed) else { return false };
        let applied = self.holds.counted.get(&key).map(|(applied, _)| *applied);
        let filler = self.tales.iter().any(|(root, tale)| {
            let State::Waiting(place, _) = tale.state else { return false };
            let attempted =
                tale.attempt > 0 && matches!(place.topic, Topic::Tier(_)) && !self.holds.aside.contains(root);
            let waits = Consumed { source: *root, place: root.place, offset: root.offset, answer: None };
            let known = self.counted_of(cluster, &waits).filter(|(of, _)| *of == key);
            attempted
                && !self.holds.consumed.contains(root)
                && known.is_some_and(|(_, found)| {
                    found < version && applied.is_none_or(|applied| found > applied)
                })
        });
        let since = self.holds.since.get(&consumed.source).copied();
        let open = self.holds.open_time(consumed.place.partition, now);
        let waited = since.is_none_or(|since| open - since + UNCOMMITTED >= rules.gap_timeout);
        applied.is_none_or(|applied| applied + 1 < version) && !filler && waited
    }
}
