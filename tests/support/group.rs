//! What a consumer group looks like from outside, and expelling a member of it.

use std::io::{Read, Write};
use std::net::TcpStream;

use rdkafka::consumer::{BaseConsumer, Consumer};

use crate::support::{Kafka, PATIENCE};

/// The ids of the group's members.
pub(crate) fn members(kafka: &Kafka, group: &str) -> Vec<String> {
    let client: BaseConsumer = kafka.config().create().expect("make a client");
    let groups = client.fetch_group_list(Some(group), PATIENCE).expect("describe the group");
    groups.groups().iter().flat_map(|group| group.members()).map(|member| member.id().to_owned()).collect()
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
