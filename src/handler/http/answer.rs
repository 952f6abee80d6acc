//! From an HTTP answer to an outcome.

use bytes::{Bytes, BytesMut};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName};
use reqwest::{Response, StatusCode};

use crate::core::class::{Class, ReasonName};
use crate::core::envelope::Envelope;
use crate::core::outcome::{Cause, Failure, Outcome};
use crate::handler::http::{broken, retry_after};
use crate::handler::passthrough::Answer;

/// The longest body that becomes a record: what Kafka takes where nobody changed `message.max.bytes`.
const LONGEST_ANSWER: usize = 1024 * 1024;

/// The answer was longer. The work is done, so repeating it cannot help.
const TOO_LARGE: ReasonName = ReasonName::from_static("answer-too-large");

/// The longest body that is read of any other answer. Behind it the connection is closed instead of used again.
const LONGEST_EXPLANATION: usize = 64 * 1024;

/// How much of an explanation is shown, in characters.
const SHOWN: usize = 200;

const REDRIVE_REASON: HeaderName = HeaderName::from_static("redrive-reason");

/// Reads the whole answer. Where it ends early, the outcome is unknown, whatever its head said.
pub(super) async fn read(response: Response, envelope: &Envelope, answer: Answer) -> Outcome {
    let status = response.status();
    if status == StatusCode::NO_CONTENT {
        return Outcome::done();
    }
    if !status.is_success() {
        return Outcome::Failed(refused(response, status).await.unwrap_or_else(|error| broken(&error)));
    }
    match (body(response, LONGEST_ANSWER).await, answer) {
        (Ok(Body::Whole(value)), Answer::Written) => Outcome::output(envelope, Some(value)),
        (Ok(Body::Longer), Answer::Written) => {
            let detail = format!("{status} with a body of more than {LONGEST_ANSWER} bytes");
            Outcome::failed(Class::Permanent, TOO_LARGE, detail)
        }
        (Ok(Body::Whole(_) | Body::Longer), Answer::Ignored) => Outcome::done(),
        (Err(error), Answer::Written | Answer::Ignored) => Outcome::Failed(broken(&error)),
    }
}

/// A whole answer that says no.
async fn refused(response: Response, status: StatusCode) -> Result<Failure, reqwest::Error> {
    let headers = response.headers();
    let reason = headers.get(REDRIVE_REASON).and_then(|reason| reason.to_str().ok()?.parse().ok());
    let retry_after = retry_after::read(headers);
    let explains = Explains::by(headers);
    let explanation = match body(response, LONGEST_EXPLANATION).await? {
        Body::Whole(bytes) => explains.text(&bytes),
        Body::Longer => None,
    };
    let detail = match explanation {
        Some(text) => format!("{status}: {text}"),
        None => status.to_string(),
    };
    Ok(Failure { cause: Cause::Status { status: status.as_u16(), reason }, detail, retry_after })
}

/// The body of an answer.
enum Body {
    /// All of it.
    Whole(Bytes),
    /// More than the limit; the rest was not read.
    Longer,
}

/// Reads a body to its end, so that its connection can be used again.
async fn body(mut response: Response, limit: usize) -> Result<Body, reqwest::Error> {
    let expected =
        response.content_length().map_or(0, |length| usize::try_from(length).unwrap_or(usize::MAX));
    if expected > limit {
        return Ok(Body::Longer);
    }
    // Most bodies come in one piece, which is taken as it is.
    let Some(first) = response.chunk().await? else {
        return Ok(Body::Whole(Bytes::new()));
    };
    let mut second = response.chunk().await?;
    if second.is_none() && first.len() <= limit {
        return Ok(Body::Whole(first));
    }
    let mut all = BytesMut::with_capacity(expected.max(first.len()));
    all.extend_from_slice(&first);
    while let Some(piece) = second {
        if all.len().saturating_add(piece.len()) > limit {
            return Ok(Body::Longer);
        }
        all.extend_from_slice(&piece);
        second = response.chunk().await?;
    }
    Ok(if all.len() > limit { Body::Longer } else { Body::Whole(all.freeze()) })
}

/// Which part of a body is written for people. Any other may hold the payload, which belongs in no log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Explains {
    /// `text/plain`: all of it.
    Plain,
    /// `application/problem+json` (RFC 9457): its title and detail.
    Problem,
    /// None.
    Nothing,
}

impl Explains {
    fn by(headers: &HeaderMap) -> Self {
        let full = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let essence = full.split(';').next().unwrap_or_default().trim();
        if essence.eq_ignore_ascii_case("text/plain") {
            Self::Plain
        } else if essence.eq_ignore_ascii_case("application/problem+json") {
            Self::Problem
        } else {
            Self::Nothing
        }
    }

    /// The text for people, on one line and cut; `None` where there is none.
    fn text(self, body: &[u8]) -> Option<String> {
        let text = match self {
            Self::Plain => String::from_utf8_lossy(body).into_owned(),
            Self::Problem => {
                let problem: serde_json::Value = serde_json::from_slice(body).ok()?;
                let part = |name| problem.get(name).and_then(serde_json::Value::as_str);
                let parts: Vec<_> = [part("title"), part("detail")].into_iter().flatten().collect();
                parts.join(": ")
            }
            Self::Nothing => return None,
        };
        let line = text.trim().chars().map(|letter| if letter.is_control() { ' ' } else { letter });
        let line: String = line.take(SHOWN).collect();
        (!line.is_empty()).then_some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explanation_is_one_short_line() {
        let body = format!("no stock\r\nfor {}", "x".repeat(300));
        let text = Explains::Plain.text(body.as_bytes()).unwrap();
        assert!(text.starts_with("no stock  for xxx"), "{text}");
        assert_eq!(text.chars().count(), SHOWN);
    }

    #[test]
    fn of_a_problem_only_title_and_detail_are_shown() {
        let body = br#"{"title":"No stock","detail":"3 left","card":"4111111111111111"}"#;
        assert_eq!(Explains::Problem.text(body).as_deref(), Some("No stock: 3 left"));
        assert_eq!(Explains::Problem.text(b"{"), None);
        assert_eq!(Explains::Problem.text(b"{}"), None);
    }

    #[test]
    fn what_is_not_written_for_people_is_not_shown() {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, "application/json".parse().unwrap());
        assert_eq!(Explains::by(&headers), Explains::Nothing);
        headers.insert(CONTENT_TYPE, "Text/Plain; charset=utf-8".parse().unwrap());
        assert_eq!(Explains::by(&headers), Explains::Plain);
    }
}
