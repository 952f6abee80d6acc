//! Counts the fates of a round as they become visible.

use std::time::Duration;

use anyhow::Result;
use rdkafka::consumer::BaseConsumer;
use rdkafka::error::KafkaError;
use tokio::time::Instant;

use super::stage::Stage;
use crate::found::{self, Isolation};

/// Where a record may have two fates, their number says nothing: all is done when none came for this long.
const QUIET: Duration = Duration::from_secs(5);

/// A reader of the output and the dead letters.
pub(crate) struct Fates {
    reader: BaseConsumer,
    seen: usize,
    at: Instant,
    error: Option<KafkaError>,
}

impl Fates {
    pub(crate) fn of(stage: &Stage) -> Result<Self> {
        let topics = [stage.output()?, stage.dead_letters()];
        let reader = found::reader(&stage.bootstrap, &topics, Isolation::Committed)?;
        Ok(Self { reader, seen: 0, at: Instant::now(), error: None })
    }

    pub(crate) fn seen(&self) -> usize {
        self.seen
    }

    /// Takes what became visible, and waits for it this long.
    pub(crate) fn count(&mut self, wait: Duration) -> Result<()> {
        let until = Instant::now() + wait;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            match self.reader.poll(left) {
                Some(Ok(_)) => {
                    self.seen += 1;
                    self.at = Instant::now();
                }
                Some(Err(KafkaError::PartitionEOF(_))) | None => {}
                // A node is away, or was: the reader goes on by itself.
                Some(Err(error)) => self.error = Some(error),
            }
        }
        Ok(())
    }

    /// Whether there are as many as records were sent; more only once no further ones come.
    pub(crate) fn are_all(&self, sent: usize) -> bool {
        self.seen == sent || (self.seen > sent && self.at.elapsed() > QUIET)
    }

    /// What went wrong last, for people.
    pub(crate) fn last_words(&self) -> String {
        self.error.as_ref().map_or_else(|| "the reader saw no error".to_owned(), ToString::to_string)
    }
}
