//! Which tasks this worker owns at this moment, as the worker's thread says and the transactor's thread reads.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::core::position::{Epoch, Partition};

/// The valid epoch of each owned task. A transaction is committed only if the epochs of all its tasks are valid when its
/// offsets are sent:
///
/// 1. a transaction is formed for a task and handed to the transactor,
/// 2. the group takes the task without asking, and another worker goes on with it,
/// 3. the transactor comes to send the offsets, and must not.
#[derive(Debug, Default)]
pub(crate) struct Epochs {
    valid: Mutex<BTreeMap<Partition, Epoch>>,
}

impl Epochs {
    /// Makes `epoch` the only valid one of a task.
    pub(crate) fn set(&self, partition: Partition, epoch: Epoch) {
        self.lock().insert(partition, epoch);
    }

    /// Makes every epoch of a task invalid.
    pub(crate) fn invalidate(&self, partition: Partition) {
        self.lock().remove(&partition);
    }

    /// Whether `epoch` is the valid one of a task.
    pub(crate) fn is_current(&self, partition: Partition, epoch: Epoch) -> bool {
        self.lock().get(&partition) == Some(&epoch)
    }

    /// Whether a task has a valid epoch: it was taken over, and since then neither given back nor lost.
    pub(crate) fn owns(&self, partition: Partition) -> bool {
        self.lock().contains_key(&partition)
    }

    /// Every step under the lock is whole, so a thread that panicked while it held it left nothing half done.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Partition, Epoch>> {
        self.valid.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_epoch_that_was_set_last_is_current() {
        let epochs = Epochs::default();
        let task = Partition(3);
        assert!(!epochs.is_current(task, Epoch(1)));

        epochs.set(task, Epoch(1));
        assert!(epochs.is_current(task, Epoch(1)));
        assert!(!epochs.is_current(Partition(4), Epoch(1)));

        epochs.set(task, Epoch(2));
        assert!(!epochs.is_current(task, Epoch(1)));
        assert!(epochs.is_current(task, Epoch(2)));
    }

    #[test]
    fn an_invalidated_task_has_no_current_epoch() {
        let epochs = Epochs::default();
        epochs.set(Partition(3), Epoch(1));
        epochs.invalidate(Partition(3));
        assert!(!epochs.is_current(Partition(3), Epoch(1)));
    }
}
