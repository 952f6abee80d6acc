//! Order per key by versions: what is applied, and what an arriving version is to it.

mod version;

pub use version::Version;
