//! Reads where a record says something of itself: in a header, or at a place of its value.

use crate::core::pointer::{BadPointer, Pointer};
use crate::core::policy::Source;
use crate::topology::code::Code;
use crate::topology::keys::Keys;
use crate::topology::model::Format;
use crate::topology::name::header;
use crate::topology::reading::{Read, Reading};
use crate::topology::section::{Field, Section};

/// What `decode` of a pipeline says.
pub(crate) fn decode(reading: &Reading<'_>, pipeline: &Section<'_>) -> Read<Format> {
    pipeline.field("decode").map_or(Ok(Format::Bytes), |field| {
        field.word(reading, &[("bytes", Format::Bytes), ("json", Format::Json)])
    })
}

/// `{ header = "…" }` or `{ json = "/…" }`. A header of redrive's own is believed only if it is `trusted`.
pub(crate) fn source(
    reading: &Reading<'_>,
    field: &Field<'_>,
    known: Keys,
    values: Read<Format>,
    trusted: Option<&str>,
) -> Read<Source> {
    let section = field.section(reading, known)?;
    match (section.field("header"), section.field("json")) {
        (Some(name), None) => header(reading, &name.told(reading)?, trusted).map(Source::Header),
        (None, Some(place)) => pointer(reading, &place, values).map(Source::Json),
        (Some(_), Some(_)) => {
            let message = format!("`{}` takes `header` or `json`, found both", field.path);
            Err(reading.report(Code::WrongType, &field.at, message))
        }
        (None, None) => {
            let message = format!("missing key `header` or `json` in `{}`", field.path);
            let hint = format!("write `{} = {{ header = \"…\" }}` or `{{ json = \"/…\" }}`", field.name);
            Err(reading.report_with_hint(Code::MissingKey, &section.key_at, message, hint))
        }
    }
}

/// A place in the value of a record.
pub(crate) fn pointer(reading: &Reading<'_>, field: &Field<'_>, values: Read<Format>) -> Read<Pointer> {
    let told = field.told(reading)?;
    let pointer = told.text.parse().map_err(|bad: BadPointer| {
        let message = format!("`{}`: {told} is no JSON pointer: {bad}", field.path);
        let hint = "like `/operation/id` (RFC 6901); in a name `~1` stands for `/` and `~0` for `~`";
        reading.report_with_hint(Code::BadPointer, &told.at, message, hint)
    });
    // What values are where that is not said right is anybody's guess.
    if values == Ok(Format::Bytes) {
        let message = format!("`{}` is a place in JSON, and values are bytes here", field.path);
        let hint = "add `decode = \"json\"` to the pipeline";
        return Err(reading.report_with_hint(Code::NeedsJson, &field.key_at, message, hint));
    }
    pointer
}
