//! The flaky handler: an HTTP service that fails as each record's own plan says, and keeps its own log of calls.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, StatusCode};

use crate::ledger::Start;
use crate::load::Plan;

/// A running handler; ends with the runtime.
#[derive(Debug)]
pub(crate) struct FlakyHandler {
    pub(crate) url: String,
    log: Log,
}

type Log = Arc<Mutex<Vec<Start>>>;

impl FlakyHandler {
    pub(crate) async fn start() -> Result<Self> {
        let listener =
            tokio::net::TcpListener::bind("127.0.0.1:0").await.context("binding the handler's port")?;
        let url = format!("http://{}/orders", listener.local_addr().context("asking for the port")?);
        let log = Log::default();
        let router = Router::new().fallback(handle).with_state(Arc::clone(&log));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { url, log })
    }

    pub(crate) fn calls(&self) -> u64 {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        u64::try_from(log.len()).unwrap_or(u64::MAX)
    }

    /// Every call so far.
    pub(crate) fn starts(&self) -> Vec<Start> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Answers 200 with the order itself, 503 while it is to fail, 422 where it is broken.
async fn handle(State(log): State<Log>, headers: HeaderMap, body: Bytes) -> Answer {
    let at = now();
    let Some(start) = start(&headers, at) else {
        return refused(StatusCode::BAD_REQUEST, "a header is missing or malformed");
    };
    let attempt = start.attempt;
    log.lock().unwrap_or_else(PoisonError::into_inner).push(start);
    match Plan::of_value(&body) {
        None => refused(StatusCode::BAD_REQUEST, "not an order"),
        Some(Plan::Fails { times }) if attempt <= times => {
            refused(StatusCode::SERVICE_UNAVAILABLE, "try later")
        }
        Some(Plan::FailsForEver) => refused(StatusCode::SERVICE_UNAVAILABLE, "still closed"),
        Some(Plan::Broken) => refused(StatusCode::UNPROCESSABLE_ENTITY, "an order that nobody can fill"),
        Some(Plan::Succeeds | Plan::Fails { .. }) => {
            (StatusCode::OK, [(CONTENT_TYPE, "application/json")], body)
        }
    }
}

type Answer = (StatusCode, [(HeaderName, &'static str); 1], Bytes);

fn refused(status: StatusCode, why: &'static str) -> Answer {
    (status, [(CONTENT_TYPE, "text/plain")], Bytes::from_static(why.as_bytes()))
}

fn start(headers: &HeaderMap, at: i64) -> Option<Start> {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    Some(Start {
        event_id: text("ce-id")?.to_owned(),
        attempt: text("redrive-attempt")?.parse().ok()?,
        execution: text("redrive-execution")?.parse().ok()?,
        due: text("redrive-due").map(str::parse).transpose().ok()?,
        at,
    })
}

/// Milliseconds since the epoch.
#[expect(clippy::disallowed_methods, reason = "the handler is another program with a clock of its own")]
fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
