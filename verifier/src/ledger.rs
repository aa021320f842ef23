//! The conservation ledger: one line per block and partition, first as the log's commit metadata, then as a row.

use warehouse::LedgerRow;

/// The line as commit metadata: JSON, under 400 bytes.
#[must_use]
pub fn to_metadata(line: &LedgerRow) -> String {
    // Plain numbers and one short string always serialise.
    serde_json::to_string(line).unwrap_or_default()
}

/// The line that a commit carries; `None` for a commit without one.
///
/// # Errors
/// The metadata is not empty and not a ledger line: somebody else committed under our group's name.
pub fn from_metadata(metadata: &str) -> Result<Option<LedgerRow>, serde_json::Error> {
    if metadata.is_empty() {
        Ok(None)
    } else {
        serde_json::from_str(metadata).map(Some)
    }
}
