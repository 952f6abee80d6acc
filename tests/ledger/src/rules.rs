//! What a pipeline promises, as far as a reader of its topics can hold it to it.

use super::{Role, Seen};

/// What the pipeline promises.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The name of the source topic.
    pub source: String,
    /// The tiers' delays in milliseconds, in the ladder's order.
    pub delays: Vec<i64>,
    /// An attempt of this number is the last.
    pub most_attempts: u32,
    /// The header that holds the event id; `None`: the origin is the event id.
    pub event_id: Option<String>,
    /// What the output of a success must hold.
    pub output: OutputValue,
    /// Which records of a key must keep their order.
    pub order: Order,
    /// When the records were read.
    pub cut: Cut,
}

/// What the one output record of a success must hold. Key and foreign headers are always those of the source record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputValue {
    /// Whatever the handler made.
    Any,
    /// The value of the source record.
    AsSource,
}

/// Which records of a key must come out in the order in which they went in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// None.
    Unchecked,
    /// Those that never waited in a tier.
    FirstTries,
    /// All.
    All,
}

/// When the records were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Records may be unread, and may wait.
    Running,
    /// Nothing may be left.
    Drained,
}

impl Rules {
    /// What people call a topic of this role.
    pub(crate) fn topic(&self, role: Role) -> String {
        match role {
            Role::Source => self.source.clone(),
            Role::Tier(tier) => format!("tier {tier}"),
            Role::Output => "output".to_owned(),
            Role::DeadLetter => "dead letters".to_owned(),
        }
    }

    pub(crate) fn place(&self, record: &Seen) -> String {
        format!("{}/{}/{}", self.topic(record.role), record.partition, record.offset)
    }
}
