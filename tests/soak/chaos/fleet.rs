//! All processes under test: which run, which are away and until when, and which are being ended in order.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::Instant;

use super::process::{Process, Program};
use super::stage::Stage;

/// From SIGTERM on: the drain, the leave, and patience with a busy machine.
const ENDS_WITHIN: Duration = Duration::from_secs(Stage::DRAIN.as_secs() + 40);
/// Until a process that ended by itself is started again, as whoever runs it would do.
const BACK_OFF: Duration = Duration::from_secs(1);

/// The exit codes of redrive for an error that it told: it needs a person, or its client is dead.
const FAILED: i32 = 1;
const FATAL: i32 = 3;

/// Several processes of one program.
pub(crate) struct Fleet {
    program: Program,
    folder: PathBuf,
    members: Vec<Member>,
    /// Still to be ended in order and started again.
    rolling: VecDeque<usize>,
    unplanned: Unplanned,
}

/// What happened to processes without our doing.
#[derive(Debug, Default)]
pub(crate) struct Unplanned {
    /// They hung, crashed, or did not end in order.
    pub(crate) surprises: Vec<String>,
    /// They ended with an error that they told.
    pub(crate) gave_up: Vec<String>,
}

#[derive(Debug)]
enum Member {
    Runs(Process),
    Frozen {
        process: Process,
        until: Instant,
    },
    /// Told to end, and starts again when it has.
    Rolls {
        process: Process,
        since: Instant,
    },
    Away {
        until: Instant,
    },
}

impl Fleet {
    /// Starts all; their logs go to `folder`.
    pub(crate) fn start(program: Program, count: usize, folder: &Path) -> Result<Self> {
        let away = (0..count).map(|_| Member::Away { until: Instant::now() }).collect();
        let (folder, rolling, unplanned) = (folder.to_owned(), VecDeque::new(), Unplanned::default());
        let mut fleet = Self { program, folder, members: away, rolling, unplanned };
        fleet.look()?;
        Ok(fleet)
    }

    /// Ends one by SIGKILL; says which. `None`: only one runs, and it is left.
    pub(crate) fn kill(&mut self, pick: usize, away: Duration) -> Result<Option<usize>> {
        self.with_one(pick, |mut process| {
            process.kill()?;
            Ok(Member::Away { until: Instant::now() + away })
        })
    }

    /// Stops one where it is; says which. `None`: only one runs, and it is left.
    pub(crate) fn freeze(&mut self, pick: usize, away: Duration) -> Result<Option<usize>> {
        self.with_one(pick, |process| {
            process.freeze()?;
            Ok(Member::Frozen { process, until: Instant::now() + away })
        })
    }

    /// Ends all in order, one after another. False: that is still under way.
    pub(crate) fn roll(&mut self) -> bool {
        let idle = self.rolling.is_empty();
        if idle {
            self.rolling = (0..self.members.len()).collect();
        }
        idle
    }

    /// Whether all run and none is to be ended.
    pub(crate) fn is_whole(&self) -> bool {
        self.rolling.is_empty() && self.members.iter().all(|member| matches!(member, Member::Runs(_)))
    }

    /// Does what is due: thaws, starts again, goes on with ending in order.
    pub(crate) fn look(&mut self) -> Result<()> {
        let now = Instant::now();
        for (number, member) in self.members.iter_mut().enumerate() {
            match member {
                Member::Runs(process) => {
                    if let Some(status) = process.ended()? {
                        self.unplanned.ended(number, status);
                        *member = Member::Away { until: now + BACK_OFF };
                    }
                }
                Member::Frozen { until, .. } | Member::Away { until } if *until > now => {}
                Member::Away { .. } => {
                    let log = self.folder.join(format!("process-{number}.log"));
                    *member = Member::Runs(Process::start((self.program)(number), &log)?);
                }
                Member::Frozen { .. } => {
                    replace(member, |member| match member {
                        Member::Frozen { process, .. } => {
                            process.thaw()?;
                            Ok(Member::Runs(process))
                        }
                        other @ (Member::Runs(_) | Member::Rolls { .. } | Member::Away { .. }) => Ok(other),
                    })?;
                }
                Member::Rolls { process, since } => {
                    if let Some(how) = end(process, *since)? {
                        self.unplanned.surprises.extend(surprise(number, how));
                        *member = Member::Away { until: now };
                    }
                }
            }
        }
        self.roll_on()
    }

    fn roll_on(&mut self) -> Result<()> {
        let settled = self.members.iter().all(|member| !matches!(member, Member::Rolls { .. }));
        let Some(next) = self.rolling.front().copied().filter(|_| settled) else { return Ok(()) };
        let member = self.members.get_mut(next).context("a process of that number")?;
        if matches!(member, Member::Runs(_)) {
            self.rolling.pop_front();
            replace(member, |member| match member {
                Member::Runs(process) => {
                    process.tell_to_end()?;
                    Ok(Member::Rolls { process, since: Instant::now() })
                }
                other @ (Member::Frozen { .. } | Member::Rolls { .. } | Member::Away { .. }) => Ok(other),
            })?;
        }
        Ok(())
    }

    /// Ends all in order and waits.
    pub(crate) fn end(mut self) -> Result<Unplanned> {
        let mut running = Vec::new();
        for (number, member) in self.members.drain(..).enumerate() {
            match member {
                Member::Runs(process) => {
                    process.tell_to_end()?;
                    running.push((number, process));
                }
                Member::Frozen { process, .. } => {
                    process.thaw()?;
                    process.tell_to_end()?;
                    running.push((number, process));
                }
                Member::Rolls { process, .. } => running.push((number, process)),
                Member::Away { .. } => {}
            }
        }
        let since = Instant::now();
        for (number, mut process) in running {
            let how = loop {
                if let Some(how) = end(&mut process, since)? {
                    break how;
                }
                std::thread::sleep(Duration::from_millis(50));
            };
            self.unplanned.surprises.extend(surprise(number, how));
        }
        Ok(self.unplanned)
    }

    fn with_one(
        &mut self,
        pick: usize,
        change: impl FnOnce(Process) -> Result<Member>,
    ) -> Result<Option<usize>> {
        let running = self.members.iter_mut().enumerate();
        let mut running: Vec<_> = running.filter(|(_, member)| matches!(member, Member::Runs(_))).collect();
        if running.len() < 2 {
            return Ok(None);
        }
        let (number, member) = running.swap_remove(pick % running.len());
        replace(member, |member| match member {
            Member::Runs(process) => change(process),
            other @ (Member::Frozen { .. } | Member::Rolls { .. } | Member::Away { .. }) => Ok(other),
        })?;
        Ok(Some(number))
    }
}

impl Unplanned {
    /// A process ended that was not told to.
    fn ended(&mut self, number: usize, status: ExitStatus) {
        let what = format!("process {number} ended by itself ({status})");
        match status.code() {
            Some(FAILED | FATAL) => self.gave_up.push(what),
            Some(_) | None => self.surprises.push(what),
        }
    }
}

/// In between it is away; after an error it stays so, and the run ends.
fn replace(member: &mut Member, change: impl FnOnce(Member) -> Result<Member>) -> Result<()> {
    let taken = std::mem::replace(member, Member::Away { until: Instant::now() });
    *member = change(taken)?;
    Ok(())
}

/// How it ended after it was told to; where it does not within the bound, it is killed.
fn end(process: &mut Process, since: Instant) -> Result<Option<How>> {
    if let Some(status) = process.ended()? {
        return Ok(Some(How::ByItself(status)));
    }
    if since.elapsed() < ENDS_WITHIN {
        return Ok(None);
    }
    process.kill()?;
    Ok(Some(How::Killed))
}

/// How a process ended that was told to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    ByItself(ExitStatus),
    Killed,
}

fn surprise(number: usize, how: How) -> Option<String> {
    match how {
        How::ByItself(status) if status.success() => None,
        How::ByItself(status) => Some(format!("process {number} was told to end and did so with {status}")),
        How::Killed => {
            let bound = ENDS_WITHIN.as_secs();
            Some(format!("process {number} did not end within {bound} s of being told to, and was killed"))
        }
    }
}
