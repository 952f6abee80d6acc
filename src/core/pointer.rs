//! JSON pointers: which place of a value is meant (RFC 6901, <https://www.rfc-editor.org/rfc/rfc6901>).

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A place in a value: from the whole of it one step after the other, each a member of an object or an item of a list.
#[derive(Clone, PartialEq, Eq)]
pub struct Pointer {
    text: Arc<str>,
    steps: Arc<[Step]>,
}

/// One step of a pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The name of the member.
    pub name: Box<str>,
    /// The number of the item, from 0, where the name is one.
    pub item: Option<usize>,
}

impl Pointer {
    /// The most steps of a pointer. It bounds how deep a codec follows one.
    pub const MOST_STEPS: usize = 64;

    /// The pointer as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its steps; none where the whole value is meant.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }
}

/// A text that is no pointer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPointer {
    /// It is not empty and begins with something else than `/`.
    #[error("it does not begin with `/`")]
    NoSlash,
    /// A `~` stands for nothing.
    #[error("`~` stands only before `0` or `1`")]
    Tilde,
    /// It has too many steps.
    #[error("it has `{found}` steps, more than `{most}`", most = Pointer::MOST_STEPS)]
    TooDeep {
        /// How many it has.
        found: usize,
    },
}

impl FromStr for Pointer {
    type Err = BadPointer;

    fn from_str(text: &str) -> Result<Self, BadPointer> {
        let steps: Vec<Step> = match text.strip_prefix('/') {
            None if text.is_empty() => Vec::new(),
            None => return Err(BadPointer::NoSlash),
            Some(steps) => steps.split('/').map(step).collect::<Result<_, _>>()?,
        };
        if steps.len() > Self::MOST_STEPS {
            return Err(BadPointer::TooDeep { found: steps.len() });
        }
        Ok(Self { text: Arc::from(text), steps: Arc::from(steps) })
    }
}

fn step(escaped: &str) -> Result<Step, BadPointer> {
    let mut parts = escaped.split('~');
    let mut name = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (stands_for, rest) = match part.split_at_checked(1) {
            Some(("0", rest)) => ('~', rest),
            Some(("1", rest)) => ('/', rest),
            Some(_) | None => return Err(BadPointer::Tilde),
        };
        name.push(stands_for);
        name.push_str(rest);
    }
    let item = if escaped == "0" || escaped.starts_with(|c: char| matches!(c, '1'..='9')) {
        escaped.parse().ok()
    } else {
        None
    };
    Ok(Step { name: name.into_boxed_str(), item })
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(text: &str) -> Vec<(String, Option<usize>)> {
        let pointer: Pointer = text.parse().unwrap();
        assert_eq!(pointer.to_string(), text);
        pointer.steps().iter().map(|step| (step.name.to_string(), step.item)).collect()
    }

    #[test]
    fn a_pointer_is_read_step_by_step() {
        let name = |name: &str| (name.to_owned(), None);
        assert_eq!(steps(""), []);
        assert_eq!(steps("/"), [name("")]);
        assert_eq!(steps("/operation/id"), [name("operation"), name("id")]);
        assert_eq!(steps("/a//b/"), [name("a"), name(""), name("b"), name("")]);
        assert_eq!(steps("/é \"x\""), [name("é \"x\"")]);
    }

    #[test]
    fn a_slash_and_a_tilde_in_a_name_are_escaped() {
        let name = |name: &str| (name.to_owned(), None);
        assert_eq!(steps("/a~1b"), [name("a/b")]);
        assert_eq!(steps("/m~0n"), [name("m~n")]);
        // In the order of RFC 6901, section 4: not a slash.
        assert_eq!(steps("/~01"), [name("~1")]);
        assert_eq!(steps("/~1~0~1"), [name("/~/")]);
    }

    #[test]
    fn only_a_number_without_leading_zeros_is_an_item() {
        for (text, item) in [("0", Some(0)), ("7", Some(7)), ("120", Some(120))] {
            assert_eq!(steps(&format!("/{text}")), [(text.to_owned(), item)]);
        }
        for text in ["00", "01", "-", "-1", "+1", "1e0", "1.0", " 1", "1 ", "٧", "99999999999999999999999"] {
            assert_eq!(steps(&format!("/{text}")), [(text.to_owned(), None)]);
        }
    }

    #[test]
    fn what_is_no_pointer_is_told() {
        for text in ["version", "#/version", "$.version", " /version"] {
            assert_eq!(text.parse::<Pointer>(), Err(BadPointer::NoSlash), "{text}");
        }
        for text in ["/~", "/a~", "/~2", "/a/~b", "/~é"] {
            assert_eq!(text.parse::<Pointer>(), Err(BadPointer::Tilde), "{text}");
        }
        assert!("/a".repeat(Pointer::MOST_STEPS).parse::<Pointer>().is_ok());
        let deep = "/a".repeat(Pointer::MOST_STEPS + 1);
        assert_eq!(deep.parse::<Pointer>(), Err(BadPointer::TooDeep { found: Pointer::MOST_STEPS + 1 }));
    }
}
