//! The instant at which the log begins to delete verdicts that aren't stored yet.

use metrics::gauge;

/// States the horizon of a consumer group at a shard. The last record that it has stored was
/// appended at `appended_at_ms`. `deletes_after_ms` is [`receipt_log::Log::deletes_after_ms`].
#[allow(clippy::cast_precision_loss)] // a gauge
pub(crate) fn state(group: &'static str, shard: u32, appended_at_ms: i64, deletes_after_ms: Option<u64>) {
    if let Some(after_ms) = deletes_after_ms {
        gauge!("receipts_writer_horizon_timestamp_seconds", "group" => group, "shard" => shard.to_string())
            .set((appended_at_ms as f64 + after_ms as f64) / 1_000.0);
    }
}
