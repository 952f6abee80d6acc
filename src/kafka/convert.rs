//! Records of the client, copied into records of the core.

use std::ops::Range;

use bytes::BytesMut;
use rdkafka::message::{BorrowedMessage, Message};

use crate::core::position::Offset;
use crate::core::record::{Header, HeaderName, Record};
use crate::core::time::Timestamp;
use crate::kafka::raw;

/// How many header names a converter remembers: more than a topic's producers commonly use, few enough to scan.
const REMEMBERED_NAMES: usize = 32;

/// The time of a record that carries none: Kafka's own number for that, so nothing is made up.
const NO_TIMESTAMP: i64 = -1;

/// Copies records out of the client's buffers, which must not be held.
///
/// All bytes of one record share one allocation. Header names that come again are shared.
#[derive(Debug, Default)]
pub(super) struct Converter {
    names: Vec<HeaderName>,
    /// Bytes of header values that the last record had: a guess for the next.
    header_bytes: usize,
}

impl Converter {
    /// Copies one record. Null and empty, repeated headers and their order are kept; headers whose names are not UTF-8
    /// are counted and left out.
    pub(super) fn record(&mut self, from: &BorrowedMessage<'_>) -> Record {
        let (key, value) = (from.key(), from.payload());
        let known = key.map_or(0, <[u8]>::len).saturating_add(value.map_or(0, <[u8]>::len));
        let mut copied = Copied(BytesMut::with_capacity(known.saturating_add(self.header_bytes)));
        let (key, value) = (copied.add(key), copied.add(value));
        let mut unnamed_headers = 0_usize;
        let mut headers = Vec::new();
        for header in raw::headers(from) {
            match str::from_utf8(header.name) {
                Ok(name) => headers.push((self.name(name), copied.add(header.value))),
                Err(_) => unnamed_headers = unnamed_headers.saturating_add(1),
            }
        }
        self.header_bytes = copied.0.len().saturating_sub(known);
        let bytes = copied.0.freeze();
        let slice = |range: Option<Range<usize>>| range.map(|range| bytes.slice(range));
        Record {
            offset: Offset(from.offset()),
            timestamp: Timestamp::from_millis(from.timestamp().to_millis().unwrap_or(NO_TIMESTAMP)),
            key: slice(key),
            value: slice(value),
            headers: headers.into_iter().map(|(name, value)| Header { name, value: slice(value) }).collect(),
            unnamed_headers,
            decoded: None,
        }
    }

    fn name(&mut self, name: &str) -> HeaderName {
        if let Some(known) = self.names.iter().find(|known| known.as_str() == name) {
            return known.clone();
        }
        let new = HeaderName::new(name);
        if self.names.len() < REMEMBERED_NAMES {
            self.names.push(new.clone());
        }
        new
    }
}

/// The bytes of one record, one part behind the other.
struct Copied(BytesMut);

impl Copied {
    fn add(&mut self, part: Option<&[u8]>) -> Option<Range<usize>> {
        let part = part?;
        let start = self.0.len();
        self.0.extend_from_slice(part);
        Some(start..self.0.len())
    }
}
