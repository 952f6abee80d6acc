//! The handlers, against real servers on this machine.

mod calls;
mod failures;
mod passthrough;
pub(crate) mod place;
mod server;
mod sharing;
mod tls;
mod token;
