use super::*;

const LONG: Duration = Duration::from_secs(3_600);

/// Two tasks, one of which waits for a transaction.
fn states() -> States {
    let reading =
        |stage, next| Reading { stage, next: Offset(next), ..Reading::new(Epoch(1), Offset(90), None) };
    let readings =
        [(Partition(3), reading(Stage::Reads, 40)), (Partition(4), reading(Stage::Waits, 0))].into();
    States { clients: None, readings }
}

#[test]
fn a_task_whose_state_is_read_is_told_of_once_in_a_while() {
    let mut states = states();
    assert_eq!(states.progress(LONG), []);
    let told = Progress { partition: Partition(3), next: Offset(40), end: Offset(90) };
    assert_eq!(states.progress(Duration::ZERO), [told]);
    assert_eq!(states.progress(LONG), []);
}

#[test]
fn what_is_read_goes_on_and_what_is_not_to_its_end_begins_anew_where_the_client_gives_up() {
    let mut states = states();
    assert!(states.is_reading());
    let goes_on = |states: &States, epoch| states.goes_on("state", (Partition(3), Epoch(epoch)));
    assert_eq!(goes_on(&states, 1).unwrap(), "`state/3` is being read, up to `40` of `90`");
    assert_eq!(goes_on(&states, 2), None, "that was another take-over");

    states.begin_anew();
    assert!(!states.is_reading());
    assert_eq!(goes_on(&states, 1), None);
    assert!(states.readings.values().all(|reading| reading.next == Offset(0)));
}
