//! The books of a round: what the ledger finds in the topics once nothing is left to do. The only place that asks it.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use super::load;
use super::stage::Stage;
use crate::handler::HttpHandler;
use crate::ledger::{Kind, Report, audit};
use crate::readback;

/// What the ledger says of a round.
#[derive(Clone, Debug)]
pub(crate) struct Books {
    pub(crate) lost: usize,
    pub(crate) doubled: usize,
    pub(crate) early: usize,
    /// Findings of every other kind.
    pub(crate) others: usize,
    /// Calls that the handler had seen before, after a crash.
    pub(crate) repeated: usize,
    /// Counts that are not as the records' own plans have them.
    pub(crate) differences: Vec<String>,
    /// The whole report, for people.
    pub(crate) text: String,
}

impl Books {
    /// Reads all topics back; `sent` records were sent, and `group` has worked on them.
    pub(crate) fn close(stage: &Stage, group: &str, handler: &HttpHandler, sent: usize) -> Result<Self> {
        let topics = readback::topics(&stage.pipeline).context("the pipeline has an output")?;
        let starts = Some(handler.starts());
        let history = readback::history(&stage.bootstrap, group, &topics, starts)?;
        let report = audit(&readback::rules(&stage.pipeline), &history);
        let [lost, doubled, early] = [Kind::Lost, Kind::Doubled, Kind::Early].map(|kind| report.count(kind));
        Ok(Self {
            lost,
            doubled,
            early,
            others: report.findings.len() - lost - doubled - early,
            repeated: report.repeated,
            differences: differences(&report, sent),
            text: report.to_string(),
        })
    }

    pub(crate) fn are_clean(&self) -> bool {
        self.lost + self.doubled + self.early + self.others == 0 && self.differences.is_empty()
    }
}

fn differences(report: &Report, sent: usize) -> Vec<String> {
    let mut counted: BTreeMap<Option<&str>, usize> =
        report.dead.iter().map(|(reason, count)| (Some(reason.as_str()), *count)).collect();
    counted.insert(None, report.output);
    let planned = load::ends(sent);
    let of = |counts: &BTreeMap<Option<&str>, usize>, end| counts.get(&end).copied().unwrap_or(0);
    let mut ends: Vec<_> = planned.keys().chain(counted.keys()).copied().collect();
    ends.sort_unstable();
    ends.dedup();
    let mut found: Vec<String> = ends
        .into_iter()
        .filter(|end| of(&planned, *end) != of(&counted, *end))
        .map(|end| {
            let what = end.unwrap_or("output");
            format!("{what}: `{}` planned, `{}` counted", of(&planned, end), of(&counted, end))
        })
        .collect();
    if report.source != sent {
        found.push(format!("source: `{sent}` sent, `{}` counted", report.source));
    }
    found
}
