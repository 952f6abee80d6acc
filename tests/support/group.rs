//! What a consumer group looks like from outside, and expelling a member of it.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer};
use redrive::core::position::CommitMark;

use crate::support::{Kafka, PATIENCE};

/// The ids of the group's members.
pub(crate) fn members(kafka: &Kafka, group: &str) -> Vec<String> {
    let client: BaseConsumer = kafka.config().create().expect("make a client");
    let groups = client.fetch_group_list(Some(group), PATIENCE).expect("describe the group");
    groups.groups().iter().flat_map(|group| group.members()).map(|member| member.id().to_owned()).collect()
}

/// The ids of the group's members once all of them know what they have been given.
pub(crate) fn settled_members(kafka: &Kafka, group: &str) -> Option<Vec<String>> {
    let client: BaseConsumer = kafka.config().create().expect("make a client");
    // While the group's coordinator is being found the answer is an error.
    let groups = client.fetch_group_list(Some(group), PATIENCE).ok()?;
    let group = groups.groups().first().filter(|group| group.state() == "Stable")?;
    Some(group.members().iter().map(|member| member.id().to_owned()).collect())
}

/// Whether so many members have been given equally many partitions.
pub(crate) fn share(kafka: &Kafka, group: &str, count: usize) -> bool {
    let client: BaseConsumer = kafka.config().create().expect("make a client");
    // On a broker that has just begun the coordinator may still load.
    let Ok(groups) = client.fetch_group_list(Some(group), PATIENCE) else { return false };
    let stable = groups.groups().first().filter(|group| group.state() == "Stable");
    stable.is_some_and(|group| {
        let mut given = group.members().iter().map(|member| given(member.assignment().unwrap_or_default()));
        let first = given.next();
        group.members().len() == count && given.all(|given| Some(given) == first)
    })
}

/// Which workers have last committed the partitions of a topic: each names itself in what it commits.
pub(crate) fn writers(kafka: &Kafka, group: &str, topic: &str, partitions: i32) -> BTreeSet<u64> {
    let marks = marks(kafka, group, topic, partitions).expect("the group's offsets");
    marks.into_iter().map(|mark| mark.writer.0).collect()
}

/// What the last commits of the partitions of a topic say about themselves; `None` while the group's coordinator is being found.
pub(crate) fn marks(kafka: &Kafka, group: &str, topic: &str, partitions: i32) -> Option<Vec<CommitMark>> {
    let consumer: BaseConsumer = kafka.config().set("group.id", group).create().expect("make a client");
    let mut list = TopicPartitionList::new();
    list.add_partition_range(topic, 0, partitions - 1);
    let committed = consumer.committed_offsets(list, PATIENCE).ok()?;
    Some(committed.elements().into_iter().filter_map(|element| element.metadata().parse().ok()).collect())
}

/// How many partitions of its one topic an assignment holds.
fn given(assignment: &[u8]) -> i32 {
    let number =
        |at: usize| assignment.get(at..at + 4).map(|bytes| i32::from_be_bytes(bytes.try_into().unwrap()));
    // Version, topics, the topic's name; then the partitions.
    let name = assignment.get(6..8).map(|bytes| usize::from(u16::from_be_bytes(bytes.try_into().unwrap())));
    name.and_then(|length| number(8 + length)).unwrap_or(0)
}

/// Has the broker believe that a member left: what it holds goes to others without its being asked.
pub(crate) fn expel(kafka: &Kafka, group: &str, member: &str) {
    let mut body = Vec::new();
    body.extend(13_i16.to_be_bytes()); // LeaveGroup
    body.extend(1_i16.to_be_bytes());
    body.extend(1_i32.to_be_bytes()); // correlation
    for text in ["raw", group, member] {
        body.extend(i16::try_from(text.len()).unwrap().to_be_bytes());
        body.extend(text.as_bytes());
    }
    let mut stream = TcpStream::connect(kafka.bootstrap()).expect("connect");
    stream.write_all(&i32::try_from(body.len()).unwrap().to_be_bytes()).unwrap();
    stream.write_all(&body).unwrap();
    // Length, correlation, throttle time, error code.
    let mut answer = [0; 14];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(answer[12..], [0, 0], "the broker refuses to let {member} go");
}
