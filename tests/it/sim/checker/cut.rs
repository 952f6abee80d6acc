//! The whole at one cut of committed records: R10 (in = emitted + dropped + dead + waiting, asked = obeyed), counted anew from the logs.

use std::collections::BTreeMap;

use redrive::core::invariant::{Breach, InvariantId};
use redrive::core::position::Lane;

use super::super::cluster::{Cluster, Place, Topic};
use super::super::lineage::Root;
use super::{Checker, State, broken};

/// Where a source record is found.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    outputs: usize,
    waiting: usize,
    dead: usize,
    stale: usize,
}

impl Checker {
    /// Counts every log from its start.
    pub(crate) fn cut(&self, cluster: &Cluster) -> Result<(), Breach> {
        let mut found: BTreeMap<Root, Found> = BTreeMap::new();
        let tiers = cluster.lanes().filter(|lane| matches!(lane, Lane::Tier(_))).map(Topic::from);
        for topic in [Topic::Output, Topic::StaleOutput, Topic::DeadLetter].into_iter().chain(tiers) {
            for partition in 0..cluster.partitions() {
                let place = Place { topic, partition };
                let from = self.committed.get(&place).copied().unwrap_or(0);
                let log = cluster.log(place);
                let counted = log.data(from, log.end()).filter(|(_, stored)| cluster.counts(stored.by));
                for origin in counted.filter_map(|(_, stored)| stored.origin) {
                    let found = found.entry(origin).or_default();
                    match topic {
                        Topic::Output => found.outputs += 1,
                        Topic::StaleOutput => found.stale += 1,
                        Topic::DeadLetter => found.dead += 1,
                        Topic::Tier(_) => found.waiting += 1,
                        Topic::Source | Topic::Control | Topic::State | Topic::Cases | Topic::Audit => {}
                    }
                }
            }
        }
        if self.policy.order.holds() {
            for (root, count) in self.standing_in_logs(cluster) {
                found.entry(root).or_default().waiting += count;
            }
        }
        for (source, tale) in &self.tales {
            let committed = self.committed.get(&source.place);
            let is_in = committed.is_some_and(|committed| source.offset < *committed);
            let found = found.get(source).copied().unwrap_or_default();
            let aside = found.stale == 0 || found.stale == 1 && tale.state == State::Dropped;
            let holds = aside
                && match (is_in, found.outputs, found.waiting, found.dead) {
                    (false, 0, 0, 0) | (true, 0, 1, 0) | (true, 0, 0, 1) => true,
                    (true, 0, 0, 0) if tale.state == State::Dropped => true,
                    (true, 0, 0, 0) => tale.outputs == 0 && tale.state == State::Emitted,
                    (true, outputs, 0, 0) => outputs == tale.outputs,
                    _ => false,
                };
            if !holds {
                let detail = format!("{source:?} is read: {is_in}, and found as {found:?}");
                return broken(InvariantId::R10, detail);
            }
        }
        self.cut_of_requests(cluster)
    }
}
