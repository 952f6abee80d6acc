//! Reads `[pipeline.NAME.retry]`: the tries in place, the ladder, the deadline.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::core::policy::{Guard, InPlace, Ladder, UnknownOutcome};
use crate::core::time::in_words;
use crate::topology::code::Code;
use crate::topology::keys;
use crate::topology::reading::{Place, Read, Reading};
use crate::topology::section::{Field, Section};
use crate::topology::value::or;

const MILLISECOND: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3_600);
/// No tier and no deadline is longer: control headers are refused beyond it.
const YEAR: Duration = Duration::from_secs(365 * 86_400);
/// Each tier is a topic with as many partitions as the source.
const MOST_TIERS: usize = 32;

/// What `[pipeline.NAME.retry]` says.
pub(crate) struct Retry {
    pub(crate) in_place: InPlace,
    pub(crate) deadline: Read<Duration>,
    pub(crate) unknown: UnknownOutcome,
    pub(crate) last_tier_repeats: u32,
    /// The delays with their places, rising.
    pub(crate) tiers: Read<Vec<(Duration, Place)>>,
    deadline_at: Option<Place>,
    tiers_at: Option<Place>,
}

impl Retry {
    /// Reads the table.
    pub(crate) fn read(reading: &Reading<'_>, pipeline: &Section<'_>) -> Self {
        let section = pipeline.section(reading, "retry", keys::RETRY);
        let tiers = section
            .required(reading, "tiers", "tiers = [\"5s\", \"1m\", \"10m\"]")
            .and_then(|field| tiers(reading, &field));
        let deadline = section.field("deadline");
        Self {
            in_place: in_place(reading, &section.section(reading, "in-place", keys::IN_PLACE)),
            deadline_at: deadline.as_ref().map(|field| field.at.clone()),
            deadline: deadline.map_or(Ok(Duration::from_secs(86_400)), |field| {
                field.duration(reading, &(MILLISECOND..=YEAR))
            }),
            unknown: or(section.field("unknown"), UnknownOutcome::DeadLetter, |field| {
                let words = [("dead-letter", UnknownOutcome::DeadLetter), ("retry", UnknownOutcome::Retry)];
                field.word(reading, &words)
            }),
            last_tier_repeats: or(section.field("last-tier-repeats"), 1, |field| {
                field.number(reading, &(1..=1_000))
            }),
            tiers_at: section.field("tiers").map(|field| field.at),
            tiers,
        }
    }

    /// Tells a guard that counts versions and no tier in which a version that fails could wait.
    pub(crate) fn check_tiers_for(&self, reading: &Reading<'_>, guard: &Guard) {
        if matches!(guard, Guard::Contiguous(_))
            && self.tiers.as_ref().is_ok_and(Vec::is_empty)
            && let Some(at) = &self.tiers_at
        {
            let message = "there is no tier, and `guard = \"contiguous\"` needs one";
            let hint = "a version for which there is no room to be held waits in the first tier: add one";
            reading.report_with_hint(Code::ContiguousNeedsTiers, at, message, hint);
        }
    }

    /// The ladder, once it is known that its first step can be taken.
    pub(crate) fn ladder(&self, reading: &Reading<'_>, handler_timeout: Duration) -> Read<Ladder> {
        let tiers = self.tiers.as_ref().map_err(|reported| *reported)?;
        let deadline = self.deadline?;
        if let Some((first, at)) = tiers.first()
            && deadline < first.saturating_add(handler_timeout)
        {
            let [deadline, first, timeout] = [deadline, *first, handler_timeout].map(in_words);
            let and = if handler_timeout.is_zero() {
                String::new()
            } else {
                format!(" and one handler timeout, `{timeout}`")
            };
            let message = format!("deadline `{deadline}` is shorter than the first tier, `{first}`{and}");
            let at = self.deadline_at.as_ref().unwrap_or(at);
            let hint = "no record would ever wait: lengthen the deadline, or write `tiers = []`";
            return Err(reading.report_with_hint(Code::DeadlineTooShort, at, message, hint));
        }
        let delays = tiers.iter().map(|(delay, _)| *delay).collect();
        Ok(Ladder { delays, last_tier_repeats: self.last_tier_repeats })
    }
}

fn tiers(reading: &Reading<'_>, field: &Field<'_>) -> Read<Vec<(Duration, Place)>> {
    let items = field.items(reading)?;
    if items.len() > MOST_TIERS {
        let message = format!("`{}` has {} tiers, at most {MOST_TIERS}", field.path, items.len());
        return Err(reading.report(Code::OutOfRange, &field.at, message));
    }
    let read: Vec<Read<(Duration, Place)>> = items
        .iter()
        .map(|item| item.duration(reading, &(MILLISECOND..=YEAR)).map(|delay| (delay, item.at.clone())))
        .collect();
    let mut rising: Read<()> = Ok(());
    let mut before: Vec<Duration> = Vec::new();
    for (delay, at) in read.iter().flatten() {
        let label = in_words(*delay);
        if before.contains(delay) {
            let message = format!("tier `{label}` is in the ladder already");
            let hint = "a tier is one topic; `last-tier-repeats` repeats the last one";
            rising = Err(reading.report_with_hint(Code::TierRepeated, at, message, hint));
        } else if let Some(longer) = before.last().filter(|last| *last > delay) {
            let message = format!("tier `{label}` stands behind `{}`", in_words(*longer));
            rising = Err(reading.report_with_hint(Code::TierNotRising, at, message, "sort tiers by length"));
        }
        before.push(*delay);
    }
    let read = read.into_iter().collect::<Read<Vec<_>>>()?;
    rising.map(|()| read)
}

fn in_place(reading: &Reading<'_>, section: &Section<'_>) -> InPlace {
    let time = |name: &str, start: Duration| {
        or(section.field(name), start, |field| field.duration(reading, &bounds()))
    };
    let base = time("base", Duration::from_millis(100));
    let cap = time("cap", Duration::from_secs(2));
    if cap < base {
        let field = section.field("cap").or_else(|| section.field("base"));
        let at = field.map_or_else(|| section.key_at.clone(), |field| field.at);
        let (cap, base) = (in_words(cap), in_words(base));
        let message = format!("`cap` is `{cap}`, below `base`, `{base}`");
        let hint = "the first wait is up to twice `base`; none is longer than `cap`";
        reading.report_with_hint(Code::CapBelowBase, &at, message, hint);
    }
    InPlace {
        executions: or(section.field("executions"), 1, |field| field.number(reading, &(1..=100))),
        base,
        cap,
        budget: time("budget", Duration::from_secs(10)),
    }
}

const fn bounds() -> RangeInclusive<Duration> {
    MILLISECOND..=HOUR
}
