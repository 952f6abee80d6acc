//! Reads `[pipeline.NAME.order]`: what belongs together, and what may overtake what.

use toml::de::DeValue;

use crate::core::policy::{
    Contiguous, Equal, Guard, HeldBounds, Latest, OrderKey, OrderPolicy, Source, TombstoneVersion,
    WhileRetrying,
};
use crate::topology::code::Code;
use crate::topology::holding::{self, Count};
use crate::topology::keys;
use crate::topology::model::Format;
use crate::topology::name::topic;
use crate::topology::reading::{Read, Reading};
use crate::topology::section::{Field, Section};
use crate::topology::source::{pointer, source};
use crate::topology::topics::Named;
use crate::topology::value::or;

/// The keys that a guard alone looks at.
const OF_GUARDS: [&str; 4] = ["version", "equal", "stale-output", "tombstone-without-version"];

/// More places where a version could stand nobody has; a codec looks for all of them at once.
const MOST_VERSIONS: usize = 32;

/// What `[pipeline.NAME.order]` says.
pub(crate) struct Order {
    pub(crate) policy: OrderPolicy,
    /// Where stale records go, with its place.
    pub(crate) stale_output: Option<Named>,
}

/// The modes of the guard by their words.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    None,
    Latest,
    Contiguous,
}

impl Order {
    /// Reads the table.
    pub(crate) fn read(reading: &Reading<'_>, pipeline: &Section<'_>, values: Read<Format>) -> Self {
        let section = pipeline.section(reading, "order", keys::ORDER);
        let key = key(reading, &section, values);
        let mode = section.field("guard").map_or(Ok(Mode::None), |field| {
            let words = [("none", Mode::None), ("latest", Mode::Latest), ("contiguous", Mode::Contiguous)];
            field.word(reading, &words)
        });
        let version = section.field("version").map(|field| versions(reading, &field, values));
        let equal = or(section.field("equal"), Equal::default(), |field| {
            let words = [("conflict", Equal::Conflict), ("apply", Equal::Apply), ("drop", Equal::Drop)];
            field.word(reading, &words)
        });
        let tombstone =
            or(section.field("tombstone-without-version"), TombstoneVersion::default(), |field| {
                let words = [("dead-letter", TombstoneVersion::DeadLetter), ("next", TombstoneVersion::Next)];
                field.word(reading, &words)
            });
        let stale_output = or(section.field("stale-output"), None, |field| {
            let told = field.told(reading)?;
            topic(reading, &told).map(|name| Some(Named { name, at: told.at }))
        });
        if version.is_none() && matches!(mode, Ok(Mode::Latest | Mode::Contiguous)) {
            tell_no_version(reading, &section);
        }
        let version = version.and_then(Read::ok).unwrap_or_default();
        let stale = stale_output.as_ref().map(|topic| topic.name.clone());
        let guard = match mode {
            Ok(Mode::Latest) => Guard::Latest(Latest { version, equal, tombstone, stale_output: stale }),
            Ok(Mode::Contiguous) => {
                tell_counted(reading, &section, tombstone);
                let Count { gap_timeout, first } = Count::read(reading, &section);
                Guard::Contiguous(Contiguous { version, gap_timeout, first, stale_output: stale })
            }
            Ok(Mode::None) => {
                tell_unguarded(reading, &section, tombstone);
                Guard::None
            }
            // Which mode was meant is anybody's guess: more problems would be made up.
            Err(_) => Guard::None,
        };
        // Without a guard nothing is stale; `defaults` may name a topic all the same.
        let stale_output = stale_output.filter(|_| guard != Guard::None);
        let (retrying, held) = match mode {
            Ok(_) => holding::read(reading, &section, &guard),
            Err(_) => (WhileRetrying::default(), HeldBounds::default()),
        };
        Self { policy: OrderPolicy { key, guard, retrying, held }, stale_output }
    }
}

/// One source of the version or a list of them, first that exists wins.
fn versions(reading: &Reading<'_>, field: &Field<'_>, values: Read<Format>) -> Read<Vec<Source>> {
    let version = |field: &Field<'_>| source(reading, field, keys::VERSION_SOURCE, values, None);
    let DeValue::Array(_) = field.value else {
        return version(field).map(|source| vec![source]);
    };
    let items = field.items(reading)?;
    if items.is_empty() {
        let message = format!("`{}` names nothing that could hold a version", field.path);
        let hint = "write `version = { header = \"…\" }`";
        return Err(reading.report_with_hint(Code::GuardWithoutVersion, &field.at, message, hint));
    }
    if items.len() > MOST_VERSIONS {
        let message = format!("`{}` has {} places, more than {MOST_VERSIONS}", field.path, items.len());
        return Err(reading.report(Code::OutOfRange, &field.at, message));
    }
    let read: Vec<_> = items.iter().map(version).collect();
    read.into_iter().collect()
}

/// What the records of one order have in common. Whether they are on one partition is not to be seen from any of these, so where
/// it is not plain somebody has to say so.
fn key(reading: &Reading<'_>, section: &Section<'_>, values: Read<Format>) -> OrderKey {
    let field = section.field("key");
    let promise = section.field("co-partitioned").map(|field| (field.switch(reading, false, true), field));
    let key = field.as_ref().map_or(Ok(OrderKey::Record), |field| {
        if field.value.is_table() && !field.is_reference() {
            let place = field.section(reading, keys::ORDER_KEY)?.required(
                reading,
                "json",
                "key = { json = \"/…\" }",
            )?;
            return pointer(reading, &place, values).map(OrderKey::Json);
        }
        let words = [("record-key", &OrderKey::Record), ("partition", &OrderKey::Partition)];
        field.word(reading, &words).cloned()
    });
    match (&key, field, promise) {
        (Ok(OrderKey::Json(_)), Some(field), None | Some((Ok(false), _))) => {
            let message =
                format!("`{}` is not the record key, and so may be on more than one partition", field.path);
            let hint =
                "where all records of one such key are on one partition, say so: `co-partitioned = true`";
            reading.report_with_hint(Code::CoPartitioned, &field.at, message, hint);
        }
        // What `defaults` promise is for the pipelines whose key it is.
        (Ok(OrderKey::Record | OrderKey::Partition), _, Some((Ok(true), promise)))
            if section.own_field("co-partitioned").is_some() || section.own_field("key").is_none() =>
        {
            let message = format!("`{}` promises what is so with this key", promise.path);
            let hint = "it goes with `key = { json = \"/…\" }`: take it out";
            reading.report_with_hint(Code::CoPartitioned, &promise.key_at, message, hint);
        }
        (Ok(_) | Err(_), _, _) => {}
    }
    key.unwrap_or_default()
}

fn tell_no_version(reading: &Reading<'_>, section: &Section<'_>) {
    let at = section.field("guard").map_or_else(|| section.key_at.clone(), |field| field.at);
    let message = format!("`{}` has a guard and no `version`", section.path);
    let hint = "say where the version of a record stands: `version = { header = \"…\" }`";
    reading.report_with_hint(Code::GuardWithoutVersion, &at, message, hint);
}

/// Tells what a guard that counts does not look at.
fn tell_counted(reading: &Reading<'_>, section: &Section<'_>, tombstone: TombstoneVersion) {
    if let Some(field) = section.own_field("equal") {
        let message = format!("`{}` says nothing where versions are counted", field.path);
        let hint = "a version that was applied is a duplicate, whatever its value: take this out";
        reading.report_with_hint(Code::EqualNeedsLatest, &field.key_at, message, hint);
    }
    let next = section.field("tombstone-without-version");
    if let Some(field) = next.filter(|_| tombstone == TombstoneVersion::Next) {
        tell_next(reading, &field);
    }
}

fn tell_next(reading: &Reading<'_>, field: &Field<'_>) {
    let message = format!("`{}`: `next` counts on from the newest version applied", field.path);
    let hint = "only `guard = \"latest\"` knows that: add it, or take this out";
    reading.report_with_hint(Code::NextNeedsLatest, &field.at, message, hint);
}

/// Tells what no guard looks at. A pipeline whose own `guard = "none"` turns off the guard of `defaults` need not take back
/// what that one goes by.
fn tell_unguarded(reading: &Reading<'_>, section: &Section<'_>, tombstone: TombstoneVersion) {
    let off = section.own_field("guard").is_some();
    let told = |name: &str| if off { section.own_field(name) } else { section.field(name) };
    // `next` says something wrong without a guard, not nothing.
    let counts_on = told("tombstone-without-version").filter(|_| tombstone == TombstoneVersion::Next);
    let idle =
        OF_GUARDS.into_iter().filter(|name| counts_on.is_none() || *name != "tombstone-without-version");
    for field in idle.filter_map(told) {
        let message = format!("`{}` says nothing without a guard", field.path);
        let hint = "add `guard = \"latest\"`, or take this out";
        reading.report_with_hint(Code::NeedsGuard, &field.key_at, message, hint);
    }
    if let Some(field) = counts_on {
        tell_next(reading, &field);
    }
}
