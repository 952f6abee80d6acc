//! The format as it was written, byte for byte, and what is no entry.

use super::*;
use crate::core::guard::{Version, fingerprint};
use crate::core::position::Partition;

mod held;

/// Format 1, with a topic id. Written once; never to be changed.
const EXACT: &[u8] = b"\x01\x01\0\0\0\0\0\0\0\x64\0\0\x01\x8b\xcf\xe5\x68\0\0\0\0\x06\0\0\0\x06orders\0\0\0\x10\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10";
/// Format 1, without.
const AT_LEAST: &[u8] =
    b"\x01\x00\0\0\0\0\0\0\0\x07\0\0\x01\x8b\xcf\xe5\x68\0\0\0\0\x01\0\0\0\x06orders\0\0\0\0";
const KEY: &[u8] = b"\0\0\0\x01p\0\0\0\x08retry.5s";

/// Format 1, counted. Written once; never to be changed.
const COUNTED: &[u8] = b"\x01\0\0\0\0\0\0\0\x0c\x01\0\0\0\0\0\0\0\x0a\x39\xc7\xa8\x21\x79\x59\x22\x95\0\0\x01\x8b\xcf\xe5\x68\0\0\0\0\x06orders\0\0\0\x03\0\0\0\0\0\0\0\x64";
/// Format 1, of the latest only; a tombstone.
const LATEST: &[u8] = b"\x01\xff\xff\xff\xff\xff\xff\xff\xfb\0\0\0\0\0\0\0\0\0\0\0\x01\x8b\xcf\xe5\x68\0\0\0\0\x06orders\0\0\0\0\0\0\0\0\0\0\0\x07";
const APPLIED_KEY: &[u8] = b"\0\0\0\x01v\0\0\0\x03a\0\xff";

fn counted() -> Applied<'static> {
    Applied {
        version: Version(12),
        first: Some(Version(10)),
        fingerprint: fingerprint(Some(b"paid")),
        at: Timestamp::from_millis(1_700_000_000_000),
        topic: "orders",
        partition: Partition(3),
        offset: Offset(100),
    }
}

fn latest() -> Applied<'static> {
    Applied {
        version: Version(-5),
        first: None,
        fingerprint: fingerprint(None),
        partition: Partition(0),
        offset: Offset(7),
        ..counted()
    }
}

fn exact() -> LanePosition {
    LanePosition {
        offset: Offset(100),
        standing: Standing::Exact,
        at: Timestamp::from_millis(1_700_000_000_000),
        founding: Founding(6),
        topic: TopicName::new("orders"),
        id: Some(TopicId([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16])),
    }
}

fn at_least() -> LanePosition {
    LanePosition {
        offset: Offset(7),
        standing: Standing::AtLeast,
        founding: Founding(1),
        id: None,
        ..exact()
    }
}

fn read(value: Option<&[u8]>) -> Result<StateEntry<'_>, BadStateEntry> {
    StateEntry::read(Some(KEY), value)
}

fn entry(position: Option<LanePosition>) -> StateEntry<'static> {
    StateEntry::Position { lane: "retry.5s".to_owned(), position }
}

#[test]
fn positions_of_every_format_are_read_and_the_newest_is_written() {
    assert_eq!(read(Some(EXACT)), Ok(entry(Some(exact()))));
    assert_eq!(read(Some(AT_LEAST)), Ok(entry(Some(at_least()))));
    assert_eq!(read(None), Ok(entry(None)));
    assert_eq!(exact().to_bytes(), EXACT);
    assert_eq!(at_least().to_bytes(), AT_LEAST);
    assert_eq!(position_key("retry.5s"), KEY);
}

#[test]
fn what_is_applied_is_read_in_every_format_and_written_in_the_newest() {
    for (bytes, applied) in [(Some(COUNTED), Some(counted())), (Some(LATEST), Some(latest())), (None, None)] {
        let read = StateEntry::read(Some(APPLIED_KEY), bytes);
        assert_eq!(read, Ok(StateEntry::Applied { key: b"a\0\xff", applied }));
    }
    assert_eq!(counted().to_bytes(), COUNTED);
    assert_eq!(latest().to_bytes(), LATEST);
    assert_eq!(applied_key(b"a\0\xff"), APPLIED_KEY);
    assert_eq!(counted().origin().to_string(), "orders/3/100");
}

#[test]
fn what_is_applied_and_cut_or_longer_or_of_another_format_is_told_with_its_key() {
    for whole in [COUNTED, LATEST] {
        let longer = [whole, b"\0"].concat();
        let cut = (0..whole.len()).filter_map(|length| whole.get(..length));
        let with = |place: usize, byte| {
            let mut changed = whole.to_vec();
            changed[place] = byte;
            changed
        };
        let topic = whole.windows(6).position(|part| part == b"orders").unwrap();
        let others =
            [longer, with(0, 2), with(9, 2), with(topic, 0xff), with(topic - 1, 5), with(topic - 4, 0xff)];
        for bytes in cut.chain(others.iter().map(Vec::as_slice)) {
            let told = StateEntry::read(Some(APPLIED_KEY), Some(bytes)).map_err(|error| error.to_string());
            let words = "what is applied of the key `a\\x00\\xff` cannot be read";
            assert!(told.as_ref().is_err_and(|told| told.starts_with(words)), "{told:?}");
        }
    }
}

#[test]
fn kinds_of_later_versions_are_passed_over_whatever_they_hold() {
    for key in [&b"\0\0\0\x01z\0\0\0\x02ab"[..], b"\0\0\0\x01x\0\0\0\0\0\0\0\x01\xff", b"\0\0\0\x07o/pause"] {
        assert_eq!(StateEntry::read(Some(key), Some(b"\xff\xff")), Ok(StateEntry::Unknown));
    }
}

#[test]
fn a_position_that_is_cut_or_longer_or_of_another_format_is_told_with_its_lane() {
    let longer = [EXACT, b"\0"].concat();
    let cut = (0..EXACT.len()).filter_map(|length| EXACT.get(..length));
    let other = [&b"\x02"[..], EXACT.get(1..).unwrap_or_default()].concat();
    for bytes in cut.chain([&longer[..], &other]) {
        let told = read(Some(bytes)).map_err(|error| error.to_string());
        assert!(told.clone().is_err_and(|words| words.contains("retry.5s")), "{told:?}");
    }
}

#[test]
fn a_key_that_is_no_list_of_parts_is_told() {
    for key in [
        &b""[..],
        b"p",
        b"\0\0\0\x02p",
        b"\0\0\0\x01p",
        b"\0\0\0\x01p\0\0\0\x01\xff",
        b"\0\0\0\x01p\0\0\0\x01a!",
        b"\0\0\0\x01v",
        b"\0\0\0\x01v\0\0\0\x02a",
        b"\0\0\0\x01v\0\0\0\x01a!",
    ] {
        assert_eq!(StateEntry::read(Some(key), None), Err(BadStateEntry::Key), "{key:?}");
    }
}
