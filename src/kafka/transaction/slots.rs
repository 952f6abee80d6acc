//! The two producers of a worker, and making them anew.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::core::event::Slot;
use crate::fail_point::fail_point;
use crate::kafka::producer::{InitError, Producer};
use crate::kafka::settings as client_settings;
use crate::kafka::stopwatch::Stopwatch;
use crate::kafka::transaction::{TransactorError, TransactorSettings};
use crate::telemetry::Telemetry;
use crate::telemetry::event::{ProducerRemade, RemakeCause};

/// The worker waits for the answer, and asks again.
const HEAL_WITHIN: Duration = Duration::from_secs(10);
/// One try of many: whoever waits may have to end.
const TRY: Duration = Duration::from_millis(500);

/// Between two tries of which the first failed at once.
const PAUSE: Duration = Duration::from_millis(100);

/// Whether a producer that no broker has initialised yet is still wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    TryAgain,
    GiveUp,
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
    telemetry: Arc<Telemetry>,
    first: Place,
    second: Place,
    turn: Slot,
}

enum Place {
    Living(Producer),
    /// Given up, and why.
    Empty {
        cause: RemakeCause,
        detail: String,
    },
}

impl Slots {
    pub(super) fn start(
        settings: Arc<TransactorSettings>,
        telemetry: Arc<Telemetry>,
        waits: &mut dyn FnMut(&str) -> Patience,
    ) -> Result<Self, TransactorError> {
        let first = Place::Living(make(&settings, Slot::First, waits)?);
        fail_point!(BetweenSlots);
        let second = Place::Living(make(&settings, Slot::Second, waits)?);
        Ok(Self { settings, telemetry, first, second, turn: Slot::First })
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
        let place = match slot {
            Slot::First => &self.first,
            Slot::Second => &self.second,
        };
        match place {
            Place::Living(producer) => Some(producer),
            Place::Empty { .. } => None,
        }
    }

    /// Gives a producer up: nobody knows what it would still do.
    pub(super) fn discard(&mut self, slot: Slot, cause: RemakeCause, detail: String) {
        *self.place(slot) = Place::Empty { cause, detail };
    }

    /// Makes the missing producers anew, which ends the transactions that they left open.
    pub(super) fn heal(&mut self, ending: &AtomicBool) -> Result<(), HealError> {
        for slot in [Slot::First, Slot::Second] {
            if self.producer(slot).is_some() {
                continue;
            }
            fail_point!(BeforeRemake);
            let clock = Stopwatch::start();
            let mut waits = |_: &str| match clock.left_of(HEAL_WITHIN) {
                Some(_) if !ending.load(Ordering::Relaxed) => Patience::TryAgain,
                Some(_) | None => Patience::GiveUp,
            };
            let made = make(&self.settings, slot, &mut waits).map_err(|error| match error {
                TransactorError::Unreachable { .. } | TransactorError::Thread { .. } => {
                    HealError::Again(error.to_string())
                }
                TransactorError::Settings(_)
                | TransactorError::Authentication { .. }
                | TransactorError::Refused { .. } => HealError::Never(error.to_string()),
            })?;
            fail_point!(AfterRemake);
            match std::mem::replace(self.place(slot), Place::Living(made)) {
                Place::Empty { cause, detail } => {
                    self.telemetry.emit(ProducerRemade { cause, detail: &detail });
                }
                Place::Living(_) => {}
            }
        }
        Ok(())
    }

    fn place(&mut self, slot: Slot) -> &mut Place {
        match slot {
            Slot::First => &mut self.first,
            Slot::Second => &mut self.second,
        }
    }
}

/// Makes the producer of a slot and fences its past; `waits` is asked every [`TRY`] whether it is still wanted.
fn make(
    settings: &TransactorSettings,
    slot: Slot,
    waits: &mut dyn FnMut(&str) -> Patience,
) -> Result<Producer, TransactorError> {
    let TransactorSettings { kafka, pipeline, transactional_id, batch_bytes, .. } = settings;
    let number = match slot {
        Slot::First => 0,
        Slot::Second => 1,
    };
    let id = format!("{transactional_id}.{number}");
    let config = client_settings::transactional_producer(kafka, pipeline, &id, *batch_bytes);
    let clock = Stopwatch::start();
    let mut producer = Producer::make(&config, kafka)?;
    loop {
        let detail = match producer.initialise(TRY) {
            Ok(()) => return Ok(producer),
            Err(InitError::Authentication(detail)) => {
                return Err(TransactorError::Authentication { detail });
            }
            Err(InitError::Never(detail)) => return Err(TransactorError::Refused { id, detail }),
            // The same call goes on where it stands.
            Err(InitError::Unanswered(detail)) => detail,
            Err(InitError::Again(detail)) => {
                thread::sleep(PAUSE);
                producer = Producer::make(&config, kafka)?;
                detail
            }
        };
        match waits(&detail) {
            Patience::TryAgain => {}
            Patience::GiveUp => {
                let seconds = clock.elapsed().as_secs();
                return Err(TransactorError::Unreachable { id, seconds, detail });
            }
        }
    }
}
