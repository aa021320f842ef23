//! Whether the engines behind the API answer, checked from time to time for `/readyz`.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use service::health::{Component, Health};
use tokio::time::timeout;

use crate::freshness::Freshness;
use crate::state::AnalyticsState;
use crate::watermark::WatermarkError;

/// Engines that readiness checks.
pub(crate) struct CheckedEngines {
    warehouse: Component,
    progress: Component,
    accounts: Component,
}

impl CheckedEngines {
    /// Registers them, not ready until checked.
    pub(crate) fn register(health: &Health) -> Self {
        Self {
            warehouse: health.register("analytics.warehouse"),
            progress: health.register("analytics.progress"),
            accounts: health.register("analytics.accounts"),
        }
    }

    /// Looks at all of them, again and again.
    pub(crate) async fn watch(self, app: Arc<AnalyticsState>) {
        let pause = Duration::from_millis(app.config.health_interval_ms);
        let wait_max = Duration::from_millis(app.config.query_wait_ms_max);
        let freshness = Freshness::default();
        loop {
            let complete = async {
                freshness.note(app.watermark.read().await?.complete_ms);
                Ok::<_, WatermarkError>(())
            };
            tokio::join!(
                look(&self.warehouse, wait_max, app.deps.warehouse.sound()),
                look(&self.progress, wait_max, complete),
                look(&self.accounts, wait_max, app.deps.accounts.ping()),
            );
            freshness.tell(service::instant::now_ms());
            tokio::time::sleep(pause).await;
        }
    }
}

async fn look<T, E: std::fmt::Display>(
    component: &Component,
    wait_max: Duration,
    work: impl Future<Output = Result<T, E>>,
) {
    match timeout(wait_max, work).await {
        Ok(Ok(_)) => component.ready(),
        Ok(Err(error)) => component.not_ready(error.to_string()),
        Err(_) => component.not_ready(format!("no answer within {} ms", wait_max.as_millis())),
    }
}
