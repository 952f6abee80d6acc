//! Records per second with a guard, without one, and by a bare loop.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::Options;
use crate::bare::Bare;
use crate::load::Load;
use crate::stage::{Committed, Guard, Pipeline, Stage};
use crate::worker::{Worker, now, own_processor_time};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);
/// No run stands still for so long.
const PATIENCE: Duration = Duration::from_secs(120);
/// What is behind this part of all records counts: the start is left out.
const WARM: i64 = 20;

/// One run.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Records per second of the clock.
    rate: f64,
    /// Microseconds of a processor per record, of the client's process alone.
    cost: f64,
}

/// Runs the three in turn, forth and back, and prints what they do; the guarded pipeline of the last round.
pub(crate) fn compare(stage: &Stage, source: &str, load: Load, options: &Options) -> Result<Pipeline> {
    let (mut guarded, mut plain, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    let mut last = None;
    println!(
        "{} records of as many keys, {} partitions, windows of {}",
        load.records, load.partitions, options.window
    );
    for round in 0..options.rounds {
        let mut turns = [0, 1, 2];
        if round % 2 == 1 {
            turns.reverse();
        }
        for turn in turns {
            let (what, runs) = match turn {
                0 => ("without a guard", &mut plain),
                1 => ("guard = \"latest\"", &mut guarded),
                _ => ("bare loop", &mut bare),
            };
            let run = match turn {
                0 => redrive(stage, source, load, (Guard::Without, options.window))?.1,
                1 => {
                    let (pipeline, run) = redrive(stage, source, load, (Guard::Latest, options.window))?;
                    last = Some(pipeline);
                    run
                }
                _ => bare_loop(stage, source, load, options.window)?,
            };
            println!("  {what:18} {:8.0} records/s, {:6.2} µs of a processor each", run.rate, run.cost);
            runs.push(run);
        }
    }
    let (guarded, plain, bare) = (median(guarded)?, median(plain)?, median(bare)?);
    println!("  latest / without a guard: {:.2} (wanted: at least 0.55)", guarded.rate / plain.rate);
    println!("  latest / bare loop: {:.2} (wanted: at least 0.85)", guarded.rate / bare.rate);
    last.context("no round")
}

/// The run in the middle, by its rate.
fn median(mut runs: Vec<Run>) -> Result<Run> {
    runs.sort_by(|one, other| one.rate.total_cmp(&other.rate));
    runs.get(runs.len() / 2).copied().context("no round")
}

fn redrive(
    stage: &Stage,
    source: &str,
    load: Load,
    (guard, window): (Guard, u32),
) -> Result<(Pipeline, Run)> {
    let pipeline = stage.pipeline(source, load.partitions, guard, window)?;
    let committed = stage.committed(&pipeline.group(), source, load.partitions)?;
    let mut worker = Worker::start(&pipeline)?;
    let (mut begun, mut moved) = (None, now());
    let (all, mut before) = (i64::from(load.records), 0);
    loop {
        worker.check()?;
        let done = committed.sum()?;
        if begun.is_none() && done >= all / WARM {
            begun = Some((now(), done, worker.processor_time()?));
        }
        if done >= all {
            let (since, first, cost) = begun.context("it was done before it began")?;
            let records = f64::from(u32::try_from(all - first)?.max(1));
            let run = Run {
                rate: records / since.elapsed().as_secs_f64(),
                cost: (worker.processor_time()? - cost) * 1e6 / records,
            };
            worker.end()?;
            return Ok((pipeline, run));
        }
        if done > before {
            (before, moved) = (done, now());
        }
        ensure!(moved.elapsed() < PATIENCE, "`{done}` of `{all}` records are committed, and no more");
        std::thread::sleep(LOOK);
    }
}

fn bare_loop(stage: &Stage, source: &str, load: Load, window: u32) -> Result<Run> {
    let name = stage.name("bare");
    let output = stage.topic(&format!("{name}-out"), load.partitions)?;
    let state = stage.topic(&format!("{name}-state"), load.partitions)?;
    // As many as redrive may have in flight.
    let batch = usize::try_from(window)? * usize::try_from(load.partitions)?;
    let bare = Bare::new(&stage.bootstrap, &name, [source, &output, &state], batch)?;
    let (mut done, mut begun, mut moved) = (0, None, now());
    let all = usize::try_from(load.records)?;
    while done < all {
        let records = bare.turn()?;
        done += records;
        if records > 0 {
            moved = now();
        }
        ensure!(moved.elapsed() < PATIENCE, "`{done}` of `{all}` records are committed, and no more");
        if begun.is_none() && done >= all / usize::try_from(WARM)? {
            begun = Some((now(), done, own_processor_time()?));
        }
    }
    let (since, first, cost) = begun.context("it was done before it began")?;
    let records = f64::from(u32::try_from(all - first)?.max(1));
    Ok(Run {
        rate: records / since.elapsed().as_secs_f64(),
        cost: (own_processor_time()? - cost) * 1e6 / records,
    })
}

/// Waits until so many records are committed.
pub(crate) fn wait_for(committed: &Committed, worker: &mut Worker, all: i64) -> Result<()> {
    let begun = now();
    while committed.sum()? < all {
        worker.check()?;
        ensure!(begun.elapsed() < PATIENCE, "`{}` of `{all}` records are committed", committed.sum()?);
        std::thread::sleep(LOOK);
    }
    Ok(())
}
