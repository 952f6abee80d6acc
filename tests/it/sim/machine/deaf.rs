//! A planted bug: the control lane of a blocked task is heard only when the task goes on.

use std::collections::BTreeSet;

use redrive::core::event::{Action, Event, Part, Report};
use redrive::core::position::{Lane, Partition};

/// Which tasks are blocked, and what was not heard of them.
#[derive(Debug, Default)]
pub(super) struct Deaf {
    blocked: BTreeSet<Partition>,
    unheard: Vec<Event>,
}

impl Deaf {
    /// Sees what the core tells of its tasks.
    pub(super) fn watch(&mut self, action: &Action) {
        match action {
            Action::Report(Report::Blocked { part: Part::Records, partitions, .. }) => {
                self.blocked.extend(partitions)
            }
            Action::Report(Report::Unblocked { part: Part::Records, partitions, .. }) => {
                self.blocked.retain(|partition| !partitions.contains(partition));
            }
            Action::GiveBack { partition, .. } | Action::Restore { partition, .. } => {
                self.blocked.remove(partition);
            }
            _ => {}
        }
    }

    /// What the core hears in place of an event.
    pub(super) fn take(&mut self, event: Event) -> Vec<Event> {
        self.unheard.push(event);
        let blocked = &self.blocked;
        let is_withheld = |event: &Event| matches!(event, Event::Fetched { partition, lane: Lane::Control, .. } if blocked.contains(partition));
        let (withheld, heard): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.unheard).into_iter().partition(is_withheld);
        self.unheard = withheld;
        heard
    }
}
