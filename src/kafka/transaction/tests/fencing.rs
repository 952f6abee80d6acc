use super::*;

#[test]
fn a_zombie_is_fenced_by_the_next_transactor_of_its_ids_and_comes_back_by_fencing_it() {
    let rig = Rig::new();
    assert_eq!(rig.transact(transaction(1, vec![write(TIER, "first")])), TransactionResult::Committed);
    let (twin, answers) = start(&rig.kafka, &rig.pipeline, &rig.epochs, &Metrics::new("t"));

    let result = rig.transact(transaction(2, vec![write(TIER, "zombie")]));
    assert!(matches!(result, TransactionResult::Fenced { after, .. } if after < PATIENCE), "{result:?}");
    let result = rig.transact(transaction(2, vec![write(TIER, "zombie")]));
    assert!(matches!(result, TransactionResult::Fenced { .. }), "{result:?}");

    // Both producers of the first are new by now, and the twin's are fenced.
    assert_eq!(rig.transact(transaction(2, vec![write(TIER, "again")])), TransactionResult::Committed);
    twin.transact(Box::new(transaction(3, vec![write(TIER, "twin")])), rig.group());
    let result = super::result(&answers);
    assert!(matches!(result, TransactionResult::Fenced { .. }), "{result:?}");
    assert_eq!(rig.values(TIER), ["first", "again"]);
    let told = rig.metrics.text();
    let remade = told.lines().filter(|line| line.starts_with("redrive_producer_reinits_total"));
    let pipeline = &rig.pipeline.name;
    let expected =
        format!("redrive_producer_reinits_total{{cause=\"fenced\",pipeline=\"{pipeline}\",app=\"t\"}} 2");
    assert_eq!(remade.collect::<Vec<_>>(), [expected]);
}

#[test]
fn a_fenced_transaction_of_offsets_alone_is_not_committed() {
    let rig = Rig::new();
    let (_twin, _answers) = start(&rig.kafka, &rig.pipeline, &rig.epochs, &Metrics::new("t"));

    let result = rig.transact(transaction(1, Vec::new()));

    assert!(matches!(result, TransactionResult::Fenced { .. }), "{result:?}");
    assert_eq!(rig.read_back(), [(TASK, None)]);
}
