//! Reads `[pipeline.NAME.handler]`: which handler, and how.

use std::time::Duration;

use crate::core::class::{Class, Reason, ReasonName};
use crate::topology::code::Code;
use crate::topology::keys;
use crate::topology::model::{FailRule, HandlerSpec, Passthrough};
use crate::topology::reading::{Read, Reading};
use crate::topology::section::{Field, Section};
use crate::topology::value::or;

mod http;

const HOUR: Duration = Duration::from_secs(3_600);

/// Reads the handler of a pipeline: exactly one.
pub(crate) fn read(reading: &Reading<'_>, pipeline: &Section<'_>) -> Read<HandlerSpec> {
    let section = pipeline.section(reading, "handler", keys::HANDLER);
    section.whole?;
    let chosen: Vec<_> =
        section.chosen().into_iter().filter(|field| keys::HANDLER.names.contains(&field.name)).collect();
    let [kind] = chosen.as_slice() else {
        let names: Vec<_> = chosen.iter().map(|field| format!("`{}`", field.name)).collect();
        let place = chosen.iter().max_by_key(|field| field.key_at.start).map(|field| field.key_at.clone());
        return Err(match place {
            Some(at) => {
                let message =
                    format!("`{}` has {} handlers: {}", pipeline.path, names.len(), names.join(", "));
                reading.report_with_hint(Code::TwoHandlers, &at, message, "keep one")
            }
            None => reading.report_with_hint(
                Code::NoHandler,
                &section.key_at,
                format!("`{}` has no handler", pipeline.path),
                format!("add `[{}.handler.http]` with a `url`", pipeline.path),
            ),
        });
    };
    match kind.name {
        "http" => http::read(reading, &section).map(|http| HandlerSpec::Http(Box::new(http))),
        "rust" => rust(reading, &section),
        _ => passthrough(reading, &section).map(HandlerSpec::Passthrough),
    }
}

/// The longest that one execution may take; zero where the handler has no limit.
pub(crate) fn timeout(handler: &HandlerSpec) -> Duration {
    match handler {
        HandlerSpec::Http(http) => http.timeout,
        HandlerSpec::Passthrough(_) | HandlerSpec::Rust { .. } => Duration::ZERO,
    }
}

fn rust(reading: &Reading<'_>, handler: &Section<'_>) -> Read<HandlerSpec> {
    let section = handler.section(reading, "rust", keys::HANDLER_RUST);
    let told = section.required(reading, "name", "name = \"…\"").and_then(|field| field.told(reading))?;
    if told.text.is_empty() {
        return Err(reading.report(Code::BadName, &told.at, "a handler's name is never empty"));
    }
    Ok(HandlerSpec::Rust { name: told.text })
}

fn passthrough(reading: &Reading<'_>, handler: &Section<'_>) -> Read<Passthrough> {
    let section = handler.section(reading, "passthrough", keys::HANDLER_PASSTHROUGH);
    let rules = or(section.field("fail"), Vec::new(), |field| field.items(reading));
    let rules: Vec<Read<FailRule>> = rules.iter().map(|rule| fail_rule(reading, rule)).collect();
    Ok(Passthrough { fail: rules.into_iter().collect::<Read<_>>()? })
}

fn fail_rule(reading: &Reading<'_>, rule: &Field<'_>) -> Read<FailRule> {
    let section = rule.section(reading, keys::FAIL)?;
    let key_prefix = or(section.field("key-prefix"), String::new(), |field| field.string(reading));
    let attempts =
        or(section.field("attempts"), None, |field| field.number(reading, &(1..=1_000_000)).map(Some));
    let class = or(section.field("class"), Class::Transient, |field| {
        field.word(reading, &Class::ALL.map(|class| (class.as_str(), class)))
    });
    let after =
        or(section.field("after"), Duration::ZERO, |field| field.duration(reading, &(Duration::ZERO..=HOUR)));
    let reason =
        section.required(reading, "reason", "reason = \"flaky\"").and_then(|field| reason(reading, &field));
    Ok(FailRule { key_prefix: key_prefix.into_bytes(), attempts, class, reason: reason?, after })
}

fn reason(reading: &Reading<'_>, field: &Field<'_>) -> Read<ReasonName> {
    let told = field.told(reading)?;
    match told.text.parse() {
        Ok(Reason::Named(name)) => Ok(name),
        Ok(
            Reason::Exhausted
            | Reason::Deadline
            | Reason::NoOperationId
            | Reason::NoKey
            | Reason::NoVersion
            | Reason::VersionConflict
            | Reason::VersionGap
            | Reason::PredecessorDead
            | Reason::DecodeFailed
            | Reason::BadControlHeader
            | Reason::BadHeaderName
            | Reason::TooLarge
            | Reason::Refused
            | Reason::Connect
            | Reason::Cut
            | Reason::Timeout
            | Reason::Http(_),
        ) => {
            let message = format!("reason {told} is one of redrive's own");
            Err(reading.report(Code::BadReason, &told.at, message))
        }
        Err(error) => {
            let hint = "1 to 64 of `a-z`, `0-9` and `-`, first a letter";
            Err(reading.report_with_hint(Code::BadReason, &told.at, error.to_string(), hint))
        }
    }
}
