//! The verdict of the guard on a version that arrives, beside the newest one that is applied.

use crate::core::guard::{Entry, Version, fingerprint};
use crate::core::policy::{Equal, First, Latest, TombstoneVersion};

/// What the guard says of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Judgement {
    /// It is newer than what is applied, or may follow it: the handler runs.
    Admitted {
        /// Its version, or the one that it counts as.
        version: Version,
    },
    /// The same is applied already.
    Duplicate,
    /// Something newer is applied.
    Stale,
    /// Another value has the version that is applied.
    Conflict {
        /// That version.
        version: Version,
    },
    /// It has no version that can be used.
    NoVersion,
}

/// What a guard that counts says of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Counted {
    /// It is the next one: the handler runs.
    Admitted,
    /// It was applied: none up to the applied one is missing.
    Duplicate,
    /// The count began after it.
    Stale,
    /// Some before it are missing.
    Deferred,
    /// It cannot begin a count: there is no version before it.
    NoVersion,
}

/// Judges a record of a key by `guard = "contiguous"`. `applied` is what is applied of the key, or will be before anything that
/// follows from this verdict; its tag is the first version of the count.
pub fn contiguous(first: First, applied: Option<Entry>, version: Version) -> Counted {
    let (first, next) = match applied {
        Some(applied) => (applied.first(), applied.version.next()),
        None => (first.or(version), Some(first.or(version))),
    };
    if version < first {
        return Counted::Stale;
    }
    match next {
        Some(next) if version > next => Counted::Deferred,
        Some(next) if version == next => match (applied, version.before()) {
            (None, None) => Counted::NoVersion,
            (Some(_), _) | (None, Some(_)) => Counted::Admitted,
        },
        // Nothing is behind the largest.
        Some(_) | None => Counted::Duplicate,
    }
}

/// Judges a record of a key by `guard = "latest"`. `applied` is the newest version of the key whose effect is committed, or
/// will be before anything that follows from this verdict.
pub fn latest(
    rules: &Latest,
    applied: Option<Entry>,
    version: Option<Version>,
    value: Option<&[u8]>,
) -> Judgement {
    let Some(version) = version else {
        return match (value, rules.tombstone) {
            (None, TombstoneVersion::Next) => next_after(applied),
            (Some(_), _) | (None, TombstoneVersion::DeadLetter) => Judgement::NoVersion,
        };
    };
    let Some(applied) = applied.filter(|applied| applied.version >= version) else {
        return Judgement::Admitted { version };
    };
    if applied.version > version {
        return Judgement::Stale;
    }
    match rules.equal {
        _ if applied.tag == fingerprint(value) => Judgement::Duplicate,
        Equal::Drop => Judgement::Duplicate,
        Equal::Apply => Judgement::Admitted { version },
        Equal::Conflict => Judgement::Conflict { version },
    }
}

/// A tombstone that counts as the version after the applied one.
fn next_after(applied: Option<Entry>) -> Judgement {
    let next = match applied {
        Some(applied) => applied.version.next(),
        // What versions begin with, or below it.
        None => Some(Version(0)),
    };
    next.map_or(Judgement::NoVersion, |version| Judgement::Admitted { version })
}
