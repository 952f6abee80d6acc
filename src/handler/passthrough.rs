//! The handler for tests and demos: hands the value on, or fails as its rules say.
//!
//! It calls nothing, so what is measured with it is redrive itself.

use crate::core::event::Delivery;
use crate::core::outcome::{Cause, Failure, Outcome};
use crate::handler::Handler;
use crate::topology::model::{FailRule, Passthrough as Spec};

/// What becomes of an answer's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is the value of the output record.
    Written,
    /// The pipeline has no output: it is ignored.
    Ignored,
}

/// Hands the value on, or fails as its rules say.
#[derive(Debug)]
pub(super) struct Passthrough {
    fail: Vec<FailRule>,
    answer: Answer,
}

impl Passthrough {
    pub(super) fn new(spec: &Spec, answer: Answer) -> Self {
        Self { fail: spec.fail.clone(), answer }
    }
}

impl Handler for Passthrough {
    /// Ready at its first poll, unless a rule with a wait matches.
    async fn handle(&self, delivery: Delivery) -> Outcome {
        let envelope = &delivery.envelope;
        if let Some(rule) = self.fail.iter().find(|rule| matches(rule, &delivery)) {
            if !rule.after.is_zero() {
                tokio::time::sleep(rule.after).await;
            }
            let cause = Cause::Named { class: rule.class, reason: rule.reason.clone() };
            let detail = "a rule of handler.passthrough.fail asks for it".to_owned();
            return Outcome::Failed(Failure { cause, detail, retry_after: None });
        }
        match self.answer {
            Answer::Written => Outcome::output(envelope, envelope.value.clone()),
            Answer::Ignored => Outcome::done(),
        }
    }
}

/// Whether a rule speaks of this delivery. A null key has the empty prefix only.
fn matches(rule: &FailRule, delivery: &Delivery) -> bool {
    let key = delivery.envelope.key.as_deref().unwrap_or_default();
    key.starts_with(&rule.key_prefix) && rule.attempts.is_none_or(|last| delivery.attempt <= last)
}
