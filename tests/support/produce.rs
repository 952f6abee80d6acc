//! One Produce request, written byte by byte: the one way to send what no client lets through, such as header names that
//! are not UTF-8.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::support::Kafka;

/// A record with nothing held back.
#[derive(Clone, Debug)]
pub(crate) struct RawRecord {
    pub(crate) timestamp: i64,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// Writes one record to a partition and gives its offset.
pub(crate) fn produce_raw(kafka: &Kafka, topic: &str, partition: i32, record: &RawRecord) -> i64 {
    let batch = batch(record);
    let mut body = Vec::new();
    body.extend(0_i16.to_be_bytes()); // Produce
    body.extend(3_i16.to_be_bytes()); // the version with record batches
    body.extend(1_i32.to_be_bytes()); // correlation
    text(&mut body, "raw");
    body.extend((-1_i16).to_be_bytes()); // no transaction
    body.extend((-1_i16).to_be_bytes()); // acks: all
    body.extend(10_000_i32.to_be_bytes());
    body.extend(1_i32.to_be_bytes());
    text(&mut body, topic);
    body.extend(1_i32.to_be_bytes());
    body.extend(partition.to_be_bytes());
    body.extend(i32::try_from(batch.len()).unwrap().to_be_bytes());
    body.extend(batch);

    let mut stream = TcpStream::connect(kafka.bootstrap()).expect("connect");
    stream.write_all(&i32::try_from(body.len()).unwrap().to_be_bytes()).unwrap();
    stream.write_all(&body).unwrap();
    let mut length = [0; 4];
    stream.read_exact(&mut length).expect("an answer");
    let mut answer = vec![0; usize::try_from(i32::from_be_bytes(length)).unwrap()];
    stream.read_exact(&mut answer).expect("a whole answer");
    // correlation, topics, name, partitions, partition; then error code and offset.
    let at = 4 + 4 + 2 + topic.len() + 4 + 4;
    let error = i16::from_be_bytes(answer[at..at + 2].try_into().unwrap());
    assert_eq!(error, 0, "the broker refuses the record");
    i64::from_be_bytes(answer[at + 2..at + 10].try_into().unwrap())
}

fn text(to: &mut Vec<u8>, text: &str) {
    to.extend(i16::try_from(text.len()).unwrap().to_be_bytes());
    to.extend(text.as_bytes());
}

/// A batch of one record, format 2.
fn batch(record: &RawRecord) -> Vec<u8> {
    let mut content = vec![0]; // attributes
    varint(&mut content, 0); // timestamp delta
    varint(&mut content, 0); // offset delta
    bytes(&mut content, record.key.as_deref());
    bytes(&mut content, record.value.as_deref());
    varint(&mut content, i64::try_from(record.headers.len()).unwrap());
    for (name, value) in &record.headers {
        bytes(&mut content, Some(name));
        bytes(&mut content, value.as_deref());
    }
    let mut checked = Vec::new();
    checked.extend(0_i16.to_be_bytes()); // attributes: no compression, create time
    checked.extend(0_i32.to_be_bytes()); // last offset delta
    checked.extend(record.timestamp.to_be_bytes());
    checked.extend(record.timestamp.to_be_bytes());
    checked.extend((-1_i64).to_be_bytes()); // no producer id
    checked.extend((-1_i16).to_be_bytes());
    checked.extend((-1_i32).to_be_bytes());
    checked.extend(1_i32.to_be_bytes());
    varint(&mut checked, i64::try_from(content.len()).unwrap());
    checked.extend(content);

    let mut batch = Vec::new();
    batch.extend(0_i64.to_be_bytes()); // base offset
    batch.extend(i32::try_from(4 + 1 + 4 + checked.len()).unwrap().to_be_bytes());
    batch.extend((-1_i32).to_be_bytes()); // leader epoch
    batch.push(2);
    batch.extend(crc32c(&checked).to_be_bytes());
    batch.extend(checked);
    batch
}

fn bytes(to: &mut Vec<u8>, part: Option<&[u8]>) {
    match part {
        None => varint(to, -1),
        Some(part) => {
            varint(to, i64::try_from(part.len()).unwrap());
            to.extend(part);
        }
    }
}

/// Zigzag, seven bits at a time.
fn varint(to: &mut Vec<u8>, number: i64) {
    let mut rest = number.wrapping_shl(1).cast_unsigned() ^ (number >> 63).cast_unsigned();
    while rest >= 0x80 {
        to.push(u8::try_from(rest & 0x7f).unwrap() | 0x80);
        rest >>= 7;
    }
    to.push(u8::try_from(rest).unwrap());
}

fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = !0_u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    !crc
}
