//! Reads `[pipeline.NAME]`.

use std::collections::BTreeMap;
use std::time::Duration;

use toml::de::DeValue;
use toml::value::Datetime;

use crate::core::policy::{IdentityPolicy, Outputs, Policy};
use crate::core::position::TopicName;
use crate::topology::code::Code;
use crate::topology::handler;
use crate::topology::keys;
use crate::topology::model::{Format, HandlerSpec, Pipeline, Protocol, Start};
use crate::topology::moment;
use crate::topology::name::{check_part, topic};
use crate::topology::order::Order;
use crate::topology::reading::{Place, Read, Reading};
use crate::topology::retry::Retry;
use crate::topology::section::{Field, Section};
use crate::topology::source::{decode, source};
use crate::topology::topics::{self, Named};
use crate::topology::value::{Told, or};
use crate::topology::workers;

/// A pipeline as far as it could be read, with the places of the topics it uses.
pub(crate) struct Draft {
    pub(crate) name: String,
    pub(crate) source: Read<Named>,
    pub(crate) outputs: Vec<Named>,
    pub(crate) stale_output: Option<Named>,
    pub(crate) own: Vec<Named>,
    pub(crate) pipeline: Read<Pipeline>,
}

impl Draft {
    /// The topics of the user's that it writes, each with what it is to the pipeline.
    pub(crate) fn written(&self) -> impl Iterator<Item = (&'static str, &Named)> {
        let outputs = self.outputs.iter().map(|topic| ("output", topic));
        outputs.chain(self.stale_output.iter().map(|topic| ("stale output", topic)))
    }
}

/// Reads one pipeline of an app; without the app's name its topics have none, without a protocol nothing is said of it.
pub(crate) fn read(
    reading: &Reading<'_>,
    field: &Field<'_>,
    defaults: &Section<'_>,
    app: Read<&str>,
    protocol: Option<Protocol>,
) -> Read<Draft> {
    let section = field.section(reading, keys::PIPELINE)?.with_defaults(defaults);
    let name = field.name.to_owned();
    let named = check_part(reading, &field.key_at, "a pipeline", &name);
    let group = app.and_then(|app| named.map(|()| format!("{app}.{name}")));

    let source = section.required(reading, "source", "source = \"…\"");
    let source = source.and_then(|field| named_topic(reading, &field));
    let start = section.required(reading, "start", "start = \"latest\"");
    let start = start.and_then(|field| read_start(reading, &field, group.as_deref().ok()));
    let output = or(section.field("output"), None, |field| named_topic(reading, &field).map(Some));
    let handler = handler::read(reading, &section);
    let named_outputs = outputs(reading, &section, &handler);
    let decode = decode(reading, &section);
    let identity = identity(reading, &section, decode);
    let order = Order::read(reading, &section, decode);
    let retry = Retry::read(reading, &section);
    retry.check_tiers_for(reading, &order.policy.guard);
    let (workers, flow) = workers::read(reading, &section, protocol);
    let mut own = Vec::new();
    let topics = topics::read(
        reading,
        &section,
        group.as_deref().map_err(|reported| *reported),
        retry.tiers.as_deref().map_err(|reported| *reported),
        &mut own,
    );
    let handler_timeout = handler.as_ref().map_or(Duration::ZERO, handler::timeout);
    let ladder = retry.ladder(reading, handler_timeout);

    let output_topic = output.as_ref().map(|output| output.name.clone());
    let outputs: BTreeMap<String, TopicName> =
        named_outputs.iter().map(|(name, topic)| (name.clone(), topic.name.clone())).collect();
    let source_topic = source.as_ref().map(|source| source.name.clone()).map_err(|reported| *reported);
    let pipeline = (|| {
        let (handler, source, topics) = (handler?, source_topic?, topics?);
        let policy = Policy {
            name: name.clone(),
            source: source.clone(),
            control: topics.control.name.clone(),
            draining: Vec::new(),
            tiers: topics.tiers.iter().map(|tier| tier.topic.name.clone()).collect(),
            outputs: Outputs {
                main: output_topic.clone(),
                named: outputs.iter().map(|(name, topic)| (name.clone(), topic.clone())).collect(),
            },
            identity,
            order: order.policy,
            in_place: retry.in_place,
            ladder: ladder?,
            deadline: retry.deadline?,
            unknown: retry.unknown,
            handler_timeout,
            flow,
        };
        Ok(Pipeline {
            name: name.clone(),
            group: group?,
            source,
            start: start?,
            output: output_topic,
            outputs,
            decode: decode?,
            handler,
            policy,
            tiers: topics.tiers,
            retired: topics.retired,
            drained: Vec::new(),
            dead_letter: topics.dead_letter,
            state: topics.state,
            control: topics.control,
            cases: topics.cases,
            topics: topics.settings,
            workers,
        })
    })();
    let outputs = output.into_iter().chain(named_outputs.into_iter().map(|(_, topic)| topic)).collect();
    Ok(Draft { name, source, outputs, stale_output: order.stale_output, own, pipeline })
}

fn named_topic(reading: &Reading<'_>, field: &Field<'_>) -> Read<Named> {
    let told = field.told(reading)?;
    topic(reading, &told).map(|name| Named { name, at: told.at })
}

fn outputs(
    reading: &Reading<'_>,
    pipeline: &Section<'_>,
    handler: &Read<HandlerSpec>,
) -> Vec<(String, Named)> {
    let section = pipeline.open_section(reading, "outputs");
    if let (true, Ok(HandlerSpec::Http(_) | HandlerSpec::Passthrough(_))) = (section.is_present(), handler) {
        let message = format!("`{}` is for handlers written in Rust", section.path);
        let hint = "other handlers have one output: `output = \"…\"`";
        reading.report_with_hint(Code::OutputsNeedRust, &section.key_at, message, hint);
    }
    let named = |field: Field<'_>| {
        let topic = named_topic(reading, &field)?;
        check_part(reading, &field.key_at, "an output", field.name).map(|()| (field.name.to_owned(), topic))
    };
    section.fields().into_iter().filter_map(|field| Read::ok(named(field))).collect()
}

fn read_start(reading: &Reading<'_>, field: &Field<'_>, own_group: Option<&str>) -> Read<Start> {
    match field.value {
        DeValue::Datetime(moment) => moment_of(reading, field, &field.at, Some(moment)),
        DeValue::Table(_) if !field.is_reference() => {
            let section = field.section(reading, keys::START)?;
            let told = section.required(reading, "group", "start = { group = \"…\" }")?.told(reading)?;
            check_group(reading, &told, own_group).map(|()| Start::Group(told.text))
        }
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Array(_)
        | DeValue::Table(_) => {
            let told = field.told(reading)?;
            match told.text.as_str() {
                "earliest" => Ok(Start::Earliest),
                "latest" => Ok(Start::Latest),
                text if text.starts_with(|c: char| c.is_ascii_digit()) => {
                    moment_of(reading, field, &told.at, text.parse().ok().as_ref())
                }
                _ => {
                    let message = format!("`{}` does not know {told}", field.path);
                    let hint =
                        "`earliest`, `latest`, a time like `2024-05-01T00:00:00Z`, or `{ group = \"…\" }`";
                    Err(reading.report_with_hint(Code::UnknownWord, &told.at, message, hint))
                }
            }
        }
    }
}

fn moment_of(reading: &Reading<'_>, field: &Field<'_>, at: &Place, moment: Option<&Datetime>) -> Read<Start> {
    moment.and_then(moment::timestamp).map(Start::At).ok_or_else(|| {
        let message = format!("`{}` takes a date, a time and an offset (RFC 3339)", field.path);
        reading.report_with_hint(Code::BadTime, at, message, "like `2024-05-01T00:00:00Z`")
    })
}

fn check_group(reading: &Reading<'_>, told: &Told, own_group: Option<&str>) -> Read<()> {
    if told.text.is_empty() {
        return Err(reading.report(Code::BadName, &told.at, "the name of a group is never empty"));
    }
    if own_group == Some(told.text.as_str()) {
        let message =
            format!("group {told} is the pipeline's own: it would start where it has nothing committed");
        return Err(reading.report(Code::BadName, &told.at, message));
    }
    Ok(())
}

fn identity(reading: &Reading<'_>, pipeline: &Section<'_>, values: Read<Format>) -> IdentityPolicy {
    let section = pipeline.section(reading, "identity", keys::IDENTITY);
    let read = |key: &str, trusted: Option<&str>| {
        or(section.field(key), None, |field| {
            source(reading, &field, keys::IDENTITY_SOURCE, values, trusted).map(Some)
        })
    };
    // The one way to trust a redrive that wrote the source.
    IdentityPolicy {
        event_id: read("event-id", Some("redrive-event-id")),
        operation_id: read("operation-id", None),
    }
}
