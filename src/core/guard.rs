//! Order per key by versions: what is applied, and what an arriving version is to it.

mod hash;
pub mod judge;
mod table;
mod version;

pub use hash::{KeyHash, KeyHasher, fingerprint};
pub use table::{Entry, VersionTable};
pub use version::Version;
