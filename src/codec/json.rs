//! JSON (RFC 8259): checks the whole of a document in one pass and finds what stands at a few places of it.
//!
//! Owns the grammar. No tree is built, nothing is copied, and nothing is allocated once its buffers have grown; it calls itself
//! only as deep as a pointer leads, so that no document can exhaust the stack. Of several members of one name the last counts,
//! as the parsers of handlers have it. A text whose escapes stand for no text (half a surrogate pair) is well formed and is no
//! text.

use std::borrow::Cow;
use std::ops::Range;

use crate::core::pointer::{Pointer, Step};
use scanner::{Expected, Scanner};

mod scanner;
mod text;

/// Why bytes are no JSON, and where that shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the value is no JSON: byte {at} of {length} should be {expected}")]
pub struct NotJson {
    /// How many bytes before it are well formed.
    pub at: usize,
    /// How many bytes there are.
    pub length: usize,
    /// What the grammar has there.
    pub expected: &'static str,
}

/// What stands at a place of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scalar<'a> {
    /// A text.
    Text(Cow<'a, str>),
    /// A number without fraction and exponent: its digits, behind a `-` where it is below zero.
    Whole(&'a str),
    /// Anything else, as it is written.
    Other(&'a str),
}

/// Finds what stands at given places of one document after the other.
#[derive(Clone, Debug)]
pub struct Finder {
    places: Vec<Pointer>,
    found: Vec<Option<Range<usize>>>,
    /// What closes the lists and objects that are open.
    open: Vec<u8>,
}

impl Finder {
    /// The most places that one finder looks for.
    pub const MOST_PLACES: usize = 64;

    /// Looks for the first [`Self::MOST_PLACES`] of these places.
    pub fn new(mut places: Vec<Pointer>) -> Self {
        places.truncate(Self::MOST_PLACES);
        let found = vec![None; places.len()];
        Self { places, found, open: Vec::new() }
    }

    /// Reads a document: what stands at each place, in their order, and `None` where there is nothing.
    ///
    /// # Errors
    /// Where the document is not well formed, anywhere.
    pub fn read<'a>(
        &mut self,
        document: &'a [u8],
    ) -> Result<impl Iterator<Item = Option<Scalar<'a>>>, NotJson> {
        let length = document.len();
        let text = str::from_utf8(document).map_err(|error| NotJson {
            at: error.valid_up_to(),
            length,
            expected: "UTF-8",
        })?;
        let Self { places, found, open } = self;
        let all = Places::first(places.len());
        let mut walk = Walk { scanner: Scanner::new(text), open, places, found };
        let at_expected = |(at, Expected(expected))| NotJson { at, length, expected };
        walk.document(all).map_err(at_expected)?;
        Ok(self.found.iter().map(move |range| text.get(range.clone()?).map(scalar)))
    }
}

/// What is written there, of a well-formed value.
fn scalar(written: &str) -> Scalar<'_> {
    if let Some(inner) = written.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        return text::unescaped(inner).map_or(Scalar::Other(written), Scalar::Text);
    }
    let is_whole = |c: char| c == '-' || c.is_ascii_digit();
    match written {
        "-0" => Scalar::Whole("0"),
        _ if written.chars().all(is_whole) => Scalar::Whole(written),
        _ => Scalar::Other(written),
    }
}

/// Some of the places that are looked for, by their numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Places(u64);

impl Places {
    const NONE: Self = Self(0);

    /// The first so many.
    fn first(count: usize) -> Self {
        let beyond = u32::try_from(count).ok().and_then(|count| 1u64.checked_shl(count));
        Self(beyond.map_or(u64::MAX, |beyond| beyond.wrapping_sub(1)))
    }

    /// Each of them by itself, with its number.
    fn each(self) -> impl Iterator<Item = (Self, usize)> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let first = rest & rest.wrapping_neg();
            rest ^= first;
            (first != 0).then_some(())?;
            Some((Self(first), usize::try_from(first.trailing_zeros()).ok()?))
        })
    }

    /// Those of them that are `chosen`.
    fn filter(self, chosen: impl Fn(usize) -> bool) -> Self {
        let chosen = self.each().filter(|(_, number)| chosen(*number));
        Self(chosen.fold(0, |all, (place, _)| all | place.0))
    }

    fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }
}

/// The way through one document.
struct Walk<'d, 'f> {
    scanner: Scanner<'d>,
    open: &'f mut Vec<u8>,
    places: &'f [Pointer],
    found: &'f mut [Option<Range<usize>>],
}

impl Walk<'_, '_> {
    /// Reads the whole document; what is expected where, if it ends before.
    fn document(&mut self, places: Places) -> Result<(), (usize, Expected)> {
        self.scanner.skip_space();
        let end = self.value(places, 0).and_then(|()| self.scanner.end());
        end.map_err(|expected| (self.scanner.at(), expected))
    }

    /// Reads the value that begins here, to which the first `level` steps of these places lead.
    fn value(&mut self, places: Places, level: usize) -> Result<(), Expected> {
        // An earlier member of this name does not count.
        self.set(places, None);
        let here = places.filter(|number| self.step(number, level).is_none());
        let below = places.without(here);
        let start = self.scanner.at();
        match self.scanner.peek() {
            Some(b'{') if below != Places::NONE => self.members(below, level)?,
            Some(b'[') if below != Places::NONE => self.items(below, level)?,
            Some(_) | None => self.scanner.skip_value(self.open)?,
        }
        let end = self.scanner.at();
        self.set(here, Some(start..end));
        Ok(())
    }

    fn members(&mut self, places: Places, level: usize) -> Result<(), Expected> {
        if self.scanner.opens(b'}') {
            return Ok(());
        }
        loop {
            let name = self.scanner.name()?;
            let name = if name.contains('\\') { text::unescaped(name) } else { Some(Cow::Borrowed(name)) };
            let named = |step: &Step| name.as_deref() == Some(&*step.name);
            let meant = places.filter(|number| self.step(number, level).is_some_and(named));
            self.inner(meant, level)?;
            if !self.scanner.goes_on(b'}')? {
                return Ok(());
            }
        }
    }

    fn items(&mut self, places: Places, level: usize) -> Result<(), Expected> {
        if self.scanner.opens(b']') {
            return Ok(());
        }
        for item in 0.. {
            let meant =
                places.filter(|number| self.step(number, level).is_some_and(|step| step.item == Some(item)));
            self.inner(meant, level)?;
            if !self.scanner.goes_on(b']')? {
                break;
            }
        }
        Ok(())
    }

    fn inner(&mut self, meant: Places, level: usize) -> Result<(), Expected> {
        if meant == Places::NONE {
            return self.scanner.skip_value(self.open);
        }
        self.value(meant, level.saturating_add(1))
    }

    /// Takes note of what stands at these places.
    fn set(&mut self, places: Places, range: Option<Range<usize>>) {
        for (_, number) in places.each() {
            if let Some(found) = self.found.get_mut(number) {
                found.clone_from(&range);
            }
        }
    }

    fn step(&self, number: usize, level: usize) -> Option<&Step> {
        self.places.get(number)?.steps().get(level)
    }
}

#[cfg(test)]
mod tests;
