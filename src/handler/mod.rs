//! Handlers: the work that a pipeline does for each record.
//!
//! Owns how a delivery reaches the user's code and how the answer comes back. Decides nothing: class, retries and
//! dead letters are the core's.

use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::core::event::Delivery;
use crate::core::outcome::Outcome;

mod build;
mod http;
mod passthrough;
mod registry;

pub use build::{BuildHandlerError, build};
pub use registry::Handlers;

/// The work that a pipeline does for each record.
///
/// Called from many tasks at a time, for different keys. A future that is ready at its first poll costs no task
/// switch. The future may be dropped when the task is given to another worker: the delivery then begins anew there,
/// with the same operation id. Effects outside Kafka are therefore at least once; the operation id of the record's
/// envelope is the same on every attempt and makes them idempotent.
///
/// A handler says what happened; what follows from it (executions in place, tiers, a dead letter) is the topology's:
///
/// ```
/// use redrive::core::class::{Class, ReasonName};
/// use redrive::core::event::Delivery;
/// use redrive::core::outcome::Outcome;
/// use redrive::handler::{AnyHandler, Handler, Handlers};
///
/// const NO_VALUE: ReasonName = ReasonName::from_static("no-value");
///
/// struct Upper;
///
/// impl Handler for Upper {
///     async fn handle(&self, delivery: Delivery) -> Outcome {
///         let Some(value) = &delivery.envelope.value else {
///             return Outcome::failed(Class::Permanent, NO_VALUE, "a tombstone has nothing to print");
///         };
///         Outcome::output(&delivery.envelope, Some(value.to_ascii_uppercase().into()))
///     }
/// }
///
/// let handlers = Handlers::new().with("upper", Upper);
/// assert!(handlers.find("upper").is_some());
/// ```
pub trait Handler: Send + Sync + 'static {
    /// Does the work of one execution.
    fn handle(&self, delivery: Delivery) -> impl Future<Output = Outcome> + Send;
}

/// A handler of any type, shared between threads.
#[derive(Clone)]
pub struct AnyHandler(Arc<dyn Erased>);

impl std::fmt::Debug for AnyHandler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AnyHandler")
    }
}

impl AnyHandler {
    /// Wraps a handler.
    pub fn new(handler: impl Handler) -> Self {
        Self(Arc::new(handler))
    }

    /// Does the work of one execution.
    pub fn handle(&self, delivery: Delivery) -> BoxFuture<'static, Outcome> {
        Arc::clone(&self.0).handle(delivery)
    }
}

trait Erased: Send + Sync {
    fn handle(self: Arc<Self>, delivery: Delivery) -> BoxFuture<'static, Outcome>;
}

impl<H: Handler> Erased for H {
    fn handle(self: Arc<Self>, delivery: Delivery) -> BoxFuture<'static, Outcome> {
        Box::pin(async move { Handler::handle(&*self, delivery).await })
    }
}
