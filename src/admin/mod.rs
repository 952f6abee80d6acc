//! The HTTP listener for machines: is it alive, is it ready, how is it doing.
//!
//! Owns `/live`, `/ready` and `/metrics`. It only reads what workers have noted in [`health::Health`] and counted in
//! [`Metrics`]; it asks no broker and no worker, so a probe is answered in any state.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::admin::health::Health;
use crate::admin::probe::Verdict;
use crate::core::time::Monotonic;
use crate::telemetry::metrics::Metrics;

pub mod health;
pub mod probe;

/// Reads the stopwatch.
pub type Stopwatch = Arc<dyn Fn() -> Monotonic + Send + Sync>;

/// What the listener answers from.
#[derive(Clone)]
pub struct Sources {
    /// What the workers have noted.
    pub health: Health,
    /// What they have counted.
    pub metrics: Metrics,
    /// The same stopwatch that the workers read.
    pub now: Stopwatch,
}

impl std::fmt::Debug for Sources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sources").field("health", &self.health).finish_non_exhaustive()
    }
}

/// Why the listener did not start: the address is taken or not this machine's.
#[derive(Debug, thiserror::Error)]
#[error(
    "`http.listen` cannot listen on `{address}`: {source}\nhint: another process has it, or it is not this machine's"
)]
pub struct ListenError {
    /// The address in the topology.
    pub address: SocketAddr,
    /// The system's words.
    pub source: io::Error,
}

/// A running listener; it ends when this is dropped.
#[derive(Debug)]
pub struct Listener {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Where it listens; the port is the real one where the topology says 0.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Listens on `address`, on a thread of its own: a probe is answered however busy the handlers are.
///
/// # Errors
///
/// Where the address cannot be had.
pub fn listen(address: SocketAddr, sources: Sources) -> Result<Listener, ListenError> {
    let error = |source| ListenError { address, source };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(error)?;
    let listener = runtime.block_on(TcpListener::bind(address)).map_err(error)?;
    let address = listener.local_addr().map_err(error)?;
    let (stop, stopped) = oneshot::channel::<()>();
    let serve = move || {
        runtime.block_on(async {
            tokio::select! {
                // Serving ends with the process; accepting is tried again by itself.
                _ = axum::serve(listener, routes(sources)) => {}
                _ = stopped => {}
            }
        });
    };
    let thread = std::thread::Builder::new().name("admin".to_owned()).spawn(serve).map_err(error)?;
    Ok(Listener { address, stop: Some(stop), thread: Some(thread) })
}

fn routes(sources: Sources) -> Router {
    Router::new()
        .route("/live", get(live))
        .route("/ready", get(ready))
        .route("/metrics", get(metrics))
        .with_state(sources)
}

async fn live(State(sources): State<Sources>) -> Response {
    answer(&probe::live(&sources.health.snapshot(), (sources.now)()))
}

async fn ready(State(sources): State<Sources>) -> Response {
    answer(&probe::ready(&sources.health.snapshot(), (sources.now)()))
}

async fn metrics(State(sources): State<Sources>) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (kind, sources.metrics.text()).into_response()
}

/// 200, or 503 and why, one reason a line.
fn answer(verdict: &Verdict) -> Response {
    let status = if verdict.is_good() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, verdict.to_string()).into_response()
}
