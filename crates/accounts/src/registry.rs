//! The registry: client keys, entries, operators and verified domains as the verifier looks them
//! up, and a cache in front of it.
//!
//! Each change of one of these increments a version in its own transaction ([`RegistryVersions`]).
//! The only purpose of the versions is to invalidate
//! what [`RegistryCache`] has read before the change.

mod cache;
mod config;
mod existing_entries;
mod key_status;
mod observation;
mod operators;
mod publishers;
mod versions;

pub use cache::{RegistryCache, RegistryUnavailable};
pub use config::RegistryConfig;
pub use key_status::KeyStatus;
pub use operators::{ClientClaim, OperatorPeriod};
pub use versions::RegistryVersions;
pub(crate) use versions::{RegistrySection, increment};
