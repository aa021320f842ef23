//! The embedded engine.

use std::path::Path;

use crate::{EngineError, Warehouse, WarehouseConfig};

/// libchdb running in this process, answering on a Unix socket.
#[derive(Debug)]
pub struct EmbeddedEngine {
    warehouse: Warehouse,
}

impl EmbeddedEngine {
    /// Loads libchdb, opens `data_dir` (created if absent), serves `socket` (mode 0600; a stale one is replaced) and
    /// brings the schema up to date.
    ///
    /// # Errors
    /// [`EngineError`].
    pub async fn start(_config: &WarehouseConfig, data_dir: &Path, _socket: &Path) -> Result<Self, EngineError> {
        Err(EngineError::Open {
            path: data_dir.to_owned(),
            detail: "not built yet".to_owned(),
        })
    }

    /// A client of this engine, over its socket.
    #[must_use]
    pub fn warehouse(&self) -> Warehouse {
        self.warehouse.clone()
    }

    /// Stops answering, lets statements under way end, and closes the engine.
    pub async fn stop(self) {}
}
