//! Tasks whose positions may be old stand still until a person accepts what may be repeated, and then that is repeated and
//! nothing else.

use redrive::core::position::OffsetRange;
use redrive::topology::model::Pipeline;

use crate::binary::Binary;
use crate::control::redrive;
use crate::expired::{forget_offsets, outputs, own_broker};
use crate::probe::Probes;
use crate::process::eventually;
use crate::support::Kafka;
use crate::topology::Draft;

const PARTITIONS: i32 = 2;

/// Writes numbers to every partition; every fourth fails once. In the source each has a place of its own, without gaps.
fn write(kafka: &Kafka, pipeline: &Pipeline, numbers: std::ops::Range<usize>) {
    for partition in 0..PARTITIONS {
        let own = numbers.clone().filter(|number| number % 2 == usize::try_from(partition).unwrap());
        let pairs: Vec<(String, String)> = own
            .map(|number| {
                let key = if number % 8 < 2 { format!("fails-{number}") } else { number.to_string() };
                (key, number.to_string())
            })
            .collect();
        let records: Vec<_> =
            pairs.iter().map(|(key, value)| (Some(key.as_bytes()), Some(value.as_bytes()))).collect();
        kafka.produce(pipeline.source.as_str(), Some(partition), &records);
    }
}

/// The commands that `/ready` gives to whoever reads it.
fn asked(probes: &Probes) -> Vec<String> {
    let said = probes.ask("/ready").map(|said| said.text).unwrap_or_default();
    said.lines().filter_map(|line| line.strip_prefix("hint: ")).map(str::to_owned).collect()
}

/// Types a command that redrive has told, on this topology: exit code, stdout, stderr.
fn typed(text: &str, command: &str) -> (Option<i32>, String, String) {
    let mut words = command.split(' ');
    assert_eq!(words.next(), Some("redrive"), "{command}");
    redrive(text, &words.collect::<Vec<_>>())
}

/// The ranges that a command accepts.
fn ranges(command: &str) -> Vec<OffsetRange> {
    let (_, ranges) = command.split_once(" --accept-repeats ").expect("it accepts something");
    ranges.split(' ').map(|range| range.parse().expect("a range")).collect()
}

/// The numbers that lie in a range of a topic.
fn within(kafka: &Kafka, range: &OffsetRange) -> Vec<usize> {
    let found = kafka.read(range.topic.as_str());
    let there = |offset| (range.from.0..range.to.0).contains(&offset);
    let inside =
        found.into_iter().filter(|found| found.partition == range.partition.0 && there(found.offset));
    inside.map(|found| String::from_utf8(found.value.unwrap()).unwrap().parse().unwrap()).collect()
}

#[test]
fn stale_tasks_go_on_by_the_command_that_they_print_and_repeat_exactly_what_it_accepts() {
    let own = own_broker();
    let kafka = own.as_ref().unwrap_or_else(|| Kafka::shared());
    let probes = Probes::somewhere();
    let draft = Draft::new(kafka, PARTITIONS).tiers(&["1s"]).fail("fails", Some(1), "transient");
    let draft = draft.listen(probes.address());
    let (topology, text) = (draft.made(kafka), draft.text(kafka));
    let pipeline = topology.pipelines.first().unwrap();
    let process = Binary::run(&text, 0);
    for round in 1..=5 {
        write(kafka, pipeline, (round - 1) * 40..round * 40);
        eventually("all are handled", || outputs(kafka, pipeline).len() == round * 40);
    }
    write(kafka, pipeline, 200..240);
    eventually("some are handled", || outputs(kafka, pipeline).len() > 200);
    process.kill();
    write(kafka, pipeline, 240..260);
    forget_offsets(kafka, pipeline);

    let (process, words) = Binary::heard(&text, 0);
    eventually("both tasks ask", || asked(&probes).len() == 2);
    let commands = asked(&probes);
    let next = |command: &String| {
        assert!(words.said().contains(command), "{command}\n{}", words.said());
        let (code, stdout, stderr) = typed(&text, command);
        assert_eq!(code, Some(0), "{stdout}{stderr}");
        let next = stdout.lines().find_map(|line| line.strip_prefix("next: ")).expect("what to type next");
        next.to_owned()
    };
    let confirmed: Vec<String> = commands.iter().map(next).collect();
    assert!(probes.says("/ready", 200, "positions-stale"), "a restart would not help");
    eventually("the time is counted", || {
        let told = probes.ask("/metrics").map(|said| said.text).unwrap_or_default();
        let blocked = told.lines().find(|line| line.contains("by=\"positions-stale\""));
        blocked.is_some_and(|line| !line.ends_with(" 0"))
    });
    let before = outputs(kafka, pipeline);
    write(kafka, pipeline, 260..280);

    let accepted: Vec<OffsetRange> = commands.iter().flat_map(|command| ranges(command)).collect();
    let first = ranges(&commands[0]);
    let shorter = OffsetRange { to: redrive::core::position::Offset(first[0].to.0 - 1), ..first[0].clone() };
    let wrong = commands[0].replace(&first[0].to_string(), &shorter.to_string());
    let (code, stdout, stderr) = typed(&text, &format!("{wrong} --yes"));
    assert_eq!(code, Some(1), "{stdout}{stderr}");
    assert!(stdout.contains("refused") && stdout.contains(&commands[0]), "{stdout}");
    assert_eq!(outputs(kafka, pipeline), before, "nothing is repeated unasked");

    for (left, command) in [(1, &confirmed[0]), (0, &confirmed[1])] {
        let (code, stdout, stderr) = typed(&text, command);
        assert_eq!(code, Some(0), "{stdout}{stderr}");
        eventually("that task asks no more", || asked(&probes).len() == left);
        let (code, stdout, _) = typed(&text, command);
        assert_eq!(code, Some(1), "once is enough: {stdout}");
    }
    assert!(accepted.iter().any(|range| range.topic != pipeline.source), "a tier, too: {accepted:?}");
    let repeated = accepted.iter().flat_map(|range| within(kafka, range));
    let mut expected: Vec<usize> = before.into_iter().chain(repeated).chain(260..280).collect();
    expected.sort_unstable();
    eventually("everything is handled", || outputs(kafka, pipeline).len() >= expected.len());
    assert_eq!(process.end().code(), Some(0));

    let process = Binary::run(&text, 0);
    write(kafka, pipeline, 280..300);
    expected.extend(280..300);
    eventually("it goes on by itself", || outputs(kafka, pipeline).contains(&299));
    eventually("with all of it", || outputs(kafka, pipeline).len() >= expected.len());
    assert!(asked(&probes).is_empty());
    assert_eq!(process.end().code(), Some(0));
    assert_eq!(outputs(kafka, pipeline), expected);
    let mut all = expected;
    all.dedup();
    assert_eq!(all, (0..300).collect::<Vec<_>>(), "none is lost");
}
