//! A record that a broker refuses as it is ends as documented, and the hundred behind it on its partition go on.

use std::collections::BTreeMap;

use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use redrive::topology::model::Pipeline;

use crate::group::settled_members;
use crate::process::{Process, eventually};
use crate::support::{Found, Kafka};
use crate::topology::Draft;

/// The largest batch that a narrowed topic takes: all small records of a test in one, and not the large one.
const NARROW: &str = "100000";
/// The value of the large record.
const LARGE: usize = 150_000;
/// Records before the large one, and as many behind it.
const MATES: usize = 100;

/// What a test is about.
struct Case {
    /// The key of the record that is refused; `None` for a null key.
    key: Option<&'static str>,
    large: bool,
    /// The topic of the pipeline that refuses, and its setting.
    topic: fn(&Pipeline) -> String,
    setting: (&'static str, &'static str),
}

/// What became of the records of a case.
struct Ended {
    output: Vec<Found>,
    dead: Vec<Found>,
    source: String,
}

/// Runs a pipeline of one partition whose topic refuses one record in the middle of many.
fn run(draft: impl FnOnce(Draft) -> Draft, case: &Case) -> Ended {
    let kafka = Kafka::shared();
    let topology = draft(Draft::new(kafka, 1)).made(kafka);
    let pipeline = topology.pipelines.first().unwrap().clone();
    let process = Process::start(&topology, "a");
    // Only while it runs: a start with topics that are too small for the source's largest record is refused.
    eventually("it has started", || {
        settled_members(kafka, &pipeline.group).is_some_and(|members| members.len() == 1)
    });
    let (name, value) = case.setting;
    alter(kafka, &(case.topic)(&pipeline), name, value);

    let value = if case.large { "x".repeat(LARGE) } else { "x".to_owned() };
    let keys: Vec<String> = (0..MATES).map(|number| format!("ok-{number}")).collect();
    let small = || keys.iter().map(|key| (Some(key.as_bytes()), Some(key.as_bytes())));
    let refused = (case.key.map(str::as_bytes), Some(value.as_bytes()));
    let records: Vec<_> = small().chain([refused]).chain(small()).collect();
    kafka.produce(pipeline.source.as_str(), Some(0), &records);

    let output = pipeline.output.as_ref().unwrap().as_str();
    let dead = pipeline.dead_letter.name.as_str();
    eventually("every record has its fate", || kafka.read(output).len() + kafka.read(dead).len() > 2 * MATES);
    process.end().expect("a clean end");
    let ended =
        Ended { output: kafka.read(output), dead: kafka.read(dead), source: pipeline.source.to_string() };
    ended.each_has_one_fate();
    ended
}

impl Ended {
    fn each_has_one_fate(&self) {
        let mut fates: BTreeMap<&str, usize> = BTreeMap::new();
        for found in self.output.iter().chain(&self.dead) {
            *fates.entry(header(found, "redrive-event-id").unwrap()).or_default() += 1;
        }
        assert_eq!(fates.len(), 2 * MATES + 1, "none is lost");
        assert!(fates.values().all(|count| *count == 1), "none is doubled: {fates:?}");
        assert_eq!(self.output.len(), 2 * MATES, "its mates and all behind it went on");
    }

    /// The one dead letter.
    fn dead(&self) -> &Found {
        let [dead] = self.dead.as_slice() else { panic!("{} dead letters", self.dead.len()) };
        assert_eq!(header(dead, "redrive-origin-offset"), Some(MATES.to_string().as_str()));
        dead
    }
}

fn header<'found>(found: &'found Found, name: &str) -> Option<&'found str> {
    let (_, value) = found.headers.iter().find(|(found, _)| found == name)?;
    std::str::from_utf8(value.as_deref()?).ok()
}

fn alter(kafka: &Kafka, topic: &str, name: &str, value: &str) {
    let admin: AdminClient<DefaultClientContext> = kafka.config().create().unwrap();
    let config = AlterConfig::new(ResourceSpecifier::Topic(topic)).set(name, value);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let altered = runtime.block_on(admin.alter_configs([&config], &AdminOptions::new())).unwrap();
    assert!(altered.iter().all(Result::is_ok), "{altered:?}");
    eventually("the broker has the new setting", || {
        let resource = ResourceSpecifier::Topic(topic);
        let found = runtime.block_on(admin.describe_configs([&resource], &AdminOptions::new())).unwrap();
        let found = found.into_iter().next().unwrap().unwrap();
        found.get(name).is_some_and(|entry| entry.value.as_deref() == Some(value))
    });
}

#[test]
fn a_record_too_large_for_its_tier_is_a_dead_letter_too_large_with_its_value() {
    let case = Case {
        key: Some("fails"),
        large: true,
        topic: |pipeline| pipeline.tiers[0].topic.name.to_string(),
        setting: ("max.message.bytes", NARROW),
    };
    let ended = run(|draft| draft.tiers(&["100ms"]).fail("fails", None, "transient"), &case);
    let dead = ended.dead();
    assert_eq!(header(dead, "redrive-reason"), Some("too-large"));
    assert_eq!(header(dead, "redrive-class"), Some("transient"));
    assert_eq!(header(dead, "redrive-attempt"), Some("1"));
    assert_eq!(header(dead, "redrive-payload-ref"), None);
    assert_eq!(dead.value.as_ref().map(Vec::len), Some(LARGE));
}

#[test]
fn a_record_too_large_for_the_dead_letter_topic_names_its_origin_there_instead_of_its_value() {
    let case = Case {
        key: Some("fails"),
        large: true,
        topic: |pipeline| pipeline.dead_letter.name.to_string(),
        setting: ("max.message.bytes", NARROW),
    };
    let ended = run(|draft| draft.tiers(&[]).fail("fails", None, "permanent"), &case);
    let dead = ended.dead();
    assert_eq!(header(dead, "redrive-reason"), Some("made-up"), "why it ended stays");
    let reference = format!("{}/0/{MATES}", ended.source);
    assert_eq!(header(dead, "redrive-payload-ref"), Some(reference.as_str()));
    assert_eq!((dead.key.as_deref(), &dead.value), (Some(&b"fails"[..]), &None));
}

#[test]
fn a_record_whose_output_is_too_large_is_a_dead_letter_that_says_so() {
    let case = Case {
        key: Some("ok-large"),
        large: true,
        topic: |pipeline| pipeline.output.as_ref().unwrap().to_string(),
        setting: ("max.message.bytes", NARROW),
    };
    let ended = run(|draft| draft.tiers(&["100ms"]), &case);
    let dead = ended.dead();
    assert_eq!(header(dead, "redrive-reason"), Some("too-large"));
    assert_eq!(header(dead, "redrive-class"), Some("permanent"));
    let detail = header(dead, "redrive-detail").unwrap();
    assert!(detail.starts_with("the output refuses it: ") && detail.contains("150008 bytes"), "{detail}");
    assert_eq!(dead.value.as_ref().map(Vec::len), Some(LARGE));
}

#[test]
fn a_record_whose_output_the_broker_calls_invalid_is_a_dead_letter_refused() {
    let case = Case {
        // A compacted topic takes no record without a key.
        key: None,
        large: false,
        topic: |pipeline| pipeline.output.as_ref().unwrap().to_string(),
        setting: ("cleanup.policy", "compact"),
    };
    let ended = run(|draft| draft.tiers(&["100ms"]), &case);
    let dead = ended.dead();
    assert_eq!(header(dead, "redrive-reason"), Some("refused"));
    assert_eq!((&dead.key, dead.value.as_deref()), (&None, Some(&b"x"[..])));
}
