//! The HTTP handler: one POST per execution.
//!
//! Owns the connection, what goes over it and how the answer is read. It reports what happened; what that means for
//! the record is decided in the core.
//!
//! **What was sent.** A side effect is possible as soon as the first byte of a request may have left. So
//! [`Cause::NotSent`] is said only where there was no connection to send on. HTTP/1.1 only: there a request that
//! met a closed connection can be told from one that was sent. The client repeats by itself only requests that
//! never reached a connection; nothing else is repeated here but, once, a call whose token was refused.

use std::error::Error;
use std::time::Duration;

use reqwest::Client;
use reqwest::header::HeaderValue;
use tokio::sync::Semaphore;

use crate::core::class::{Class, ReasonName};
use crate::core::event::Delivery;
use crate::core::outcome::{Cause, Failure, Outcome};
use crate::handler::http::request::Form;
use crate::handler::http::token::{Renewal, Token};
use crate::handler::passthrough::Answer;
use crate::handler::{BuildHandlerError, Handler};
use crate::topology::model::{HttpHandler, Pipeline};

mod answer;
mod client;
mod request;
mod retry_after;
mod token;
mod value;

/// The token file cannot be read. The record is not to blame, so it waits.
const TOKEN_UNREADABLE: ReasonName = ReasonName::from_static("token-unreadable");

/// Calls an HTTP endpoint.
#[derive(Debug)]
pub(super) struct Http {
    client: Client,
    form: Form,
    token: Option<Token>,
    permits: Semaphore,
    timeout: Duration,
    answer: Answer,
}

impl Http {
    /// Prepares everything that is the same for each call. Opens no connection.
    pub(super) fn new(
        app: &str,
        pipeline: &Pipeline,
        spec: &HttpHandler,
        answer: Answer,
    ) -> Result<Self, BuildHandlerError> {
        let form = Form::new(app, pipeline, spec)?;
        Ok(Self {
            client: client::new(spec, form.url())?,
            form,
            token: spec.token.as_ref().map(Token::new).transpose()?,
            permits: Semaphore::new(spec.concurrency.clamp(1, Semaphore::MAX_PERMITS)),
            timeout: spec.timeout,
            answer,
        })
    }

    /// One execution: a call, and once more where the token was refused and there is a newer one.
    async fn execute(&self, delivery: &Delivery) -> Outcome {
        let Some(token) = &self.token else {
            return self.call(delivery, None).await;
        };
        let bearer = token.current();
        let outcome = self.call(delivery, Some(&bearer)).await;
        if !is_unauthorized(&outcome) {
            return outcome;
        }
        match token.renew(&bearer).await {
            Renewal::Newer(bearer) => self.call(delivery, Some(&bearer)).await,
            Renewal::Same => outcome,
            Renewal::Unreadable(why) => Outcome::failed(Class::Transient, TOKEN_UNREADABLE, why),
        }
    }

    /// One request and its whole answer.
    async fn call(&self, delivery: &Delivery, bearer: Option<&HeaderValue>) -> Outcome {
        match self.client.execute(self.form.request(delivery, bearer)).await {
            Ok(response) => answer::read(response, &delivery.envelope, self.answer).await,
            Err(error) => Outcome::Failed(broken(&error)),
        }
    }
}

impl Handler for Http {
    /// The time limit begins when the call may begin; waiting for one of the `concurrency` places does not count.
    async fn handle(&self, delivery: Delivery) -> Outcome {
        let _place = self.permits.acquire().await;
        match tokio::time::timeout(self.timeout, self.execute(&delivery)).await {
            Ok(outcome) => outcome,
            Err(_elapsed) => Outcome::Failed(Failure {
                cause: Cause::TimedOut,
                detail: format!("no whole answer within {:?}", self.timeout),
                retry_after: None,
            }),
        }
    }
}

/// What a call that ended without a whole answer was.
fn broken(error: &reqwest::Error) -> Failure {
    let cause = if error.is_connect() || error.is_builder() {
        Cause::NotSent
    } else if error.is_timeout() {
        Cause::TimedOut
    } else {
        Cause::Cut
    };
    // The error's own text holds the URL, which may hold secrets: only what lies behind it is shown.
    let mut detail = String::new();
    let mut next = error.source();
    while let Some(source) = next {
        if !detail.is_empty() {
            detail.push_str(": ");
        }
        detail.push_str(&source.to_string());
        next = source.source();
    }
    Failure { cause, detail, retry_after: None }
}

/// Whether the endpoint refused the token.
fn is_unauthorized(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed(Failure { cause: Cause::Status { status: 401, .. }, .. }))
}
