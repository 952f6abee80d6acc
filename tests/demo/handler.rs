//! What the flaky handler answers: it fails as each record's own plan says.

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;

use crate::http::{Answer, told};
use crate::load::Plan;

/// Answers 200 with the order itself, 503 while it is to fail, 422 where it is broken.
pub(crate) fn answer(attempt: u32, order: Bytes) -> Answer {
    match Plan::of_value(&order) {
        None => told(StatusCode::BAD_REQUEST, "not an order"),
        Some(Plan::Fails { times }) if attempt <= times => told(StatusCode::SERVICE_UNAVAILABLE, "try later"),
        Some(Plan::FailsForEver) => told(StatusCode::SERVICE_UNAVAILABLE, "still closed"),
        Some(Plan::Broken) => told(StatusCode::UNPROCESSABLE_ENTITY, "an order that nobody can fill"),
        Some(Plan::Succeeds | Plan::Fails { .. }) => {
            (StatusCode::OK, [(CONTENT_TYPE, "application/json")], order)
        }
    }
}
