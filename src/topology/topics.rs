//! The topics that a pipeline owns: their names, how long they keep records, how they are made.

use std::time::Duration;

use crate::core::position::TopicName;
use crate::core::time::in_words;
use crate::topology::code::Code;
use crate::topology::duration;
use crate::topology::keys;
use crate::topology::model::{Cleanup, OwnTopic, Pipeline, Tier, TopicSettings};
use crate::topology::name::check_topic;
use crate::topology::nearest::nearest;
use crate::topology::reading::{Place, Read, Reading};
use crate::topology::section::{Field, Section};
use crate::topology::value::or;

const DAY: Duration = Duration::from_secs(86_400);
const MINUTE: Duration = Duration::from_secs(60);
/// How long requests of operators are kept.
const CONTROL_RETENTION: Duration = Duration::from_secs(7 * 86_400);
/// How long it is known what operators did.
const AUDIT_RETENTION: Duration = Duration::from_secs(90 * 86_400);
/// How much longer than a dead letter itself it is known what happened to it.
const CASES_OUTLIVE: u32 = 3;
/// Longer than anybody keeps anything in Kafka.
const CENTURY: Duration = Duration::from_secs(36_500 * 86_400);

/// The topics that a pipeline owns.
pub(crate) struct Topics {
    pub(crate) settings: TopicSettings,
    pub(crate) tiers: Vec<Tier>,
    pub(crate) retired: Vec<Tier>,
    pub(crate) dead_letter: OwnTopic,
    pub(crate) state: OwnTopic,
    pub(crate) control: OwnTopic,
    pub(crate) cases: OwnTopic,
}

/// The name of an owned topic, and where it is given.
pub(crate) struct Named {
    pub(crate) name: TopicName,
    pub(crate) at: Place,
}

/// Reads `topics` and `dead-letter`. Names that can be used are added to `named` even where others cannot.
///
/// Without the group or the tiers nothing has a name, but the tables are read all the same.
pub(crate) fn read(
    reading: &Reading<'_>,
    pipeline: &Section<'_>,
    group: Read<&str>,
    tiers: Read<&[(Duration, Place)]>,
    named: &mut Vec<Named>,
) -> Read<Topics> {
    let section = pipeline.section(reading, "topics", keys::TOPICS);
    let dead_letter = pipeline.section(reading, "dead-letter", keys::DEAD_LETTER);
    let settings = settings(reading, &section);
    let retention =
        or(dead_letter.field("retention"), DAY * 14, |field| field.duration(reading, &(MINUTE..=CENTURY)));
    let tier_retention =
        or(section.field("tier-retention"), DAY * 7, |field| field.duration(reading, &(MINUTE..=CENTURY)));
    let names = section.open_section(reading, "names");
    let (group, tiers) = (group?, tiers?);
    let labels: Vec<String> = tiers.iter().map(|(delay, _)| format!("retry.{}", in_words(*delay))).collect();
    let known: Vec<&str> =
        labels.iter().map(String::as_str).chain(["dlq", "state", "control", "cases"]).collect();
    let mut retired = Vec::new();
    for field in names.fields().iter().filter(|field| !known.contains(&field.name)) {
        match tier_delay(field.name) {
            Some(delay) => retired.push((field.name.to_owned(), delay)),
            None => unknown_name(reading, field, &pipeline.path, &known),
        }
    }
    let mut own = |word: &str, cleanup: Cleanup| {
        let (name, at, hint) = match names.field(word) {
            Some(field) => {
                (field.string(reading)?, field.at.clone(), "name a topic that Kafka takes".to_owned())
            }
            None => {
                let hint = format!("shorten the names of app and pipeline, or set `topics.names.\"{word}\"`");
                (format!("{group}.{word}"), pipeline.key_at.clone(), hint)
            }
        };
        let name = check_topic(reading, &at, &name, &hint)?;
        named.push(Named { name: name.clone(), at });
        Ok(OwnTopic { name, cleanup })
    };
    let mut tier = |label: &String, delay: Duration| {
        let topic = own(label, Cleanup::Delete(delay.saturating_add(tier_retention)))?;
        Ok(Tier { label: label.clone(), delay, topic })
    };
    let topics: Vec<Read<Tier>> =
        labels.iter().zip(tiers).map(|(label, (delay, _))| tier(label, *delay)).collect();
    let retired: Vec<Read<Tier>> = retired.iter().map(|(label, delay)| tier(label, *delay)).collect();
    let dead_letter = own("dlq", Cleanup::Delete(retention));
    let state = own("state", Cleanup::Compact);
    let control = own("control", Cleanup::Delete(CONTROL_RETENTION));
    let cases = own("cases", Cleanup::CompactDelete(retention.saturating_mul(CASES_OUTLIVE)));
    let tiers = topics.into_iter().collect::<Read<_>>()?;
    let retired = retired.into_iter().collect::<Read<_>>()?;
    Ok(Topics {
        retired,
        settings,
        tiers,
        dead_letter: dead_letter?,
        state: state?,
        control: control?,
        cases: cases?,
    })
}

/// The topic that tells what operators did, one for all pipelines of an app whose name stands at `at`.
pub(crate) fn audit(reading: &Reading<'_>, app: &str, at: &Place) -> Read<OwnTopic> {
    let name = check_topic(reading, at, &format!("{app}.audit"), "shorten the name of the app")?;
    Ok(OwnTopic { name, cleanup: Cleanup::Delete(AUDIT_RETENTION) })
}

/// The delay of a tier by its lane's word, spelled as redrive spells it.
fn tier_delay(word: &str) -> Option<Duration> {
    let spelled = word.strip_prefix("retry.")?;
    let delay = duration::parse(spelled).ok().filter(|delay| !delay.is_zero())?;
    (in_words(delay) == spelled).then_some(delay)
}

impl Pipeline {
    /// The delay of a topic that bears the name of a tier of this pipeline, whether the ladder has it or not.
    pub fn delay_of_tier_topic(&self, topic: &str) -> Option<Duration> {
        tier_delay(topic.strip_prefix(self.group.as_str())?.strip_prefix('.')?)
    }
}

fn unknown_name(reading: &Reading<'_>, field: &Field<'_>, pipeline: &str, known: &[&str]) {
    let canonical = field.name.strip_prefix("retry.").and_then(|delay| duration::parse(delay).ok());
    let canonical = canonical.map(|delay| format!("retry.{}", in_words(delay)));
    let meant = canonical.as_deref().filter(|name| known.contains(name));
    let hint = match meant.or_else(|| nearest(field.name, known.iter().copied())) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("known here: `{}`", known.join("`, `")),
    };
    let message = format!("`{pipeline}` has no topic of its own called `{}`", field.name);
    reading.report_with_hint(Code::UnknownKey, &field.key_at, message, hint);
}

fn settings(reading: &Reading<'_>, section: &Section<'_>) -> TopicSettings {
    let replicas = |name: &str| {
        or(section.field(name), None, |field| {
            if field.value.as_integer().is_some() {
                // The wire format counts replicas in a signed 16-bit number.
                return field.number(reading, &(1..=32_767)).map(Some);
            }
            if field.value.as_str().is_none() && !field.is_reference() {
                return Err(field.wrong_type(reading, "a whole number or `\"broker\"`"));
            }
            field.word(reading, &[("broker", None)])
        })
    };
    let settings = TopicSettings { replication: replicas("replication"), min_isr: replicas("min-isr") };
    if let (Some(replication), Some(min_isr)) = (settings.replication, settings.min_isr)
        && min_isr > replication
        && let Some(field) = section.field("min-isr")
    {
        let message = format!("`min-isr` {min_isr} is more than `replication` {replication}");
        reading.report_with_hint(Code::MinIsr, &field.at, message, "nothing could ever be written");
    }
    settings
}
