//! What a pipeline promises, as far as a reader of its topics can hold it to it.

use super::{Part, Role, Seen};

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
    /// Whether committed offsets may be gone.
    pub offsets: Offsets,
    /// While it runs: the longest that a transaction may be open, or the offset of a visible fate may take to become
    /// visible too, in milliseconds. The transaction timeout, what the broker takes to notice it, and patience.
    pub longest_open: i64,
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

/// Whether committed offsets may be gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offsets {
    /// What was committed once stays so.
    Stay,
    /// The broker drops them after a while.
    MayExpire,
}

impl Rules {
    /// What people call a topic of this role.
    pub(crate) fn topic(&self, role: Role) -> String {
        match role {
            Role::Source => self.source.clone(),
            Role::Tier(tier) => format!("tier {tier}"),
            Role::Control => "control".to_owned(),
            Role::Output => "output".to_owned(),
            Role::DeadLetter => "dead letters".to_owned(),
            Role::Cases => "cases".to_owned(),
            Role::State => "state".to_owned(),
        }
    }

    pub(crate) fn part(&self, (role, partition): Part) -> String {
        format!("{}/{partition}", self.topic(role))
    }

    pub(crate) fn place(&self, role: Role, partition: i32, offset: i64) -> String {
        format!("{}/{partition}/{offset}", self.topic(role))
    }

    pub(crate) fn place_of(&self, record: &Seen) -> String {
        self.place(record.role, record.partition, record.offset)
    }
}
