//! Requests of operators: each has one answer and one line in the audit, written by the transaction that moves its lane.

use std::collections::BTreeMap;

use bytes::Bytes;
use redrive::core::control::{Answer, RequestId};
use redrive::core::invariant::{Breach, InvariantId};

use super::super::cluster::transactions::Serial;
use super::super::cluster::{Cluster, Place, Topic};
use super::super::lineage::Root;
use super::{Checker, broken};

/// One record of the control lane.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// The key of its answer; none where nobody can wait for one.
    answer: Option<Bytes>,
    is_answered: bool,
}

impl Checker {
    pub(crate) fn request_written(&mut self, place: Place, offset: i64, key: Option<Bytes>) {
        let id = key.and_then(|key| std::str::from_utf8(&key).ok()?.parse::<RequestId>().ok());
        let asked = Asked { answer: id.map(|id| Answer::key(&id)), is_answered: false };
        self.requests.insert(Root { place, offset }, asked);
    }

    pub(crate) fn has_answered(&self) -> bool {
        self.requests.values().all(|asked| asked.is_answered)
    }

    /// R1: a transaction answers what it consumes of the control lane, in order, and nothing else.
    pub(super) fn obeyed(&mut self, cluster: &Cluster, serial: Serial) -> Result<(), Breach> {
        let transaction = cluster.transactions.of(serial);
        let mut unexplained = 0;
        for (place, _) in &transaction.writes {
            unexplained += usize::from(matches!(place.topic, Topic::Cases | Topic::Audit));
        }
        for (place, new, _) in &transaction.offsets {
            if place.topic != Topic::Control {
                continue;
            }
            let old = self.committed.get(place).copied().unwrap_or(0);
            let consumed: Vec<Root> = cluster
                .log(*place)
                .data(old, *new)
                .map(|(offset, _)| Root { place: *place, offset })
                .collect();
            let audited: Vec<Root> = written(cluster, serial, Topic::Audit, 0)
                .filter_map(|(place, at)| cluster.log(place).at(at)?.origin)
                .filter(|root| root.place == *place)
                .collect();
            let answered: Vec<Option<Bytes>> = written(cluster, serial, Topic::Cases, place.partition)
                .map(|(place, at)| cluster.log(place).at(at)?.record.key.clone())
                .collect();
            let expected: Vec<Option<Bytes>> = consumed
                .iter()
                .map(|root| self.requests[root].answer.clone())
                .filter(Option::is_some)
                .collect();
            if audited != consumed || answered != expected {
                let detail = format!(
                    "{consumed:?} are audited as {audited:?} and answered as {answered:?}, not {expected:?}"
                );
                return broken(InvariantId::R1, detail);
            }
            unexplained -= audited.len() + answered.len();
            for root in consumed {
                if let Some(asked) = self.requests.get_mut(&root) {
                    asked.is_answered = true;
                }
            }
        }
        if unexplained > 0 {
            let detail =
                format!("{serial:?} answers or audits `{unexplained}` times what it does not consume");
            return broken(InvariantId::R1, detail);
        }
        Ok(())
    }

    /// R10 for requests: what is consumed is answered and audited once, what is not, never.
    pub(super) fn cut_of_requests(&self, cluster: &Cluster) -> Result<(), Breach> {
        let mut answers: BTreeMap<(i32, Bytes), usize> = BTreeMap::new();
        let mut audits: BTreeMap<Root, usize> = BTreeMap::new();
        for partition in 0..cluster.partitions() {
            for (topic, partition) in [(Topic::Cases, partition), (Topic::Audit, partition)] {
                let log = cluster.log(Place { topic, partition });
                for (_, stored) in log.data(0, log.end()).filter(|(_, stored)| cluster.counts(stored.by)) {
                    match (topic, stored.origin, &stored.record.key) {
                        (Topic::Audit, Some(root), _) => *audits.entry(root).or_default() += 1,
                        (_, _, Some(key)) => *answers.entry((partition, key.clone())).or_default() += 1,
                        (_, _, None) => {
                            return broken(InvariantId::R10, format!("{stored:?} answers nothing"));
                        }
                    }
                }
            }
        }
        for (root, asked) in &self.requests {
            let committed = self.committed.get(&root.place).copied().unwrap_or(0);
            let times = usize::from(root.offset < committed);
            let audited = audits.get(root).copied().unwrap_or(0);
            let key = asked.answer.clone().map(|key| (root.place.partition, key));
            let answered = key.as_ref().map(|key| answers.get(key).copied().unwrap_or(0));
            if audited != times || answered.is_some_and(|answered| answered != times) {
                let detail = format!(
                    "{root:?} is consumed {times} times, audited {audited} and answered {answered:?} times"
                );
                return broken(InvariantId::R10, detail);
            }
        }
        Ok(())
    }
}

/// What a transaction wrote to a partition of a topic, in order.
fn written(
    cluster: &Cluster,
    serial: Serial,
    topic: Topic,
    partition: i32,
) -> impl Iterator<Item = (Place, i64)> {
    let writes = cluster.transactions.of(serial).writes.iter();
    writes.filter(move |(place, _)| *place == Place { topic, partition }).copied()
}
