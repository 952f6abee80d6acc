//! The passthrough handler, and handlers written in Rust.

use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use redrive::core::class::Class;
use redrive::core::event::Delivery;
use redrive::core::outcome::{Cause, Outcome, Output, OutputName};
use redrive::handler::{Handler, Handlers, build};
use redrive::topology::model::{FailRule, HandlerSpec, Passthrough, Pipeline};

use super::place::{built, delivery, envelope, pipeline};

fn rule(key_prefix: &str, attempts: Option<u32>, reason: &str) -> FailRule {
    let (class, after) = (Class::Transient, Duration::ZERO);
    FailRule { key_prefix: key_prefix.into(), attempts, class, reason: reason.parse().unwrap(), after }
}

fn failing(rules: &[FailRule]) -> Pipeline {
    pipeline(HandlerSpec::Passthrough(Passthrough { fail: rules.to_vec() }))
}

/// The reason of the failure; `None`: done. Every answer must be there at the first poll.
fn reason(pipeline: &Pipeline, key: Option<&'static [u8]>, attempt: u32) -> Option<String> {
    let mut delivery =
        delivery(redrive::core::envelope::Envelope { key: key.map(Bytes::from_static), ..envelope(None) });
    delivery.attempt = attempt;
    match built(pipeline).handle(delivery).now_or_never().expect("ready at the first poll") {
        Outcome::Failed(failure) => {
            let Cause::Named { reason, .. } = failure.cause else { panic!("{failure:?}") };
            Some(reason.as_str().to_owned())
        }
        Outcome::Done(_) => None,
    }
}

#[test]
fn the_value_is_handed_on_with_key_and_foreign_headers() {
    for value in [None, Some(&b""[..]), Some(b"value")] {
        let envelope = envelope(value);
        let output = Output {
            to: OutputName::Main,
            key: envelope.key.clone(),
            value: envelope.value.clone(),
            headers: envelope.foreign.clone(),
        };
        let outcome = built(&failing(&[])).handle(delivery(envelope)).now_or_never();
        assert_eq!(outcome, Some(Outcome::Done(vec![output])));
    }
}

#[test]
fn without_an_output_nothing_is_written() {
    let pipeline = Pipeline { output: None, ..failing(&[]) };
    let outcome = built(&pipeline).handle(delivery(envelope(Some(b"value")))).now_or_never();
    assert_eq!(outcome, Some(Outcome::done()));
}

#[test]
fn the_first_rule_that_matches_key_and_attempt_fails_the_delivery() {
    let rules = [rule("bad", None, "always"), rule("", Some(2), "twice")];
    let pipeline = failing(&rules);
    let said = |key, attempt| reason(&pipeline, key, attempt);
    assert_eq!(said(Some(b"bad-1"), 9).as_deref(), Some("always"));
    assert_eq!(said(Some(b"good"), 1).as_deref(), Some("twice"));
    assert_eq!(said(Some(b"good"), 2).as_deref(), Some("twice"));
    assert_eq!(said(Some(b"good"), 3), None);
    assert_eq!(said(None, 2).as_deref(), Some("twice"), "a null key has the empty prefix");
    assert_eq!(said(None, 3), None);
}

#[tokio::test]
async fn a_rule_may_fail_after_a_while() {
    let after = Duration::from_millis(50);
    let pipeline = failing(&[FailRule { after, ..rule("", None, "late") }]);
    let begun = tokio::time::Instant::now();
    let outcome = built(&pipeline).handle(delivery(envelope(None))).await;
    assert!(matches!(outcome, Outcome::Failed(_)));
    assert!(begun.elapsed() >= after);
}

struct Reverse;

impl Handler for Reverse {
    async fn handle(&self, delivery: Delivery) -> Outcome {
        let reversed = delivery.envelope.value.as_ref().map(|value| value.iter().rev().copied().collect());
        Outcome::output(&delivery.envelope, reversed)
    }
}

#[test]
fn a_handler_written_in_rust_is_found_by_its_name() {
    let rust = |name: &str| pipeline(HandlerSpec::Rust { name: name.into() });
    let handlers = Handlers::new().with("reverse", Reverse);

    let handler = build("shop", &rust("reverse"), &handlers).unwrap();
    let outcome = handler.handle(delivery(envelope(Some(b"abc")))).now_or_never().unwrap();
    let Outcome::Done(outputs) = outcome else { panic!("failed") };
    assert_eq!(outputs[0].value.as_deref(), Some(&b"cba"[..]));

    let text = build("shop", &rust("revers"), &handlers).unwrap_err().to_string();
    assert_eq!(text, "no handler is registered as `revers`\nhint: registered: `reverse`");
    let text = build("shop", &rust("revers"), &Handlers::new()).unwrap_err().to_string();
    assert!(text.contains("hint: handlers written in Rust run in a program of your own"), "{text}");
}
