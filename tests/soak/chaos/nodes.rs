//! What is done to the nodes of Kafka: one at a time is away, and the next goes only when all replicas are in step again.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Result, anyhow};

use crate::cluster::{Cluster, Node};

/// The nodes, and the absence that is under way.
pub(crate) struct Nodes {
    cluster: Arc<Cluster>,
    absence: Option<JoinHandle<Result<()>>>,
}

impl Nodes {
    pub(crate) fn of(cluster: &Arc<Cluster>) -> Self {
        Self { cluster: Arc::clone(cluster), absence: None }
    }

    /// Ends one by `end`, and starts it again after this time; says which. `None`: another one is away.
    pub(crate) fn send_away(
        &mut self,
        pick: usize,
        away: Duration,
        end: fn(&Cluster, Node) -> Result<()>,
    ) -> Option<usize> {
        if self.absence.is_some() {
            return None;
        }
        let node = Cluster::NODES.into_iter().cycle().nth(pick % Cluster::NODES.len())?;
        let cluster = Arc::clone(&self.cluster);
        self.absence = Some(std::thread::spawn(move || {
            end(&cluster, node)?;
            std::thread::sleep(away);
            cluster.restart(node)?;
            cluster.wait_until_whole()
        }));
        Some(node.0)
    }

    /// Whether all are there and in step. An error is one that the last absence ended with.
    pub(crate) fn are_whole(&mut self) -> Result<bool> {
        match self.absence.take() {
            None => Ok(true),
            Some(absence) if absence.is_finished() => {
                absence.join().map_err(|_| anyhow!("the thread that started a node again panicked"))??;
                Ok(true)
            }
            Some(absence) => {
                self.absence = Some(absence);
                Ok(false)
            }
        }
    }
}
