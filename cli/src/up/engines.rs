//! The engines below the services: logs, warehouse, accounts, and the counts of the rate limits.

use std::sync::Arc;

use accounts::Accounts;
use receipt_log::Log;
use service::health::Health;
use service::rate_limit::RateLimiter;
use tracing::info;
use warehouse::{EmbeddedEngine, Warehouse};

use crate::failure::CommandFailure;
use crate::serve::engines;
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
        let limiter = engines::rate_limiter(settings, health).await?;
        let log = tokio::task::block_in_place(|| engines::receipts(settings))?;
        let verdicts = tokio::task::block_in_place(|| engines::verdicts(settings))?;
        let accounts = engines::accounts(settings).await?;
        let (warehouse, embedded) = engines::warehouse(settings).await?;
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
