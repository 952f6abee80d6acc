//! The bearer token, and a newer one where the old was refused.

use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use reqwest::header::HeaderValue;

use crate::handler::BuildHandlerError;
use crate::topology::model::Token as Spec;

/// A bearer token in use.
#[derive(Debug)]
pub(super) struct Token {
    current: RwLock<HeaderValue>,
    file: Option<PathBuf>,
}

/// What there is instead of a token that was refused.
#[derive(Debug)]
pub(super) enum Renewal {
    /// This one.
    Newer(HeaderValue),
    /// The same one.
    Same,
    /// Nobody knows: the file cannot be read.
    Unreadable(String),
}

impl Token {
    /// Takes the token from the topology, or reads its file.
    pub(super) fn new(spec: &Spec) -> Result<Self, BuildHandlerError> {
        let (current, file) = match spec {
            Spec::Fixed(text) => {
                let current = bearer(&text.plain)
                    .map_err(|why| BuildHandlerError::Header { name: "authorization".to_owned(), why })?;
                (current, None)
            }
            Spec::File(path) => {
                let file = |why| BuildHandlerError::File { key: "token", path: path.clone(), why };
                (read(path).map_err(file)?, Some(path.clone()))
            }
        };
        Ok(Self { current: RwLock::new(current), file })
    }

    /// The value of the `Authorization` header.
    pub(super) fn current(&self) -> HeaderValue {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks for a newer token than the one refused. Of many calls refused at once the first reads the file, the
    /// others mostly find what it read.
    pub(super) async fn renew(&self, refused: &HeaderValue) -> Renewal {
        let current = self.current();
        if current != *refused {
            return Renewal::Newer(current);
        }
        let Some(path) = self.file.clone() else {
            return Renewal::Same;
        };
        // A file on a network volume may block.
        let read = tokio::task::spawn_blocking(move || read(&path)).await;
        match read.unwrap_or_else(|error| Err(error.to_string())) {
            Ok(found) if found == *refused => Renewal::Same,
            Ok(found) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = found.clone();
                Renewal::Newer(found)
            }
            Err(why) => {
                Renewal::Unreadable(format!("the token was refused, and its file cannot be used: {why}"))
            }
        }
    }
}

fn read(path: &Path) -> Result<HeaderValue, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    bearer(&text).map_err(str::to_owned)
}

/// The header value of a token; white space around it, such as a file's last line break, is no part of it.
fn bearer(token: &str) -> Result<HeaderValue, &'static str> {
    let token = token.trim();
    if token.is_empty() {
        return Err("the token is empty");
    }
    let mut value = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|_| "the token holds characters that HTTP does not carry")?;
    value.set_sensitive(true);
    Ok(value)
}
