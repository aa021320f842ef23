//! `[data]`: where a process keeps its files.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use config::{ConfigFaults, Section};

/// `[data]`
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DataConfig {
    /// The data directory; created if absent.
    pub dir: PathBuf,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            dir: PathBuf::from("data"),
        }
    }
}

impl Section for DataConfig {
    fn check(&self, faults: &mut ConfigFaults) {
        faults.require("dir", !self.dir.as_os_str().is_empty(), "must not be empty");
    }
}
