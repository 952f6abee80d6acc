//! The first look at a record: is it readable, whose is it, must it wait on?

use std::time::Duration;

use bytes::Bytes;

use super::Processor;
use super::version::{no_key, no_version, version_of};
use crate::core::class::{Class, Reason};
use crate::core::control::Reply;
use crate::core::decoded::{Decoded, Decoding, Undecodable};
use crate::core::envelope::{DeliveryId, Envelope, FirstFailure, LastFailure};
use crate::core::headers::{self, Waiting};
use crate::core::lane::Disposition;
use crate::core::outcome::Verdict;
use crate::core::policy::{Guard, TombstoneVersion};
use crate::core::position::{Lane, Origin};
use crate::core::record::Record;
use crate::core::route;
use crate::core::time::{Now, Timestamp};

/// What becomes of a record when it is first looked at.
pub(super) enum Look {
    /// It goes to the handler.
    Deliver { envelope: Envelope, due: Option<Timestamp> },
    /// It must wait on where it is.
    Wait { record: Record, remaining: Duration },
    /// Its fate is already clear.
    Decided { envelope: Envelope, fate: Disposition },
    /// A request that skips versions of a key: what is applied of that key changes with its answer.
    Skips { envelope: Envelope, reply: Box<Reply> },
}

impl Processor {
    pub(super) fn look(&mut self, id: DeliveryId, record: Record, now: Now) -> Look {
        let unnamed = record.unnamed_headers;
        let topic = self.policy.topic(id.lane).clone();
        let here = Origin { topic, partition: id.partition, offset: id.offset };
        let look = match id.lane {
            Lane::Source => self.look_at_source(id, record, here, now),
            // Whatever it holds, it gets an answer and nothing else.
            Lane::Control => return self.look_at_request(record, here, now),
            // Read from no topic.
            Lane::Held | Lane::Tier(_) => self.look_at_waiting(id, record, here, now),
        };
        if unnamed == 0 {
            return look;
        }
        let mut envelope = match look {
            Look::Deliver { envelope, .. } | Look::Decided { envelope, .. } => envelope,
            Look::Wait { .. } | Look::Skips { .. } => return look,
        };
        envelope.life = crate::core::envelope::Life::default();
        let detail = format!("`{unnamed}` header names are not UTF-8; the whole record stands at its origin");
        self.dead(id, envelope, Verdict { class: Class::Poison, reason: Reason::BadHeaderName }, detail, now)
    }

    fn look_at_source(&self, id: DeliveryId, mut record: Record, origin: Origin, now: Now) -> Look {
        let decoding = record.decoded.take();
        let decoded = decoding.as_deref().and_then(|decoded| decoded.as_ref().ok());
        match headers::from_source(record, decoded, origin, &self.policy.identity) {
            (envelope, Ok(())) => self.ordered(id, envelope, decoding, None, now),
            // What cannot be read holds no id either.
            (envelope, Err(_)) if matches!(decoding.as_deref(), Some(Err(_))) => {
                self.ordered(id, envelope, decoding, None, now)
            }
            (envelope, Err(missing)) => {
                let verdict = Verdict { class: Class::Permanent, reason: Reason::NoOperationId };
                self.dead(id, envelope, verdict, missing.to_string(), now)
            }
        }
    }

    fn look_at_waiting(&self, id: DeliveryId, record: Record, here: Origin, now: Now) -> Look {
        let delay = self.policy.lane_delay(id.lane).unwrap_or_default();
        // The deadline may have been shortened below a delay since the record was written.
        let longest = self.policy.deadline.max(delay);
        let Waiting { envelope, due } = match headers::read_waiting(&record, longest) {
            Ok(waiting) => waiting,
            Err(bad) => {
                let verdict = Verdict { class: Class::Poison, reason: Reason::BadControlHeader };
                return self.dead(id, headers::lenient(record, here), verdict, bad.to_string(), now);
            }
        };
        let lane_due = record.timestamp.plus(delay);
        // Counted by the writer's clock where that is less: this reader's may be behind.
        let remaining = due.since(now.wall).min(due.since(lane_due));
        match route::hop(&self.policy.ladder, remaining) {
            Some(tier) if !remaining.is_zero() => {
                // By this reader's clock from now on, or a writer's that was hours ahead would be waited for in full.
                let due = now.wall.plus(remaining);
                Look::Decided { envelope, fate: Disposition::Hop { tier, due } }
            }
            // Without a tier to wait in it waits here, and so does what stands behind it.
            None if !remaining.is_zero() => Look::Wait { record, remaining },
            Some(_) | None => self.ordered(id, envelope, record.decoded, Some(due.max(lane_due)), now),
        }
    }

    /// A record with what its order goes by in its value, as far as that could be read.
    fn ordered(
        &self,
        id: DeliveryId,
        mut envelope: Envelope,
        decoding: Decoding,
        due: Option<Timestamp>,
        now: Now,
    ) -> Look {
        let decoded = match decoding.as_deref() {
            None => None,
            Some(Ok(decoded)) => Some(decoded),
            Some(Err(Undecodable { detail })) => {
                let verdict = Verdict { class: Class::Poison, reason: Reason::DecodeFailed };
                return self.dead(id, envelope, verdict, detail.clone(), now);
            }
        };
        envelope.order_key = decoded.and_then(|decoded| decoded.order_key.as_ref()?.name()).cloned();
        self.guarded(id, envelope, decoded, due, now)
    }

    /// A record that goes to the handler where it has what the guard of its order needs.
    fn guarded(
        &self,
        id: DeliveryId,
        mut envelope: Envelope,
        decoded: Option<&Decoded>,
        due: Option<Timestamp>,
        now: Now,
    ) -> Look {
        let order = &self.policy.order;
        if !order.keeps_state() {
            return Look::Deliver { envelope, due };
        }
        let dead = |envelope, reason, detail: &str| {
            let verdict = Verdict { class: Class::Permanent, reason };
            self.dead(id, envelope, verdict, detail.to_owned(), now)
        };
        if order.key_of(&envelope).is_none() {
            let detail = no_key(&order.key, decoded);
            return dead(envelope, Reason::NoKey, &detail);
        }
        let (sources, next) = match &order.guard {
            Guard::None => return Look::Deliver { envelope, due },
            Guard::Latest(rules) => (&rules.version, rules.tombstone == TombstoneVersion::Next),
            Guard::Contiguous(rules) => (&rules.version, false),
        };
        // What was settled before it waited stays.
        envelope.version = envelope.version.or_else(|| version_of(sources, &envelope, decoded));
        let counts_on = envelope.value.is_none() && next;
        if envelope.version.is_none() && !counts_on {
            let detail = no_version(sources, &envelope, decoded);
            return dead(envelope, Reason::NoVersion, &detail);
        }
        Look::Deliver { envelope, due }
    }

    /// A dead letter that no handler ever saw.
    fn dead(
        &self,
        id: DeliveryId,
        mut envelope: Envelope,
        verdict: Verdict,
        detail: String,
        now: Now,
    ) -> Look {
        note_failure(&mut envelope, &verdict, detail, &self.word(id.lane), now.wall);
        Look::Decided { envelope, fate: Disposition::DeadLetter(verdict) }
    }

    /// The word of a lane, for headers.
    pub(super) fn word(&self, lane: Lane) -> Bytes {
        self.words.get(lane.index()).cloned().unwrap_or_default()
    }
}

/// Writes a failure into what has happened to a record.
pub(super) fn note_failure(
    envelope: &mut Envelope,
    verdict: &Verdict,
    detail: String,
    lane: &Bytes,
    at: Timestamp,
) {
    let life = &mut envelope.life;
    let Verdict { class, reason } = verdict.clone();
    life.history.add(&String::from_utf8_lossy(lane), verdict, at);
    let first = || FirstFailure { at, class, reason: reason.clone(), lane: lane.clone() };
    life.first_failure.get_or_insert_with(first);
    life.last_failure = Some(LastFailure { class, reason, detail: headers::cut_detail(detail) });
}
