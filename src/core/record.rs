//! One Kafka record, owned, with its bytes as they came.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;

use crate::core::decoded::Decoding;
use crate::core::position::Offset;
use crate::core::time::Timestamp;

/// The name of a header: always UTF-8, since the client can carry no other.
#[derive(Clone)]
pub struct HeaderName(Name);

#[derive(Clone)]
enum Name {
    Static(&'static str),
    Shared(Arc<str>),
}

impl HeaderName {
    /// A name that is known when the program is built; costs nothing to clone.
    pub const fn from_static(name: &'static str) -> Self {
        Self(Name::Static(name))
    }

    /// A name that came from outside.
    pub fn new(name: &str) -> Self {
        Self(Name::Shared(Arc::from(name)))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Name::Static(name) => name,
            Name::Shared(name) => name,
        }
    }
}

// Equal by text: how a name is kept says nothing about it.
impl PartialEq for HeaderName {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for HeaderName {}

impl Hash for HeaderName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Debug for HeaderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

/// One header: names may repeat, a value may be null, which is not the same as empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The name.
    pub name: HeaderName,
    /// The value; `None` is Kafka's null.
    pub value: Option<Bytes>,
}

/// A record read from a lane. Which lane and partition is said by whoever hands it over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its offset in the lane's partition.
    pub offset: Offset,
    /// The time it carries.
    pub timestamp: Timestamp,
    /// The key; `None` is Kafka's null.
    pub key: Option<Bytes>,
    /// The value; `None` is a tombstone.
    pub value: Option<Bytes>,
    /// The headers that can be carried, in order.
    pub headers: Vec<Header>,
    /// How many headers had names that are not UTF-8 and are missing from `headers`.
    pub unnamed_headers: usize,
    /// What was read out of the value.
    pub decoded: Decoding,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_names_are_equal_however_they_are_kept() {
        assert_eq!(HeaderName::from_static("trace"), HeaderName::new("trace"));
        assert_ne!(HeaderName::from_static("trace"), HeaderName::new("Trace"));
    }
}
