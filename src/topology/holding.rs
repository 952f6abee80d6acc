//! Reads what of `[pipeline.NAME.order]` says which records are held behind their key, and for how long.

use std::time::Duration;

use crate::core::guard::Version;
use crate::core::policy::{First, Guard, HeldBounds, OnExhausted, WhileRetrying};
use crate::topology::code::Code;
use crate::topology::reading::Reading;
use crate::topology::section::Section;
use crate::topology::value::or;

const MILLISECOND: Duration = Duration::from_millis(1);
const YEAR: Duration = Duration::from_secs(366 * 24 * 60 * 60);
/// A key with more than that behind it is no order any more.
const MOST_PER_KEY: u64 = 1_000_000;

/// Less would stop a task for a few records.
const LEAST_BYTES: u64 = 1 << 20;
const MOST_BYTES: u64 = 1 << 40;

/// How a count of versions goes.
pub(super) struct Count {
    pub(super) gap_timeout: Duration,
    pub(super) first: First,
}

impl Count {
    /// Reads it where the guard counts.
    pub(super) fn read(reading: &Reading<'_>, section: &Section<'_>) -> Self {
        let required = section.required(reading, "gap-timeout", "gap-timeout = \"10m\"");
        let gap_timeout =
            or(required.ok(), MILLISECOND, |field| field.duration(reading, &(MILLISECOND..=YEAR)));
        let first = or(section.field("first"), First::Any, |field| {
            if field.value.as_str() == Some("any") {
                return Ok(First::Any);
            }
            if field.value.as_integer().is_none() {
                return Err(field.wrong_type(reading, "`\"any\"` or a whole number"));
            }
            field
                .number::<i64>(reading, &(0..=i64::MAX.unsigned_abs()))
                .map(|first| First::At(Version(first)))
        });
        Self { gap_timeout, first }
    }
}

/// Reads what becomes of later records of a key of which one waits in a tier, and how much is held.
pub(super) fn read(
    reading: &Reading<'_>,
    section: &Section<'_>,
    guard: &Guard,
) -> (WhileRetrying, HeldBounds) {
    let on_exhausted = or(section.field("on-exhausted"), OnExhausted::default(), |field| {
        field.word(reading, &[("continue", OnExhausted::Continue), ("follow", OnExhausted::Follow)])
    });
    let parks = or(section.field("while-retrying"), false, |field| {
        field.word(reading, &[("overtake", false), ("park", true)])
    });
    let per_key = or(section.field("held-per-key"), HeldBounds::default().per_key, |field| {
        field.number(reading, &(1..=MOST_PER_KEY))
    });
    let bytes = or(section.field("held-bytes"), HeldBounds::default().bytes, |field| {
        let size = field.size(reading, &(LEAST_BYTES..=MOST_BYTES))?;
        Ok(usize::try_from(size).unwrap_or(usize::MAX))
    });
    let counts = matches!(guard, Guard::Contiguous(_));
    if counts
        && parks
        && let Some(field) = section.field("while-retrying")
    {
        let message = format!("`{}`: `park` holds by arrival what `contiguous` holds by version", field.path);
        let hint = "take `while-retrying` out: nothing of a key overtakes where versions are contiguous";
        reading.report_with_hint(Code::ParkWithContiguous, &field.at, message, hint);
    }
    let idle = [("on-exhausted", parks), ("held-per-key", parks || counts), ("held-bytes", parks || counts)];
    let idle = idle.into_iter().filter(|(_, holds)| !holds).filter_map(|(name, _)| section.own_field(name));
    for field in idle {
        let message = format!("`{}` says nothing where no records are held", field.path);
        let hint = "add `while-retrying = \"park\"`, or take this out";
        reading.report_with_hint(Code::NeedsHolding, &field.key_at, message, hint);
    }
    if !counts {
        for field in ["gap-timeout", "first"].into_iter().filter_map(|name| section.own_field(name)) {
            let message = format!("`{}` says nothing where versions are not counted", field.path);
            let hint = "add `guard = \"contiguous\"`, or take this out";
            reading.report_with_hint(Code::NeedsContiguous, &field.key_at, message, hint);
        }
    }
    let retrying = if parks && !counts { WhileRetrying::Park(on_exhausted) } else { WhileRetrying::Overtake };
    (retrying, HeldBounds { per_key, bytes })
}
