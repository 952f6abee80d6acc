//! Round after round until the goal is reached or the time is up, and what came of it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::time::Instant;

use crate::chaos::{Outcome, Round, Size, Subject};
use crate::cluster::Cluster;
use crate::goal::{self, compared};
use crate::state::{Found, State};
use crate::{Options, handler};

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All zeros are zero, and the control run's are not.
    Good,
    Bad,
}

/// The first round's schedule, which the control run has too.
const FIRST: usize = 1;

pub(crate) fn run(options: &Options) -> Result<Verdict> {
    let end = End::of(options.minutes)?;
    std::fs::create_dir_all(&options.folder).context("making the folder")?;
    let folder = options.folder.canonicalize().context("finding the folder")?;
    let mut state = begin_or_go_on(options, &folder)?;
    say(&format!(
        "seed {}, commit {}, round {} is next; kept in `{}`",
        state.seed,
        commit(),
        state.rounds + 1,
        folder.display()
    ));
    let home = tempfile::Builder::new().prefix("kafka-").tempdir_in(&folder).context("making a folder")?;
    let cluster = Arc::new(Cluster::start(home.path().join("nodes"))?);
    let soak = Soak { cluster, folder, records: usize::try_from(options.round)?, end };
    while !goal::is_reached(&state.done) && !soak.end.is_near() {
        let number = state.rounds + 1;
        let outcome = soak.play(state.seed, number, &Subject::Redrive)?;
        state.add(&outcome);
        state.save(&soak.folder)?;
        if state.control.is_none() && !soak.end.is_near() {
            let naive = Subject::Naive { soak: std::env::current_exe().context("finding this program")? };
            let outcome = soak.play(state.seed, FIRST, &naive)?;
            state.control = Some(Found::of(&outcome));
            state.save(&soak.folder)?;
        }
    }
    Ok(report(&state))
}

/// A run that is complete is not gone on with.
fn begin_or_go_on(options: &Options, folder: &Path) -> Result<State> {
    let kept = if options.fresh { None } else { State::load(folder)? };
    match kept.filter(|state| !goal::is_reached(&state.done)) {
        Some(state) => {
            let wanted = options.seed.unwrap_or(state.seed);
            ensure!(
                wanted == state.seed,
                "`{}` holds a run with seed `{}`\nhint: --fresh begins anew",
                folder.display(),
                state.seed
            );
            Ok(state)
        }
        None => Ok(State::new(options.seed.unwrap_or_else(|| handler::now().unsigned_abs() % 1_000_000))),
    }
}

/// What all rounds share.
struct Soak {
    cluster: Arc<Cluster>,
    folder: PathBuf,
    records: usize,
    end: End,
}

impl Soak {
    fn play(&self, seed: u64, number: usize, subject: &Subject) -> Result<Outcome> {
        let name = format!("{}-{number}", subject.word());
        let logs = self.folder.join(&name);
        std::fs::create_dir_all(&logs).context("making a folder for logs")?;
        let size: Size = goal::size(number, self.records);
        say(&format!("{name}: {size:?}"));
        let outcome = Round {
            cluster: &self.cluster,
            seed,
            number,
            size,
            subject,
            redrive: &redrive()?,
            folder: &logs,
            enough: &|| self.end.is_near(),
            tell: &|what| say(&format!("{name}: {what}")),
        }
        .play()?;
        say_outcome(&name, &outcome);
        if *subject == Subject::Redrive && !outcome.is_clean() {
            say_what_is_wrong(&name, &outcome);
            say(&format!("{name}: the logs are kept in `{}`", logs.display()));
        } else {
            std::fs::remove_dir_all(&logs).context("removing logs that nobody will look into")?;
        }
        Ok(outcome)
    }
}

fn say_outcome(name: &str, outcome: &Outcome) {
    let (books, seconds) = (&outcome.books, outcome.took.as_secs());
    let (records, restarted) = (outcome.done.records, outcome.gave_up.len());
    say(&format!(
        "{name}: {records} records in {seconds} s, lost {}, doubled {}, early {}; {restarted} processes gave up and \
         were started again",
        books.lost, books.doubled, books.early
    ));
}

fn say_what_is_wrong(name: &str, outcome: &Outcome) {
    eprintln!("{}", outcome.books.text);
    for line in outcome.books.differences.iter().chain(&outcome.surprises).chain(&outcome.gave_up) {
        say(&format!("{name}: ! {line}"));
    }
}

fn report(state: &State) -> Verdict {
    let State { seed, rounds, done, found, seconds, control } = state;
    println!("\nThe soak, seed {seed}, commit {}, {rounds} rounds:\n", commit());
    for (what, done, goal) in compared(done) {
        println!("  {what:<26}{done:>9}  of {goal} or more");
    }
    let minutes = seconds.div_ceil(60);
    println!("  {:<26}{minutes:>9}  while records flowed", "minutes");
    println!("\n  {:<26}{:>9}\n  {:<26}{:>9}", "lost", found.lost, "doubled", found.doubled);
    println!("  {:<26}{:>9}\n  {:<26}{:>9}", "early", found.early, "other findings", found.others);
    println!("  {:<26}{:>9}  that hung, crashed or did not end in order", "processes", found.surprises);
    println!("  {:<26}{:>9}  and were started again", "processes that gave up", found.gave_up);
    println!("  {:<26}{:>9}  handler calls that were made before a crash", "repeated calls", found.repeated);
    let fails = match control {
        None => {
            println!(
                "\n  The control run, with offsets committed apart from the transaction, was not reached."
            );
            true
        }
        Some(control) => {
            println!(
                "\n  The control run, with offsets committed apart from the transaction: {} doubled, {} lost.",
                control.doubled, control.lost
            );
            control.doubled > 0
        }
    };
    if !goal::is_reached(done) {
        println!("\n  Not the whole schedule: the next `make soak` goes on with round {}.", rounds + 1);
    }
    if found.is_clean() && fails { Verdict::Good } else { Verdict::Bad }
}

/// The redrive that was built beside this program.
fn redrive() -> Result<PathBuf> {
    let own = std::env::current_exe().context("finding this program")?;
    let built =
        own.ancestors().nth(2).context("this program is not where examples are built")?.join("redrive");
    ensure!(built.exists(), "`{}` is missing; `make soak` builds it", built.display());
    Ok(built)
}

fn commit() -> String {
    let git = |arguments: &[&str]| {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/.");
        let output = Command::new("git").args(["-C", root]).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    let changed =
        git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|list| !list.is_empty());
    if changed { format!("{commit} with changes") } else { commit }
}

fn say(text: &str) {
    eprintln!("soak: {text}");
}

/// When nothing new is begun: after the minutes that were given, or at SIGINT or SIGTERM.
struct End {
    at: Option<Instant>,
    interrupted: Arc<AtomicBool>,
}

impl End {
    fn of(minutes: Option<u64>) -> Result<Self> {
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted)).context("listening to signals")?;
        }
        let at = minutes.map(|minutes| Instant::now() + Duration::from_secs(minutes * 60));
        Ok(Self { at, interrupted })
    }

    fn is_near(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed) || self.at.is_some_and(|at| Instant::now() >= at)
    }
}
