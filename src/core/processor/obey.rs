//! Requests of operators: read, carried out or refused, and answered.
//!
//! A request is decided once, when it is read, and keeps its answer until that is committed together with what it changed. A
//! request that cannot be read is refused like any other: nothing on the control lane holds it up.

use super::Processor;
use super::look::Look;
use super::write::entry;
use crate::core::control::{self, Answer, Command, Refusal, Reply};
use crate::core::event::{Target, Write};
use crate::core::headers;
use crate::core::lane::Disposition;
use crate::core::policy::Policy;
use crate::core::position::{Origin, Partition};
use crate::core::record::Record;
use crate::core::time::{Now, Timestamp};

impl Processor {
    pub(super) fn look_at_request(&mut self, record: Record, place: Origin, now: Now) -> Look {
        let (head, command) = control::read(&record);
        let result = command.and_then(|command| self.carry_out(place.partition, &command, now));
        let answer = Answer::new(result, now.wall, self.writer);
        // Of the record itself nothing is written.
        let spent = Record { key: None, value: None, headers: Vec::new(), ..record };
        let envelope = headers::lenient(spent, place.clone());
        let reply = Reply { head, place, answer };
        Look::Decided { envelope, fate: Disposition::Obeyed(Box::new(reply)) }
    }

    /// Does what is asked, and says in words what was done.
    fn carry_out(&mut self, partition: Partition, command: &Command, now: Now) -> Result<String, Refusal> {
        match command {
            Command::AcceptRepeats(ranges) => match self.accept_repeats(partition, ranges, now) {
                Ok(()) => Ok(format!("task `{partition}` goes on")),
                Err(why) => Err(Refusal::Declined { why: why.to_string() }),
            },
        }
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
