//! Snapshots that answers are made from: the writers' progress, and which rollups are valid for it.
//!
//! The order makes answers complete: first the progress, which determines the watermark, then the
//! view of the rollups for just those positions, then the query. Requests that come within
//! `watermark_age_ms_max` share a snapshot. While one is read the others wait for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use warehouse::{RollupView, Usage, Warehouse, WarehouseError};
use web::Failure;

use crate::watermark::{Reading, Watermark};

/// One moment.
#[derive(Debug)]
pub(crate) struct Moment {
    /// The writers' progress.
    pub(crate) reading: Reading,
    view: RollupView,
    warehouse: Warehouse,
}

impl Moment {
    /// The questions about usage, as of this moment.
    pub(crate) fn usage(&self) -> Usage<'_> {
        self.warehouse.usage(&self.view)
    }
}

/// The newest moment.
pub(crate) struct Moments {
    age_max: Duration,
    last: Mutex<Option<Arc<Moment>>>,
}

impl Moments {
    /// A moment is used again for `age_max`.
    pub(crate) fn new(age_max: Duration) -> Self {
        Self {
            age_max,
            last: Mutex::new(None),
        }
    }

    /// The present one.
    ///
    /// # Errors
    /// There is no watermark, or the warehouse doesn't answer; failures aren't cached.
    pub(crate) async fn read(&self, watermark: &Watermark, warehouse: &Warehouse) -> Result<Arc<Moment>, Failure> {
        self.read_from(None, watermark, warehouse).await
    }

    /// The present one, with progress that was read at `least` or later.
    ///
    /// # Errors
    /// As [`Moments::read`].
    pub(crate) async fn read_from(
        &self,
        least: Option<Instant>,
        watermark: &Watermark,
        warehouse: &Warehouse,
    ) -> Result<Arc<Moment>, Failure> {
        // Who waited for another's reading uses it, however long it took: it began late enough.
        let asked_at = Instant::now();
        let mut last = self.last.lock().await;
        if let Some(moment) = &*last
            && asked_at.saturating_duration_since(moment.reading.read_at) <= self.age_max
            && least.is_none_or(|least| moment.reading.read_at >= least)
        {
            return Ok(Arc::clone(moment));
        }
        let reading = watermark.read().await?;
        let view = match warehouse.rollup_view(&reading.committed).await {
            Ok(view) => view,
            // Reading everything from the receipts is the last that a warehouse needs which can't even answer this.
            Err(error @ WarehouseError::Unavailable(_)) => return Err(error.into()),
            // Whatever else is wrong with the rollups, everything can be read from the receipts themselves.
            Err(error) => {
                tracing::warn!(%error, "which hours are rolled can't be found out; nothing is read from rollups");
                RollupView::none()
            }
        };
        let moment = Arc::new(Moment {
            reading,
            view,
            warehouse: warehouse.clone(),
        });
        *last = Some(Arc::clone(&moment));
        Ok(moment)
    }
}
