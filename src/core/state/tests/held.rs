//! Held records, what holds keys up, and the clock: as they were written, byte for byte.

use std::time::Duration;

use bytes::Bytes;

use super::super::*;
use crate::core::guard::{KeyHasher, Version};
use crate::core::position::{Offset, Origin, Partition, TopicName};

/// Format 1. Written once; never to be changed.
const HELD: &[u8] = b"\x01\0\0\0\0\0\x01\x5f\x90\x01\0\0\0\x02a\0\x01\0\0\0\x04paid";
/// Format 1, of a tombstone with an empty key.
const TOMBSTONE: &[u8] = b"\x01\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0";
const HELD_KEY: &[u8] = b"\0\0\0\x01h\0\0\0\x02a\0\0\0\0\x08\0\0\0\0\0\0\0\x0c";

/// Format 1. Written once; never to be changed.
const BLOCKERS: &[u8] = b"\x01\0\0\0\x02\0\0\0\x06orders\0\0\0\x03\0\0\0\0\0\0\0\x64\x01\0\0\0\0\0\0\0\x0b\0\0\0\x06orders\0\0\0\x03\0\0\0\0\0\0\0\x65\0\x01\0\0\0\x06orders\0\0\0\x03\0\0\0\0\0\0\0\x63\x01\0\0\0\0\0\0\0\x0a\x01\0\0\0\0\0\0\0\x07";
/// Format 1, where nothing is dead.
const WAITING: &[u8] = b"\x01\0\0\0\x01\0\0\0\x06orders\0\0\0\x03\0\0\0\0\0\0\0\x64\0\0";
const BLOCKERS_KEY: &[u8] = b"\0\0\0\x01b\0\0\0\x02a\0";

/// Format 1. Written once; never to be changed.
const CLOCK: &[u8] = b"\x01\0\0\0\0\0\x01\x5f\x90";
const CLOCK_KEY: &[u8] = b"\0\0\0\x01c";

fn held() -> Held<'static> {
    Held { due: Duration::from_secs(90), record_key: Some(b"a\0"), value: Some(b"paid") }
}

fn tombstone() -> Held<'static> {
    Held { due: Duration::ZERO, record_key: Some(b""), value: None }
}

fn origin(offset: i64) -> Origin {
    Origin { topic: TopicName::new("orders"), partition: Partition(3), offset: Offset(offset) }
}

fn blockers() -> Blockers {
    Blockers {
        waiting: vec![
            Blocker { origin: origin(100), version: Some(Version(11)) },
            Blocker { origin: origin(101), version: None },
        ],
        dead: Some(DeadPredecessor { origin: origin(99), version: Some(Version(10)), followed_to: Some(7) }),
    }
}

fn waiting() -> Blockers {
    Blockers { waiting: vec![Blocker { origin: origin(100), version: None }], dead: None }
}

#[test]
fn entries_of_keys_are_read_in_every_format_and_written_in_the_newest() {
    let key = &b"a\0"[..];
    for (held, bytes) in [(held(), HELD), (tombstone(), TOMBSTONE)] {
        let read = StateEntry::read(Some(HELD_KEY), Some(bytes));
        assert_eq!(read, Ok(StateEntry::Held { key, place: 12, held: Some(held) }));
        assert_eq!((&held_key(key, 12)[..], &held.to_bytes()[..]), (HELD_KEY, bytes));
    }
    for (blockers, bytes) in [(blockers(), BLOCKERS), (waiting(), WAITING)] {
        assert_eq!((&blockers_key(key)[..], &blockers.to_bytes()[..]), (BLOCKERS_KEY, bytes));
        let read = StateEntry::read(Some(BLOCKERS_KEY), Some(bytes));
        assert_eq!(read, Ok(StateEntry::Blockers { key, blockers: Some(blockers) }));
    }
    let clock = TaskClock(Duration::from_secs(90));
    assert_eq!((&clock_key()[..], &clock.to_bytes()[..]), (CLOCK_KEY, CLOCK));
    assert_eq!(StateEntry::read(Some(CLOCK_KEY), Some(CLOCK)), Ok(StateEntry::Clock(Some(clock))));
    let gone = [HELD_KEY, BLOCKERS_KEY, CLOCK_KEY].map(|key| StateEntry::read(Some(key), None));
    let expected = [
        Ok(StateEntry::Held { key, place: 12, held: None }),
        Ok(StateEntry::Blockers { key, blockers: None }),
        Ok(StateEntry::Clock(None)),
    ];
    assert_eq!(gone, expected);
}

#[test]
fn what_is_cut_or_longer_or_of_another_format_is_told_with_its_key() {
    for (key, whole, words) in [
        (HELD_KEY, HELD, "the record held at `12` behind the key `a\\x00` cannot be read"),
        (BLOCKERS_KEY, BLOCKERS, "what holds the key `a\\x00` up cannot be read"),
        (CLOCK_KEY, CLOCK, "the clock of the task cannot be read"),
    ] {
        let other = [&b"\x02"[..], &whole[1..]].concat();
        let longer = [whole, b"\0"].concat();
        let cut = (0..whole.len()).map(|length| &whole[..length]);
        for bytes in cut.chain([&other[..], &longer]) {
            let told = StateEntry::read(Some(key), Some(bytes)).map_err(|error| error.to_string());
            assert!(told.as_ref().is_err_and(|told| told.starts_with(words)), "{bytes:?}: {told:?}");
        }
    }
    for key in [&HELD_KEY[..HELD_KEY.len() - 1], &[HELD_KEY, b"!"].concat(), &[CLOCK_KEY, b"!"].concat()] {
        assert_eq!(StateEntry::read(Some(key), None), Err(BadStateEntry::Key), "{key:?}");
    }
}

#[test]
fn what_cannot_be_read_keeps_back_until_another_entry_of_its_key_comes() {
    let mut keys = Keys::new(KeyHasher::new(1), &crate::core::policy::OrderPolicy::default());
    let newer = Bytes::from_static(b"\x02");
    for (key, good) in [(BLOCKERS_KEY, WAITING), (CLOCK_KEY, CLOCK)] {
        assert_eq!(keys.take(Some(key), Some(&newer), Vec::new), Ok(None));
        assert!(keys.unreadable().is_some());
        assert_eq!(keys.take(Some(key), Some(good), Vec::new), Ok(None));
        assert_eq!(keys.unreadable(), None);
    }
    // A held record without its control headers is none.
    assert_eq!(keys.take(Some(HELD_KEY), Some(HELD), Vec::new), Ok(None));
    let told = keys.unreadable().map(ToString::to_string).unwrap();
    assert!(told.ends_with("control header `redrive-event-id` is missing"), "{told}");
    assert_eq!(keys.take(Some(HELD_KEY), None, Vec::new), Ok(None));
    assert_eq!((keys.unreadable(), keys.held.len(), keys.clock), (None, 0, Duration::from_secs(90)));
}
