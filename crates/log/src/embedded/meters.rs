//! The log's metrics. Their names are public interface.

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use crate::Topic;

/// Handles, taken once: looking a metric up by name on every append would cost more than the
/// append.
pub(super) struct LogMeters {
    /// Records acknowledged.
    pub(super) appends: Counter,
    /// Encoded bytes acknowledged.
    pub(super) append_bytes: Counter,
    /// Seconds of one write and sync.
    pub(super) sync_seconds: Histogram,
    /// Records in one write.
    pub(super) group_records: Histogram,
    /// Encoded bytes waiting or being written.
    pub(super) queue_bytes: Gauge,
    /// Bytes of all segments on disk.
    pub(super) disk_bytes: Gauge,
    /// Bytes free on its disk.
    pub(super) disk_free_bytes: Gauge,
    /// Offset behind the newest durable record.
    pub(super) end_offset: Gauge,
    /// 1 if records are taken, 0 if not.
    pub(super) writable: Gauge,
}

impl LogMeters {
    pub(super) fn new(topic: Topic) -> Self {
        let log = topic.name();
        Self {
            appends: counter!("receipts_log_appends_total", "log" => log),
            append_bytes: counter!("receipts_log_append_bytes_total", "log" => log),
            sync_seconds: histogram!("receipts_log_sync_seconds", "log" => log),
            group_records: histogram!("receipts_log_group_records", "log" => log),
            queue_bytes: gauge!("receipts_log_queue_bytes", "log" => log),
            disk_bytes: gauge!("receipts_log_disk_bytes", "log" => log),
            disk_free_bytes: gauge!("receipts_log_disk_free_bytes", "log" => log),
            end_offset: gauge!("receipts_log_end_offset", "log" => log),
            writable: gauge!("receipts_log_writable", "log" => log),
        }
    }
}
