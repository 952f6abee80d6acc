//! From a pipeline of the topology to its handler.

use std::path::PathBuf;

use crate::handler::http::Http;
use crate::handler::passthrough::{Answer, Passthrough};
use crate::handler::{AnyHandler, Handlers};
use crate::topology::model::{HandlerSpec, Pipeline};

/// Why a handler cannot be built. All are found at start, before anything is read: the topology or a file that it
/// names must be put right.
#[derive(Debug, thiserror::Error)]
pub enum BuildHandlerError {
    /// The topology names a Rust handler that nobody registered.
    #[error(
        "no handler is registered as `{name}`\nhint: {}",
        registered.as_deref().map_or_else(
            || "handlers written in Rust run in a program of your own, see examples/handler.rs".to_owned(),
            |names| format!("registered: {names}"),
        )
    )]
    NotRegistered {
        /// The name in the topology.
        name: String,
        /// The names that are registered; `None` where there are none.
        registered: Option<String>,
    },
    /// The URL cannot be called.
    #[error("handler url `{url}` cannot be called: {why}\nhint: {hint}")]
    Url {
        /// The URL, without user and password.
        url: String,
        /// What is wrong.
        why: String,
        /// What would do.
        hint: &'static str,
    },
    /// A header that cannot be sent.
    #[error("header `{name}` cannot be sent: {why}")]
    Header {
        /// Its name in the topology.
        name: String,
        /// What is wrong.
        why: &'static str,
    },
    /// A file cannot be read.
    #[error("{key} `{}` cannot be used: {why}", path.display())]
    File {
        /// The topology's key.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The HTTP client cannot be made.
    #[error("the HTTP client cannot be made: {why}")]
    Client {
        /// The client's words.
        why: String,
    },
}

/// Builds the handler of a pipeline. Call it once per worker: an HTTP handler's `concurrency` and connections belong
/// to what this returns. A handler written in Rust is the registered one, shared by all workers.
///
/// # Errors
///
/// [`BuildHandlerError`], which says what to put right in the topology.
pub fn build(app: &str, pipeline: &Pipeline, handlers: &Handlers) -> Result<AnyHandler, BuildHandlerError> {
    let answer = match pipeline.output {
        Some(_) => Answer::Written,
        None => Answer::Ignored,
    };
    match &pipeline.handler {
        HandlerSpec::Http(spec) => Http::new(app, pipeline, spec, answer).map(AnyHandler::new),
        HandlerSpec::Passthrough(spec) => Ok(AnyHandler::new(Passthrough::new(spec, answer))),
        HandlerSpec::Rust { name } => handlers.find(name).cloned().ok_or_else(|| {
            let names: Vec<_> = handlers.names().map(|name| format!("`{name}`")).collect();
            let registered = (!names.is_empty()).then(|| names.join(", "));
            BuildHandlerError::NotRegistered { name: name.clone(), registered }
        }),
    }
}
