//! What pipelines must not be to each other: sharers of a topic, or links of a circle.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::core::position::TopicName;
use crate::topology::code::Code;
use crate::topology::pipeline::Draft;
use crate::topology::reading::Reading;
use crate::topology::topics::Named;

/// Tells every problem between pipelines, and between the topics of one.
pub(crate) fn check(reading: &Reading<'_>, drafts: &[Draft], audit: Option<&TopicName>) {
    if let Some(audit) = audit {
        check_audit(reading, drafts, audit);
    }
    let owners = check_own(reading, drafts);
    for draft in drafts {
        check_use(reading, draft, &owners);
    }
    check_circles(reading, drafts);
}

/// Kafka refuses a topic whose name differs from another only by `.` and `_`
/// (`org.apache.kafka.common.internals.Topic`): their metrics would collide.
fn metric_name(topic: &TopicName) -> String {
    topic.as_str().replace('.', "_")
}

/// No pipeline uses the topic that tells what operators did.
fn check_audit(reading: &Reading<'_>, drafts: &[Draft], audit: &TopicName) {
    for draft in drafts {
        let written = draft.written().map(|(_, topic)| topic);
        let used = draft.own.iter().chain(&draft.source).chain(written);
        for topic in used.filter(|topic| metric_name(&topic.name) == metric_name(audit)) {
            let message = format!(
                "topic `{}` of pipeline `{}` is where redrive writes what operators did",
                topic.name, draft.name
            );
            let hint = "only redrive writes it: use another topic";
            reading.report_with_hint(Code::OwnTopic, &topic.at, message, hint);
        }
    }
}

/// The owner of each topic that redrive owns.
fn check_own<'a>(reading: &Reading<'_>, drafts: &'a [Draft]) -> BTreeMap<String, &'a Draft> {
    let mut owners: BTreeMap<String, (&Draft, &Named)> = BTreeMap::new();
    for draft in drafts {
        for topic in &draft.own {
            let Some((owner, first)) = owners.insert(metric_name(&topic.name), (draft, topic)) else {
                continue;
            };
            let other = if owner.name == draft.name {
                "another topic of the same pipeline".to_owned()
            } else {
                format!("a topic of pipeline `{}`", owner.name)
            };
            let same = if first.name == topic.name {
                format!("is {other} too")
            } else {
                format!("collides with `{}`, {other}: Kafka takes `.` and `_` for one", first.name)
            };
            let message = format!("topic `{}` of pipeline `{}` {same}", topic.name, draft.name);
            let hint = "each topic of redrive has one owner and one purpose: change `topics.names`";
            reading.report_with_hint(Code::TopicCollision, &topic.at, message, hint);
        }
    }
    owners.into_iter().map(|(name, (owner, _))| (name, owner)).collect()
}

/// Sources and outputs must not be topics that redrive owns, nor each other.
fn check_use(reading: &Reading<'_>, draft: &Draft, owners: &BTreeMap<String, &Draft>) {
    let source = draft.source.as_ref().ok();
    let used = source.map(|topic| ("source", topic)).into_iter();
    let used = used.chain(draft.written());
    for (role, topic) in used {
        if let Some(owner) = owners.get(&metric_name(&topic.name)) {
            let message =
                format!("{role} `{}` is redrive's own topic, of pipeline `{}`", topic.name, owner.name);
            let hint = "only its owner reads and writes it: use another topic";
            reading.report_with_hint(Code::OwnTopic, &topic.at, message, hint);
        }
    }
    let back = |topic: &Named| source.is_some_and(|source| source.name == topic.name);
    for (role, topic) in draft.written().filter(|(_, topic)| back(topic)) {
        let message = format!("{role} `{}` is the source of the same pipeline", topic.name);
        let hint = "every record in it would come again, for ever: write to another topic";
        reading.report_with_hint(Code::OutputIsSource, &topic.at, message, hint);
    }
    for stale in
        draft.stale_output.iter().filter(|stale| draft.outputs.iter().any(|output| output.name == stale.name))
    {
        let message = format!("stale output `{}` is an output of the same pipeline", stale.name);
        let hint = "old values would follow new ones there after all: write them to another topic";
        reading.report_with_hint(Code::StaleIsOutput, &stale.at, message, hint);
    }
}

/// Tells each circle once, at its first pipeline.
fn check_circles(reading: &Reading<'_>, drafts: &[Draft]) {
    for (index, first) in drafts.iter().enumerate() {
        let (Some(rest), Ok(home)) = (drafts.get(index..), &first.source) else { continue };
        let Some((path, output)) = way_back(first, rest, home) else { continue };
        let message = format!("records would go round: {path}");
        let hint = "write to a topic that none of these pipelines reads";
        reading.report_with_hint(Code::TopicCycle, &output.at, message, hint);
    }
}

/// The shortest way from a pipeline to its own source through at least one other of `rest`, and its first output.
fn way_back<'a>(first: &'a Draft, rest: &'a [Draft], home: &Named) -> Option<(String, &'a Named)> {
    let mut seen = BTreeSet::from([home.name.as_str()]);
    let mut open = VecDeque::new();
    for (_, output) in first.written().filter(|(_, output)| output.name != home.name) {
        open.push_back((format!("`{}` → `{}`", first.name, output.name), output, &output.name));
    }
    while let Some((path, output, topic)) = open.pop_front() {
        if *topic == home.name {
            return Some((format!("{path} → `{}`", first.name), output));
        }
        if !seen.insert(topic.as_str()) {
            continue;
        }
        let reads = |draft: &&Draft| draft.source.as_ref().is_ok_and(|source| source.name == *topic);
        for draft in rest.iter().filter(reads) {
            for (_, next) in draft.written() {
                open.push_back((format!("{path} → `{}` → `{}`", draft.name, next.name), output, &next.name));
            }
        }
    }
    None
}
