//! The formats, byte for byte where others read them, and requests of any bytes.

use bytes::Bytes;

use super::*;
use crate::core::guard::Version;
use crate::core::position::{Offset, OffsetRange, Origin, Partition, TopicName, WriterId};
use crate::core::record::Record;
use crate::core::time::Timestamp;

/// Format 1 of an answer. Written once; never to be changed.
const ANSWER: &[u8] =
    b"\x01{\"at\":1700000000000,\"result\":\"refused\",\"words\":\"no\",\"writer\":\"00000000000000ab\"}";
/// The key of the answer to `0-18bcfe56800-7`.
const ANSWER_KEY: &[u8] = b"\0\0\0\x01a\0\0\0\x0f0-18bcfe56800-7";
/// Version 1 of a request. Written once; never to be changed.
const REQUEST: &str = r#"{"arguments":{"ranges":["orders/0/10-20","shop.orders.retry.5s/0/3-4"]},"at":1700000000000,"by":"ada","command":"accept-repeats","ticket":"OPS-1","version":1}"#;

/// The same, of a skip.
const SKIP: &str = r#"{"arguments":{"key":"YQD/","to":-7},"at":1700000000000,"by":"ada","command":"skip-versions","ticket":null,"version":1}"#;

fn range(topic: &str, from: i64, to: i64) -> OffsetRange {
    OffsetRange { topic: TopicName::new(topic), partition: Partition(0), from: Offset(from), to: Offset(to) }
}

fn request() -> Request {
    Request {
        id: "0-18bcfe56800-7".parse().unwrap(),
        by: "ada".to_owned(),
        at: Timestamp::from_millis(1_700_000_000_000),
        ticket: Some("OPS-1".to_owned()),
        command: Command::AcceptRepeats(vec![range("orders", 10, 20), range("shop.orders.retry.5s", 3, 4)]),
    }
}

fn record(key: Option<&[u8]>, value: Option<&[u8]>) -> Record {
    Record {
        offset: Offset(17),
        timestamp: Timestamp::from_millis(0),
        key: key.map(Bytes::copy_from_slice),
        value: value.map(Bytes::copy_from_slice),
        headers: Vec::new(),
        unnamed_headers: 0,
        decoded: None,
    }
}

/// The head of a request with this value, and the words of its refusal.
fn refused(value: &str) -> (Head, String) {
    let (head, command) = read(&record(Some(b"id-1"), Some(value.as_bytes())));
    (head, command.expect_err(value).to_string())
}

#[test]
fn a_request_is_written_as_it_always_was_and_read_back() {
    let request = request();
    assert_eq!(request.value(), REQUEST);
    let (head, command) = read(&record(Some(&request.key()), Some(REQUEST.as_bytes())));
    assert_eq!(command, Ok(request.command));
    assert_eq!(head.id, Some(request.id));
    assert_eq!((head.by.as_deref(), head.ticket.as_deref()), (Some("ada"), Some("OPS-1")));
    assert_eq!(head.at, Some(request.at));
    let words = "accept-repeats orders/0/10-20 shop.orders.retry.5s/0/3-4";
    assert_eq!(head.command.as_deref(), Some(words));
}

#[test]
fn a_skip_carries_keys_of_any_bytes() {
    let command = Command::SkipVersions { key: Bytes::from_static(b"a\0\xff"), to: Version(-7) };
    let skip = Request { command, ticket: None, ..request() };
    assert_eq!(skip.value(), SKIP);
    let (head, command) = read(&record(Some(&skip.key()), Some(SKIP.as_bytes())));
    assert_eq!(command, Ok(skip.command));
    assert_eq!(head.command.as_deref(), Some("skip-versions `a\\x00\\xff` to -7"));
}

#[test]
fn an_answer_is_written_as_it_always_was_and_read_back() {
    let refusal = Refusal::Declined { why: "no".to_owned() };
    let answer = Answer::new(Err(refusal), Timestamp::from_millis(1_700_000_000_000), WriterId(0xab));
    let id: RequestId = "0-18bcfe56800-7".parse().unwrap();
    assert_eq!(answer.to_bytes(), ANSWER);
    assert_eq!(Answer::key(&id), ANSWER_KEY);
    assert_eq!(Answer::read(ANSWER_KEY, Some(ANSWER)), Some((id.clone(), Ok(answer))));
    assert_eq!(Answer::read(ANSWER_KEY, None), None, "deleted");
    let newer = Some((id.clone(), Err(BadAnswer { id: id.clone(), format: 2 })));
    assert_eq!(Answer::read(ANSWER_KEY, Some(b"\x02?")), newer);
    let cut = Some((id.clone(), Err(BadAnswer { id, format: 1 })));
    assert_eq!(Answer::read(ANSWER_KEY, Some(&ANSWER[..ANSWER.len() - 1])), cut);
}

#[test]
fn what_is_no_answer_among_the_cases_is_passed_over() {
    for key in [
        &b""[..],
        b"a",
        b"\0\0\0\x01c\0\0\0\x01x",
        b"\0\0\0\x01a",
        b"\0\0\0\x01a\0\0\0\x01!",
        b"\xff\xff\xff\xffa",
    ] {
        assert_eq!(Answer::read(key, Some(ANSWER)), None, "{key:?}");
    }
}

#[test]
fn a_command_of_a_newer_version_is_refused_as_such_and_its_asker_is_known() {
    let (head, words) = refused(r#"{"version":2,"by":"ada","command":"claim","what":{}}"#);
    assert!(words.contains("version `2`") && words.contains("older"), "{words}");
    assert_eq!((head.by.as_deref(), head.command.as_deref()), (Some("ada"), Some("claim")));
    let (_, words) = refused(r#"{"version":1,"by":"ada","command":"claim"}"#);
    assert!(words.contains("`claim`") && words.contains("older"), "{words}");
}

#[test]
fn a_request_that_lacks_something_is_refused_and_says_what() {
    for (value, lacks) in [
        ("", "JSON"),
        ("[]", "JSON"),
        ("{", "JSON"),
        ("{}", "version"),
        (r#"{"version":"1"}"#, "version"),
        (r#"{"version":1}"#, "by"),
        (r#"{"version":1,"by":""}"#, "by"),
        (r#"{"version":1,"by":"ada"}"#, "command"),
        (r#"{"version":1,"by":"ada","command":"accept-repeats"}"#, "ranges"),
        (r#"{"version":1,"by":"ada","command":"accept-repeats","arguments":{"ranges":[]}}"#, "ranges"),
        (r#"{"version":1,"by":"ada","command":"accept-repeats","arguments":{"ranges":[7]}}"#, "range"),
        (r#"{"version":1,"by":"ada","command":"skip-versions","arguments":{"to":7}}"#, "`key`"),
        (r#"{"version":1,"by":"ada","command":"skip-versions","arguments":{"key":"%","to":7}}"#, "base64"),
        (r#"{"version":1,"by":"ada","command":"skip-versions","arguments":{"key":"YQ=="}}"#, "`to`"),
        (r#"{"version":1,"by":"ada","command":"skip-versions","arguments":{"key":"YQ==","to":1.5}}"#, "`to`"),
        (
            r#"{"version":1,"by":"ada","command":"accept-repeats","arguments":{"ranges":["orders/0"]}}"#,
            "orders/0",
        ),
    ] {
        let (head, words) = refused(value);
        assert!(words.contains(lacks), "{value}: {words}");
        assert!(head.id.is_some(), "{value}: whoever asked gets an answer");
    }
}

#[test]
fn junk_on_the_lane_is_no_request_and_is_told_in_few_bytes() {
    let long = vec![b'['; 1 << 20];
    let deep = vec![b'['; 100_000];
    let mut junk = vec![
        record(None, None),
        record(None, Some(b"\xff\xfe")),
        record(Some(b"\xff"), Some(REQUEST.as_bytes())),
    ];
    junk.extend([&long, &deep].map(|value| record(Some(&long), Some(value))));
    let names =
        format!(r#"{{"version":9,"by":"{0}","ticket":"{0}","command":"{0}\u001b[2J"}}"#, "é".repeat(60_000));
    junk.push(record(Some(b"id-1"), Some(names.as_bytes())));
    for record in junk {
        let (head, command) = read(&record);
        let place = Origin { topic: TopicName::new("c"), partition: Partition(0), offset: Offset(17) };
        let answer = Answer::new(command.map(|_| String::new()), Timestamp::from_millis(0), WriterId(1));
        assert_eq!(answer.compliance, Compliance::Refused);
        let audit = Reply { head, place, answer }.audit("orders");
        assert!(audit.len() < 8_000, "{} bytes", audit.len());
        let line: serde_json::Value = serde_json::from_slice(&audit).unwrap();
        assert_eq!((&line["result"], &line["asked-in"]), (&"refused".into(), &"c/0/17".into()));
        assert!(!audit.contains(&0x1b) && !String::from_utf8_lossy(&audit).contains("u001b"));
    }
}
