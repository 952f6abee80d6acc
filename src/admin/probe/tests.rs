use super::*;
use crate::admin::health::{Health, WorkerHealth};
use crate::core::position::{Offset, Partition};

fn at(seconds: u64) -> Monotonic {
    Monotonic::from_start(Duration::from_secs(seconds))
}

/// Two workers, begun at 100 s; the first is a whole member.
fn two() -> (Health, WorkerHealth, WorkerHealth) {
    let health = Health::new(["payments/0", "payments/1"].map(str::to_owned), at(100));
    let (first, second) = (health.worker(0).unwrap(), health.worker(1).unwrap());
    first.producers_ready();
    first.assigned(3);
    (health, first, second)
}

#[test]
fn a_process_is_live_while_every_loop_turns() {
    let (health, first, second) = two();
    first.beat(at(112));
    second.beat(at(101));
    assert!(live(&health.snapshot(), at(111)).is_good());
    let verdict = live(&health.snapshot(), at(112));
    assert_eq!(verdict.to_string(), "worker `payments/1` has not finished a turn of its loop for 11 s\n");
    second.beat(at(112));
    assert_eq!(live(&health.snapshot(), at(122)).to_string(), "ok\n");
}

#[test]
fn a_start_may_wait_for_brokers_for_as_long_as_it_says_so() {
    let (health, first, second) = two();
    first.beat(at(400));
    assert!(live(&health.snapshot(), at(400)).is_good());
    let verdict = live(&health.snapshot(), at(401));
    assert_eq!(verdict.to_string(), "worker `payments/1` has said nothing of its start for 301 s\n");
    first.beat(at(9_000));
    second.starting(at(9_000));
    assert!(live(&health.snapshot(), at(9_001)).is_good());
}

#[test]
fn a_process_is_ready_when_every_worker_has_producers_and_an_assignment() {
    let (health, _, second) = two();
    assert_eq!(
        ready(&health.snapshot(), at(100)).to_string(),
        "worker `payments/1` has not initialised its producers yet\n\
         worker `payments/1` has had no assignment from its group yet\n"
    );
    second.producers_ready();
    assert!(!ready(&health.snapshot(), at(100)).is_good());
    second.assigned(0);
    assert!(ready(&health.snapshot(), at(100)).is_good(), "an assignment of none is one");
}

#[test]
fn a_worker_may_be_outside_its_group_for_a_minute() {
    let (health, first, second) = two();
    second.producers_ready();
    second.assigned(1);
    first.outside(at(200));
    assert!(ready(&health.snapshot(), at(260)).is_good());
    let verdict = ready(&health.snapshot(), at(261));
    assert_eq!(verdict.to_string(), "worker `payments/0` has been outside its group for 61 s\n");
    first.assigned(2);
    assert!(ready(&health.snapshot(), at(261)).is_good());
}

#[test]
fn a_lost_broker_is_not_ready_and_a_blocked_task_is_only_noted() {
    let (health, first, second) = two();
    second.producers_ready();
    second.assigned(1);
    first.blocked(BlockedBy::Broker);
    first.blocked(BlockedBy::DeadLetter);
    assert_eq!(
        ready(&health.snapshot(), at(100)).to_string(),
        "worker `payments/0` reaches no broker\n\
         worker `payments/0` has tasks that wait: `dlq` cannot be written\n"
    );
    first.unblocked(BlockedBy::Broker);
    let verdict = ready(&health.snapshot(), at(100));
    assert!(verdict.is_good() && verdict.notes.len() == 1, "{verdict}");
    first.unblocked(BlockedBy::DeadLetter);
    assert_eq!(ready(&health.snapshot(), at(100)).to_string(), "ok\n");
}

#[test]
fn a_fatal_error_is_not_ready_and_the_first_is_told() {
    let (health, _, second) = two();
    second.producers_ready();
    second.assigned(1);
    health.fatal("group authorization failed");
    health.fatal("something after it");
    assert_eq!(ready(&health.snapshot(), at(100)).to_string(), "fatal error: group authorization failed\n");
}

#[test]
fn tasks_that_wait_for_the_same_command_note_it_once() {
    let (health, first, second) = two();
    second.producers_ready();
    second.assigned(0);
    first.blocked(BlockedBy::Partitions);
    for task in [3, 4] {
        first.asks(Partition(task), "redrive topics apply".to_owned());
    }
    assert_eq!(
        ready(&health.snapshot(), at(100)).to_string(),
        "ok\nworker `payments/0` has tasks that wait: topics of redrive's own have too few partitions\n\
         hint: redrive topics apply\n"
    );
}

#[test]
fn a_task_whose_state_is_read_for_long_notes_how_far_until_it_is_read() {
    let (health, first, second) = two();
    second.producers_ready();
    second.assigned(0);
    for next in [0, 40_000] {
        first.restores(Partition(3), (Offset(next), Offset(90_000)));
    }
    assert_eq!(
        ready(&health.snapshot(), at(100)).to_string(),
        "ok\nworker `payments/0`: the state of task 3 is being read from the state topic, up to offset 40000 of 90000\n"
    );
    first.restored(Partition(3));
    assert_eq!(ready(&health.snapshot(), at(100)).to_string(), "ok\n");
}

#[test]
fn a_task_that_waits_for_a_person_notes_what_to_type_until_it_goes_on() {
    let (health, first, second) = two();
    second.producers_ready();
    second.assigned(0);
    first.blocked(BlockedBy::PositionsStale);
    first.asks(Partition(3), "redrive resume payments --accept-repeats in/3/1-2".to_owned());
    let verdict = ready(&health.snapshot(), at(100));
    assert!(verdict.is_good(), "a restart would not help");
    let noted = verdict.to_string();
    assert!(noted.contains("positions-stale"), "{noted}");
    assert!(noted.contains("hint: redrive resume payments --accept-repeats in/3/1-2"), "{noted}");
    first.unblocked(BlockedBy::PositionsStale);
    first.asks_nothing(Partition(3));
    assert!(!ready(&health.snapshot(), at(100)).to_string().contains("resume"));
}

#[test]
fn a_transaction_that_takes_long_is_noted_and_one_that_the_client_never_ends_fails_the_probe_of_life() {
    let (health, first, second) = two();
    second.producers_ready();
    second.assigned(0);
    let transacting = |since, heard, timeout| {
        let timeout = Duration::from_secs(timeout);
        first.transacting(Some(Transacting { since: at(since), heard: at(heard), timeout }));
    };
    let both = |now| {
        first.beat(at(now));
        second.beat(at(now));
        (live(&health.snapshot(), at(now)), ready(&health.snapshot(), at(now)).to_string())
    };
    transacting(1_000, 1_000, 10);
    assert_eq!(both(1_020).1, "ok\n");
    let (live, ready) = both(1_021);
    assert!(live.is_good(), "{live}");
    let noted = "ok\nworker `payments/0` has a transaction under way for 21 s, and all its tasks wait for that \
                 (`transaction-timeout` is 10s)\n";
    assert_eq!(ready, noted, "a restart is too early");
    assert!(both(1_600).0.is_good());
    let stuck = "worker `payments/0` has had no answer of the Kafka client to its transaction for 601 s\n";
    assert_eq!(both(1_601).0.to_string(), stuck);

    // Brokers are away for a day: the outcome is asked for again and again.
    transacting(1_000, 87_400, 10);
    assert!(both(87_401).0.is_good());
    // The longest transactions that brokers take.
    transacting(1_000, 1_000, 900);
    assert!(both(10_000).0.is_good());
    assert!(!both(10_001).0.is_good());

    first.transacting(None);
    let (live, ready) = both(20_000);
    assert_eq!((live.to_string().as_str(), ready.as_str()), ("ok\n", "ok\n"));
}
