//! From the parts of a failure to its class and reason, by the built-in table.

use crate::core::class::{Class, Reason, ReasonName};
use crate::core::outcome::{Cause, Failure, Verdict};

/// Class and reason of a failed execution. Total: every failure has one.
pub fn classify(failure: &Failure) -> Verdict {
    match &failure.cause {
        Cause::Named { class, reason } => Verdict { class: *class, reason: Reason::Named(reason.clone()) },
        Cause::NotSent => Verdict { class: Class::Transient, reason: Reason::Connect },
        Cause::TimedOut => Verdict { class: Class::Unknown, reason: Reason::Timeout },
        Cause::Cut => Verdict { class: Class::Unknown, reason: Reason::Cut },
        Cause::Status { status, reason } => {
            let class = class_of_status(*status, Asked::of(failure));
            Verdict { class, reason: reason_of_status(*status, reason.as_ref()) }
        }
    }
}

/// What an answer asks of whoever calls again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Nothing,
    ToWait,
}

impl Asked {
    fn of(failure: &Failure) -> Self {
        if failure.retry_after.is_some() { Self::ToWait } else { Self::Nothing }
    }
}

fn class_of_status(status: u16, asked: Asked) -> Class {
    match (status, asked) {
        // The request may have reached the work behind the gateway.
        (408 | 502 | 504, _) => Class::Unknown,
        (425 | 429, _) | (503, Asked::ToWait) => Class::Throttled,
        (500..=599, _) => Class::Transient,
        _ => Class::Permanent,
    }
}

fn reason_of_status(status: u16, named: Option<&ReasonName>) -> Reason {
    named.map_or(Reason::Http(status), |name| Reason::Named(name.clone()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn class(status: u16, retry_after: Option<Duration>) -> Class {
        let cause = Cause::Status { status, reason: None };
        classify(&Failure { cause, detail: String::new(), retry_after }).class
    }

    #[test]
    fn every_status_has_the_class_of_the_built_in_table() {
        let wait = Some(Duration::from_secs(1));
        for status in 100..=599 {
            let expected = match status {
                408 | 502 | 504 => [Class::Unknown, Class::Unknown],
                425 | 429 => [Class::Throttled, Class::Throttled],
                503 => [Class::Transient, Class::Throttled],
                500..=599 => [Class::Transient, Class::Transient],
                _ => [Class::Permanent, Class::Permanent],
            };
            assert_eq!([class(status, None), class(status, wait)], expected, "status {status}");
        }
    }

    #[test]
    fn a_request_that_was_never_sent_is_transient_and_one_without_a_verdict_unknown() {
        let verdict = |cause| classify(&Failure { cause, detail: String::new(), retry_after: None });
        assert_eq!(verdict(Cause::NotSent), Verdict { class: Class::Transient, reason: Reason::Connect });
        assert_eq!(verdict(Cause::TimedOut), Verdict { class: Class::Unknown, reason: Reason::Timeout });
        assert_eq!(verdict(Cause::Cut), Verdict { class: Class::Unknown, reason: Reason::Cut });
    }
}
