//! The engines below the services: logs, warehouse, accounts, and the counts of the rate limits.

use std::sync::Arc;

use accounts::Accounts;
use receipt_log::Log;
use service::health::Health;
use service::rate_limit::{RateLimiter, limiter};
use tracing::info;
use warehouse::{EmbeddedEngine, Target, Warehouse};

use crate::failure::CommandFailure;
use crate::settings::Settings;

/// The open engines.
pub struct Engines {
    /// The log of receipts.
    pub log: Log,
    /// The log of verdicts.
    pub verdicts: Log,
    /// A client of the warehouse.
    pub warehouse: Warehouse,
    /// Accounts, domains, API keys.
    pub accounts: Accounts,
    /// Requests of each API key.
    pub limiter: Arc<dyn RateLimiter>,
    embedded: Option<EmbeddedEngine>,
}

impl Engines {
    /// Opens all of them: the logs with their recovery, the warehouse with its migrations, the
    /// accounts with theirs.
    ///
    /// # Errors
    /// The first engine that can't be opened, and why.
    pub async fn open(settings: &Settings, health: &Health) -> Result<Self, CommandFailure> {
        let limiter = limiter(&settings.redis, settings.quotas.accounts_max, health)
            .await
            .map_err(CommandFailure::input)?;
        let open = || Log::open(&settings.kafka, &settings.log, &settings.data.log());
        let log = tokio::task::block_in_place(open).map_err(CommandFailure::unavailable)?;
        let open = || Log::open_verdicts(&settings.kafka, &settings.verdicts, &settings.data.verdicts());
        let verdicts = tokio::task::block_in_place(open).map_err(CommandFailure::unavailable)?;
        let accounts = Accounts::open(&settings.accounts, settings.data.root())
            .await
            .map_err(CommandFailure::unavailable)?;
        let (warehouse, embedded) = match &settings.warehouse.url {
            Some(url) => {
                let target = Target::Url(url.clone());
                let warehouse = Warehouse::connect(&target, &settings.warehouse)
                    .await
                    .map_err(CommandFailure::unavailable)?;
                warehouse.migrate().await.map_err(CommandFailure::unavailable)?;
                (warehouse, None)
            }
            None => {
                let (directory, socket) = (settings.data.warehouse(), settings.data.socket());
                let engine = EmbeddedEngine::start(&settings.warehouse, &directory, &socket).await;
                let engine = engine.map_err(CommandFailure::unavailable)?;
                (engine.warehouse(), Some(engine))
            }
        };
        info!("logs, accounts and warehouse are open");
        Ok(Self {
            log,
            verdicts,
            warehouse,
            accounts,
            limiter,
            embedded,
        })
    }

    /// Closes them: the logs first, which write on their own.
    pub async fn close(self) {
        tokio::task::block_in_place(|| {
            self.log.close();
            self.verdicts.close();
        });
        self.accounts.close().await;
        drop(self.warehouse);
        if let Some(engine) = self.embedded {
            engine.stop().await;
        }
    }
}
