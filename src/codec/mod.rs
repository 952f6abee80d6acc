//! Codecs: what the values of records hold, as far as a pipeline goes by it.
//!
//! Owns how values are read. The bytes themselves stay what they are: whatever is read out of them, copies and dead letters carry
//! them unchanged. What is found is handed to the core with the record ([`crate::core::decoded`]), which decides what it is good
//! for.

use std::borrow::Cow;

use bytes::Bytes;

use crate::core::decoded::{Decoded, Found, Undecodable};
use crate::core::pointer::Pointer;
use crate::core::policy::{OrderKey, Policy, Source};
use crate::core::position::Lane;
use crate::core::record::Record;
use crate::topology::model::{Format, Pipeline};
use json::{Finder, NotJson, Scalar};

pub mod json;

/// Reads out of the values of a pipeline's records what the pipeline goes by.
///
/// A value from the source is read in any case, so that one that is not what it should be is found at once. One from a tier was
/// read before, and its identity travels with it: it is read again only for what does not.
#[derive(Clone, Debug)]
pub struct Codec {
    source: Option<Plan>,
    tiers: Option<Plan>,
}

/// What is looked for, and what for.
#[derive(Clone, Debug)]
struct Plan {
    finder: Finder,
    uses: Vec<Use>,
}

/// What something in a value is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    EventId,
    OperationId,
    /// As the version, at this place of the list.
    Version(usize),
    OrderKey,
}

impl Codec {
    /// A codec for the records of a pipeline.
    pub fn new(pipeline: &Pipeline) -> Self {
        let Policy { identity, order, .. } = &pipeline.policy;
        match pipeline.decode {
            Format::Bytes => Self { source: None, tiers: None },
            Format::Json => {
                let ids = [(&identity.event_id, Use::EventId), (&identity.operation_id, Use::OperationId)];
                let ids = ids.into_iter().filter_map(|(source, used)| Some((json(source.as_ref()?)?, used)));
                let key = match &order.key {
                    OrderKey::Json(place) => Some((place.clone(), Use::OrderKey)),
                    OrderKey::Record | OrderKey::Partition => None,
                };
                let versions = order.versions().iter().enumerate();
                let versions = versions.filter_map(|(at, source)| Some((json(source)?, Use::Version(at))));
                let of_order: Vec<_> = key.into_iter().chain(versions).collect();
                let tiers = (!of_order.is_empty()).then(|| Plan::new(of_order.iter().cloned()));
                Self { source: Some(Plan::new(ids.chain(of_order))), tiers }
            }
        }
    }

    /// Reads what was fetched of a lane. A tombstone has nothing to read, and what operators ask for is no value of the source.
    pub fn decode(&mut self, lane: Lane, records: &mut [Record]) {
        let plan = match lane {
            Lane::Source => &mut self.source,
            Lane::Tier(_) => &mut self.tiers,
            Lane::Control | Lane::Held => return,
        };
        let Some(plan) = plan else { return };
        for record in records {
            record.decoded = record.value.as_ref().map(|value| Box::new(plan.decode(value)));
        }
    }
}

/// The place in JSON where a source is.
fn json(source: &Source) -> Option<Pointer> {
    match source {
        Source::Json(place) => Some(place.clone()),
        Source::Header(_) => None,
    }
}

impl Plan {
    fn new(wanted: impl Iterator<Item = (Pointer, Use)>) -> Self {
        let (places, uses) = wanted.unzip();
        Self { finder: Finder::new(places), uses }
    }

    fn decode(&mut self, value: &Bytes) -> Result<Decoded, Undecodable> {
        let told = |not: NotJson| Undecodable { detail: not.to_string() };
        let found = self.finder.read(value).map_err(told)?;
        let mut decoded = Decoded::default();
        for (used, scalar) in self.uses.iter().zip(found) {
            let Some(found) = scalar.map(|scalar| found_in(value, scalar)) else { continue };
            match used {
                Use::EventId => decoded.event_id = Some(found),
                Use::OperationId => decoded.operation_id = Some(found),
                Use::OrderKey => decoded.order_key = Some(found),
                // In the order of the list.
                Use::Version(at) => drop(decoded.version.get_or_insert((*at, found))),
            }
        }
        Ok(decoded)
    }
}

/// Shares the bytes of the value, where it is written there as it is meant.
fn found_in(value: &Bytes, scalar: Scalar<'_>) -> Found {
    let shared = |text: &str| if text.is_empty() { Bytes::new() } else { value.slice_ref(text.as_bytes()) };
    match scalar {
        Scalar::Text(Cow::Borrowed(text)) => Found::Text(shared(text)),
        Scalar::Text(Cow::Owned(text)) => Found::Text(Bytes::from(text)),
        // A zero with a sign is written elsewhere.
        Scalar::Whole("0") => Found::Whole(Bytes::from_static(b"0")),
        Scalar::Whole(digits) => Found::Whole(shared(digits)),
        Scalar::Other(written) => Found::Other(shared(written)),
    }
}

#[cfg(test)]
mod tests;
