//! How the client library was built.

use rdkafka::ClientConfig;
use rdkafka::util::get_rdkafka_version;

use crate::kafka::settings::SettingsError;

/// The client library of this program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientBuild {
    /// `librdkafka 2.12.1`.
    pub(crate) version: String,
    /// Its words for what was built in: `ssl`, `sasl_scram`, `zstd`, ….
    pub(crate) features: Vec<String>,
}

/// Asks the client library.
pub(crate) fn client() -> Result<ClientBuild, SettingsError> {
    let (_, version) = get_rdkafka_version();
    let features = ClientConfig::new()
        .create_native_config()
        .and_then(|config| config.get("builtin.features"))
        .map_err(|error| SettingsError::Together { detail: error.to_string() })?;
    let features = features.split(',').map(str::to_owned).collect();
    Ok(ClientBuild { version: format!("librdkafka {version}"), features })
}
