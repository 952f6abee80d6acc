//! Events and actions in one line each.

use std::fmt::{self, Display, Formatter, Write as _};

use redrive::core::envelope::DeliveryId;
use redrive::core::event::{Action, Event, Transaction};
use redrive::core::outcome::Outcome;
use redrive::core::position::Lane;

/// One line about an event.
pub(crate) fn event(event: &Event) -> impl Display + '_ {
    Line(move |f: &mut Formatter<'_>| write_event(f, event))
}

/// One line about an action.
pub(crate) fn action(action: &Action) -> impl Display + '_ {
    Line(move |f: &mut Formatter<'_>| write_action(f, action))
}

struct Line<F>(F);

impl<F: Fn(&mut Formatter<'_>) -> fmt::Result> Display for Line<F> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        (self.0)(f)
    }
}

fn lane(lane: Lane) -> String {
    match lane {
        Lane::Source => "source".to_owned(),
        Lane::Control => "control".to_owned(),
        Lane::Held => "held".to_owned(),
        Lane::Tier(tier) => format!("tier{}", tier.0),
    }
}

fn delivery(id: &DeliveryId) -> String {
    format!("p{} e{} {} {}", id.partition, id.epoch.0, lane(id.lane), id.offset)
}

fn write_event(f: &mut Formatter<'_>, event: &Event) -> fmt::Result {
    match event {
        Event::Fetched { partition, epoch, lane: from, records } => {
            write!(f, "Fetched p{partition} e{} {}:", epoch.0, lane(*from))?;
            records.iter().try_for_each(|record| write!(f, " {}", record.offset))
        }
        Event::Handled { delivery: id, outcome } => {
            write!(f, "Handled {}: ", delivery(id))?;
            match outcome {
                Outcome::Done(outputs) => write!(f, "done, {} outputs", outputs.len()),
                Outcome::Failed(failure) => write!(f, "{:?} {:?}", failure.cause, failure.retry_after),
            }
        }
        Event::Passed { partition, epoch, lane: of, next } => {
            write!(f, "Passed p{partition} e{} {} {next}", epoch.0, lane(*of))
        }
        Event::Assigned(_)
        | Event::Restored { .. }
        | Event::Revoked(_)
        | Event::Lost(_)
        | Event::End { .. }
        | Event::Transacted { .. }
        | Event::ReadBack { .. }
        | Event::Absent { .. }
        | Event::Present { .. }
        | Event::Tick
        | Event::Drain => write!(f, "{event:?}"),
    }
}

fn write_action(f: &mut Formatter<'_>, action: &Action) -> fmt::Result {
    match action {
        Action::Handle(started) => {
            let id = delivery(&started.id);
            write!(f, "Handle {id} attempt {} execution {}", started.attempt, started.execution)
        }
        Action::Transact(transaction) => write_transaction(f, transaction),
        Action::Restore { .. }
        | Action::Open { .. }
        | Action::FindEnd { .. }
        | Action::Fetch { .. }
        | Action::ReadBack { .. }
        | Action::GiveBack { .. }
        | Action::Report(_)
        | Action::Stop(_) => write!(f, "{action:?}"),
    }
}

fn write_transaction(f: &mut Formatter<'_>, transaction: &Transaction) -> fmt::Result {
    write!(f, "Transact #{} probe {:?},", transaction.id.0, transaction.probe)?;
    for task in &transaction.tasks {
        write!(f, " p{} e{} seq {} to", task.partition, task.epoch.0, task.mark.sequence.0)?;
        for (from, offset) in &task.offsets {
            write!(f, " {} {offset}", lane(*from))?;
        }
        f.write_char(';')?;
    }
    transaction.writes.iter().try_for_each(|write| write!(f, " {:?}", write.target))
}
