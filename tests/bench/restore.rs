//! How long a process that starts takes until its first records are committed.

use anyhow::Result;

use crate::load::{Load, Sender};
use crate::rates::wait_for;
use crate::stage::{Guard, Pipeline, Stage};
use crate::worker::Worker;

/// That of a topology which says nothing of it.
const WINDOW: u32 = 256;

/// Of a pipeline that has applied a version of every key.
pub(crate) fn of_keys(stage: &Stage, pipeline: &Pipeline, load: Load) -> Result<()> {
    let (seconds, now, most) = start(stage, pipeline, load.partitions, i64::from(load.records))?;
    println!(
        "restore of {} keys in {} partitions: {seconds:.2} s from the start of the process to the first commit of every \
         partition (wanted of 1,000,000 keys: at most 10 s), {now} MB resident, {most} MB at most (at most 200 MB)",
        load.records, load.partitions
    );
    Ok(())
}

/// Of pipelines that have never done anything.
pub(crate) fn of_nothing(stage: &Stage, partitions: i32) -> Result<()> {
    for (what, guard) in [("without a guard", Guard::Without), ("guard = \"latest\"", Guard::Latest)] {
        let source = stage.topic("empty", partitions)?;
        let pipeline = stage.pipeline(&source, partitions, guard, WINDOW)?;
        let (seconds, ..) = start(stage, &pipeline, partitions, 0)?;
        println!("restore of {partitions} partitions without state, {what}: {seconds:.2} s");
    }
    Ok(())
}

/// Starts a process that finds one more record in every partition behind `all` records: the seconds until it has committed
/// them, its MB of memory then and the most so far.
fn start(stage: &Stage, pipeline: &Pipeline, partitions: i32, all: i64) -> Result<(f64, u64, u64)> {
    let committed = stage.committed(&pipeline.group(), &pipeline.source, partitions)?;
    let sender = Sender::new(&stage.bootstrap)?;
    for partition in 0..partitions {
        sender.send(&pipeline.source, partition, &format!("last-{partition}"))?;
    }
    sender.finish()?;
    let mut worker = Worker::start(pipeline)?;
    wait_for(&committed, &mut worker, all + i64::from(partitions))?;
    let seconds = worker.begun.elapsed().as_secs_f64();
    let (now, most) = worker.memory()?;
    worker.end()?;
    Ok((seconds, now, most))
}
