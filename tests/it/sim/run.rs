//! One seed from start to end, and many seeds on two threads.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redrive::core::invariant::InvariantId;

use super::plan::Plan;
use super::planted::Bug;
use super::reached::Reached;
use super::world::{Behind, Counts, World};

/// No seed takes as many steps.
const MOST_STEPS: u64 = 3_000_000;

/// How a run that does not hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Broken(InvariantId),
    /// Not every record got its fate, or the workers did not end in order.
    Stalled,
    Panicked,
}

/// A run that does not hold.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) seed: u64,
    pub(crate) kind: Kind,
    pub(crate) detail: String,
    pub(crate) trace: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, kind, detail, trace } = self;
        writeln!(f, "{trace}")?;
        writeln!(f, "seed {seed}: {kind:?}: {detail}")?;
        write!(f, "hint: REDRIVE_SIM_SEED={seed} runs it alone and shows every step")
    }
}

/// A run that holds.
#[derive(Clone, Debug)]
pub(crate) struct Passed {
    pub(crate) hash: u64,
    pub(crate) steps: u64,
    pub(crate) counts: Counts,
    pub(crate) reached: Reached,
    pub(crate) twins_ended: usize,
}

/// Runs one seed. `lines` is how much of its trace a failure shows.
pub(crate) fn run(seed: u64, bug: Option<Bug>, lines: Option<usize>) -> Result<Passed, Failure> {
    drive_plan(Plan::new(seed), bug, lines)
}

/// Runs one plan.
pub(crate) fn drive_plan(plan: Plan, bug: Option<Bug>, lines: Option<usize>) -> Result<Passed, Failure> {
    let seed = plan.seed;
    let mut world = World::new(plan, bug, lines);
    let ended = catch_unwind(AssertUnwindSafe(|| drive(&mut world)));
    let (kind, detail) = match ended {
        Ok(Ok(())) => {
            let (hash, steps) = (world.trace.hash(), world.trace.steps());
            let twins_ended = world.twins_ended;
            return Ok(Passed { hash, steps, counts: world.counts, reached: world.reached, twins_ended });
        }
        Ok(Err((kind, detail))) => (kind, detail),
        Err(panic) => (Kind::Panicked, panic_text(panic.as_ref())),
    };
    Err(Failure { seed, kind, detail, trace: world.trace.tail() })
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

type End = (Kind, String);

fn drive(world: &mut World) -> Result<(), End> {
    let patience = world.plan.faults_end + world.plan.patience();
    advance(world, patience, World::is_quiet)?;
    // Everything has its fate: now nothing but answers can be written.
    world.besiege();
    let patience = world.now + Duration::from_secs(600);
    advance(world, patience, World::is_answered)?;
    world.relieve();
    let patience = world.now + world.plan.patience();
    advance(world, patience, World::is_quiet)?;
    // Now all workers stop in order.
    world.close();
    let patience = world.now + Duration::from_secs(120);
    advance(world, patience, World::is_closed)
}

fn advance(world: &mut World, until: Duration, done: fn(&World) -> bool) -> Result<(), End> {
    while !done(world) {
        let goes_on = world.step();
        if let Some(breach) = world.breach.take() {
            return Err((Kind::Broken(breach.id), breach.to_string()));
        }
        if !goes_on || world.now > until || world.trace.steps() > MOST_STEPS {
            let why = if goes_on { "too much time or too many steps" } else { "nothing left to happen" };
            let open = world.checker.unfinished();
            let lag = world.lag(Behind::Offsets);
            return Err((Kind::Stalled, format!("{why}, lag {lag}, without a fate: {open:?}")));
        }
    }
    Ok(())
}

/// The numbers of many runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) seeds: u64,
    pub(crate) steps: u64,
    pub(crate) counts: Counts,
    pub(crate) fewest_faults: u64,
    pub(crate) reached: Reached,
}

impl Totals {
    fn add(&mut self, passed: &Passed) {
        self.reached.extend(&passed.reached);
        let Counts { faults, commits, aborts, handled, records } = passed.counts;
        self.fewest_faults = if self.seeds == 0 { faults } else { self.fewest_faults.min(faults) };
        self.seeds += 1;
        self.steps += passed.steps;
        self.counts.faults += faults;
        self.counts.commits += commits;
        self.counts.aborts += aborts;
        self.counts.handled += handled;
        self.counts.records += records;
    }
}

/// Runs seeds from `first` on, on two threads, up to the first that fails.
pub(crate) fn run_many(first: u64, count: u64, bug: Option<Bug>) -> (Totals, Option<Failure>) {
    let next = AtomicU64::new(first);
    let state = Mutex::new((Totals::default(), None::<Failure>));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    let result = run(seed, bug, None);
                    let mut state = state.lock().expect("no thread panics while it holds the numbers");
                    match result {
                        Ok(passed) => state.0.add(&passed),
                        Err(failure) => {
                            next.store(first + count, Ordering::Relaxed);
                            // Of two failures at a time the smaller seed is told.
                            if state.1.as_ref().is_none_or(|known| known.seed > failure.seed) {
                                state.1 = Some(failure);
                            }
                        }
                    }
                }
            });
        }
    });
    state.into_inner().expect("no thread panics while it holds the numbers")
}
