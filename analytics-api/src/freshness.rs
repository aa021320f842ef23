//! Age of `completeThrough`, polled from time to time: the freshness objective
//! counts.

use std::sync::atomic::{AtomicI64, Ordering};

use metrics::{gauge, histogram};

/// The last watermark that could be read.
#[derive(Debug, Default)]
pub(crate) struct Freshness {
    /// Milliseconds since the Unix epoch; 0 before the first.
    complete_ms: AtomicI64,
}

impl Freshness {
    /// Stores the watermark that was read now.
    pub(crate) fn note(&self, complete_ms: i64) {
        self.complete_ms.store(complete_ms, Ordering::Relaxed);
    }

    /// Records how old it is now: while there is no watermark the last one grows older, as it does
    /// for publishers.
    #[allow(clippy::cast_precision_loss)] // Milliseconds of this age fit 2^53.
    pub(crate) fn tell(&self, now_ms: i64) {
        let complete_ms = self.complete_ms.load(Ordering::Relaxed);
        if complete_ms > 0 {
            gauge!("receipts_watermark_timestamp_seconds").set(complete_ms as f64 / 1e3);
            histogram!("receipts_watermark_age_seconds").record((now_ms - complete_ms).max(0) as f64 / 1e3);
        }
    }
}
