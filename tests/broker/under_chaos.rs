//! Chaos on three nodes of Kafka: whatever is killed, stopped or restarted, every record has one fate; and where offsets are
//! committed apart from the transaction, it does not, on the same schedule.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::chaos::{Done, Outcome, Round, Size, Subject};
use crate::cluster::Cluster;

/// Determines which fault comes when.
const SEED: u64 = 4;

fn size(records: usize, kills: usize) -> Size {
    Size { records, kills, freezes: 0, node_kills: 0, node_stops: 0, rolls: 0 }
}

fn play(subject: &Subject, size: Size) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Arc::new(Cluster::start(folder.path().join("kafka")).unwrap());
    let round = Round {
        cluster: &cluster,
        seed: SEED,
        number: 1,
        size,
        subject,
        redrive: Path::new(env!("CARGO_BIN_EXE_redrive")),
        folder: folder.path(),
        enough: &|| false,
        tell: &|what| println!("{what}"),
    };
    let outcome = round.play().unwrap();
    println!("{} records in {} s; {:?}", outcome.done.records, outcome.took.as_secs(), outcome.gave_up);
    outcome
}

#[test]
fn six_processes_and_a_node_are_killed_and_nothing_is_lost_doubled_or_early() {
    let records = 30_000;
    let faults = Size { freezes: 1, node_kills: 1, rolls: 1, ..size(records, 6) };

    let outcome = play(&Subject::Redrive, faults);

    let all = Done { records, kills: 6, freezes: 1, node_kills: 1, node_stops: 0, rolls: 1 };
    assert_eq!(outcome.done, all);
    assert!(
        outcome.is_clean(),
        "{}\n{:?} {:?}",
        outcome.books.text,
        outcome.books.differences,
        outcome.surprises
    );
    assert!(outcome.books.repeated > 0, "what was under way at a kill is done again");
}

#[test]
fn offsets_committed_apart_from_the_transaction_double_records_and_the_ledger_sees_it() {
    let outcome = play(&Subject::Naive { soak: soak() }, size(8_000, 6));

    assert_eq!(outcome.done.kills, 6);
    assert!(outcome.books.doubled > 0, "{}", outcome.books.text);
}

/// The soak's program, of which one part is the naive worker.
fn soak() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let soak = own.ancestors().nth(2).unwrap().join("examples/soak");
    assert!(soak.exists(), "build it first: cargo build --features broker-tests --example soak");
    soak
}
