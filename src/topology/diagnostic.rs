//! What is wrong with a topology file, said so that it can be mended at once.
//!
//! Owns the form of diagnostics: code, place, message, hint, and the line of the file with a caret under the value.
//! Which problems there are is decided where the keys are read.

use std::fmt;
use std::ops::Range;

use crate::topology::code::Code;

/// One problem of a topology file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnostic {
    /// What kind of problem.
    pub code: Code,
    /// The file, as it was named.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// What is wrong, with the values.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
    excerpt: Option<Excerpt>,
}

/// The line of the file, and which of its characters are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Excerpt {
    line: String,
    before: usize,
    marked: usize,
}

/// A problem as it was found: without its place in lines and columns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Found {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) code: Code,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Diagnostic {
    /// A problem with the file as a whole.
    pub(crate) fn of_file(code: Code, file: &str, message: String) -> Self {
        Self { code, file: file.to_owned(), line: 1, column: 1, message, hint: None, excerpt: None }
    }

    /// A problem at its place in `text`; characters in the `hidden` ranges are not shown.
    pub(crate) fn placed(found: Found, file: &str, text: &str, hidden: &[Range<usize>]) -> Self {
        let start = floor(text, found.start);
        let head = text.get(..start).unwrap_or_default();
        let line_start = head.rfind('\n').map_or(0, |newline| newline.saturating_add(1));
        let rest = text.get(line_start..).unwrap_or_default();
        let line = rest.split('\n').next().unwrap_or_default();
        let line = line.strip_suffix('\r').unwrap_or(line);
        let (mut shown, mut before, mut marked) = (String::with_capacity(line.len()), 0usize, 0usize);
        for (offset, character) in line.char_indices() {
            let at = line_start.saturating_add(offset);
            if at < start {
                before = before.saturating_add(1);
            } else if at < found.end {
                marked = marked.saturating_add(1);
            }
            shown.push(match character {
                '\t' | '"' | '\'' => character,
                _ if hidden.iter().any(|range| range.contains(&at)) => '*',
                _ if character.is_control() => char::REPLACEMENT_CHARACTER,
                _ => character,
            });
        }
        Self {
            code: found.code,
            file: file.to_owned(),
            line: head.matches('\n').count().saturating_add(1),
            column: before.saturating_add(1),
            message: found.message,
            hint: found.hint,
            excerpt: Some(Excerpt { line: shown, before, marked: marked.max(1) }),
        }
    }
}

/// The last border of a character at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|index| text.is_char_boundary(*index)).unwrap_or(0)
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error[{}]: {}", self.code, self.message)?;
        let number = self.line.to_string();
        let gutter = " ".repeat(number.len());
        write!(f, "{gutter}--> {}:{}:{}", self.file, self.line, self.column)?;
        if let Some(excerpt) = &self.excerpt {
            // Tabs are repeated, so that the caret stands under its value however wide they are shown.
            let pad: String =
                excerpt.line.chars().take(excerpt.before).map(|c| if c == '\t' { c } else { ' ' }).collect();
            let carets = "^".repeat(excerpt.marked);
            let space = if excerpt.line.is_empty() { "" } else { " " };
            write!(f, "\n{gutter} |\n{number} |{space}{}\n{gutter} | {pad}{carets}", excerpt.line)?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n{gutter} = hint: {hint}")?;
        }
        Ok(())
    }
}

/// All problems of a topology file, sorted by place. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostics {
    file: String,
    list: Vec<Diagnostic>,
}

impl Diagnostics {
    pub(crate) fn new(file: &str, list: Vec<Diagnostic>) -> Self {
        Self { file: file.to_owned(), list }
    }

    /// The problems, sorted by place.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.list.iter()
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for diagnostic in &self.list {
            writeln!(f, "{diagnostic}\n")?;
        }
        let problems = if self.list.len() == 1 { "problem" } else { "problems" };
        write!(f, "`{}` has {} {problems}", self.file, self.list.len())
    }
}

impl std::error::Error for Diagnostics {}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, value: &str, hidden: &str) -> String {
        let place = |part: &str| text.find(part).map(|start| start..start + part.len());
        let at = place(value).unwrap();
        let hidden: Vec<_> = place(hidden).filter(|_| !hidden.is_empty()).into_iter().collect();
        let found =
            Found { start: at.start, end: at.end, code: Code::BadName, message: "m".into(), hint: None };
        Diagnostic::placed(found, "f", text, &hidden).to_string()
    }

    #[test]
    fn the_caret_stands_under_the_value_behind_tabs_and_wide_characters() {
        assert_eq!(
            shown("a = 1\n\tä = \"ü😀\" # x\r\nb = 2\n", "\"ü😀\"", ""),
            "error[bad-name]: m\n --> f:2:6\n  |\n2 | \tä = \"ü😀\" # x\n  | \t    ^^^^"
        );
    }

    #[test]
    fn a_value_of_many_lines_is_marked_on_its_first_line() {
        assert_eq!(
            shown("a = [1,\n2]", "[1,\n2]", ""),
            "error[bad-name]: m\n --> f:1:5\n  |\n1 | a = [1,\n  |     ^^^"
        );
    }

    #[test]
    fn a_secret_on_the_same_line_is_not_shown() {
        let text = shown("h = { token = \"pässword\", x = 1 }", "x", "\"pässword\"");
        assert!(text.contains("h = { token = \"********\", x = 1 }"), "{text}");
        assert!(text.ends_with(&format!("\n  | {}^", " ".repeat(26))), "{text}");
    }

    #[test]
    fn control_characters_of_the_file_do_not_reach_the_terminal() {
        assert!(!shown("a = \u{1b}[31m", "a", "").contains('\u{1b}'));
    }
}
