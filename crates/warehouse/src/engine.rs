//! The embedded engine with our tables.

use std::path::Path;

use receipt_clickhouse::Engine;
use tokio::net::TcpListener;

use crate::{EngineError, Target, Warehouse, WarehouseConfig};

/// libchdb running in this process with an up-to-date schema, answering on a Unix socket.
#[derive(Debug)]
pub struct EmbeddedEngine {
    engine: Engine,
    warehouse: Warehouse,
}

impl EmbeddedEngine {
    /// Finds and loads libchdb: [`Engine::load`].
    pub fn load(config: &WarehouseConfig) -> Result<(), EngineError> {
        Engine::load(config)
    }

    /// Opens `data_dir` (created if absent), serves `socket` and brings the schema up to date. The
    /// engine runs until [`stop`](Self::stop).
    ///
    /// # Errors
    /// [`EngineError`]. Why the engine itself refuses a directory is on standard error only.
    pub async fn start(config: &WarehouseConfig, data_dir: &Path, socket: &Path) -> Result<Self, EngineError> {
        let engine = Self::open(config, data_dir, socket).await?;
        let ready = async {
            engine.warehouse.migrate().await?;
            engine.warehouse.report_broken_parts().await
        };
        match ready.await {
            Ok(_) => Ok(engine),
            Err(error) => {
                engine.stop().await;
                Err(error.into())
            }
        }
    }

    /// As [`start`](Self::start), but tables that are gone are recreated, empty, and returned by
    /// name: for a repair, which writes their rows again.
    pub async fn start_for_repair(
        config: &WarehouseConfig,
        data_dir: &Path,
        socket: &Path,
    ) -> Result<(Self, Vec<String>), EngineError> {
        let engine = Self::open(config, data_dir, socket).await?;
        match engine.warehouse.restore_tables().await {
            Ok(restored) => Ok((engine, restored)),
            Err(error) => {
                engine.stop().await;
                Err(error.into())
            }
        }
    }

    async fn open(config: &WarehouseConfig, data_dir: &Path, socket: &Path) -> Result<Self, EngineError> {
        Ok(Self {
            warehouse: Warehouse::new(&Target::Socket(socket.to_owned()), config)?,
            engine: Engine::open(config, data_dir, socket).await?,
        })
    }

    /// A client of this engine, over its socket.
    #[must_use]
    pub fn warehouse(&self) -> Warehouse {
        self.warehouse.clone()
    }

    /// Also answers on a TCP listener: [`Engine::serve_tcp`].
    ///
    /// # Errors
    /// The listener must be on a loopback address, and the password must not be empty.
    pub fn serve_tcp(&self, listener: TcpListener, user: &str, password: &str) -> Result<(), EngineError> {
        self.engine.serve_tcp(listener, user, password)
    }

    /// Stops answering, lets statements in progress end, and closes the engine.
    pub async fn stop(self) {
        self.engine.stop().await;
    }
}
