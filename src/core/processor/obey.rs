//! Requests of operators: read, carried out or refused, and answered.
//!
//! A request is decided once, when it is read, and keeps its answer until that is committed together with what it changed. A
//! request that cannot be read is refused like any other: nothing on the control lane holds it up.

use bytes::Bytes;

use super::Processor;
use super::look::Look;
use super::write::entry;
use crate::core::control::{self, Answer, Command, Refusal, Reply};
use crate::core::event::{Part, Target, Write};
use crate::core::guard::Version;
use crate::core::headers;
use crate::core::lane::Disposition;
use crate::core::policy::{Guard, Policy};
use crate::core::position::{Lane, Offset, Origin, Partition};
use crate::core::record::Record;
use crate::core::time::{Now, Timestamp};

/// What a request has come to that is carried out.
struct Done {
    /// What was done.
    words: String,
    /// What counts as applied of a key once it is committed.
    skips: Option<(Bytes, Version)>,
}

impl Processor {
    pub(super) fn look_at_request(&mut self, record: Record, place: Origin, now: Now) -> Look {
        let (head, command) = control::read(&record);
        let done = command.and_then(|command| self.carry_out(place.partition, &command, now));
        let (result, skips) = match done {
            Ok(Done { words, skips }) => (Ok(words), skips),
            Err(refusal) => (Err(refusal), None),
        };
        let answer = Answer::new(result, now.wall, self.writer);
        // Of the record itself nothing is written.
        let spent = Record { key: None, value: None, headers: Vec::new(), ..record };
        let mut envelope = headers::lenient(spent, place.clone());
        let reply = Box::new(Reply { head, place, answer });
        let Some((key, to)) = skips else {
            return Look::Decided { envelope, fate: Disposition::Obeyed(reply) };
        };
        // So it is one of the records of that key, wherever those have it.
        envelope.order_key = Some(key.clone());
        envelope.key = Some(key);
        envelope.version = Some(to);
        Look::Skips { envelope, reply }
    }

    /// Does what is asked, and says in words what was done.
    fn carry_out(&mut self, partition: Partition, command: &Command, now: Now) -> Result<Done, Refusal> {
        match command {
            Command::AcceptRepeats(ranges) => match self.accept_repeats(partition, ranges, now) {
                Ok(()) => Ok(Done { words: format!("task `{partition}` goes on"), skips: None }),
                Err(why) => Err(Refusal::Declined { why: why.to_string() }),
            },
            Command::SkipVersions { key, to } => match self.skip_versions(partition, key, *to) {
                Ok(words) => Ok(Done { words, skips: Some((key.clone(), *to)) }),
                Err(why) => Err(Refusal::Declined { why }),
            },
        }
    }

    /// Whether the versions of a key may count as applied up to `to`, and what that means.
    fn skip_versions(&self, partition: Partition, key: &[u8], to: Version) -> Result<String, String> {
        if !matches!(self.policy.order.guard, Guard::Contiguous(_)) {
            let pipeline = &self.policy.name;
            return Err(format!("pipeline `{pipeline}` counts no versions: its guard is not `contiguous`"));
        }
        let next = to.next().ok_or_else(|| format!("behind version `{to}` there is none"))?;
        let task = self.tasks.get(&partition);
        let known = task.and_then(|task| Some((task.hash(key), task.guarded.as_deref()?)));
        let (key, guarded) = known.ok_or_else(|| format!("task `{partition}` does not know its keys"))?;
        let (newest, follows) = guarded.newest(key, (Lane::Control, Offset(i64::MAX)));
        if follows.is_some() && task.is_some_and(|task| task.block_of(Part::Records).is_some()) {
            // It would wait for that, and all requests behind it.
            return Err(format!(
                "task `{partition}` is blocked with a record of this key: ask again once it goes on"
            ));
        }
        let newest = newest.map(|newest| newest.version);
        if let Some(newest) = newest.filter(|newest| *newest > to) {
            return Err(format!("version `{newest}` counts as applied: `{to}` is before that"));
        }
        let held = guarded.held.get(key);
        let held = held.map_or(0, |of_key| of_key.records.range(..=to.0).count());
        let dropped =
            if held > 0 { format!("; `{held}` that are held end without effect") } else { String::new() };
        Ok(match newest.and_then(Version::next) {
            Some(first) if first <= to => {
                format!("versions `{first}` to `{to}` are skipped, the next is `{next}`{dropped}")
            }
            Some(_) | None => format!("the next version is `{next}`{dropped}"),
        })
    }
}

/// Adds what an answered request writes: its answer, where somebody waits for one, and its line in the audit.
pub(super) fn writes_of(
    reply: &Reply,
    partition: Partition,
    policy: &Policy,
    now: Timestamp,
    writes: &mut Vec<Write>,
) {
    let write = |target, key, value| entry(target, partition, key, value, now);
    if let Some(id) = &reply.head.id {
        writes.push(write(Target::Cases, Some(Answer::key(id)), reply.answer.to_bytes()));
    }
    writes.push(write(Target::Audit, None, reply.audit(&policy.name)));
}
