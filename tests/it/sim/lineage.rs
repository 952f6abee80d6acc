//! How a copy, a dead letter or an output leads back to its source record, read from the bytes alone.

use std::fmt;

use bytes::Bytes;
use redrive::core::position::{Lane, TierIndex};
use redrive::core::record::{Header, Record};

use super::cluster::{Place, Topic};

/// The source topic of every simulated pipeline.
const SOURCE_TOPIC: &str = "orders";
/// The control lane of every simulated pipeline.
const CONTROL_TOPIC: &str = "control";
/// What the names of the tiers' topics begin with.
const TIER_TOPIC: &str = "shop.orders.retry.";

/// The record that a copy, a dead letter or an output leads back to: a source record, or one that somebody else wrote
/// into a tier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Root {
    pub(crate) place: Place,
    pub(crate) offset: i64,
}

impl fmt::Display for Root {
    /// The text form of an origin.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", topic_name(self.place.topic), self.place.partition, self.offset)
    }
}

impl fmt::Debug for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Root {
    pub(crate) fn source(partition: i32, offset: i64) -> Self {
        Self { place: Place::lane(Lane::Source, partition), offset }
    }

    /// The record that these parts of an origin name.
    pub(crate) fn new(topic: &str, partition: i64, offset: i64) -> Option<Self> {
        let topic = match topic.strip_prefix(TIER_TOPIC) {
            Some(tier) => Topic::Tier(TierIndex(tier.parse().ok()?)),
            None if topic == SOURCE_TOPIC => Topic::Source,
            None if topic == CONTROL_TOPIC => Topic::Control,
            None => return None,
        };
        Some(Self { place: Place { topic, partition: i32::try_from(partition).ok()? }, offset })
    }
}

/// The name of a topic that records are read from.
pub(crate) fn topic_name(topic: Topic) -> String {
    match topic {
        Topic::Source => SOURCE_TOPIC.to_owned(),
        Topic::Tier(tier) => format!("{TIER_TOPIC}{}", tier.0),
        Topic::Control => CONTROL_TOPIC.to_owned(),
        Topic::State => "state".to_owned(),
        Topic::Cases => "cases".to_owned(),
        Topic::Audit => "audit".to_owned(),
        Topic::Output => "output".to_owned(),
        Topic::StaleOutput => "stale".to_owned(),
        Topic::DeadLetter => "dlq".to_owned(),
    }
}

/// The record that a record of redrive's own topics or of the output leads back to.
pub(crate) fn origin_of(record: &Record) -> Option<Root> {
    origin_of_write(&record.headers, record.value.as_ref())
}

/// As [`origin_of`], of a record that is not written yet.
pub(crate) fn origin_of_write(headers: &[Header], value: Option<&Bytes>) -> Option<Root> {
    if let (Some(topic), Some(partition), Some(offset)) = (
        text(headers, "redrive-origin-topic"),
        number(headers, "redrive-origin-partition"),
        number(headers, "redrive-origin-offset"),
    ) {
        return Root::new(topic, partition, offset);
    }
    // The simulated handler writes the origin into its output's value: `out orders/1/17 0`.
    let value = std::str::from_utf8(value?).ok()?;
    // An audit names the request: `… "asked-in":"control/1/17" …`.
    let origin = match value.split_once(r#""asked-in":""#) {
        Some((_, rest)) => rest.split('"').next(),
        None => value.strip_prefix("out ")?.split(' ').next(),
    };
    let mut parts = origin?.rsplit('/');
    let offset = parts.next()?.parse().ok()?;
    let partition = parts.next()?.parse().ok()?;
    Root::new(parts.next()?, partition, offset)
}

/// The value of a header that stands exactly once.
pub(crate) fn text<'a>(headers: &'a [Header], name: &str) -> Option<&'a str> {
    let mut found = headers.iter().filter(|header| header.name.as_str() == name);
    let value = found.next()?.value.as_ref()?;
    match found.next() {
        None => std::str::from_utf8(value).ok(),
        Some(_) => None,
    }
}

/// The number in a header that stands exactly once.
pub(crate) fn number(headers: &[Header], name: &str) -> Option<i64> {
    text(headers, name)?.parse().ok()
}

/// Headers that are not redrive's own, in order.
pub(crate) fn foreign(headers: &[Header]) -> impl Iterator<Item = &Header> {
    headers.iter().filter(|header| !header.name.as_str().starts_with("redrive-"))
}
