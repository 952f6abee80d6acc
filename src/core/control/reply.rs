//! The fate of a request: its answer and its record in the audit, which one transaction writes.

use bytes::Bytes;
use serde_json::json;

use super::{Answer, Head};
use crate::core::position::Origin;

/// What became of one record of the control lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Who asked what.
    pub head: Head,
    /// Where it was asked.
    pub place: Origin,
    /// The answer; written where the request has an id.
    pub answer: Answer,
}

impl Reply {
    /// Its line in the audit: JSON.
    pub fn audit(&self, pipeline: &str) -> Bytes {
        let Self { head, place, answer } = self;
        let line = json!({
            "version": 1,
            "at": answer.at.as_millis(),
            "by": head.by,
            "what": head.command,
            "pipeline": pipeline,
            "partition": place.partition.0,
            "ticket": head.ticket,
            "result": answer.compliance.as_str(),
            "words": answer.words,
            "request": head.id.as_ref().map(ToString::to_string),
            "asked-at": head.at.map(crate::core::time::Timestamp::as_millis),
            "asked-in": place.to_string(),
            "writer": format!("{:016x}", answer.writer.0),
        });
        Bytes::from(line.to_string())
    }

    /// About how many bytes it writes.
    pub(crate) fn weight(&self) -> usize {
        self.answer.words.len().saturating_mul(2).saturating_add(1024)
    }
}
