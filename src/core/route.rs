//! What follows a failed execution, and where a waiting record goes: the ladder, the deadline, hops.

use std::time::Duration;

use crate::core::class::{Class, Reason};
use crate::core::outcome::Verdict;
use crate::core::policy::{InPlace, Ladder, Policy, UnknownOutcome};
use crate::core::position::TierIndex;
use crate::core::time::Timestamp;

/// What follows a failed execution.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Next {
    /// Once more within the same delivery, after a wait uniform in `[0, at_most]`; the caller draws it and asks
    /// [`fits_in_place`] before it waits.
    InPlace {
        /// The longest wait.
        at_most: Duration,
    },
    /// The delivery is over.
    Over,
}

/// Whether a failed execution may be followed by another within the same delivery.
pub fn after_execution(policy: &Policy, class: Class, executions: u32) -> Next {
    let heals_soon = match class {
        Class::Transient => true,
        Class::Unknown => policy.unknown == UnknownOutcome::Retry,
        Class::Permanent | Class::Throttled | Class::Poison => false,
    };
    if heals_soon && executions < policy.in_place.executions {
        Next::InPlace { at_most: longest_wait(&policy.in_place, executions) }
    } else {
        Next::Over
    }
}

/// The longest wait after execution `executions` (from 1): `min(cap, base·2^executions)`.
pub fn longest_wait(in_place: &InPlace, executions: u32) -> Duration {
    let factor = 1u32.checked_shl(executions).unwrap_or(u32::MAX);
    in_place.base.checked_mul(factor).unwrap_or(Duration::MAX).min(in_place.cap)
}

/// Whether a wait inside a delivery ends within its budget and before the deadline.
pub fn fits_in_place(
    in_place: &InPlace,
    spent: Duration,
    wait: Duration,
    now: Timestamp,
    deadline_at: Option<Timestamp>,
) -> bool {
    let within_budget = spent.saturating_add(wait) <= in_place.budget;
    within_budget && deadline_at.is_none_or(|deadline| now.plus(wait) <= deadline)
}

/// Where a record goes whose delivery failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step {
    /// Into a tier, to be handled not before `wait` from now. `wait` may exceed the tier's delay.
    Tier {
        /// Which tier.
        tier: TierIndex,
        /// How long the record waits in all.
        wait: Duration,
    },
    /// Into the dead letter topic, with the class of the failure and this reason.
    DeadLetter(Reason),
}

/// Where a record goes after failed attempt number `attempt` (from 1).
pub fn after_attempt(
    policy: &Policy,
    verdict: &Verdict,
    retry_after: Option<Duration>,
    attempt: u32,
    now: Timestamp,
    deadline_at: Option<Timestamp>,
) -> Step {
    let worth_repeating = match verdict.class {
        Class::Transient | Class::Throttled => true,
        Class::Unknown => policy.unknown == UnknownOutcome::Retry,
        Class::Permanent | Class::Poison => false,
    };
    if !worth_repeating {
        return Step::DeadLetter(verdict.reason.clone());
    }
    let Some((tier, wait)) = rung(&policy.ladder, attempt, retry_after) else {
        return Step::DeadLetter(Reason::Exhausted);
    };
    let latest_end = now.plus(wait).plus(policy.handler_timeout);
    if deadline_at.is_some_and(|deadline| latest_end > deadline) {
        return Step::DeadLetter(Reason::Deadline);
    }
    Step::Tier { tier, wait }
}

/// The tier after failed attempt `attempt`, with the whole wait; `None` when the ladder has no further step.
fn rung(ladder: &Ladder, attempt: u32, retry_after: Option<Duration>) -> Option<(TierIndex, Duration)> {
    if attempt >= ladder.most_attempts() {
        return None;
    }
    if let Some(asked) = retry_after {
        let fitting = ladder.tiers().find(|(_, delay)| *delay >= asked);
        return fitting.or_else(|| ladder.tiers().next_back().map(|(tier, _)| (tier, asked)));
    }
    let place = usize::try_from(attempt.saturating_sub(1)).unwrap_or(usize::MAX);
    ladder.tiers().nth(place).or_else(|| ladder.tiers().next_back())
}

/// The tier that a record hops to which must still wait for `remaining`: the longest whose delay fits, else the
/// shortest. `None` where there are no tiers.
pub fn hop(ladder: &Ladder, remaining: Duration) -> Option<TierIndex> {
    let fitting = ladder.tiers().rev().find(|(_, delay)| *delay <= remaining);
    fitting.or_else(|| ladder.tiers().next()).map(|(tier, _)| tier)
}

#[cfg(test)]
mod tests;
