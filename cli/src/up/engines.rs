//! The engines below the services: log, warehouse, accounts.

use std::path::PathBuf;

use accounts::Accounts;
use receipt_log::EmbeddedLog;
use tracing::info;
use warehouse::{EmbeddedEngine, Target, Warehouse};

use crate::failure::Failure;
use crate::settings::Settings;

/// The open engines.
pub struct Engines {
    /// The embedded log.
    pub log: EmbeddedLog,
    /// A client of the warehouse.
    pub warehouse: Warehouse,
    /// Accounts, domains, API keys.
    pub accounts: Accounts,
    embedded: Option<EmbeddedEngine>,
}

impl Engines {
    /// Opens all of them: the log with its recovery, the warehouse with its migrations, the accounts with theirs.
    ///
    /// # Errors
    /// The first engine that can't be opened, and why.
    pub async fn open(settings: &Settings) -> Result<Self, Failure> {
        let log = open_log(settings.data.log(), settings.log.clone()).await?;
        let accounts = Accounts::open(&settings.accounts, settings.data.root())
            .await
            .map_err(Failure::unavailable)?;
        let (warehouse, embedded) = match &settings.warehouse.url {
            Some(url) => {
                let target = Target::Url(url.clone());
                let warehouse = Warehouse::connect(&target, &settings.warehouse)
                    .await
                    .map_err(Failure::unavailable)?;
                warehouse.migrate().await.map_err(Failure::unavailable)?;
                (warehouse, None)
            }
            None => {
                let (directory, socket) = (settings.data.warehouse(), settings.data.socket());
                let engine = EmbeddedEngine::start(&settings.warehouse, &directory, &socket).await;
                let engine = engine.map_err(Failure::unavailable)?;
                (engine.warehouse(), Some(engine))
            }
        };
        info!("log, accounts and warehouse are open");
        Ok(Self {
            log,
            warehouse,
            accounts,
            embedded,
        })
    }

    /// Closes them: the log first, which is the one that writes on its own.
    ///
    /// # Errors
    /// The log's closing was interrupted.
    pub async fn close(self) -> Result<(), Failure> {
        let log = self.log;
        let closed = tokio::task::spawn_blocking(move || log.close()).await;
        self.accounts.close().await;
        drop(self.warehouse);
        if let Some(engine) = self.embedded {
            engine.stop().await;
        }
        closed.map_err(|e| Failure::Unavailable(format!("the log didn't close: {e}")))
    }
}

async fn open_log(directory: PathBuf, config: receipt_log::EmbeddedConfig) -> Result<EmbeddedLog, Failure> {
    let opened = tokio::task::spawn_blocking(move || EmbeddedLog::open(&directory, config)).await;
    opened.map_err(Failure::unavailable)?.map_err(Failure::unavailable)
}
