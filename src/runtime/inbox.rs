//! Everything that reaches a worker's thread from others, through one channel.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::{Receiver, Sender};

use crate::core::envelope::DeliveryId;
use crate::core::outcome::Outcome;
use crate::kafka::lookup::Found;
use crate::kafka::reader::{LaneId, Wake};
use crate::kafka::transaction::Answer;

/// What another thread tells a worker.
#[derive(Debug)]
pub(crate) enum Note {
    /// Consumers have something; see [`Wakes`].
    Wake,
    /// A handler that was not ready at once has ended.
    Handled(DeliveryId, Outcome),
    /// From the transactor.
    Transactor(Answer),
    /// From the lookup.
    Looked(Found),
    /// The process is to end.
    Drain,
}

/// Wakes of a worker's consumers, brought together: however many there are, one note is under way.
///
/// 1. a consumer's thread adds its lane, then sends a note if none is under way;
/// 2. the worker takes the note, says that none is under way, then takes the lanes.
///
/// So a lane that is added behind 2 finds none under way and sends the next.
#[derive(Debug)]
pub(crate) struct Wakes {
    under_way: AtomicBool,
    consumer: AtomicBool,
    lanes: Mutex<BTreeSet<LaneId>>,
    notes: Sender<Note>,
}

impl Wakes {
    /// Wakes that go to `notes`.
    pub(crate) fn new(notes: Sender<Note>) -> Arc<Self> {
        let (under_way, consumer) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { under_way, consumer, lanes: Mutex::new(BTreeSet::new()), notes })
    }

    /// Takes the lanes that woke since the last call; to be called when [`Note::Wake`] was received.
    pub(crate) fn take_lanes(&self) -> BTreeSet<LaneId> {
        self.under_way.store(false, Ordering::SeqCst);
        std::mem::take(&mut *self.lanes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a consumer woke, apart from its lanes, since the last call.
    pub(crate) fn take_consumer(&self) -> bool {
        self.consumer.swap(false, Ordering::SeqCst)
    }

    fn send(&self) {
        if !self.under_way.swap(true, Ordering::SeqCst) {
            // A worker that is gone needs no waking.
            let _ = self.notes.send(Note::Wake);
        }
    }
}

impl Wake for Wakes {
    fn lane(&self, lane: LaneId) {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).insert(lane);
        self.send();
    }

    fn consumer(&self) {
        self.consumer.store(true, Ordering::SeqCst);
        self.send();
    }
}

/// The receiving end, owned by the worker's thread.
pub(crate) type Inbox = Receiver<Note>;

/// Both ends. Notes are as many as handlers run, and one each of the others: the channel needs no bound of its own.
#[derive(Debug)]
pub(crate) struct Channel {
    /// For those who tell.
    pub(crate) notes: Sender<Note>,
    /// For the worker.
    pub(crate) inbox: Inbox,
}

impl Channel {
    /// An empty channel.
    pub(crate) fn new() -> Self {
        let (notes, inbox) = crossbeam_channel::unbounded();
        Self { notes, inbox }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::position::{Lane, Partition};

    const LANE: LaneId = LaneId { partition: Partition(1), lane: Lane::Source };
    const OTHER: LaneId = LaneId { partition: Partition(2), lane: Lane::Source };

    #[test]
    fn many_wakes_are_one_note() {
        let (notes, inbox) = crossbeam_channel::unbounded();
        let wakes = Wakes::new(notes);
        wakes.lane(LANE);
        wakes.lane(OTHER);
        wakes.consumer();
        assert!(matches!(inbox.try_recv(), Ok(Note::Wake)));
        assert!(inbox.try_recv().is_err());
        assert_eq!(wakes.take_lanes(), BTreeSet::from([LANE, OTHER]));
        assert!(wakes.take_consumer());
        assert!(!wakes.take_consumer());
    }

    #[test]
    fn a_wake_after_the_note_was_taken_sends_the_next() {
        let (notes, inbox) = crossbeam_channel::unbounded();
        let wakes = Wakes::new(notes);
        wakes.lane(LANE);
        assert!(matches!(inbox.try_recv(), Ok(Note::Wake)));
        wakes.take_lanes();
        wakes.lane(LANE);
        assert!(matches!(inbox.try_recv(), Ok(Note::Wake)));
        assert_eq!(wakes.take_lanes(), BTreeSet::from([LANE]));
    }
}
