//! What a retry copy or a dead letter carries: R4 (attempts), R7 (bytes, lineage), R3 (the due time it names).

use bytes::Bytes;
use redrive::core::invariant::{Breach, InvariantId};
use redrive::core::position::TierIndex;
use redrive::core::record::Header;

use super::super::cluster::log::Stored;
use super::super::cluster::{Cluster, Place, Topic};
use super::super::lineage::{self, Root, topic_name};
use super::calls::Answer;
use super::{Author, Checker, broken};

/// R7: key, value and foreign headers are those of `original`.
pub(super) fn same_bytes(
    original: &Stored,
    key: &Option<Bytes>,
    value: &Option<Bytes>,
    headers: &[Header],
) -> Result<(), Breach> {
    let record = &original.record;
    let what = if record.key != *key {
        "key"
    } else if record.value != *value {
        "value"
    } else if !lineage::foreign(&record.headers).eq(lineage::foreign(headers)) {
        "foreign headers"
    } else {
        return Ok(());
    };
    broken(InvariantId::R7, format!("the {what} of {:?} changed in {key:?} {value:?} {headers:?}", record))
}

/// One consumed record, where it stood, and what its handler said to whoever gave it its fate.
pub(super) struct Consumed {
    pub(super) source: Root,
    pub(super) place: Place,
    pub(super) offset: i64,
    pub(super) answer: Option<Answer>,
}

impl Checker {
    /// Whether a write keeps what it must keep of its source record.
    pub(super) fn kept(
        &self,
        cluster: &Cluster,
        source: Root,
        place: Place,
        copy: &Stored,
    ) -> Result<(), Breach> {
        let Some(original) = cluster.log(source.place).at(source.offset) else {
            return broken(InvariantId::R7, format!("{source:?} is no source record"));
        };
        let headers = &copy.record.headers;
        self.not_less(source, original, place, copy)?;
        let leads = lineage::text(headers, "redrive-origin-topic") == Some(&topic_name(source.place.topic))
            && lineage::number(headers, "redrive-origin-timestamp")
                == Some(original.record.timestamp.as_millis())
            && place.partition == source.place.partition
            && lineage::text(headers, "redrive-event-id").is_some();
        if !leads {
            return broken(InvariantId::R7, format!("{headers:?} does not lead to {source:?}"));
        }
        let mut names: Vec<&str> = headers.iter().map(|header| header.name.as_str()).collect();
        names.retain(|name| name.starts_with("redrive-"));
        names.sort_unstable();
        if names.contains(&"redrive-x") || names.windows(2).any(|pair| pair[0] == pair[1]) {
            return broken(
                InvariantId::R7,
                format!("a foreign control header of {source:?} lives on: {names:?}"),
            );
        }
        let tale = &self.tales[&source];
        for (name, known) in
            [("redrive-first-attempt-at", tale.first_attempt_at), ("redrive-deadline-at", tale.deadline_at)]
        {
            let now = lineage::number(headers, name);
            if known.is_some() && now != known {
                return broken(
                    InvariantId::R7,
                    format!("{name} of {source:?} went from {known:?} to {now:?}"),
                );
            }
        }
        Ok(())
    }

    /// How many attempts a write counts, which is the same as before or one more.
    fn attempt_of(&self, consumed: &Consumed, copy: &Stored) -> Result<(i64, Option<Answer>), Breach> {
        let source = consumed.source;
        let before = self.tales[&source].attempt;
        let attempt = lineage::number(&copy.record.headers, "redrive-attempt").unwrap_or(0);
        let answer = consumed.answer;
        let expected = before + i64::from(answer.is_some());
        let most = i64::from(self.policy.ladder.most_attempts());
        if attempt != expected || attempt > most {
            let detail =
                format!("{source:?} counts {attempt} attempts after {before} and {answer:?}, most {most}");
            return broken(InvariantId::R4, detail);
        }
        Ok((attempt, answer))
    }

    pub(super) fn retried(
        &mut self,
        cluster: &Cluster,
        consumed: &Consumed,
        tier: TierIndex,
        (place, offset): (Place, i64),
        by: &Author<'_>,
    ) -> Result<(), Breach> {
        let (source, skew) = (consumed.source, by.skew);
        let Some(copy) = cluster.log(place).at(offset) else { return Ok(()) };
        self.kept(cluster, source, place, copy)?;
        let (attempt, answer) = self.attempt_of(consumed, copy)?;
        let headers = &copy.record.headers;
        self.tells_why(source, answer, place, headers)?;
        if self.is_put_aside(consumed, copy) {
            let due = lineage::number(headers, "redrive-due").unwrap_or_default();
            self.due_skews.insert((place, offset), skew);
            self.put_aside(source, by.now);
            if let Some(tale) = self.tales.get_mut(&source) {
                tale.state = super::State::Waiting(place, offset);
                tale.due = due;
            }
            return Ok(());
        }
        let due = lineage::number(headers, "redrive-due");
        let (Some(due), Some(first), Some(deadline)) = (
            due,
            lineage::number(headers, "redrive-first-attempt-at"),
            lineage::number(headers, "redrive-deadline-at"),
        ) else {
            return broken(InvariantId::R7, format!("a retry copy of {source:?} lacks headers: {headers:?}"));
        };
        let ladder = &by.policy.ladder;
        let delays = ladder.delays.len() as i64;
        let known = self.tales[&source].clone();
        let due_skew = match (answer, known.state) {
            (Some(Answer::Failed), _) if i64::from(tier.0) != attempt.min(delays) - 1 => {
                let detail = format!("{source:?} waits in tier {} after attempt {attempt}", tier.0);
                return broken(InvariantId::R4, detail);
            }
            (Some(Answer::Done), _) => {
                return broken(InvariantId::R1, format!("{source:?} was handled and is retried"));
            }
            (Some(Answer::Failed | Answer::FailedUntil), _) => {
                self.holds.aside.remove(&source);
                skew
            }
            (None, super::State::Waiting(from, at)) => {
                if lineage::number(headers, "redrive-gap-due").is_some() {
                    self.put_aside(source, by.now);
                }
                let delay = ladder.delay(tier).unwrap_or_default();
                let lane_due = copy.record.timestamp.plus(delay).as_millis();
                let written_by = self.due_skews.get(&(from, at)).copied().unwrap_or(0);
                // What remains is taken over by the clock of whoever hops it, which may differ from the writer's.
                let latest = known.due.max(lane_due);
                let earliest = latest - self.widest_skew;
                if !(earliest..=latest).contains(&due) {
                    let detail =
                        format!("a hop of {source:?} moved its due time from {} to {due}", known.due);
                    return broken(InvariantId::R3, detail);
                }
                skew.max(written_by)
            }
            (None, _) => {
                return broken(InvariantId::R1, format!("{source:?} is retried and was never handled"));
            }
        };
        self.due_skews.insert((place, offset), due_skew);
        if let Some(tale) = self.tales.get_mut(&source) {
            tale.state = super::State::Waiting(place, offset);
            tale.attempt = attempt;
            tale.first_attempt_at = Some(first);
            tale.deadline_at = Some(deadline);
            tale.due = due;
        }
        Ok(())
    }

    pub(super) fn dead_lettered(
        &mut self,
        cluster: &Cluster,
        consumed: &Consumed,
        (place, offset): (Place, i64),
        by: &Author<'_>,
    ) -> Result<(), Breach> {
        debug_assert_eq!(place.topic, Topic::DeadLetter);
        let source = consumed.source;
        let Some(copy) = cluster.log(place).at(offset) else { return Ok(()) };
        self.kept(cluster, source, place, copy)?;
        let (attempt, answer) = self.attempt_of(consumed, copy)?;
        let headers = &copy.record.headers;
        let reason = lineage::text(headers, "redrive-reason");
        let most = i64::from(by.policy.ladder.most_attempts());
        self.tells_why(source, answer, place, headers)?;
        if reason == Some("exhausted") && attempt < most {
            let detail = format!("{source:?} is exhausted after {attempt} attempts of {most}");
            return broken(InvariantId::R4, detail);
        }
        if reason.is_none() || lineage::text(headers, "redrive-class").is_none() {
            return broken(InvariantId::R7, format!("the dead letter of {source:?} does not say why"));
        }
        self.quarantined(cluster, consumed, reason.unwrap_or_default(), by.now)?;
        self.finish(source, super::State::Dead);
        Ok(())
    }

    pub(super) fn finish(&mut self, source: Root, state: super::State) {
        if let Some(tale) = self.tales.get_mut(&source) {
            tale.state = state;
            self.unfinished -= 1;
        }
    }
}
