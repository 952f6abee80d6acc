//! Properties of the core's parts over arbitrary input: what is written is read back, what comes from outside is bounded,
//! and every ladder ends.

use std::time::Duration;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use redrive::core::class::{Class, Reason};
use redrive::core::control::{self, Answer, Reply};
use redrive::core::envelope::{Envelope, FirstFailure, LastFailure, Life};
use redrive::core::headers::{
    self, LONGEST_DETAIL, PREFIX, cut_detail, from_source, of_waiting, read_waiting,
};
use redrive::core::history::{self, History};
use redrive::core::outcome::Verdict;
use redrive::core::policy::{
    Flow, IdentityPolicy, InPlace, Ladder, OrderPolicy, Outputs, Policy, Twins, UnknownOutcome,
};
use redrive::core::position::{
    CommitMark, Founding, Going, LaneMark, Offset, OffsetRange, Origin, Partition, Sequence, TopicId,
    TopicName, WriterId,
};
use redrive::core::record::{Header, HeaderName, Record};
use redrive::core::route::{Step, after_attempt, hop};
use redrive::core::state::{LanePosition, Standing, StateEntry, position_key};
use redrive::core::time::Timestamp;

/// Some day in 2023: later than any wait is long.
const NOW: i64 = 1_700_000_000_000;
const DAY: Duration = Duration::from_secs(86_400);

fn payload() -> impl Strategy<Value = Option<Bytes>> {
    option::of(vec(any::<u8>(), 0..40).prop_map(Bytes::from))
}

fn header() -> impl Strategy<Value = Header> {
    let name = prop_oneof![".{0,12}", "redrive-[a-z]{0,8}", Just("redrive-attempt".to_owned()), "trace"];
    (name, payload()).prop_map(|(name, value)| Header { name: HeaderName::new(&name), value })
}

fn record() -> impl Strategy<Value = Record> {
    (payload(), payload(), vec(header(), 0..8), any::<i64>()).prop_map(|(key, value, headers, stamp)| {
        Record {
            offset: Offset(7),
            timestamp: Timestamp::from_millis(stamp),
            key,
            value,
            headers,
            unnamed_headers: 0,
            decoded: None,
        }
    })
}

fn reason() -> impl Strategy<Value = Reason> {
    prop_oneof![
        (100u16..600).prop_map(Reason::Http),
        "[a-z][a-z0-9-]{0,63}".prop_map(|name| name.parse().unwrap()),
        Just(Reason::Timeout),
        Just(Reason::Connect),
    ]
}

fn verdict() -> impl Strategy<Value = Verdict> {
    (0..Class::ALL.len(), reason()).prop_map(|(class, reason)| Verdict { class: Class::ALL[class], reason })
}

/// What has happened to a record that failed at least once.
fn life() -> impl Strategy<Value = Life> {
    let failures = vec((verdict(), 0i64..NOW, 0u8..4), 1..60);
    (failures, ".{0,2000}", 1u32..1000, 0u32..1000).prop_map(|(failures, detail, attempt, more)| {
        let lane = |tier: u8| if tier == 0 { "source".to_owned() } else { format!("retry.{tier}m") };
        let mut history = History::default();
        for (verdict, at, tier) in &failures {
            history.add(&lane(*tier), verdict, Timestamp::from_millis(*at));
        }
        let (first, at, tier) = failures[0].clone();
        let (last, ..) = failures[failures.len() - 1].clone();
        Life {
            attempt,
            executions: attempt + more,
            first_attempt_at: Some(Timestamp::from_millis(at)),
            deadline_at: Some(Timestamp::from_millis(at).plus(DAY)),
            first_failure: Some(FirstFailure {
                at: Timestamp::from_millis(at),
                class: first.class,
                reason: first.reason,
                lane: Bytes::from(lane(tier)),
            }),
            last_failure: Some(LastFailure {
                class: last.class,
                reason: last.reason,
                detail: cut_detail(detail),
            }),
            history,
        }
    })
}

fn origin() -> Origin {
    Origin { topic: TopicName::new("orders"), partition: Partition(3), offset: Offset(7) }
}

fn envelope() -> impl Strategy<Value = Envelope> {
    (record(), life()).prop_map(|(record, life)| {
        let (envelope, found) = from_source(record, None, origin(), &IdentityPolicy::default());
        found.unwrap();
        Envelope { life, ..envelope }
    })
}

fn ladder() -> impl Strategy<Value = Ladder> {
    (vec(1u64..10_000_000, 0..6), 1u32..5).prop_map(|(mut millis, last_tier_repeats)| {
        millis.sort_unstable();
        millis.dedup();
        let delays = millis.into_iter().map(Duration::from_millis).collect();
        Ladder { delays, last_tier_repeats }
    })
}

fn policy(ladder: Ladder) -> Policy {
    Policy {
        name: "orders".to_owned(),
        source: TopicName::new("orders"),
        control: TopicName::new("control"),
        draining: Vec::new(),
        tiers: ladder.delays.iter().map(|_| TopicName::new("tier")).collect(),
        outputs: Outputs::default(),
        identity: IdentityPolicy::default(),
        order: OrderPolicy::default(),
        in_place: InPlace { executions: 1, base: DAY, cap: DAY, budget: DAY },
        ladder,
        deadline: DAY,
        unknown: UnknownOutcome::Retry,
        handler_timeout: Duration::ZERO,
        flow: Flow {
            window: 1,
            commit_interval: DAY,
            drain: DAY,
            revoke: DAY,
            transaction_timeout: DAY,
            recommit: DAY,
            twins: Twins::Fences,
        },
    }
}

prop_compose! {
    fn position()(
        offset in any::<i64>(),
        exact in any::<bool>(),
        at in any::<i64>(),
        founding in any::<u32>(),
        topic in "[a-zA-Z0-9._-]{1,249}",
        id in option::of(any::<[u8; 16]>()),
    ) -> LanePosition {
        LanePosition {
            offset: Offset(offset),
            standing: if exact { Standing::Exact } else { Standing::AtLeast },
            at: Timestamp::from_millis(at),
            founding: Founding(founding),
            topic: TopicName::new(&topic),
            id: id.map(TopicId),
        }
    }
}

proptest! {
    #[test]
    fn a_position_is_read_back_as_it_was_written(position in position(), lane in "[a-z0-9.]{1,20}") {
        let key = position_key(&lane);
        let value = position.to_bytes();
        let read = StateEntry::read(Some(&key), Some(&value));
        prop_assert_eq!(read, Ok(StateEntry::Position { lane, position: Some(position) }));
    }

    #[test]
    fn a_lane_mark_and_a_range_are_read_back(
        id in any::<[u8; 16]>(), topic in "[a-zA-Z0-9._-]{1,249}", partition in 0..i32::MAX, from in 0..i64::MAX, more in 1..i64::MAX,
    ) {
        let mark = LaneMark(TopicId(id));
        prop_assert_eq!(mark.to_string().parse(), Ok(mark));
        let (partition, to) = (Partition(partition), Offset(from.saturating_add(more)));
        let range = OffsetRange { topic: TopicName::new(&topic), partition, from: Offset(from), to };
        prop_assert_eq!(range.to_string().parse(), Ok(range));
    }

    #[test]
    fn no_text_of_an_operator_panics(text in ".{0,40}") {
        let _ = text.parse::<OffsetRange>();
    }

    #[test]
    fn no_bytes_of_the_state_topic_panic(
        key in prop_oneof![vec(any::<u8>(), 0..30), Just(position_key("source").to_vec())],
        value in option::of(vec(any::<u8>(), 0..80)),
        cut in 0usize..60,
        position in position(),
    ) {
        let _ = StateEntry::read(Some(&key), value.as_deref());
        let bytes = position.to_bytes();
        let _ = StateEntry::read(Some(&key), bytes.get(cut..));
        let _ = StateEntry::read(Some(&key), bytes.get(..cut));
    }

    #[test]
    fn any_bytes_on_the_control_lane_are_read_or_refused_and_told_in_few_bytes(
        key in option::of(vec(any::<u8>(), 0..70)),
        place in 0usize..200,
        bytes in vec(any::<u8>(), 0..6),
        until in 0usize..200,
    ) {
        let value = r#"{"arguments":{"ranges":["orders/0/10-20"]},"at":1,"by":"ada","command":"accept-repeats","ticket":"","version":1}"#;
        let mut value = value.as_bytes().to_vec();
        let from = place.min(value.len());
        value.splice(from..until.clamp(from, value.len()), bytes);
        let record = Record {
            offset: Offset(7),
            timestamp: Timestamp::from_millis(0),
            key: key.map(Bytes::from),
            value: Some(Bytes::from(value)),
            headers: Vec::new(),
            unnamed_headers: 0, decoded: None,
        };
        let (head, command) = control::read(&record);
        let obeyed = command.is_ok();
        let answer = Answer::new(command.map(|command| command.to_string()), Timestamp::from_millis(NOW), WriterId(1));
        prop_assert!(!obeyed || (head.id.is_some() && head.by.is_some()));
        if let Some(id) = head.id.clone() {
            let read = Answer::read(&Answer::key(&id), Some(&answer.to_bytes()));
            prop_assert_eq!(read, Some((id, Ok(answer.clone()))));
        }
        let audit = Reply { head, place: origin(), answer }.audit("orders");
        let line: serde_json::Value = serde_json::from_slice(&audit).unwrap();
        prop_assert!(line["by"].is_string() || line["result"] == "refused");
        prop_assert!(audit.len() < 8_000);
    }

    #[test]
    fn what_a_tier_record_says_is_read_back(envelope in envelope(), wait in 0u64..86_400_000) {
        let written = Timestamp::from_millis(NOW);
        let due = written.plus(Duration::from_millis(wait));
        let headers = of_waiting(&envelope, due);
        let mut own: Vec<&str> = headers.iter().map(|header| header.name.as_str()).collect();
        own.retain(|name| name.starts_with(PREFIX));
        let size: usize = headers.iter().filter(|header| header.name.as_str().starts_with(PREFIX))
            .map(|header| header.name.as_str().len() + header.value.as_ref().map_or(0, Bytes::len)).sum();
        prop_assert!(size <= 4096, "control headers of {} bytes", size);
        own.sort_unstable();
        prop_assert!(own.windows(2).all(|pair| pair[0] != pair[1]), "each stands once: {:?}", own);
        let (key, value) = (envelope.key.clone(), envelope.value.clone());
        let copy = Record { offset: Offset(0), timestamp: written, key, value, headers, unnamed_headers: 0, decoded: None };
        let read = read_waiting(&copy, DAY).unwrap();
        prop_assert_eq!(read.due, due);
        prop_assert_eq!(read.envelope.event_id(), envelope.event_id());
        prop_assert_eq!(read.envelope.operation_id(), envelope.operation_id());
        prop_assert_eq!(Envelope { identity: envelope.identity.clone(), ..read.envelope }, envelope);
    }

    #[test]
    fn foreign_bytes_are_kept_and_foreign_control_headers_are_not(record in record()) {
        let (envelope, _) = from_source(record.clone(), None, origin(), &IdentityPolicy::default());
        let expected: Vec<Header> =
            record.headers.into_iter().filter(|header| !header.name.as_str().starts_with(PREFIX)).collect();
        prop_assert_eq!(envelope.foreign, expected);
        prop_assert_eq!((envelope.key, envelope.value), (record.key, record.value));
        prop_assert_eq!(envelope.life, Life::default());
    }

    #[test]
    fn one_changed_control_header_is_believed_within_bounds_or_not_at_all(
        envelope in envelope(),
        place in any::<prop::sample::Index>(),
        value in prop_oneof![payload(), any::<i64>().prop_map(|number| Some(Bytes::from(number.to_string())))],
    ) {
        let written = Timestamp::from_millis(NOW);
        let mut headers = of_waiting(&envelope, written);
        let own: Vec<usize> = (0..headers.len())
            .filter(|index| headers[*index].name.as_str().starts_with(PREFIX)).collect();
        headers[own[place.index(own.len())]].value = value;
        let copy = Record {
            offset: Offset(0), timestamp: written, key: None, value: None, headers, unnamed_headers: 0, decoded: None,
        };
        match read_waiting(&copy, DAY) {
            Ok(read) => {
                prop_assert!(read.due <= written.plus(DAY).plus(DAY));
                prop_assert!(read.envelope.life.attempt <= 1_000_000);
            }
            Err(_) => {
                let saved = headers::lenient(copy, origin());
                prop_assert_eq!(saved.life, Life::default());
            }
        }
    }

    #[test]
    fn a_history_stays_within_its_bound_and_is_read_back(life in life()) {
        let text = life.history.to_string();
        prop_assert!(text.len() <= history::LONGEST, "{} bytes", text.len());
        prop_assert_eq!(text.parse::<History>().unwrap(), life.history);
    }

    #[test]
    fn a_detail_is_cut_on_a_character_border(text in ".{0,3000}") {
        let cut = cut_detail(text.clone());
        prop_assert!(cut.len() <= LONGEST_DETAIL && text.starts_with(&cut));
        prop_assert!(cut.len() == text.len() || cut.len() > LONGEST_DETAIL - 4);
    }

    #[test]
    fn every_ladder_ends_after_the_attempts_that_it_promises(
        ladder in ladder(),
        waits in vec(option::of(0u64..100_000_000), 32),
    ) {
        let most = ladder.most_attempts();
        let policy = policy(ladder);
        let verdict = Verdict { class: Class::Transient, reason: Reason::Connect };
        for (attempt, wait) in (1..).zip(waits) {
            let asked = wait.map(Duration::from_millis);
            match after_attempt(&policy, &verdict, asked, attempt, Timestamp::from_millis(NOW), None) {
                Step::Tier { tier, wait } => {
                    prop_assert!(attempt < most);
                    prop_assert!(wait >= policy.ladder.delay(tier).unwrap(), "due before its lane is");
                    prop_assert!(asked.is_none_or(|asked| wait >= asked), "sooner than it was asked for");
                }
                Step::DeadLetter(reason) => {
                    prop_assert_eq!(reason, Reason::Exhausted);
                    prop_assert_eq!(attempt, most);
                    break;
                }
            }
        }
    }

    #[test]
    fn hops_end_and_are_late_by_no_more_than_the_shortest_tier(ladder in ladder(), wait in 1u64..200_000_000) {
        prop_assume!(!ladder.delays.is_empty());
        let wait = Duration::from_millis(wait);
        let mut waited = Duration::ZERO;
        while waited < wait {
            let tier = hop(&ladder, wait - waited).unwrap();
            waited += ladder.delay(tier).unwrap();
        }
        prop_assert!(waited < wait + ladder.delays[0]);
    }

    #[test]
    fn a_commit_mark_is_read_back_whatever_later_versions_add(
        sequence in any::<u64>(), writer in any::<u64>(), partitions in any::<u32>(), topic in option::of(any::<[u8; 16]>()),
        stale in any::<bool>(), more in "( [a-z]{1,5}=[a-z0-9]{0,5}){0,3}",
    ) {
        prop_assume!([" seq=", " by=", " of=", " id="].iter().all(|ours| !more.contains(ours)));
        let mark = CommitMark {
            sequence: Sequence(sequence),
            writer: WriterId(writer),
            founding: Founding(partitions),
            topic: topic.map(TopicId),
            going: if stale { Going::Stale } else { Going::On },
        };
        prop_assert_eq!(format!("{mark}{more}").parse::<CommitMark>().unwrap(), mark);
    }
}
