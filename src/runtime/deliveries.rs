//! Deliveries that the handler has.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crossbeam_channel::Sender;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::core::envelope::DeliveryId;
use crate::core::event::{Delivery, Event};
use crate::core::position::Partition;
use crate::handler::AnyHandler;
use crate::runtime::clock::Clock;
use crate::runtime::inbox::Note;
use crate::runtime::panic::AbortOnPanic;
use crate::telemetry::Telemetry;
use crate::telemetry::event::{ExecutionEnded, ExecutionStarted};

/// The handler of a worker and what it is working on.
#[derive(Debug)]
pub(super) struct Deliveries {
    handler: AnyHandler,
    runtime: Handle,
    notes: Sender<Note>,
    telemetry: Arc<Telemetry>,
    clock: Clock,
    running: BTreeMap<DeliveryId, AbortHandle>,
}

impl Deliveries {
    /// Handlers that are not ready at once run on `runtime` and end with a note.
    pub(super) const fn new(
        handler: AnyHandler,
        runtime: Handle,
        notes: Sender<Note>,
        telemetry: Arc<Telemetry>,
        clock: Clock,
    ) -> Self {
        Self { handler, runtime, notes, telemetry, clock, running: BTreeMap::new() }
    }

    /// Begins one execution. A handler that is ready at its first poll costs no task switch and answers here.
    pub(super) fn begin(&mut self, delivery: Delivery) -> Option<Event> {
        let (id, clock) = (delivery.id, self.clock);
        let began = clock.now().mono;
        self.telemetry.emit(ExecutionStarted { delivery: &delivery });
        let mut work = self.handler.handle(delivery.clone());
        // Nobody is woken by this poll: a future that is not ready is polled again at once where it is spawned.
        let first = Pin::new(&mut work).poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(outcome) = first {
            let took = clock.now().mono.since(began);
            self.telemetry.emit(ExecutionEnded { delivery: &delivery, outcome: &outcome, took });
            return Some(Event::Handled { delivery: id, outcome });
        }
        let (notes, telemetry) = (self.notes.clone(), Arc::clone(&self.telemetry));
        let task = self.runtime.spawn(async move {
            let _abort = AbortOnPanic;
            let outcome = work.await;
            let took = clock.now().mono.since(began);
            telemetry.emit(ExecutionEnded { delivery: &delivery, outcome: &outcome, took });
            // A worker that is gone has given the task up; whoever has it now delivers the record again.
            let _ = notes.send(Note::Handled(id, outcome));
        });
        self.running.insert(id, task.abort_handle());
        None
    }

    /// One has ended by itself.
    pub(super) fn ended(&mut self, id: DeliveryId) {
        self.running.remove(&id);
    }

    /// Drops what runs for a task that is no longer ours.
    pub(super) fn give_up(&mut self, partition: Partition) {
        self.running.retain(|id, work| {
            let ours = id.partition != partition;
            if !ours {
                work.abort();
            }
            ours
        });
    }
}

impl Drop for Deliveries {
    fn drop(&mut self) {
        for work in self.running.values() {
            work.abort();
        }
    }
}
