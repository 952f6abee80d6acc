//! How long an audit of many records takes, and how much memory: `cargo run --release -p redrive-ledger --example
//! million -- 1000000`.
//!
//! Every tenth record waits twice in a tier, every fiftieth becomes a dead letter, and all calls are in the log.
#![allow(clippy::disallowed_methods, clippy::indexing_slicing, reason = "a measurement")]

use std::time::Instant;

use redrive_ledger::{Commit, Cut, Ledger, Offsets, Order, OutputValue, Role, Rules, Seen, Start};

const PARTITIONS: i32 = 12;
const DELAY: i64 = 1_000;
const VALUE: usize = 500;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let records: i64 = std::env::args().nth(1).as_deref().unwrap_or("1000000").parse()?;
    let began = Instant::now();
    let mut ledger = Ledger::new(rules());
    let origins =
        || (0..records).map(|number| ((number % i64::from(PARTITIONS)), number / i64::from(PARTITIONS)));
    for (partition, offset) in origins() {
        ledger.record(&seen(Role::Source, partition, offset, 0, &[]));
    }
    let mut written = [0_i64; 3];
    let mut next = |place: usize| {
        written[place] += 1;
        written[place] - 1
    };
    for (number, (partition, offset)) in (0_i64..).zip(origins()) {
        let mut at = 10;
        let waits = if number % 10 == 0 { 2 } else { 0 };
        for attempt in 1..=waits {
            let own = [("redrive-attempt", attempt.to_string()), ("redrive-due", (at + DELAY).to_string())];
            ledger.record(&seen(Role::Tier(0), partition, next(0), at, &with(&own, partition, offset)));
            at += DELAY + 10;
        }
        if number % 50 == 0 {
            let own = [("redrive-attempt", (waits + 1).to_string())];
            ledger.record(&seen(Role::DeadLetter, partition, next(1), at, &with(&own, partition, offset)));
        } else {
            let own = [("redrive-event-id", format!("orders/{partition}/{offset}"))];
            ledger.record(&seen(Role::Output, partition, next(2), at, &own));
        }
        let call = |attempt: u32| Start {
            event_id: format!("orders/{partition}/{offset}"),
            attempt,
            execution: 1,
            due: (attempt > 1).then_some(i64::from(attempt - 1) * (DELAY + 10)),
            at: i64::from(attempt) * (DELAY + 10),
        };
        ledger.calls(&(1..=waits + 1).map(call).collect::<Vec<_>>());
    }
    for partition in 0..PARTITIONS {
        for role in [Role::Source, Role::Tier(0)] {
            ledger.commit(Commit { role, partition, offset: i64::MAX });
        }
    }
    let taken = began.elapsed();
    let report = ledger.report();
    print!("{report}");
    println!("  taken in         {:>8.1} s", taken.as_secs_f64());
    println!("  with the report  {:>8.1} s", began.elapsed().as_secs_f64());
    // Linux tells the most that a process ever had.
    let status = std::fs::read_to_string("/proc/self/status")?;
    for line in status.lines().filter(|line| line.starts_with("VmHWM")) {
        println!("  {line}");
    }
    if report.is_clean() && report.balances() { Ok(()) } else { Err("a good history is not clean".into()) }
}

fn rules() -> Rules {
    Rules {
        source: "orders".to_owned(),
        delays: vec![DELAY],
        most_attempts: 9,
        event_id: None,
        output: OutputValue::AsSource,
        order: Order::FirstTries,
        cut: Cut::Drained,
        offsets: Offsets::Stay,
        longest_open: 10_000,
    }
}

fn with<'a>(own: &[(&'a str, String)], partition: i64, offset: i64) -> Vec<(&'a str, String)> {
    let mut headers = own.to_vec();
    headers.extend([
        ("redrive-origin-topic", "orders".to_owned()),
        ("redrive-origin-partition", partition.to_string()),
        ("redrive-origin-offset", offset.to_string()),
        ("redrive-event-id", format!("orders/{partition}/{offset}")),
        ("redrive-reason", "http-503".to_owned()),
    ]);
    headers
}

fn seen(role: Role, partition: i64, offset: i64, timestamp: i64, headers: &[(&str, String)]) -> Seen {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), Some(value.clone().into())));
    Seen {
        role,
        partition: i32::try_from(partition).unwrap_or(0),
        offset,
        timestamp,
        key: Some(b"key".to_vec()),
        value: Some(vec![b'x'; VALUE]),
        headers: headers.collect(),
    }
}
