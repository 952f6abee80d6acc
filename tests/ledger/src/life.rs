//! One source record and what became of it, in as few bytes as the checks need.

use super::print::Print;
use super::{Part, Role};

/// One source record and what became of it.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) offset: i64,
    pub(crate) print: Print,
    /// Of its event id.
    pub(crate) id: u64,
    /// In the order of their attempts, then of their writing.
    pub(crate) copies: Vec<Copy>,
    pub(crate) ends: Vec<End>,
    /// In the order of the handler's log.
    pub(crate) calls: Vec<Call>,
    /// The cut of a watch before which something was last learned of it.
    pub(crate) stamp: u32,
}

/// A record in a tier.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    pub(crate) at: Spot,
    pub(crate) attempt: u32,
    /// It is not handled before this.
    pub(crate) due: i64,
}

/// A record with which a life ends.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) at: Spot,
    /// The place of its reason in the ledger's list; `None`: it is an output.
    pub(crate) reason: Option<u16>,
    pub(crate) attempt: Option<u32>,
}

/// Where and when something was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spot {
    pub(crate) timestamp: i64,
    pub(crate) role: Role,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
}

impl Spot {
    pub(crate) const fn part(&self) -> Part {
        (self.role, self.partition)
    }
}

/// A call of the handler.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) attempt: u32,
    pub(crate) execution: u32,
    pub(crate) due: Option<i64>,
    pub(crate) at: i64,
}

/// A record that is consumed: the source record, or a copy of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) part: Part,
    pub(crate) offset: i64,
    /// Whether what follows from it has been seen.
    pub(crate) settled: bool,
}

impl Life {
    pub(crate) const fn new(offset: i64, print: Print, id: u64) -> Self {
        Self { offset, print, id, copies: Vec::new(), ends: Vec::new(), calls: Vec::new(), stamp: 0 }
    }

    /// Chains are short: room is made for one at a time.
    pub(crate) fn copy(&mut self, copy: Copy) {
        let place = self.copies.partition_point(|other| (other.attempt, other.at) <= (copy.attempt, copy.at));
        self.copies.reserve_exact(1);
        self.copies.insert(place, copy);
    }

    pub(crate) fn end(&mut self, end: End) {
        self.ends.reserve_exact(1);
        self.ends.push(end);
    }

    pub(crate) fn call(&mut self, call: Call) {
        self.calls.reserve_exact(1);
        self.calls.push(call);
    }

    /// Whether anything at all became of it.
    pub(crate) const fn is_untouched(&self) -> bool {
        self.copies.is_empty() && self.ends.is_empty()
    }

    /// Everything that was or will be consumed of it, from the source record of this partition on.
    pub(crate) fn steps(&self, partition: i32) -> impl Iterator<Item = Step> {
        let source = Step { part: (Role::Source, partition), offset: self.offset, settled: true };
        let copies = self.copies.iter().map(|copy| Step {
            part: copy.at.part(),
            offset: copy.at.offset,
            settled: true,
        });
        let last = self.copies.len();
        std::iter::once(source)
            .chain(copies)
            .enumerate()
            .map(move |(index, step)| Step { settled: index < last || !self.ends.is_empty(), ..step })
    }

    /// The last of its steps, whether settled or not.
    pub(crate) fn last_step(&self, partition: i32) -> Step {
        let settled = !self.ends.is_empty();
        match self.copies.last() {
            Some(copy) => Step { part: copy.at.part(), offset: copy.at.offset, settled },
            None => Step { part: (Role::Source, partition), offset: self.offset, settled },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Call, Copy, End, Life};

    #[test]
    fn a_record_takes_few_bytes_however_long_it_is() {
        // What a million records take is these, and what the allocator adds.
        assert!(size_of::<Life>() <= 128, "{}", size_of::<Life>());
        assert!(size_of::<Copy>() <= 56 && size_of::<End>() <= 56 && size_of::<Call>() <= 40);
    }
}
