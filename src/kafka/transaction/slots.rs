//! The two producers of a worker, and making them anew.

use std::sync::Arc;
use std::time::Duration;

use crate::kafka::producer::{InitError, Producer};
use crate::kafka::settings;
use crate::kafka::stopwatch::Stopwatch;
use crate::kafka::transaction::{TransactorError, TransactorSettings};

/// At start brokers may just be coming up.
const START_WITHIN: Duration = Duration::from_secs(30);
/// Later the worker waits for the answer, and asks again.
const HEAL_WITHIN: Duration = Duration::from_secs(10);

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    First,
    Second,
}

/// A producer cannot be made anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HealError {
    /// Not now.
    Again(String),
    /// Not ever.
    Never(String),
}

/// Both producers and whose turn it is. A producer that is missing is made anew before anything begins, with the other
/// one too: its open transaction would hold back every reader.
pub(super) struct Slots {
    settings: Arc<TransactorSettings>,
    first: Option<Producer>,
    second: Option<Producer>,
    turn: Slot,
}

impl Slots {
    pub(super) fn start(settings: Arc<TransactorSettings>) -> Result<Self, TransactorError> {
        let mut slots = Self { settings, first: None, second: None, turn: Slot::First };
        slots.first = Some(slots.make(Slot::First, START_WITHIN)?);
        slots.second = Some(slots.make(Slot::Second, START_WITHIN)?);
        Ok(slots)
    }

    /// Whose turn it is, changing it.
    pub(super) fn take_turn(&mut self) -> Slot {
        let turn = self.turn;
        self.turn = match turn {
            Slot::First => Slot::Second,
            Slot::Second => Slot::First,
        };
        turn
    }

    /// The producer of a slot, if it lives.
    pub(super) fn producer(&self, slot: Slot) -> Option<&Producer> {
        match slot {
            Slot::First => self.first.as_ref(),
            Slot::Second => self.second.as_ref(),
        }
    }

    /// Gives a producer up: nobody knows what it would still do.
    pub(super) fn discard(&mut self, slot: Slot) {
        *self.place(slot) = None;
    }

    /// Makes the missing producers anew, which ends the transactions that they left open.
    pub(super) fn heal(&mut self) -> Result<(), HealError> {
        for slot in [Slot::First, Slot::Second] {
            if self.producer(slot).is_none() {
                let made = self.make(slot, HEAL_WITHIN).map_err(|error| match error {
                    TransactorError::Unreachable { .. } | TransactorError::Thread { .. } => {
                        HealError::Again(error.to_string())
                    }
                    TransactorError::Settings(_)
                    | TransactorError::Authentication { .. }
                    | TransactorError::Refused { .. } => HealError::Never(error.to_string()),
                })?;
                *self.place(slot) = Some(made);
            }
        }
        Ok(())
    }

    fn place(&mut self, slot: Slot) -> &mut Option<Producer> {
        match slot {
            Slot::First => &mut self.first,
            Slot::Second => &mut self.second,
        }
    }

    fn make(&self, slot: Slot, bound: Duration) -> Result<Producer, TransactorError> {
        let TransactorSettings { kafka, pipeline, transactional_id, batch_bytes } = &*self.settings;
        let number = match slot {
            Slot::First => 0,
            Slot::Second => 1,
        };
        let id = format!("{transactional_id}.{number}");
        let config = settings::transactional_producer(kafka, pipeline, &id, *batch_bytes);
        let clock = Stopwatch::start();
        loop {
            let producer = Producer::make(&config, kafka)?;
            let left = clock.left_of(bound).unwrap_or(Duration::from_millis(1));
            let detail = match producer.initialise(left) {
                Ok(()) => return Ok(producer),
                Err(InitError::Authentication(detail)) => {
                    return Err(TransactorError::Authentication { detail });
                }
                Err(InitError::Never(detail)) => return Err(TransactorError::Refused { id, detail }),
                Err(InitError::Again(detail)) => detail,
            };
            if clock.left_of(bound).is_none() {
                return Err(TransactorError::Unreachable { id, seconds: bound.as_secs(), detail });
            }
        }
    }
}
