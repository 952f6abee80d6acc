//! What becomes of a record that cannot be written as it is: a lesser form, then a dead letter, then nothing.

use std::sync::Arc;

use super::Processor;
use super::look::note_failure;
use super::write::size_for;
use crate::core::class::{Class, Reason};
use crate::core::envelope::{DeliveryId, Life};
use crate::core::event::{Flaw, Target};
use crate::core::lane::{Disposition, Form, Settled, Stage};
use crate::core::outcome::Verdict;
use crate::core::time::Now;

/// What can be done about a record that is refused.
enum Way {
    /// Its copy or dead letter in a lesser form.
    Lesser(Form),
    /// It ends as a dead letter, with everything it has.
    DeadLetter(Class),
    /// Nothing.
    None,
}

impl Processor {
    /// Lets a settled record have a fate that may be written where the one it has is refused. False where there is none.
    pub(super) fn give_way(&mut self, id: DeliveryId, refusal: (Target, Flaw, &str), now: Now) -> bool {
        let (target, flaw, words) = refusal;
        let (where_to, lane) = (self.destination(target), self.word(id.lane));
        let entry = self.tasks.get_mut(&id.partition).and_then(|task| task.lane(id.lane)?.entry(id.offset));
        let Some(Stage::Settled(settled)) = entry.map(|entry| &mut entry.stage) else { return false };
        let held = settled.fate.holds_at();
        match way(settled, target) {
            Way::Lesser(form) => settled.form = form,
            Way::DeadLetter(class) => {
                let reason = match flaw {
                    Flaw::TooLarge => Reason::TooLarge,
                    Flaw::Invalid => Reason::Refused,
                };
                let size = size_for(settled, target, &self.policy);
                let mut detail = format!("{where_to} refuses it: {words} ({size} bytes of key and value)");
                let envelope = Arc::make_mut(&mut settled.envelope);
                if let Some(last) = envelope.life.last_failure.as_ref().filter(|last| !last.detail.is_empty())
                {
                    detail = format!("{detail}; before that: {}", last.detail);
                }
                let succeeded = matches!(settled.fate, Disposition::Emit(_));
                if succeeded {
                    count_success(&mut envelope.life);
                }
                // A failure has no effect but that a count may start with it, and that stays.
                let effect = settled.effect.take_if(|_| succeeded);
                let (order, key) = (settled.order, settled.key);
                let verdict = Verdict { class, reason };
                note_failure(envelope, &verdict, detail, &lane, now.wall);
                settled.fate = Disposition::DeadLetter(verdict);
                settled.form = Form::Whole;
                self.dies(id, held);
                if let Some(key) = key
                    && (effect.is_some() || self.policy.order.holds())
                {
                    self.take_back(id, (key, order), effect, now);
                }
            }
            Way::None => return false,
        }
        true
    }

    /// A settled record is dead after all, and others may be held behind it.
    fn dies(&mut self, id: DeliveryId, held: Option<i64>) {
        let Some(task) = self.tasks.get_mut(&id.partition) else { return };
        let entry = task.lanes.get_mut(id.lane.index()).and_then(|lane| lane.entry(id.offset));
        let Some(settled) = entry.and_then(|entry| entry.stage.settled()) else { return };
        let (key, place, admitted) = (settled.key, settled.held, settled.admitted);
        let (envelope, fate) = (Arc::clone(&settled.envelope), settled.fate.clone());
        if let (Some(key), Some(place), Some(guarded)) = (key, held, task.guarded.as_deref_mut()) {
            guarded.held.unhold(key, place);
        }
        let Some(task) = self.tasks.get(&id.partition) else { return };
        let dead = self.dead_of(task, (key, place, admitted), &envelope, &fate);
        let entry = self.tasks.get_mut(&id.partition).and_then(|task| task.lane(id.lane)?.entry(id.offset));
        if let Some(Stage::Settled(settled)) = entry.map(|entry| &mut entry.stage) {
            settled.dead = dead;
        }
    }

    /// The name of a target, for people.
    fn destination(&self, target: Target) -> String {
        let outputs = &self.policy.outputs;
        match target {
            Target::Output => "the output".to_owned(),
            Target::Named(place) => {
                let named = outputs.named.get(usize::from(place)).map(|(name, _)| name.as_str());
                format!("the output `{}`", named.unwrap_or_default())
            }
            Target::Tier(tier) => {
                let lane = crate::core::position::Lane::Tier(tier);
                format!("`{}`", self.policy.word(lane))
            }
            Target::StaleOutput => "the topic of stale records".to_owned(),
            Target::DeadLetter => "the dead letter topic".to_owned(),
            Target::State => "the state topic".to_owned(),
            Target::Cases => "the topic of cases".to_owned(),
            Target::Audit => "the audit topic".to_owned(),
        }
    }
}

fn way(settled: &Settled, target: Target) -> Way {
    match target {
        Target::Output | Target::Named(_) | Target::StaleOutput | Target::Tier(_) | Target::DeadLetter => {}
        Target::State if matches!(settled.fate, Disposition::Hold { .. }) => {}
        // Written beside a record, not for it: bounded by how they are made, and never left out.
        Target::State | Target::Cases | Target::Audit => return Way::None,
    }
    let life = &settled.envelope.life;
    let last = life.last_failure.as_ref();
    let tells = !life.history.is_empty() || last.is_some_and(|last| !last.detail.is_empty());
    let strips = settled.form == Form::Whole && tells;
    match &settled.fate {
        Disposition::Retry { .. }
        | Disposition::Hop { .. }
        | Disposition::Hold { .. }
        | Disposition::DeadLetter(_)
            if strips =>
        {
            Way::Lesser(Form::Bare)
        }
        // The handler has done its work; what cannot be written is the answer.
        Disposition::Emit(_) => Way::DeadLetter(Class::Permanent),
        // It would be dropped, and what is to tell of that cannot.
        Disposition::Drop(_) => Way::DeadLetter(Class::Permanent),
        Disposition::Retry { verdict, .. } => Way::DeadLetter(verdict.class),
        Disposition::Hop { .. } | Disposition::Hold { .. } => {
            Way::DeadLetter(last.map_or(Class::Permanent, |last| last.class))
        }
        Disposition::DeadLetter(_) => match settled.form {
            Form::Whole | Form::Bare if settled.envelope.value.is_some() => Way::Lesser(Form::Reference),
            Form::Whole | Form::Bare | Form::Reference => Way::None,
        },
        Disposition::Obeyed(_) => Way::None,
    }
}

/// A delivery that succeeded counts where its record goes on all the same.
fn count_success(life: &mut Life) {
    life.executions = life.executions.saturating_add(1);
    life.attempt = life.attempt.saturating_add(1);
}
