use super::*;
use crate::core::event::AbortCause;
use crate::topology::model::Membership;

fn passed(result: &TransactionResult, word: &str) -> bool {
    matches!(result, TransactionResult::Aborted(AbortCause::Passing { detail }) if detail.contains(word))
}

fn reinits(rig: &Rig) -> bool {
    rig.metrics.text().lines().any(|line| line.starts_with("redrive_producer_reinits_total"))
}

#[test]
fn an_older_epoch_of_a_member_costs_one_abort_and_no_producer() {
    let rig = Rig::of(broker::Kafka::shared(), Protocol::Consumer, |_| {});
    assert_eq!(rig.transact(transaction(1, vec![write(TIER, "a")])), TransactionResult::Committed);
    let old = rig.group();

    // The epochs of all members rise when one joins that gets something.
    let config = settings::source_consumer(&rig.kafka, &rig.pipeline, "t.p.1.0");
    let second: BaseConsumer<_> = settings::create(&config, DefaultConsumerContext, &rig.kafka).unwrap();
    second.subscribe(&[rig.pipeline.source.as_str()]).unwrap();
    while second.assignment().unwrap().count() == 0 {
        let _ = rig.member.poll(Duration::from_millis(50));
        let _ = second.poll(Duration::from_millis(50));
    }

    rig.transactor.transact(Box::new(transaction(2, vec![write(TIER, "b")])), old);
    let result = result(&rig.answers);
    // The broker says to those who commit offsets in transactions what it says in the classic protocol.
    assert!(passed(&result, "generation"), "{result:?}");
    assert_eq!(rig.transact(transaction(2, vec![write(TIER, "b")])), TransactionResult::Committed);
    assert!(!reinits(&rig), "{}", rig.metrics.text());
    assert_eq!(rig.values(TIER), ["a", "b"]);
}

#[test]
fn a_static_member_whose_place_another_has_taken_commits_nothing() {
    let rig = Rig::with(broker::Kafka::shared(), |pipeline| {
        pipeline.workers.membership = Membership::Static;
    });
    assert_eq!(rig.transact(transaction(1, vec![write(TIER, "a")])), TransactionResult::Committed);

    let next = member(&rig.kafka, &rig.pipeline);

    let result = rig.transact(transaction(2, vec![write(TIER, "b")]));
    assert!(passed(&result, "nstance"), "{result:?}");
    assert!(!reinits(&rig), "{}", rig.metrics.text());
    assert_eq!(rig.values(TIER), ["a"]);
    drop(next);
}
