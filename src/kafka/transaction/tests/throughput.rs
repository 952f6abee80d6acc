use super::*;
use crate::kafka::stopwatch::Stopwatch;

#[test]
fn a_thousand_records_a_transaction_at_a_rate_that_is_printed() {
    let rig = Rig::new();
    let value = Bytes::from(vec![b'x'; 200]);
    for (records, transactions) in [(100, 100_u32), (1_000, 50), (10_000, 5)] {
        let template: Vec<Write> = (0..records).map(|_| write(TIER, value.clone())).collect();
        let clock = Stopwatch::start();
        for number in 1..=u64::from(transactions) {
            assert_eq!(rig.transact(transaction(number, template.clone())), TransactionResult::Committed);
        }
        let took = clock.elapsed().as_secs_f64();
        let total = f64::from(records) * f64::from(transactions);
        println!(
            "{records} records a transaction: {:.0} records/s, {:.1} ms a transaction",
            total / took,
            took * 1e3 / f64::from(transactions)
        );
    }
}
