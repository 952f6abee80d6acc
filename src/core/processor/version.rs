//! The version of a record, and the words where it has none, or no key.

use crate::core::decoded::{Decoded, Found};
use crate::core::envelope::Envelope;
use crate::core::guard::Version;
use crate::core::policy::{OrderKey, Source};
use crate::core::record::Header;

/// So much of a version that is none is shown, in characters.
const LONGEST_SHOWN: usize = 40;

/// What stands where the version should.
enum Stands<'a> {
    InHeader(&'a Header),
    InValue(&'a Found),
}

/// The version of a record: the first that exists counts, whether it can be used or not.
pub(super) fn version_of(
    sources: &[Source],
    envelope: &Envelope,
    decoded: Option<&Decoded>,
) -> Option<Version> {
    match standing(sources, envelope, decoded)? {
        (_, Stands::InHeader(header)) => Version::from_header(header.value.as_ref()?),
        (_, Stands::InValue(found)) => found.version(),
    }
}

/// What the first of the sources that exists has; of several headers of one name the last, as Kafka's own clients read them.
fn standing<'a>(
    sources: &'a [Source],
    envelope: &'a Envelope,
    decoded: Option<&'a Decoded>,
) -> Option<(&'a Source, Stands<'a>)> {
    sources.iter().enumerate().find_map(|(place, source)| {
        let stands = match source {
            Source::Header(name) => {
                envelope.foreign.iter().rev().find(|header| header.name == *name).map(Stands::InHeader)
            }
            Source::Json(_) => {
                let first =
                    decoded.and_then(|decoded| decoded.version.as_ref()).filter(|(first, _)| *first == place);
                first.map(|(_, found)| Stands::InValue(found))
            }
        };
        stands.map(|stands| (source, stands))
    })
}

/// Why a record has no version, for people.
pub(super) fn no_version(sources: &[Source], envelope: &Envelope, decoded: Option<&Decoded>) -> String {
    let wanted = "a whole number of 64 bits or a time (RFC 3339)";
    match standing(sources, envelope, decoded) {
        None => {
            let places = sources.iter().map(Source::to_string).collect::<Vec<_>>().join(" or ");
            format!("the record has no {places}, where `order.version` says {wanted} stands")
        }
        Some((source, Stands::InHeader(Header { value: None, .. }))) => {
            format!("{source} is null, not {wanted}")
        }
        Some((source, Stands::InHeader(Header { value: Some(value), .. }))) => {
            let shown: String = String::from_utf8_lossy(value).chars().take(LONGEST_SHOWN).collect();
            format!("{source} is `{}`, not {wanted}", shown.escape_debug())
        }
        Some((source, Stands::InValue(found))) => format!("{source} is {found}, not {wanted}"),
    }
}

/// Why a record has no key of its order, for people.
pub(super) fn no_key(key: &OrderKey, decoded: Option<&Decoded>) -> String {
    match key {
        OrderKey::Record | OrderKey::Partition => {
            "the order goes by the key, and the record has none".to_owned()
        }
        OrderKey::Json(pointer) => match decoded.and_then(|decoded| decoded.order_key.as_ref()) {
            None => format!("the order goes by `{pointer}` of the value, and the record has none"),
            Some(found) => {
                format!(
                    "the order goes by `{pointer}` of the value, which is {found}, not a text or a whole number"
                )
            }
        },
    }
}
