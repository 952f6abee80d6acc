//! What a codec read out of values: identity, version and the key of an order, and values that are none.

use super::*;
use crate::core::decoded::{Decoded, Found, Undecodable};
use crate::core::guard::{KeyHasher, Version};
use crate::core::headers::LONGEST_ID;
use crate::core::policy::{Equal, Guard, Latest, OrderKey, Source, TombstoneVersion};
use crate::core::record::HeaderName;
use crate::core::state::Keys;

fn at(place: &str) -> Source {
    Source::Json(place.parse().unwrap())
}

fn in_header(name: &str) -> Source {
    Source::Header(HeaderName::new(name))
}

fn text(text: &str) -> Option<Found> {
    Some(Found::Text(Bytes::copy_from_slice(text.as_bytes())))
}

fn whole(digits: &str) -> Found {
    Found::Whole(Bytes::copy_from_slice(digits.as_bytes()))
}

fn null() -> Found {
    Found::Other(Bytes::from_static(b"null"))
}

/// A record of whose value this was read.
fn read(offset: i64, key: &str, decoded: Decoded) -> Record {
    Record { decoded: Some(Box::new(Ok(decoded))), ..record(offset, key) }
}

fn identified() -> Policy {
    let mut policy = once(policy(&[5]));
    policy.identity.event_id = Some(at("/id"));
    policy.identity.operation_id = Some(at("/op"));
    policy
}

fn guarded(version: Vec<Source>) -> Policy {
    let mut policy = once(policy(&[5]));
    let (equal, tombstone) = (Equal::Conflict, TombstoneVersion::DeadLetter);
    policy.order.guard = Guard::Latest(Latest { version, equal, tombstone, stale_output: None });
    policy
}

fn keyed(version: Vec<Source>) -> Policy {
    let mut policy = guarded(version);
    policy.order.key = OrderKey::Json("/customer".parse().unwrap());
    policy
}

/// A worker that has task 0, where nothing is applied yet.
fn worker(policy: Policy) -> Worker {
    let lanes = policy.lanes().map(|_| LaneStart::Committed(Offset(0))).collect();
    let keys = policy.order.keeps_state().then(|| Box::new(Keys::new(KeyHasher::new(1), &policy.order)));
    let mut worker = Worker::new(policy);
    worker.notes_by_themselves = Answers::Committed;
    worker.tell(Event::Assigned(vec![P]));
    let found = Restored { mark: None, founding: Founding(1), lanes, topics: Vec::new(), keys };
    let epoch = worker.epoch();
    worker.tell(Event::Restored { partition: P, epoch, found });
    worker
}

/// What becomes of a record that no handler sees: reason, class and detail of its dead letter.
fn dead(policy: Policy, record: Record) -> [String; 3] {
    let mut worker = worker(policy);
    worker.fetch(Lane::Source, vec![record]);
    assert!(worker.deliveries.is_empty(), "no handler sees it");
    let letter = worker.transactions.remove(0).writes.remove(0);
    assert_eq!((letter.target, letter.value.as_deref()), (Target::DeadLetter, Some(&b"v"[..])));
    ["redrive-reason", "redrive-class", "redrive-detail"].map(|name| header(&letter.headers, name).unwrap())
}

#[test]
fn the_identity_in_a_value_goes_to_the_handler_and_with_every_copy() {
    let mut worker = worker(identified());
    let decoded = Decoded { event_id: text("e-1"), operation_id: Some(whole("42")), ..Decoded::default() };
    worker.fetch(Lane::Source, vec![read(0, "a", decoded)]);
    let delivery = worker.answer(fails(Class::Transient));
    assert_eq!((delivery.envelope.event_id(), delivery.envelope.operation_id()), ("e-1".into(), "42".into()));
    let copy = worker.end(TransactionResult::Committed).writes.remove(0);
    assert_eq!(copy.target, Target::Tier(TierIndex(0)));
    let id = |name| header(&copy.headers, name).unwrap();
    assert_eq!([id("redrive-event-id"), id("redrive-operation-id")], ["e-1", "42"]);
}

#[test]
fn an_event_id_that_is_none_is_the_origin_and_an_operation_id_that_is_none_is_a_dead_letter() {
    let unusable = [None, text(""), text(&"x".repeat(LONGEST_ID + 1)), Some(null())];
    for found in unusable {
        let mut policy = identified();
        policy.identity.operation_id = None;
        let mut worker = worker(policy);
        worker.fetch(
            Lane::Source,
            vec![read(0, "a", Decoded { event_id: found.clone(), ..Decoded::default() })],
        );
        assert_eq!(worker.deliveries[0].envelope.event_id(), "orders/0/0");

        let decoded = Decoded { operation_id: found, event_id: text("e-1"), ..Decoded::default() };
        let [reason, class, detail] = dead(identified(), read(0, "a", decoded));
        assert_eq!((reason.as_str(), class.as_str()), ("no-operation-id", "permanent"));
        assert_eq!(detail, "`/op` of its value holds no operation id of 1 to 256 bytes of text or digits");
    }
    let longest = "é".repeat(LONGEST_ID / 2);
    let mut worker = worker(identified());
    let decoded = Decoded { operation_id: text(&longest), ..Decoded::default() };
    worker.fetch(Lane::Source, vec![read(0, "a", decoded)]);
    assert_eq!(worker.deliveries[0].envelope.operation_id(), longest);
}

#[test]
fn a_value_that_cannot_be_decoded_is_a_dead_letter_at_once_whatever_else_it_lacks() {
    let undecodable = |offset| {
        let detail = "byte 3 of 7 should be a digit".to_owned();
        Record { decoded: Some(Box::new(Err(Undecodable { detail }))), ..record(offset, "a") }
    };
    for policy in [once(policy(&[5])), identified(), keyed(vec![at("/version")])] {
        let told = dead(policy, undecodable(0));
        assert_eq!(told, ["decode-failed", "poison", "byte 3 of 7 should be a digit"]);
    }
    let mut worker = worker(identified());
    worker.fetch(Lane::Source, vec![undecodable(0)]);
    let transaction = worker.end(TransactionResult::Committed);
    assert_eq!(source_offset(&transaction), Offset(1), "nothing stands behind it");
    let headers = &transaction.writes[0].headers;
    assert_eq!(header(headers, "redrive-operation-id").unwrap(), "orders/0/0");
    assert_eq!(header(headers, "redrive-attempt"), None, "it was never tried");
}

#[test]
fn the_first_place_of_a_version_that_exists_counts_in_header_or_value() {
    let sources = vec![at("/new"), in_header("rev"), at("/old")];
    let decided = |decoded: Option<(usize, Found)>, rev: Option<&'static str>| {
        let mut worker = worker(guarded(sources.clone()));
        let headers = rev.map(|rev| Header { name: HeaderName::new("rev"), value: Some(Bytes::from(rev)) });
        let found = Decoded { version: decoded, ..Decoded::default() };
        let record = Record { headers: headers.into_iter().collect(), ..read(0, "a", found) };
        worker.fetch(Lane::Source, vec![record]);
        worker.deliveries.first().map(|delivery| delivery.envelope.version.unwrap().0)
    };
    assert_eq!(decided(Some((0, whole("7"))), Some("8")), Some(7));
    assert_eq!(decided(Some((2, whole("7"))), Some("8")), Some(8));
    assert_eq!(decided(Some((2, text("7").unwrap())), None), Some(7));
    assert_eq!(decided(Some((0, text("1970-01-01T00:00:01Z").unwrap())), None), Some(1_000));
    assert_eq!(decided(None, Some("8")), Some(8));
    // What is there counts, whether it can be used or not.
    assert_eq!(decided(Some((0, null())), Some("8")), None);
    assert_eq!(decided(Some((2, whole("7"))), Some("x")), None);
}

#[test]
fn why_a_value_holds_no_version_is_told() {
    let sources = vec![in_header("rev"), at("/v")];
    let detail = |version| {
        let [reason, class, detail] =
            dead(guarded(sources.clone()), read(0, "a", Decoded { version, ..Decoded::default() }));
        assert_eq!((reason.as_str(), class.as_str()), ("no-version", "permanent"));
        detail
    };
    let wanted = "a whole number of 64 bits or a time (RFC 3339)";
    let nowhere = "the record has no header `rev` or `/v` of its value, where `order.version` says";
    assert_eq!(detail(None), format!("{nowhere} {wanted} stands"));
    let told = |found: &str| format!("`/v` of its value is {found}, not {wanted}");
    assert_eq!(detail(Some((1, null()))), told("`null`"));
    assert_eq!(detail(Some((1, whole("9223372036854775808")))), told("`9223372036854775808`"));
    assert_eq!(detail(Some((1, text("soon").unwrap()))), told("the text `soon`"));
    assert_eq!(detail(Some((1, Found::Other(Bytes::from_static(b"{\"pin\":1}"))))), told("an object"));
}

#[test]
fn a_tombstone_has_its_version_only_in_a_header() {
    let mut worker = worker(guarded(vec![at("/v"), in_header("rev")]));
    let rev = Header { name: HeaderName::new("rev"), value: Some(Bytes::from_static(b"8")) };
    let with_rev = Record { value: None, headers: vec![rev], ..record(0, "a") };
    let without = Record { value: None, ..record(1, "b") };
    worker.fetch(Lane::Source, vec![with_rev, without]);
    assert_eq!(worker.deliveries.len(), 1);
    assert_eq!(worker.answer(done()).envelope.version, Some(Version(8)));
    let letter = &worker.end(TransactionResult::Committed).writes[0];
    assert_eq!((letter.target, &letter.value), (Target::DeadLetter, &None));
    assert_eq!(header(&letter.headers, "redrive-reason").unwrap(), "no-version");
}

fn of_customer(offset: i64, key: &str, customer: Option<Found>, version: &str) -> Record {
    let version = Some((0, whole(version)));
    read(offset, key, Decoded { order_key: customer, version, ..Decoded::default() })
}

#[test]
fn records_of_one_order_key_are_one_order_whatever_their_own_keys() {
    let mut worker = worker(keyed(vec![at("/v")]));
    worker.fetch(
        Lane::Source,
        vec![
            of_customer(0, "a", text("7"), "2"),
            of_customer(1, "b", Some(whole("7")), "1"),
            of_customer(2, "a", text("8"), "1"),
            of_customer(3, "", text("7"), "3"),
        ],
    );
    let running: Vec<i64> = worker.deliveries.iter().map(|delivery| delivery.id.offset.0).collect();
    assert_eq!(running, [0, 2], "one of a key at a time");
    for _ in 0..3 {
        worker.answer(done());
    }
    worker.wait(100);
    let mut applied = Vec::new();
    let mut outputs = 0;
    while !worker.transactions.is_empty() {
        for write in worker.end(TransactionResult::Committed).writes {
            outputs += usize::from(write.target == Target::Output);
            if let Ok(StateEntry::Applied { key, applied: Some(entry) }) =
                StateEntry::read(write.key.as_deref(), write.value.as_deref())
            {
                applied.push((key.to_vec(), entry.version.0));
            }
        }
        worker.wait(100);
    }
    applied.sort_unstable();
    assert_eq!(outputs, 3, "the older version of 7 has no effect");
    assert_eq!(applied.last(), Some(&(b"8".to_vec(), 1)));
    assert_eq!(applied.iter().filter(|(key, _)| key == b"7").map(|(_, v)| *v).max(), Some(3));
}

#[test]
fn a_record_without_an_order_key_is_a_dead_letter_under_a_guard_and_has_no_order_without() {
    let detail = |order_key| {
        let decoded = Decoded { order_key, version: Some((0, whole("1"))), ..Decoded::default() };
        let [reason, class, detail] = dead(keyed(vec![at("/v")]), read(0, "a", decoded));
        assert_eq!((reason.as_str(), class.as_str()), ("no-key", "permanent"));
        detail
    };
    let goes_by = "the order goes by `/customer` of the value,";
    assert_eq!(detail(None), format!("{goes_by} and the record has none"));
    assert_eq!(
        detail(Some(Found::Other(Bytes::from_static(b"1.5")))),
        format!("{goes_by} which is `1.5`, not a text or a whole number")
    );

    let mut policy = once(policy(&[5]));
    policy.order.key = OrderKey::Json("/customer".parse().unwrap());
    let mut worker = worker(policy);
    let customer = |offset, order_key| read(offset, "same", Decoded { order_key, ..Decoded::default() });
    let tombstone = Record { value: None, ..record(2, "same") };
    worker.fetch(Lane::Source, vec![customer(0, None), customer(1, None), tombstone, customer(3, text(""))]);
    assert_eq!(worker.deliveries.len(), 4, "an empty text is a key like any other");
    worker.fetch(Lane::Source, vec![customer(4, text(""))]);
    assert_eq!(worker.deliveries.len(), 4);
}

/// A record with version 2 as its tier has it, of whose value `decoded` was read again.
fn waiting(decoded: Decoded) -> Record {
    let mut worker = worker(keyed(vec![at("/v")]));
    worker.fetch(Lane::Source, vec![of_customer(0, "a", text("c"), "2")]);
    worker.answer(fails(Class::Transient));
    let copy = worker.end(TransactionResult::Committed).writes.remove(0);
    assert_eq!(header(&copy.headers, "redrive-version").unwrap(), "2");
    let Write { key, value, headers, timestamp, .. } = copy;
    Record { key, value, headers, timestamp: timestamp.unwrap(), ..read(0, "", decoded) }
}

#[test]
fn a_record_that_waited_keeps_its_version_and_has_its_order_key_read_again() {
    let mut worker = worker(keyed(vec![at("/v")]));
    let decoded = Decoded { order_key: text("c"), version: Some((0, whole("9"))), ..Decoded::default() };
    worker.fetch(Lane::Tier(TierIndex(0)), vec![waiting(decoded)]);
    worker.wait(6_000);
    assert_eq!(worker.answer(done()).envelope.version, Some(Version(2)), "as when it was first looked at");
    worker.wait(100);
    let writes = worker.end(TransactionResult::Committed).writes;
    let entries = writes.iter().map(|write| StateEntry::read(write.key.as_deref(), write.value.as_deref()));
    let keys: Vec<&[u8]> = entries
        .filter_map(|entry| match entry {
            Ok(StateEntry::Applied { key, .. }) => Some(key),
            _ => None,
        })
        .collect();
    assert_eq!(keys, [b"c"]);
}

#[test]
fn a_record_that_waits_on_where_it_is_keeps_what_was_read_of_it() {
    let mut policy = keyed(vec![at("/v")]);
    policy.draining = std::mem::take(&mut policy.ladder.delays);
    let mut worker = worker(policy);
    let mut copy = waiting(Decoded { order_key: text("c"), ..Decoded::default() });
    let due = copy.headers.iter_mut().find(|header| header.name.as_str() == "redrive-due").unwrap();
    due.value = Some(Bytes::from((WALL + 7_000).to_string()));
    worker.fetch(Lane::Tier(TierIndex(0)), vec![copy]);
    worker.wait(6_000);
    assert!(worker.deliveries.is_empty());
    worker.wait(2_000);
    assert_eq!(worker.deliveries[0].envelope.order_key, Some("c".into()));
}
