//! Reads `[kafka]`, and knows which client properties carry a guarantee.

use std::collections::BTreeMap;

use toml::de::DeValue;

use crate::topology::address;
use crate::topology::code::Code;
use crate::topology::keys;
use crate::topology::model::{Kafka, Protocol, Shown, Text};
use crate::topology::reading::{Read, Reading};
use crate::topology::secret::holds_secret;
use crate::topology::section::{Field, Section};
use crate::topology::value::or;

/// Client properties that redrive sets itself, and what would not hold without.
/// A name that ends with a dot stands for all that begin with it.
const FORBIDDEN: [(&str, &str); 41] = [
    ("bootstrap.servers", "`kafka.bootstrap` names the brokers, for every client alike"),
    ("metadata.broker.list", "`kafka.bootstrap` names the brokers, for every client alike"),
    ("group.id", "positions belong to the group `<app>.<pipeline>`"),
    ("group.instance.id", "`workers.static-membership` gives each member an identity of its own"),
    ("group.protocol", "`kafka.protocol` says how the group agrees"),
    ("group.remote.assignor", "`kafka.protocol` says how the group agrees"),
    ("partition.assignment.strategy", "tasks move in order, a few at a time"),
    ("session.timeout.ms", "`workers.session-timeout` is longer than any transaction"),
    ("heartbeat.interval.ms", "a member that lives is never taken for dead"),
    ("max.poll.interval.ms", "a member that lives is never taken for dead"),
    (
        "enable.auto.commit",
        "an offset is committed only in the transaction with its record's fate (atomic hop)",
    ),
    (
        "auto.commit.interval.ms",
        "an offset is committed only in the transaction with its record's fate (atomic hop)",
    ),
    (
        "enable.auto.offset.store",
        "an offset is committed only in the transaction with its record's fate (atomic hop)",
    ),
    (
        "offset.store.method",
        "an offset is committed only in the transaction with its record's fate (atomic hop)",
    ),
    (
        "auto.commit.enable",
        "an offset is committed only in the transaction with its record's fate (atomic hop)",
    ),
    (
        "message.max.bytes",
        "a record that could be read can be written again; the broker decides what is too large",
    ),
    ("batch.size", "a record that could be read can be written again; a batch holds the largest"),
    ("topic.metadata.propagation.max.ms", "a topic that is missing stops its tasks visibly and soon"),
    ("auto.offset.reset", "lost records are reported, never skipped in silence"),
    ("isolation.level", "records of aborted transactions are never read"),
    ("enable.partition.eof", "the end of a lane is not a record"),
    ("queued.", "the memory that waiting records take is bounded per lane"),
    ("fetch.queue.backoff.ms", "a lane that is held goes on at once when it is due"),
    ("transactional.id", "a restarted worker ends the transactions of its past"),
    ("transaction.timeout.ms", "`workers.transaction-timeout` ends a transaction before its session"),
    ("enable.idempotence", "a record that is sent again is written once"),
    ("enable.gapless.guarantee", "a record that is sent again is written once"),
    ("acks", "a record counts as written when all in-sync replicas have it"),
    ("request.required.acks", "a record counts as written when all in-sync replicas have it"),
    ("max.in.flight", "records are written in order"),
    ("max.in.flight.requests.per.connection", "records are written in order"),
    ("retries", "a record is sent again until its transaction ends"),
    ("message.send.max.retries", "a record is sent again until its transaction ends"),
    ("message.timeout.ms", "a record is sent again until its transaction ends"),
    ("delivery.timeout.ms", "a record is sent again until its transaction ends"),
    ("delivery.report.only.error", "a transaction commits when every record is reported as written"),
    ("linger.ms", "a transaction commits as soon as it is whole"),
    ("queue.buffering.max.ms", "a transaction commits as soon as it is whole"),
    ("queuing.strategy", "records are written in order"),
    ("partitioner", "the output keeps records of one key in one partition, as the clients for Java do"),
    (
        "allow.auto.create.topics",
        "a topic that is missing is reported, not made with settings that lose records",
    ),
];

const PROTOCOLS: [(&str, Protocol); 2] = [("classic", Protocol::Classic), ("consumer", Protocol::Consumer)];

/// Reads `[kafka]`.
pub(crate) fn read(reading: &Reading<'_>, top: &Section<'_>) -> Read<Kafka> {
    let section = top.section(reading, "kafka", keys::KAFKA);
    let bootstrap = section
        .required(reading, "bootstrap", "bootstrap = [\"localhost:9092\"]")
        .and_then(|field| bootstrap(reading, &field));
    let protocol = or(section.field("protocol"), Protocol::Classic, |field| field.word(reading, &PROTOCOLS));
    let mut properties = BTreeMap::new();
    for field in section.open_section(reading, "properties").fields() {
        if let Ok(value) = property(reading, &field) {
            properties.insert(field.name.to_owned(), value);
        }
    }
    Ok(Kafka { bootstrap: bootstrap?, protocol, properties })
}

fn bootstrap(reading: &Reading<'_>, field: &Field<'_>) -> Read<Vec<String>> {
    let items = field.items(reading)?;
    if items.is_empty() {
        return Err(reading.report_with_hint(
            Code::OutOfRange,
            &field.at,
            format!("`{}` names no broker", field.path),
            "at least one: `[\"localhost:9092\"]`",
        ));
    }
    let brokers: Vec<Read<Vec<String>>> = items
        .iter()
        .map(|item| item.told(reading).and_then(|told| address::brokers(reading, &told)))
        .collect();
    brokers.into_iter().collect::<Read<Vec<_>>>().map(|brokers| brokers.concat())
}

fn property(reading: &Reading<'_>, field: &Field<'_>) -> Read<Text> {
    let forbids = |name: &str| field.name == name || (name.ends_with('.') && field.name.starts_with(name));
    if let Some((_, guarantee)) = FORBIDDEN.iter().find(|(name, _)| forbids(name)) {
        let message = format!("client property `{}` carries a guarantee: {guarantee}", field.name);
        return Err(reading.report_with_hint(
            Code::ForbiddenProperty,
            &field.key_at,
            message,
            "leave it out",
        ));
    }
    let plain = |text: String| Ok(Text { plain: text, shown: Shown::Plain });
    match field.value {
        _ if holds_secret(field.name) => field.text(reading),
        DeValue::Integer(number) if number.radix() == 10 => plain(number.to_string()),
        DeValue::Boolean(flag) => plain(flag.to_string()),
        DeValue::Table(_) if !field.is_reference() => Err(reading.report_with_hint(
            Code::WrongType,
            &field.key_at,
            format!("`{}` takes a value, found a table", field.path),
            "TOML reads dots as tables: write the name of a client property in quotes",
        )),
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Datetime(_)
        | DeValue::Array(_)
        | DeValue::Table(_) => field.text(reading),
    }
}
