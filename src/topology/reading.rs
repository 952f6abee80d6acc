//! One reading of one file: its text, its environment, and the problems found so far.
//!
//! Reading goes on after a problem, so that all of them are told at once. Whoever cannot go on returns [`Reported`],
//! which only [`Reading::report`] gives out: nothing can fail without a diagnostic.

use std::cell::RefCell;
use std::ops::Range;

use crate::topology::code::Code;
use crate::topology::diagnostic::{Diagnostic, Diagnostics, Found};
use crate::topology::environment::Environment;
use crate::topology::secret::holds_secret;

/// A place in the file, in bytes.
pub(crate) type Place = Range<usize>;

/// The proof that a problem has been told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reported(());

/// What a reader returns that may have told a problem instead.
pub(crate) type Read<T> = Result<T, Reported>;

/// One reading of one file.
pub(crate) struct Reading<'a> {
    file: &'a str,
    text: &'a str,
    /// Where `{ env = … }` and `{ file = … }` are looked up.
    pub(crate) environment: &'a dyn Environment,
    found: RefCell<Vec<Found>>,
    hidden: RefCell<Vec<Place>>,
}

impl<'a> Reading<'a> {
    pub(crate) fn new(text: &'a str, file: &'a str, environment: &'a dyn Environment) -> Self {
        Self { file, text, environment, found: RefCell::default(), hidden: RefCell::default() }
    }

    /// Tells a problem without a next step.
    pub(crate) fn report(&self, code: Code, at: &Place, message: impl Into<String>) -> Reported {
        self.push(Found { start: at.start, end: at.end, code, message: message.into(), hint: None })
    }

    /// Tells a problem and what to do.
    pub(crate) fn report_with_hint(
        &self,
        code: Code,
        at: &Place,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Reported {
        let hint = Some(hint.into());
        self.push(Found { start: at.start, end: at.end, code, message: message.into(), hint })
    }

    fn push(&self, found: Found) -> Reported {
        self.found.borrow_mut().push(found);
        Reported(())
    }

    /// What stands at this place is not shown in any diagnostic.
    pub(crate) fn hide(&self, at: &Place) {
        self.hidden.borrow_mut().push(at.clone());
    }

    /// Tells that the file is not TOML.
    pub(crate) fn report_syntax(&self, error: &toml::de::Error) -> Reported {
        let at = error.span().unwrap_or(0..0);
        // What follows a secret's name is not shown: nobody knows where its value ends in a broken line.
        let line_start = self.text.get(..at.start).and_then(|head| head.rfind('\n')).map_or(0, |at| at + 1);
        let line = self.text.get(line_start..).and_then(|rest| rest.split('\n').next()).unwrap_or_default();
        if let Some((name, rest)) = line.split_once('=')
            && holds_secret(name.trim().trim_matches(['"', '\'']))
        {
            let end = line_start.saturating_add(line.len());
            self.hide(&(end.saturating_sub(rest.trim_start().len())..end));
        }
        let mut message = error.message().to_owned();
        if let Some(first) = message.get_mut(..1) {
            first.make_ascii_lowercase();
        }
        self.report(Code::Syntax, &at, message)
    }

    /// Ends the reading: the value, if no problem was told.
    pub(crate) fn finish<T>(self, value: Read<T>) -> Result<T, Diagnostics> {
        let mut found = self.found.into_inner();
        let value = match (value, found.is_empty()) {
            (Ok(value), true) => return Ok(value),
            (Ok(_) | Err(Reported(())), _) => {
                found.sort();
                // Tables under `defaults` are read once per pipeline.
                found.dedup();
                found
            }
        };
        let hidden = self.hidden.into_inner();
        let placed = value.into_iter().map(|found| Diagnostic::placed(found, self.file, self.text, &hidden));
        Err(Diagnostics::new(self.file, placed.collect()))
    }
}
