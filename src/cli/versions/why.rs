//! Why a record is held, in words, as far as the state topic tells.

use std::collections::BTreeMap;

use crate::cli::versions::gather::{HeldAt, OfKey};
use crate::core::guard::Version;
use crate::core::policy::{Contiguous, First, Guard, OrderPolicy};
use crate::core::state::{Blocker, DeadPredecessor};

/// So many runs of missing versions are told one by one.
const TOLD: usize = 3;

/// Why the record at a place is held; places are versions where the guard counts.
pub(super) fn held(order: &OrderPolicy, of_key: &OfKey, place: i64) -> String {
    match &order.guard {
        Guard::Contiguous(rules) => by_count(rules, of_key, place),
        Guard::None | Guard::Latest(_) => parked(of_key, place),
    }
}

/// Up to which version a key would have to skip so that the first of its held records goes on; `None` where that has its turn, or
/// something that may be missing waits in a tier.
pub(super) fn skips_to(order: &OrderPolicy, of_key: &OfKey) -> Option<Version> {
    let Guard::Contiguous(rules) = &order.guard else { return None };
    let (first, next) = (*of_key.held.first_key_value()?.0, next(rules, of_key)?);
    let waits = !of_key.blockers.waiting.is_empty();
    Version(first).before().filter(|before| *before >= next && !waits)
}

/// The version that is handled next; `None` where the count has not begun.
fn next(rules: &Contiguous, of_key: &OfKey) -> Option<Version> {
    match (&of_key.applied, rules.first) {
        (Some(applied), _) => applied.version.next(),
        (None, First::At(first)) => Some(first),
        (None, First::Any) => None,
    }
}

fn by_count(rules: &Contiguous, of_key: &OfKey, place: i64) -> String {
    let Some(Version(next)) = next(rules, of_key) else {
        return "it is not known with which version its count began".to_owned();
    };
    if place <= next {
        return "its turn has come: it is released where its task runs".to_owned();
    }
    let runs = missing(&of_key.held, next, place);
    let mut told: Vec<String> = runs.iter().take(TOLD).map(|run| run_in_words(*run)).collect();
    let more = runs.len().saturating_sub(TOLD);
    if more > 0 {
        told.push(format!("{more} more"));
    }
    let versions = match runs.as_slice() {
        [] => "those before it have their turn first".to_owned(),
        [(first, last)] if first == last => format!("version {} is missing", told.join(", ")),
        _ => format!("versions {} are missing", told.join(", ")),
    };
    let is_before =
        |version: Option<Version>| version.is_some_and(|Version(version)| (next..place).contains(&version));
    let waiting = of_key.blockers.waiting.iter().filter(|blocker| is_before(blocker.version));
    let waiting = waiting.map(|Blocker { origin, version }| {
        format!("version {} waits in a tier ({origin})", version.unwrap_or(Version(0)))
    });
    let dead = of_key.blockers.dead.iter().filter(|dead| is_before(dead.version));
    let dead = dead.map(|DeadPredecessor { origin, version, .. }| {
        format!("version {} is the dead letter {origin}#1", version.unwrap_or(Version(0)))
    });
    [versions].into_iter().chain(waiting).chain(dead).collect::<Vec<_>>().join("; ")
}

/// The runs of versions from `next` to the one before `place` that are not held.
fn missing(held: &BTreeMap<i64, HeldAt>, next: i64, place: i64) -> Vec<(i64, i64)> {
    let mut runs = Vec::new();
    let mut from = next;
    for there in held.range(next..place).map(|(there, _)| *there).chain([place]) {
        if from < there {
            runs.push((from, there.saturating_sub(1)));
        }
        from = there.saturating_add(1);
    }
    runs
}

fn run_in_words((first, last): (i64, i64)) -> String {
    if first == last { first.to_string() } else { format!("{first} to {last}") }
}

fn parked(of_key: &OfKey, place: i64) -> String {
    let dead = of_key.blockers.dead.as_ref();
    if let Some(dead) = dead.filter(|dead| dead.followed_to.is_some_and(|last| place <= last)) {
        return format!("it follows the dead letter {}#1", dead.origin);
    }
    match (of_key.blockers.waiting.as_slice(), of_key.held.range(..place).next_back()) {
        ([first, ..], None) => format!("{} of its key waits in a tier", first.origin),
        (_, Some((before, _))) => format!("the record held at place {before} has its turn first"),
        ([], None) => "its turn has come: it is released where its task runs".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cli::versions::gather::AppliedVersion;
    use crate::core::policy::{OnExhausted, WhileRetrying};
    use crate::core::position::{Offset, Origin, Partition, TopicName};
    use crate::core::time::Timestamp;

    fn origin(offset: i64) -> Origin {
        Origin { topic: TopicName::new("orders"), partition: Partition(0), offset: Offset(offset) }
    }

    fn counting(first: First) -> OrderPolicy {
        let gap_timeout = Duration::from_secs(60);
        let rules = Contiguous { version: Vec::new(), gap_timeout, first, stale_output: None };
        OrderPolicy { guard: Guard::Contiguous(rules), ..OrderPolicy::default() }
    }

    fn key(applied: Option<i64>, held: &[i64]) -> OfKey {
        let at = Timestamp::from_millis(0);
        let applied = applied.map(|version| AppliedVersion {
            version: Version(version),
            first: Some(Version(1)),
            at,
            origin: origin(0),
        });
        let record = |place: &i64| (*place, HeldAt { since: at, due: Duration::ZERO, origin: None });
        OfKey { applied, held: held.iter().map(record).collect(), ..OfKey::default() }
    }

    #[test]
    fn what_is_missing_before_a_version_is_told_in_runs() {
        let any = counting(First::Any);
        let of_key = key(Some(10), &[12, 15, 16, 19, 21, 23, 25]);
        for (place, words) in [
            (12, "version 11 is missing"),
            (15, "versions 11, 13 to 14 are missing"),
            (16, "versions 11, 13 to 14 are missing"),
            (25, "versions 11, 13 to 14, 17 to 18, 3 more are missing"),
        ] {
            assert_eq!(held(&any, &of_key, place), words);
        }
        assert_eq!(held(&any, &key(Some(10), &[13]), 13), "versions 11 to 12 are missing");
        assert_eq!(held(&any, &key(Some(10), &[11, 12]), 12), "those before it have their turn first");
        assert!(held(&any, &key(Some(10), &[11]), 11).starts_with("its turn has come"));
        assert!(held(&any, &key(None, &[3]), 3).contains("not known"));
        assert_eq!(
            held(&counting(First::At(Version(1))), &key(None, &[3]), 3),
            "versions 1 to 2 are missing"
        );
        let extreme = key(Some(i64::MIN), &[i64::MAX]);
        assert!(held(&any, &extreme, i64::MAX).ends_with("to 9223372036854775806 are missing"));
    }

    #[test]
    fn what_would_have_to_be_skipped_is_known_where_nothing_waits() {
        let any = counting(First::Any);
        assert_eq!(skips_to(&any, &key(Some(10), &[13, 15])), Some(Version(12)));
        assert_eq!(skips_to(&any, &key(Some(10), &[11, 15])), None);
        assert_eq!(skips_to(&any, &key(Some(10), &[])), None);
        assert_eq!(skips_to(&OrderPolicy::default(), &key(Some(10), &[13])), None);
        let mut waits = key(Some(10), &[13]);
        waits.blockers.waiting = vec![Blocker { origin: origin(4), version: Some(Version(11)) }];
        assert_eq!(skips_to(&any, &waits), None);
    }

    #[test]
    fn what_waits_or_is_dead_among_those_missing_is_named() {
        let mut of_key = key(Some(10), &[13]);
        of_key.blockers.waiting = vec![Blocker { origin: origin(4), version: Some(Version(11)) }];
        of_key.blockers.dead =
            Some(DeadPredecessor { origin: origin(5), version: Some(Version(12)), followed_to: None });
        let words = "versions 11 to 12 are missing; version 11 waits in a tier (orders/0/4); version 12 is the dead letter \
                     orders/0/5#1";
        assert_eq!(held(&counting(First::Any), &of_key, 13), words);
    }

    #[test]
    fn a_parked_record_names_what_it_is_behind() {
        let parks =
            OrderPolicy { retrying: WhileRetrying::Park(OnExhausted::Follow), ..OrderPolicy::default() };
        let mut of_key = key(None, &[0, 1]);
        assert!(held(&parks, &of_key, 0).starts_with("its turn has come"));
        of_key.blockers.waiting = vec![Blocker { origin: origin(4), version: None }];
        assert_eq!(held(&parks, &of_key, 0), "orders/0/4 of its key waits in a tier");
        assert_eq!(held(&parks, &of_key, 1), "the record held at place 0 has its turn first");
        of_key.blockers.dead =
            Some(DeadPredecessor { origin: origin(5), version: None, followed_to: Some(1) });
        assert_eq!(held(&parks, &of_key, 1), "it follows the dead letter orders/0/5#1");
    }
}
