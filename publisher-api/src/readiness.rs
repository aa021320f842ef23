//! Whether the engines behind the API answer, checked from time to time for `/readyz`.

use std::sync::Arc;
use std::time::Duration;

use service::health::{Component, Health};

use crate::state::PublisherState;

/// Engines that readiness checks.
pub(crate) struct Engines {
    accounts: Component,
    warehouse: Component,
}

impl Engines {
    /// Registers them, not ready until checked.
    pub(crate) fn register(health: &Health) -> Self {
        Self {
            accounts: health.register("publisher.accounts"),
            warehouse: health.register("publisher.warehouse"),
        }
    }

    /// Looks at them, again and again.
    pub(crate) async fn watch(self, app: Arc<PublisherState>) {
        let pause = Duration::from_millis(app.config.health_interval_ms);
        loop {
            let (accounts, warehouse) = tokio::join!(app.deps.accounts.ping(), app.deps.warehouse.sound());
            match accounts {
                Ok(()) => self.accounts.ready(),
                Err(error) => self.accounts.not_ready(error.to_string()),
            }
            match warehouse {
                Ok(_) => self.warehouse.ready(),
                // Most of what publishers do here continues without it.
                Err(error) => self.warehouse.degraded(error.to_string()),
            }
            tokio::time::sleep(pause).await;
        }
    }
}
