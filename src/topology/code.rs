//! The codes of diagnostics: stable words that scripts and documents may name.

use std::fmt;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)+) => {
        /// What kind of problem a diagnostic tells. The word of a code never changes its meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[$doc])* $name,)+
        }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The word, as it is printed: `unknown-key`.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)+
                }
            }
        }
    };
}

codes! {
    /// The file is not TOML.
    Syntax = "syntax",
    /// The topology file, or a file that it names, cannot be read.
    FileUnreadable = "file-unreadable",
    /// An environment variable without a default is not set, or is not text.
    VariableUnset = "variable-unset",
    /// A key that no table of this name has.
    UnknownKey = "unknown-key",
    /// A key that must be there is not.
    MissingKey = "missing-key",
    /// A value of another type than the key takes.
    WrongType = "wrong-type",
    /// A word that is not in the list the key takes.
    UnknownWord = "unknown-word",
    /// A number or a time beyond its bounds.
    OutOfRange = "out-of-range",
    /// A time that is not like `"5s"`.
    BadDuration = "bad-duration",
    /// A size that is not like `"64MiB"`.
    BadSize = "bad-size",
    /// A point in time that is not RFC 3339 with an offset.
    BadTime = "bad-time",
    /// A name of app, pipeline, group, handler or output that cannot be one.
    BadName = "bad-name",
    /// A topic name that Kafka refuses.
    BadTopicName = "bad-topic-name",
    /// A header that HTTP or Kafka cannot carry.
    BadHeader = "bad-header",
    /// A header that is redrive's own to set.
    ReservedHeader = "reserved-header",
    /// A place in a value that is no JSON pointer.
    BadPointer = "bad-pointer",
    /// A reason that is not a word, or is one of redrive's own.
    BadReason = "bad-reason",
    /// A network address that is none.
    BadAddress = "bad-address",
    /// A URL that cannot be called.
    BadUrl = "bad-url",
    /// A pipeline without a handler.
    NoHandler = "no-handler",
    /// A pipeline with more than one handler.
    TwoHandlers = "two-handlers",
    /// Named outputs of a handler that cannot name one.
    OutputsNeedRust = "outputs-need-rust",
    /// A header of the request that is given twice.
    HeaderTwice = "header-twice",
    /// A tier that is in the ladder already.
    TierRepeated = "tier-repeated",
    /// A tier that is shorter than the one before it.
    TierNotRising = "tier-not-rising",
    /// A deadline that ends before the first tier does.
    DeadlineTooShort = "deadline-too-short",
    /// A wait whose cap is below its base.
    CapBelowBase = "cap-below-base",
    /// A transaction that may outlive its session.
    TransactionTimeout = "transaction-timeout",
    /// A session timeout where the brokers have it.
    SessionOfBrokers = "session-of-brokers",
    /// More replicas must agree than there are.
    MinIsr = "min-isr",
    /// A client property that carries a guarantee.
    ForbiddenProperty = "forbidden-property",
    /// A secret that stands in the file itself.
    SecretInClear = "secret-in-clear",
    /// A guard, and nothing that says where versions stand.
    GuardWithoutVersion = "guard-without-version",
    /// A key that a guard alone looks at, without one.
    NeedsGuard = "needs-guard",
    /// A version that counts on from the applied one where no guard knows it.
    NextNeedsLatest = "next-needs-latest",
    /// What is equal to the applied version, where a guard counts versions and asks no such thing.
    EqualNeedsLatest = "equal-needs-latest",
    /// A key that counted versions alone look at, without a guard that counts.
    NeedsContiguous = "needs-contiguous",
    /// Records held by arrival where they are held by version.
    ParkWithContiguous = "park-with-contiguous",
    /// A key that says something of held records where none are held.
    NeedsHolding = "needs-holding",
    /// Versions that must follow each other, and no tier for one that fails.
    ContiguousNeedsTiers = "contiguous-needs-tiers",
    /// A place in JSON where values are not said to be JSON.
    NeedsJson = "needs-json",
    /// A key of the order that may be on several partitions, or the promise that none is without such a key.
    CoPartitioned = "co-partitioned",
    /// Two pipelines, or two lanes, that would share a topic.
    TopicCollision = "topic-collision",
    /// A pipeline that writes to its own source.
    OutputIsSource = "output-is-source",
    /// Stale records that would go among the results.
    StaleIsOutput = "stale-is-output",
    /// A topic that redrive owns, used as a source or an output.
    OwnTopic = "own-topic",
    /// Pipelines that feed each other in a circle.
    TopicCycle = "topic-cycle",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
