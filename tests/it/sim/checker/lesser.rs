//! What a copy or a dead letter may leave out, and why a record may end though its handler did not say so: R1, R7.

use redrive::core::invariant::{Breach, InvariantId};
use redrive::core::record::{Header, Record};

use super::super::cluster::log::Stored;
use super::super::cluster::{Place, Topic};
use super::super::lineage::{self, Root};
use super::super::refusal::tells;
use super::calls::Answer;
use super::copies::same_bytes;
use super::{Checker, broken};

/// One way in which a record was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Refused {
    topic: Topic,
    /// While it told of failures in texts.
    told: bool,
    /// With its value.
    carried: bool,
}

impl Checker {
    /// A broker refused what was written for this record, through no fault of others.
    pub(crate) fn note_refused(&mut self, root: Root, topic: Topic, record: &Record) {
        let told = tells(&record.headers);
        let refused = Refused { topic, told, carried: record.value.is_some() };
        self.refusals.entry(root).or_default().insert(refused);
    }

    fn was_refused(&self, root: Root, how: impl Fn(&Refused) -> bool) -> bool {
        self.refusals.get(&root).is_some_and(|refused| refused.iter().any(how))
    }

    /// R7: the bytes of the original, but for a value that the dead letter topic refused.
    pub(super) fn not_less(
        &self,
        source: Root,
        original: &Stored,
        place: Place,
        copy: &Stored,
    ) -> Result<(), Breach> {
        let Record { key, value, headers, .. } = &copy.record;
        let is_reference = lineage::text(headers, "redrive-payload-ref").is_some();
        if !is_reference {
            return same_bytes(original, key, value, headers);
        }
        let reference = lineage::text(headers, "redrive-payload-ref");
        if reference != Some(&source.to_string()) {
            return broken(InvariantId::R7, format!("{reference:?} is not where {source:?} stands"));
        }
        if original.record.unnamed_headers > 0 {
            return Ok(());
        }
        let dead = |refused: &Refused| refused.topic == Topic::DeadLetter && refused.carried && !refused.told;
        if place.topic != Topic::DeadLetter || value.is_some() || !self.was_refused(source, dead) {
            let detail = format!("the value of {source:?} stayed behind and was not refused");
            return broken(InvariantId::R7, detail);
        }
        same_bytes(original, key, &original.record.value, headers)
    }

    /// R1 and R7: only a record that was refused itself ends for that, or goes on without the texts of its failures.
    pub(super) fn tells_why(
        &self,
        source: Root,
        answer: Option<Answer>,
        place: Place,
        headers: &[Header],
    ) -> Result<(), Breach> {
        let blames = matches!(lineage::text(headers, "redrive-reason"), Some("too-large" | "refused"));
        if blames && !self.was_refused(source, |refused| refused.topic != Topic::DeadLetter) {
            return broken(InvariantId::R7, format!("{source:?} is said to be refused and never was"));
        }
        let is_less = self.was_refused(source, |refused| refused.told);
        match answer {
            Some(Answer::Done) if !blames => {
                broken(InvariantId::R1, format!("{source:?} was handled and is written to {place:?}"))
            }
            Some(_) if !tells(headers) && !is_less => {
                broken(InvariantId::R7, format!("{source:?} lost its history and was not refused"))
            }
            Some(_) | None => Ok(()),
        }
    }
}
