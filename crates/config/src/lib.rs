//! Configuration: one TOML file with a section for each crate, and `RECEIPTS_<SECTION>_<KEY>`
//! variables over it.
//!
//! A section is a struct that implements [`Section`]. [`Source`] reads sections and reports every
//! fault, not only the first:
//!
//! ```
//! # use config::{ConfigError, ConfigFaults, Section, Source};
//! # use serde::{Deserialize, Serialize};
//! #[derive(Default, Serialize, Deserialize)]
//! #[serde(default, deny_unknown_fields)]
//! struct PolicyConfig {
//!     /// Interval between two reads, in milliseconds.
//!     refresh_ms: u64,
//! }
//!
//! impl Section for PolicyConfig {
//!     fn check(&self, faults: &mut ConfigFaults) {
//!         faults.range("refresh_ms", self.refresh_ms, 0..=60_000);
//!     }
//! }
//!
//! # fn main() -> Result<(), ConfigError> {
//! let mut source = Source::from_parts("", [("RECEIPTS_POLICY_REFRESH_MS", "500")])?;
//! let policy: PolicyConfig = source.section("policy");
//! source.finish()?;
//! # assert_eq!(policy.refresh_ms, 500);
//! # Ok(())
//! # }
//! ```

mod faults;
mod fields;
mod nearest;
mod secret;
mod source;
#[cfg(test)]
mod tests;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use faults::{ConfigError, ConfigFault, ConfigFaults};
pub use fields::valid_keys;
pub use secret::{Secret, SecretUrl};
pub use source::{RESERVED_PREFIXES, RESERVED_VARIABLES, SECTIONS, Source};

/// A section of the configuration. It carries `#[serde(default)]`: a key that isn't given has its
/// default.
pub trait Section: Serialize + DeserializeOwned + Default {
    /// Adds a fault for every value that has its type and can't work. Each fault says what is
    /// allowed.
    fn check(&self, faults: &mut ConfigFaults);

    /// Faults of a section that no [`Source`] has read, with keys of the section `name`.
    fn faults(&self, name: &str) -> Vec<ConfigFault> {
        let mut faults = ConfigFaults::new(name);
        self.check(&mut faults);
        faults.into_vec()
    }

    /// Checks a section that no [`Source`] has read.
    ///
    /// # Errors
    /// Every fault, with keys of the section `name`.
    fn checked(&self, name: &str) -> Result<(), ConfigError> {
        ConfigError::unless_empty(self.faults(name))
    }
}
