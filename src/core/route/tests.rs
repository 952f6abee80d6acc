use super::*;
use crate::core::policy::tests::policy;
use crate::core::time::Timestamp;

const NOW: Timestamp = Timestamp::from_millis(1_000_000);

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn verdict(class: Class) -> Verdict {
    Verdict { class, reason: Reason::Http(500) }
}

fn tier(index: u16, wait: Duration) -> Step {
    Step::Tier { tier: TierIndex(index), wait }
}

#[test]
fn the_ladder_of_the_documentation_has_six_attempts() {
    let mut policy = policy(&[5, 60, 600]);
    policy.ladder.last_tier_repeats = 3;
    let step = |attempt| after_attempt(&policy, &verdict(Class::Transient), None, attempt, NOW, None);
    assert_eq!(step(1), tier(0, secs(5)));
    assert_eq!(step(2), tier(1, secs(60)));
    for attempt in 3..=5 {
        assert_eq!(step(attempt), tier(2, secs(600)), "after attempt {attempt}");
    }
    assert_eq!(step(6), Step::DeadLetter(Reason::Exhausted));
    assert_eq!(policy.ladder.most_attempts(), 6);
}

#[test]
fn without_tiers_the_first_failed_attempt_is_the_last() {
    let mut policy = policy(&[]);
    policy.ladder.last_tier_repeats = 3;
    let step = after_attempt(&policy, &verdict(Class::Transient), None, 1, NOW, None);
    assert_eq!(step, Step::DeadLetter(Reason::Exhausted));
    assert_eq!(policy.ladder.most_attempts(), 1);
}

#[test]
fn permanent_and_poison_never_repeat_and_unknown_only_where_the_topology_says_so() {
    let mut policy = policy(&[5]);
    let dead = Step::DeadLetter(Reason::Http(500));
    for class in [Class::Permanent, Class::Poison, Class::Unknown] {
        assert_eq!(after_attempt(&policy, &verdict(class), None, 1, NOW, None), dead);
        assert_eq!(after_execution(&policy, class, 1), Next::Over);
    }
    policy.unknown = UnknownOutcome::Retry;
    assert_eq!(after_attempt(&policy, &verdict(Class::Unknown), None, 1, NOW, None), tier(0, secs(5)));
    assert_ne!(after_execution(&policy, Class::Unknown, 1), Next::Over);
}

#[test]
fn throttled_is_never_repeated_in_place() {
    assert_eq!(after_execution(&policy(&[5]), Class::Throttled, 1), Next::Over);
}

#[test]
fn retry_after_takes_the_first_tier_that_waits_long_enough() {
    let policy = policy(&[5, 60, 600]);
    let step = |asked| after_attempt(&policy, &verdict(Class::Throttled), Some(asked), 1, NOW, None);
    assert_eq!(step(secs(0)), tier(0, secs(5)));
    assert_eq!(step(secs(5)), tier(0, secs(5)));
    assert_eq!(step(secs(6)), tier(1, secs(60)));
    assert_eq!(step(secs(601)), tier(2, secs(601)), "over the last tier: the last, and then on");
}

#[test]
fn nothing_is_scheduled_that_could_end_after_the_deadline() {
    let mut policy = policy(&[5]);
    policy.handler_timeout = secs(2);
    let step = |deadline| {
        after_attempt(
            &policy,
            &verdict(Class::Transient),
            None,
            1,
            NOW,
            Some(Timestamp::from_millis(deadline)),
        )
    };
    assert_eq!(step(1_007_000), tier(0, secs(5)), "exactly at the deadline");
    assert_eq!(step(1_006_999), Step::DeadLetter(Reason::Deadline), "one ms over");
}

#[test]
fn the_longest_wait_in_place_doubles_up_to_its_cap() {
    let in_place = policy(&[]).in_place;
    let waits: Vec<u128> = (1..=6).map(|k| longest_wait(&in_place, k).as_millis()).collect();
    assert_eq!(waits, [200, 400, 800, 1600, 2000, 2000]);
    assert_eq!(longest_wait(&in_place, 4_000_000_000), in_place.cap);
}

#[test]
fn a_wait_in_place_ends_within_the_budget_and_before_the_deadline() {
    let in_place = policy(&[]).in_place;
    let fits = |spent, wait, deadline| {
        fits_in_place(&in_place, secs(spent), secs(wait), NOW, Some(Timestamp::from_millis(deadline)))
    };
    assert!(fits(8, 2, 1_002_000));
    assert!(!fits(9, 2, 1_002_000), "over the budget of 10 s");
    assert!(!fits(0, 2, 1_001_999), "over the deadline");
}

#[test]
fn a_hop_takes_the_longest_tier_that_fits_else_the_shortest() {
    let ladder = policy(&[5, 60, 600]).ladder;
    assert_eq!(hop(&ladder, secs(3)), Some(TierIndex(0)));
    assert_eq!(hop(&ladder, secs(59)), Some(TierIndex(0)));
    assert_eq!(hop(&ladder, secs(60)), Some(TierIndex(1)));
    assert_eq!(hop(&ladder, secs(9_000)), Some(TierIndex(2)));
    assert_eq!(hop(&policy(&[]).ladder, secs(1)), None);
}
