//! Names: of apps and pipelines, of topics, of headers.

use crate::core::position::TopicName;
use crate::core::record::HeaderName;
use crate::topology::code::Code;
use crate::topology::reading::{Place, Read, Reading};
use crate::topology::value::Told;

/// The longest topic name that Kafka takes (`org.apache.kafka.common.internals.Topic`).
const LONGEST_TOPIC: usize = 249;

/// The name of an app or a pipeline: a part of every topic and group, without dots, so that parts stay apart.
pub(crate) fn check_part(reading: &Reading<'_>, at: &Place, kind: &str, name: &str) -> Read<()> {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(inner) {
        return Ok(());
    }
    let message = format!("`{name}` cannot be the name of {kind}");
    let hint = "a letter or digit, then letters, digits, `-` and `_`: it is a part of topic and group names";
    Err(reading.report_with_hint(Code::BadName, at, message, hint))
}

/// A topic that the user names.
pub(crate) fn topic(reading: &Reading<'_>, told: &Told) -> Read<TopicName> {
    check_topic(reading, &told.at, &told.text, "name a topic as it is called in Kafka")
}

/// A topic name by Kafka's rules.
pub(crate) fn check_topic(reading: &Reading<'_>, at: &Place, name: &str, hint: &str) -> Read<TopicName> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let wrong = if let Some(bad) = name.chars().find(|c| !legal(*c)) {
        format!("{bad:?} is no letter, digit, `.`, `_` or `-`")
    } else if name.len() > LONGEST_TOPIC {
        format!("it has {} characters, more than {LONGEST_TOPIC}", name.len())
    } else if matches!(name, "" | "." | "..") {
        "it has neither a letter nor a digit".to_owned()
    } else {
        return Ok(TopicName::new(name));
    };
    let message = format!("Kafka refuses the topic name `{name}`: {wrong}");
    Err(reading.report_with_hint(Code::BadTopicName, at, message, hint))
}

/// The name of a header of source records. Those of redrive's own are not believed, but for `trusted`.
pub(crate) fn header(reading: &Reading<'_>, told: &Told, trusted: Option<&str>) -> Read<HeaderName> {
    if told.text.is_empty() {
        return Err(reading.report(Code::BadHeader, &told.at, "the name of a header is never empty"));
    }
    if told.text.starts_with("redrive-") && trusted != Some(told.text.as_str()) {
        let message = format!("header {told} is redrive's own, and not trusted on a source");
        let hint =
            "`event-id = { header = \"redrive-event-id\" }` is the one way to trust an upstream redrive";
        return Err(reading.report_with_hint(Code::ReservedHeader, &told.at, message, hint));
    }
    Ok(HeaderName::new(&told.text))
}
