//! What a handler answered.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;

use crate::core::class::{Class, Reason, ReasonName};
use crate::core::envelope::Envelope;
use crate::core::record::Header;

/// The end of one execution.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// The work is done; these records are its output, in order. Empty: nothing to write.
    Done(Vec<Output>),
    /// The work is not done, or nobody knows.
    Failed(Failure),
}

impl Outcome {
    /// The work is done and there is nothing to write.
    pub const fn done() -> Self {
        Self::Done(Vec::new())
    }

    /// The work is done, with one output record: this value under the key and the foreign headers of `envelope`.
    pub fn output(envelope: &Envelope, value: Option<Bytes>) -> Self {
        let (key, headers) = (envelope.key.clone(), envelope.foreign.clone());
        Self::Done(vec![Output { to: OutputName::Main, key, value, headers }])
    }

    /// The work is not done, of a class and for a reason that the handler knows. `detail` is for people: without the
    /// payload, since it is written to headers and logs.
    pub fn failed(class: Class, reason: ReasonName, detail: impl Into<String>) -> Self {
        let cause = Cause::Named { class, reason };
        Self::Failed(Failure { cause, detail: detail.into(), retry_after: None })
    }
}

/// One record of a handler's output. Its event id and operation id are added when it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Which of the pipeline's outputs.
    pub to: OutputName,
    /// The key, which decides the partition as Java's default partitioner does.
    pub key: Option<Bytes>,
    /// The value; `None` writes a tombstone.
    pub value: Option<Bytes>,
    /// The headers.
    pub headers: Vec<Header>,
}

/// Which of a pipeline's outputs a record goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputName {
    /// The topic that `output` names.
    Main,
    /// The topic of this name under `outputs`.
    Named(Cow<'static, str>),
}

/// A failed execution, in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What is known of it; [`crate::core::classify::classify`] makes class and reason of it.
    pub cause: Cause,
    /// A text for people, without the payload; cut to [`crate::core::headers::LONGEST_DETAIL`] bytes when written.
    pub detail: String,
    /// How long the dependency asked to be left alone.
    pub retry_after: Option<Duration>,
}

/// The parts of a failure that decide its class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The handler knows the class itself.
    Named {
        /// The class.
        class: Class,
        /// The reason.
        reason: ReasonName,
    },
    /// Nothing was sent: resolving, connecting, TLS, or a reset before the first byte of the request.
    NotSent,
    /// The request went out, and no complete answer came within the time limit.
    TimedOut,
    /// The request went out, and the connection ended before the answer was whole.
    Cut,
    /// A whole HTTP answer other than 2xx.
    Status {
        /// The status code.
        status: u16,
        /// The `Redrive-Reason` that the answer named.
        reason: Option<ReasonName>,
    },
}

/// Class and reason of a failed execution.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Verdict {
    /// The class.
    pub class: Class,
    /// The reason.
    pub reason: Reason,
}
