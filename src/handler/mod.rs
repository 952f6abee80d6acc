//! Handlers: the work that a pipeline does for each record.
//!
//! Owns how a delivery reaches the user's code and how the answer comes back. Decides nothing: class, retries and
//! dead letters are the core's.

use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::core::event::Delivery;
use crate::core::outcome::Outcome;

/// The work that a pipeline does for each record.
///
/// Called from many tasks at a time, for different keys. A future that is ready at its first poll costs no task
/// switch. The future may be dropped when the task is given to another worker: the delivery then begins anew there,
/// with the same operation id.
pub trait Handler: Send + Sync + 'static {
    /// Does the work of one execution.
    fn handle(&self, delivery: Delivery) -> impl Future<Output = Outcome> + Send;
}

/// A handler of any type, shared between the threads of a pipeline.
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
