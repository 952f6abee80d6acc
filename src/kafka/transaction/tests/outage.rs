use std::collections::BTreeMap;

use super::*;

#[test]
fn across_a_broker_that_is_killed_and_comes_back_every_record_is_there_once() {
    let broker: &'static broker::Kafka = Box::leak(Box::new(broker::Kafka::start()));
    let rig = Rig::on(broker);
    let mut fates: BTreeMap<&str, usize> = BTreeMap::new();
    let mut number = 1;
    while number <= 300 {
        if number == 100 || number == 200 {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    broker.kill();
                    broker.restart();
                });
                // Runs into the kill and out of it again.
                number = settle(&rig, number, 50, &mut fates);
            });
        }
        number = settle(&rig, number, 1, &mut fates);
    }
    println!("results over two kills: {fates:?}");
    let expected: Vec<String> = (1..number).map(|number: u64| number.to_string()).collect();
    assert_eq!(rig.values(TIER), expected);
}

/// Carries out `count` transactions as the core would: again after an abort, by the marks after an unknown outcome.
fn settle(rig: &Rig, first: u64, count: u64, fates: &mut BTreeMap<&'static str, usize>) -> u64 {
    let mut number = first;
    while number < first + count {
        let fate = match rig.transact(transaction(number, vec![write(TIER, number.to_string())])) {
            TransactionResult::Committed => {
                number += 1;
                "committed"
            }
            TransactionResult::Aborted(_) => "aborted",
            TransactionResult::Fenced { .. } => "fenced",
            TransactionResult::Unknown if rig.read_back() == [(TASK, Some(mark(number)))] => {
                number += 1;
                "unknown, committed"
            }
            TransactionResult::Unknown => "unknown, aborted",
        };
        *fates.entry(fate).or_default() += 1;
    }
    number
}
