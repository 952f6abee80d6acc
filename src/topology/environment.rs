//! What a topology takes from outside its file: environment variables and files.

use std::path::Path;

/// Where `{ env = … }` and `{ file = … }` are looked up.
pub trait Environment {
    /// The value of an environment variable.
    ///
    /// # Errors
    /// Where it is not set, or is not UTF-8.
    fn variable(&self, name: &str) -> Result<String, Unreadable>;

    /// The text of a file. Relative paths start at the working directory.
    ///
    /// # Errors
    /// Where it cannot be read, or is not UTF-8.
    fn file(&self, path: &Path) -> Result<String, Unreadable>;
}

/// Why a variable or a file has no text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Unreadable {
    /// The system's words.
    pub why: String,
}

/// The environment of this process and the files of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Process;

impl Environment for Process {
    #[expect(clippy::disallowed_methods, reason = "this is where the topology reads the environment")]
    fn variable(&self, name: &str) -> Result<String, Unreadable> {
        std::env::var(name).map_err(|error| match error {
            std::env::VarError::NotPresent => Unreadable { why: "it is not set".to_owned() },
            std::env::VarError::NotUnicode(_) => Unreadable { why: "it is not UTF-8".to_owned() },
        })
    }

    fn file(&self, path: &Path) -> Result<String, Unreadable> {
        std::fs::read_to_string(path).map_err(|error| Unreadable { why: error.to_string() })
    }
}
