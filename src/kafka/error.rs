//! What can go wrong with a client, by what has to follow.

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::kafka::settings::SettingsError;

/// A client could not be made or used as configured: the process ends, since nothing heals by itself.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// The properties do not make a client.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A call that only fails where the client is unusable.
    #[error("the {client} client refuses to {call}: {source}")]
    Call {
        /// Which client.
        client: &'static str,
        /// What it was asked.
        call: &'static str,
        /// The client's words.
        source: KafkaError,
    },
    /// The client says of itself that it cannot go on.
    #[error("the {client} client cannot go on: {code}: {detail}")]
    Fatal {
        /// Which client.
        client: &'static str,
        /// The kind of error.
        code: RDKafkaErrorCode,
        /// The client's words.
        detail: String,
    },
    /// Another process is the static member that this one is.
    #[error(
        "another process is the member `{name}` of the group: {detail}\nhint: give each process an instance of its own"
    )]
    Twin {
        /// The member's name.
        name: String,
        /// The client's words.
        detail: String,
    },
    /// The system gives no thread.
    #[error("no thread for the {client} client: {source}")]
    Thread {
        /// Which client.
        client: &'static str,
        /// The system's words.
        source: std::io::Error,
    },
}
