//! Whoever asks something of the owners of tasks: who, for what, and whether it is to be asked at all.

use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;

use crate::cli::check::Output;
use crate::cli::{BadInput, answer};
use crate::core::control::{Command, LONGEST_NAME, Request, RequestId};
use crate::core::position::Partition;
use crate::core::time::Timestamp;
use crate::kafka::desk::Desk;
use crate::runtime::clock::Clock;
use crate::topology::model::{Pipeline, Topology};

/// What a command that asks takes.
#[derive(Debug, clap::Args)]
pub(super) struct Asker {
    /// Who asks, for the audit
    #[arg(long, value_name = "WHO", env = "USER")]
    by: Option<String>,
    /// The ticket that this is done for, for the audit
    #[arg(long, value_name = "TICKET")]
    ticket: Option<String>,
    /// Ask it
    #[arg(long)]
    yes: bool,
}

/// Who asks, and for which ticket, as any worker takes it.
#[derive(Debug)]
pub(super) struct Asking {
    by: String,
    ticket: Option<String>,
}

impl Asker {
    /// Whether it is to be asked.
    pub(super) const fn yes(&self) -> bool {
        self.yes
    }

    /// Who asks.
    pub(super) fn asking(&self) -> Result<Asking, BadInput> {
        let by = name("--by", self.by.as_deref())?.ok_or(BadInput::Nobody)?;
        Ok(Asking { by, ticket: name("--ticket", self.ticket.as_deref())? })
    }
}

impl Asking {
    /// Who asks.
    pub(super) fn by(&self) -> &str {
        &self.by
    }

    /// Asks the owners of tasks, and prints what they answer: exit code 0 where all obeyed.
    pub(super) fn ask(
        self,
        (topology, pipeline): (&Topology, &Pipeline),
        commands: impl IntoIterator<Item = (Partition, Command)>,
        output: Output,
        out: &mut dyn Write,
    ) -> Result<ExitCode> {
        let Self { by, ticket } = self;
        let at = Clock::start().now().wall;
        let requests: Vec<(Partition, Request)> = commands
            .into_iter()
            .map(|(partition, command)| {
                let (id, by, ticket) = (draw(partition, at), by.clone(), ticket.clone());
                (partition, Request { id, by, at, ticket, command })
            })
            .collect();
        let answers = Desk::open(&topology.kafka, pipeline)?.ask(&requests, answer::PATIENCE)?;
        let ids: Vec<RequestId> = requests.into_iter().map(|(_, request)| request.id).collect();
        answer::print(output, pipeline, &ids, answers, out)
    }
}

/// A name for the audit, as any worker takes it.
fn name(flag: &'static str, text: Option<&str>) -> Result<Option<String>, BadInput> {
    match text {
        None => Ok(None),
        Some(text) if (1..=LONGEST_NAME).contains(&text.len()) && !text.chars().any(char::is_control) => {
            Ok(Some(text.to_owned()))
        }
        Some(_) => Err(BadInput::Name { flag }),
    }
}

/// An id that no other request has.
fn draw(partition: Partition, at: Timestamp) -> RequestId {
    // Seeded by the system, and counted up within a process.
    RequestId::draw(partition, at, RandomState::new().hash_one(std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_says_which_task_was_asked_and_when_and_no_two_are_alike() {
        let at = Timestamp::from_millis(1_700_000_000_000);
        let (one, two) = (draw(Partition(7), at), draw(Partition(7), at));
        assert_ne!(one, two);
        assert_eq!(one.asked(), Some((Partition(7), at)));
    }

    #[test]
    fn a_name_for_the_audit_is_short_and_plain() {
        assert!(name("--by", Some("Ada Lovelace")).is_ok());
        for bad in ["", "a\u{1b}[2J", "\n", &"x".repeat(257)] {
            assert!(name("--by", Some(bad)).is_err(), "{bad:?}");
        }
    }
}
