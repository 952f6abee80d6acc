use super::*;
use crate::core::policy::{Equal, Guard, Latest, Source, TombstoneVersion};
use crate::core::record::HeaderName;
use crate::kafka::fixture;

fn config(settings: &[(&str, &str)]) -> BTreeMap<String, String> {
    settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn foreign_topic(partitions: usize) -> Found {
    Found::Present { partitions, replicas: 3, config: config(&[("max.message.bytes", "1000")]) }
}

/// The topics of the fixture's pipeline as redrive would have made them for a source of three partitions.
fn as_planned() -> BTreeMap<TopicName, Found> {
    let mut found = BTreeMap::from([
        (TopicName::new("p.in"), foreign_topic(3)),
        (TopicName::new("p.out"), foreign_topic(12)),
    ]);
    for step in plan(&found).steps {
        if let Change::Create(New { partitions, config, .. }) = step.change {
            found.insert(TopicName::new(&step.topic), Found::Present { partitions, replicas: 3, config });
        }
    }
    found
}

fn plan(found: &BTreeMap<TopicName, Found>) -> Plan {
    Plan::of(&fixture::topology("unused", fixture::pipeline("p")), &Drained::default(), found)
}

fn change_of(topic: &str, found: &BTreeMap<TopicName, Found>) -> Change {
    plan(found).steps.into_iter().find(|step| step.topic == topic).unwrap().change
}

/// What is said of a topic when one of its settings is changed.
fn problems_with(topic: &str, name: &str, value: &str) -> Vec<String> {
    let mut found = as_planned();
    let Some(Found::Present { config, .. }) = found.get_mut(&TopicName::new(topic)) else {
        panic!("{topic} is not planned");
    };
    config.insert(name.to_owned(), value.to_owned());
    match change_of(topic, &found) {
        Change::Refuse(problems) => problems.into_iter().map(|problem| problem.text).collect(),
        Change::Keep { .. } => Vec::new(),
        other @ (Change::Create(_) | Change::Grow { .. } | Change::Hold { .. } | Change::Drain { .. }) => {
            panic!("{other:?}")
        }
    }
}

#[test]
fn missing_topics_of_our_own_are_created_like_their_source() {
    let found = BTreeMap::from([
        (TopicName::new("p.in"), foreign_topic(3)),
        (TopicName::new("p.out"), foreign_topic(12)),
    ]);

    let Change::Create(tier) = change_of("t.p.retry.5s", &found) else { panic!() };
    assert_eq!(tier.partitions, 3);
    assert_eq!(
        tier.config,
        config(&[
            ("cleanup.policy", "delete"),
            ("max.message.bytes", "66536"),
            ("message.timestamp.type", "CreateTime"),
            ("retention.bytes", "-1"),
            ("retention.ms", "604800000"),
        ])
    );
    let Change::Create(state) = change_of("t.p.state", &found) else { panic!() };
    assert_eq!(state.config.get("cleanup.policy").unwrap(), "compact");
    assert_eq!(state.config.get("retention.ms"), None);
    assert_eq!(plan(&found).verdict(), Verdict::Changes);
}

#[test]
fn what_redrive_made_is_kept() {
    let plan = plan(&as_planned());
    assert_eq!(plan.verdict(), Verdict::Nothing);
    assert_eq!(plan.warnings(), []);
}

#[test]
fn a_missing_source_or_output_is_refused_and_nothing_is_made_for_a_missing_source() {
    let mut found = as_planned();
    found.insert(TopicName::new("p.out"), Found::Missing);
    assert!(matches!(change_of("p.out", &found), Change::Refuse(_)));

    let nothing = BTreeMap::new();
    let refused = |step: &Step| matches!(step.change, Change::Refuse(_)) || step.role == "audit";
    assert!(plan(&nothing).steps.iter().all(refused));
    assert_eq!(plan(&nothing).verdict(), Verdict::Refused);
}

#[test]
fn a_missing_stale_output_is_refused_and_one_that_is_there_is_kept() {
    let mut pipeline = fixture::pipeline("p");
    pipeline.policy.order.guard = Guard::Latest(Latest {
        version: vec![Source::Header(HeaderName::from_static("rev"))],
        equal: Equal::Conflict,
        tombstone: TombstoneVersion::DeadLetter,
        stale_output: Some(TopicName::new("p.stale")),
    });
    let topology = fixture::topology("unused", pipeline);
    let mut found = as_planned();
    let change = |found: &BTreeMap<TopicName, Found>| {
        let steps = Plan::of(&topology, &Drained::default(), found).steps;
        steps.into_iter().find(|step| step.role == "stale-output").unwrap().change
    };
    let Change::Refuse(problems) = change(&found) else { panic!() };
    assert_eq!(problems[0].text, "the stale-output topic does not exist");

    found.insert(TopicName::new("p.stale"), foreign_topic(7));
    assert_eq!(change(&found), Change::Keep { partitions: 7 });
}

#[test]
fn a_source_that_grew_takes_its_topics_along_and_one_that_shrank_is_refused() {
    let mut found = as_planned();
    found.insert(TopicName::new("p.in"), foreign_topic(5));
    assert_eq!(change_of("t.p.dlq", &found), Change::Grow { from: 3, to: 5 });

    found.insert(TopicName::new("p.in"), foreign_topic(2));
    assert!(matches!(change_of("t.p.dlq", &found), Change::Refuse(_)));
}

#[test]
fn settings_that_would_lose_records_are_refused() {
    for (topic, name, value) in [
        ("t.p.retry.5s", "cleanup.policy", "compact"),
        ("t.p.retry.5s", "cleanup.policy", "compact,delete"),
        ("t.p.retry.5s", "retention.ms", "604799999"),
        ("t.p.retry.5s", "retention.bytes", "1000000"),
        ("t.p.retry.5s", "max.message.bytes", "66535"),
        ("t.p.retry.5s", "message.timestamp.type", "LogAppendTime"),
        ("t.p.dlq", "retention.ms", "604800000"),
        ("t.p.state", "cleanup.policy", "delete"),
        ("t.p.cases", "cleanup.policy", "compact"),
        ("t.p.cases", "retention.ms", "3628799999"),
        ("t.p.control", "cleanup.policy", "compact"),
        ("t.p.control", "max.message.bytes", "1048575"),
    ] {
        let problems = problems_with(topic, name, value);
        assert_eq!(problems.len(), 1, "{topic} {name}={value}: {problems:?}");
        assert!(problems[0].contains(name) && problems[0].contains(value), "{problems:?}");
    }
}

#[test]
fn settings_that_keep_more_than_needed_are_kept() {
    for (topic, name, value) in [
        ("t.p.retry.5s", "retention.ms", "-1"),
        ("t.p.retry.5s", "retention.ms", "604800001"),
        ("t.p.retry.5s", "max.message.bytes", "2000000"),
        ("t.p.state", "retention.ms", "1"),
    ] {
        assert_eq!(problems_with(topic, name, value), [""; 0], "{topic} {name}={value}");
    }
}

#[test]
fn fewer_than_three_replicas_are_warned_of() {
    let mut found = as_planned();
    let Some(Found::Present { replicas, .. }) = found.get_mut(&TopicName::new("t.p.dlq")) else { panic!() };
    *replicas = 2;
    let plan = plan(&found);
    assert_eq!(plan.verdict(), Verdict::Nothing);
    assert_eq!(plan.warnings().iter().map(|warning| warning.topic.as_str()).collect::<Vec<_>>(), ["t.p.dlq"]);
}

#[test]
fn a_topic_that_may_not_be_seen_is_refused() {
    let mut found = as_planned();
    found.insert(TopicName::new("t.p.dlq"), Found::Hidden { detail: "not allowed".to_owned() });
    let Change::Refuse(problems) = change_of("t.p.dlq", &found) else { panic!() };
    assert!(problems[0].text.contains("not allowed"));
}
