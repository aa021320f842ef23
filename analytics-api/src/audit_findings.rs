//! The result of the running audit, as answers state it.

use std::sync::atomic::{AtomicBool, Ordering};

/// Result of the last check.
#[derive(Debug, Default)]
pub(crate) struct AuditFindings {
    exist: AtomicBool,
}

impl AuditFindings {
    /// Whether the tables are known to miss receipts, or to have some too often.
    pub(crate) fn has_findings(&self) -> bool {
        self.exist.load(Ordering::Relaxed)
    }

    pub(crate) fn set_findings(&self, exist: bool) {
        self.exist.store(exist, Ordering::Relaxed);
    }
}
