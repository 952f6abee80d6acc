//! The handlers written in Rust, by the names under which topologies ask for them.

use std::collections::BTreeMap;

use crate::handler::{AnyHandler, Handler};

/// Handlers written in Rust, by name: `handler.rust = { name = "…" }` in the topology asks for one.
#[derive(Clone, Debug, Default)]
pub struct Handlers(BTreeMap<String, AnyHandler>);

impl Handlers {
    /// No handlers: enough for topologies that use HTTP or passthrough.
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Adds a handler; one of the same name is replaced.
    #[must_use]
    pub fn with(mut self, name: &str, handler: impl Handler) -> Self {
        self.0.insert(name.to_owned(), AnyHandler::new(handler));
        self
    }

    /// The handler of this name.
    pub fn find(&self, name: &str) -> Option<&AnyHandler> {
        self.0.get(name)
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}
