//! A handler behind HTTP inside the test: it answers as it is told, keeps its own log of calls, and can hold its answers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use tokio::sync::watch;

use crate::ledger::Start;

/// A running handler; ends with the runtime.
#[derive(Debug)]
pub(crate) struct HttpHandler {
    pub(crate) url: String,
    shared: Shared,
}

/// Status, content type and body.
pub(crate) type Answer = (StatusCode, [(HeaderName, &'static str); 1], Bytes);

/// What is answered to an attempt, by its number, for a record of this value.
pub(crate) type Answers = fn(u32, Bytes) -> Answer;

#[derive(Clone, Debug)]
struct Shared {
    answers: Answers,
    log: Arc<Mutex<Vec<Start>>>,
    gate: Arc<watch::Sender<Gate>>,
    unanswered: Arc<AtomicUsize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    Open,
    Closed,
}

#[allow(dead_code, reason = "every test target takes what it needs")]
impl HttpHandler {
    /// Starts one at this path, in the runtime of the caller.
    pub(crate) async fn start(path: &str, answers: Answers) -> Result<Self> {
        let listener =
            tokio::net::TcpListener::bind("127.0.0.1:0").await.context("binding the handler's port")?;
        let url = format!("http://{}{path}", listener.local_addr().context("asking for the port")?);
        let gate = Arc::new(watch::Sender::new(Gate::Open));
        let shared = Shared { answers, log: Arc::default(), gate, unanswered: Arc::default() };
        let router = Router::new().fallback(handle).with_state(shared.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { url, shared })
    }

    pub(crate) fn calls(&self) -> u64 {
        let log = self.shared.log.lock().unwrap_or_else(PoisonError::into_inner);
        u64::try_from(log.len()).unwrap_or(u64::MAX)
    }

    /// Every call so far.
    pub(crate) fn starts(&self) -> Vec<Start> {
        self.shared.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Calls that came and have no answer yet, and whose caller still waits.
    pub(crate) fn unanswered(&self) -> usize {
        self.shared.unanswered.load(Ordering::SeqCst)
    }

    /// From now on no call is answered.
    pub(crate) fn hold(&self) {
        self.shared.gate.send_replace(Gate::Closed);
    }

    /// Answers what was held and what comes.
    pub(crate) fn release(&self) {
        self.shared.gate.send_replace(Gate::Open);
    }
}

async fn handle(State(shared): State<Shared>, headers: HeaderMap, body: Bytes) -> Answer {
    let at = now();
    let Some(start) = start(&headers, at) else {
        return told(StatusCode::BAD_REQUEST, "a header is missing or malformed");
    };
    let attempt = start.attempt;
    let _unanswered = Unanswered::one(&shared.unanswered);
    shared.log.lock().unwrap_or_else(PoisonError::into_inner).push(start);
    // It is closed only with the handler, whose answers nobody waits for then.
    let _ = shared.gate.subscribe().wait_for(|gate| *gate == Gate::Open).await;
    (shared.answers)(attempt, body)
}

/// An answer with a text for people.
pub(crate) fn told(status: StatusCode, why: impl Into<Bytes>) -> Answer {
    (status, [(CONTENT_TYPE, "text/plain; charset=utf-8")], why.into())
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

/// Counts a call until it is answered or its caller is gone.
struct Unanswered(Arc<AtomicUsize>);

impl Unanswered {
    fn one(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Milliseconds since the epoch.
#[expect(clippy::disallowed_methods, reason = "the handler is another program with a clock of its own")]
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
