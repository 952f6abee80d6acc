//! Reads single values: strings from the file, the environment or a file, times, numbers, words.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::de::DeValue;

use crate::core::time::in_words;
use crate::topology::code::Code;
use crate::topology::duration;
use crate::topology::keys;
use crate::topology::model::{Shown, Text};
use crate::topology::nearest::nearest;
use crate::topology::reading::{Place, Read, Reading};
use crate::topology::secret::holds_secret;
use crate::topology::section::Field;
use crate::topology::size;

/// A string as it was told, and where it came from.
#[derive(Clone)]
pub(crate) struct Told {
    /// The string.
    pub(crate) text: String,
    /// Where it came from.
    pub(crate) from: From,
    /// Where it is told in the file.
    pub(crate) at: Place,
}

/// Where a string came from.
#[derive(Clone)]
pub(crate) enum From {
    /// It stands in the file.
    Literal,
    /// From an environment variable.
    Variable(String),
    /// It is the default of an environment variable that is not set.
    Default(Place),
    /// From a file.
    File(PathBuf),
}

/// For messages: a file's content is not shown.
impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.from {
            From::Literal | From::Default(_) => write!(f, "`{}`", self.text),
            From::Variable(name) => write!(f, "`{}` (environment variable `{name}`)", self.text),
            From::File(path) => write!(f, "the text of file `{}`", path.display()),
        }
    }
}

impl<'a> Field<'a> {
    /// Whether the value is `{ env = … }` or `{ file = … }`.
    pub(crate) fn is_reference(&self) -> bool {
        self.value
            .as_table()
            .is_some_and(|table| table.keys().any(|key| matches!(key.get_ref().as_ref(), "env" | "file")))
    }

    /// The path of `{ file = … }`.
    pub(crate) fn file(&self) -> Option<&'a str> {
        let (_, path) = self.value.as_table()?.iter().find(|(key, _)| key.get_ref() == "file")?;
        path.get_ref().as_str()
    }

    /// A string: `"…"`, `{ env = "X", default = "…" }` or `{ file = "…" }`.
    pub(crate) fn told(&self, reading: &Reading<'_>) -> Read<Told> {
        const FORMS: &str = "a string, `{ env = \"X\" }` or `{ file = \"…\" }`";
        if let Some(text) = self.value.as_str() {
            return Ok(Told { text: text.to_owned(), from: From::Literal, at: self.at.clone() });
        }
        if !self.is_reference() {
            return Err(self.wrong_type(reading, FORMS));
        }
        let section = self.section(reading, keys::TEXT)?;
        let (variable, file) = (section.field("env"), section.field("file"));
        let default =
            section.field("default").map(|field| Ok((field.literal(reading)?, field.at))).transpose()?;
        match (variable, file) {
            (Some(variable), None) => {
                let name = variable.literal(reading)?;
                match (reading.environment.variable(&name), default) {
                    (Ok(text), _) => Ok(Told { text, from: From::Variable(name), at: self.at.clone() }),
                    (Err(_), Some((text, at))) => {
                        Ok(Told { text, from: From::Default(at), at: self.at.clone() })
                    }
                    (Err(error), None) => Err(reading.report_with_hint(
                        Code::VariableUnset,
                        &variable.at,
                        format!("environment variable `{name}` cannot be used: {error}"),
                        "set it, or give it a `default`",
                    )),
                }
            }
            (None, Some(file)) => {
                if default.is_some() {
                    return Err(reading.report(
                        Code::UnknownKey,
                        &section.key_at,
                        format!("`{}`: a `file` has no `default`", self.path),
                    ));
                }
                let path = PathBuf::from(file.literal(reading)?);
                let text = file.content(reading, &path)?;
                Ok(Told { text, from: From::File(path), at: self.at.clone() })
            }
            (Some(_), Some(_)) => {
                let message = format!("`{}` takes `env` or `file`, found both", self.path);
                Err(reading.report(Code::WrongType, &self.at, message))
            }
            (None, None) => Err(self.wrong_type(reading, FORMS)),
        }
    }

    /// A string that stands in the file itself.
    fn literal(&self, reading: &Reading<'_>) -> Read<String> {
        self.value.as_str().map(str::to_owned).ok_or_else(|| self.wrong_type(reading, "a string"))
    }

    /// The text of a file without the end of its last line, which editors add.
    pub(crate) fn content(&self, reading: &Reading<'_>, path: &Path) -> Read<String> {
        let mut text = reading.environment.file(path).map_err(|error| {
            let message = format!("`{}`: file `{}` cannot be read: {error}", self.path, path.display());
            reading.report(Code::FileUnreadable, &self.at, message)
        })?;
        if text.ends_with('\n') {
            text.pop();
            if text.ends_with('\r') {
                text.pop();
            }
        }
        Ok(text)
    }

    /// A string that is shown as it is.
    pub(crate) fn string(&self, reading: &Reading<'_>) -> Read<String> {
        self.told(reading).map(|told| told.text)
    }

    /// A string under a name of the user's, which may say that it is secret.
    pub(crate) fn text(&self, reading: &Reading<'_>) -> Read<Text> {
        let secret = holds_secret(self.name);
        if secret && !self.is_reference() {
            // Whatever it is, it is not shown.
            reading.hide(&self.at);
        }
        let told = self.told(reading)?;
        if !secret {
            return Ok(Text { plain: told.text, shown: Shown::Plain });
        }
        let clear = match told.from {
            From::Literal => Some(told.at),
            From::Default(at) => Some(at),
            From::Variable(_) | From::File(_) => None,
        };
        if let Some(at) = clear.filter(|_| !told.text.is_empty()) {
            reading.hide(&at);
            reading.report_with_hint(
                Code::SecretInClear,
                &at,
                format!("`{}` is a secret and stands in the file", self.path),
                "take it from outside: `{ env = \"…\" }` or `{ file = \"/run/secrets/…\" }`",
            );
        }
        Ok(Text { plain: told.text, shown: Shown::Masked })
    }

    /// A time within bounds.
    pub(crate) fn duration(
        &self,
        reading: &Reading<'_>,
        bounds: &RangeInclusive<Duration>,
    ) -> Read<Duration> {
        let told = match self.value {
            DeValue::Integer(_) | DeValue::Float(_) => {
                return Err(self.wrong_type(reading, "a time like `\"5s\"`"));
            }
            DeValue::String(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_)
            | DeValue::Table(_) => self.told(reading)?,
        };
        let time = duration::parse(&told.text).map_err(|_| {
            let message = format!("`{}`: {told} is not a time", self.path);
            let hint = "a whole number with ms, s, m, h or d: `\"250ms\"`, `\"90m\"`";
            reading.report_with_hint(Code::BadDuration, &told.at, message, hint)
        })?;
        if bounds.contains(&time) {
            return Ok(time);
        }
        let (least, most) = (in_words(*bounds.start()), in_words(*bounds.end()));
        let message = format!("`{}`: {told} is out of range, from `{least}` to `{most}`", self.path);
        Err(reading.report(Code::OutOfRange, &told.at, message))
    }

    /// A size within bounds, in bytes.
    pub(crate) fn size(&self, reading: &Reading<'_>, bounds: &RangeInclusive<u64>) -> Read<u64> {
        let Some(text) = self.value.as_str() else {
            return Err(self.wrong_type(reading, "a size like `\"64MiB\"`"));
        };
        let size = size::parse(text).map_err(|_| {
            let message = format!("`{}`: `{text}` is not a size", self.path);
            let hint = "a whole number with B, KiB, MiB or GiB: `\"512KiB\"`, `\"64MiB\"`";
            reading.report_with_hint(Code::BadSize, &self.at, message, hint)
        })?;
        if bounds.contains(&size) {
            return Ok(size);
        }
        let (least, most) = (size::in_words(*bounds.start()), size::in_words(*bounds.end()));
        let message = format!("`{}`: `{text}` is out of range, from `{least}` to `{most}`", self.path);
        Err(reading.report(Code::OutOfRange, &self.at, message))
    }

    /// A whole number within bounds.
    pub(crate) fn number<T: TryFrom<u64>>(
        &self,
        reading: &Reading<'_>,
        bounds: &RangeInclusive<u64>,
    ) -> Read<T> {
        let Some(integer) = self.value.as_integer() else {
            return Err(self.wrong_type(reading, "a whole number"));
        };
        let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok();
        let number =
            number.filter(|number| bounds.contains(number)).and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| {
            let (least, most) = (bounds.start(), bounds.end());
            let message = format!("`{}`: `{integer}` is out of range, from {least} to {most}", self.path);
            reading.report(Code::OutOfRange, &self.at, message)
        })
    }

    /// What `false` and `true` stand for.
    pub(crate) fn switch<T>(&self, reading: &Reading<'_>, off: T, on: T) -> Read<T> {
        match self.value.as_bool() {
            Some(true) => Ok(on),
            Some(false) => Ok(off),
            None => Err(self.wrong_type(reading, "`true` or `false`")),
        }
    }

    /// A word out of a list.
    pub(crate) fn word<T: Copy>(&self, reading: &Reading<'_>, words: &[(&str, T)]) -> Read<T> {
        let told = self.told(reading)?;
        self.word_of(reading, &told, words)
    }

    /// As [`Field::word`], of a string that was read already.
    pub(crate) fn word_of<T: Copy>(
        &self,
        reading: &Reading<'_>,
        told: &Told,
        words: &[(&str, T)],
    ) -> Read<T> {
        let known = || words.iter().map(|(word, _)| *word);
        words.iter().find(|(word, _)| *word == told.text).map(|(_, meaning)| *meaning).ok_or_else(|| {
            let hint = match nearest(&told.text, known()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("one of `{}`", known().collect::<Vec<_>>().join("`, `")),
            };
            let message = format!("`{}` does not know {told}", self.path);
            reading.report_with_hint(Code::UnknownWord, &told.at, message, hint)
        })
    }
}

/// The value of a field that is there and right, else the start value.
pub(crate) fn or<'a, T>(field: Option<Field<'a>>, start: T, read: impl FnOnce(Field<'a>) -> Read<T>) -> T {
    field.map_or(Ok(None), |field| read(field).map(Some)).ok().flatten().unwrap_or(start)
}
