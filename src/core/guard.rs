//! Order per key by versions: what is applied, and what an arriving version is to it.

mod hash;
mod table;
mod version;

pub use hash::{KeyHash, KeyHasher, fingerprint};
pub use table::{Entry, VersionTable};
pub use version::Version;
