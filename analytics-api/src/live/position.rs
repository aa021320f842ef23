//! Event IDs: a [`StreamPosition`] as text.
//!
//! An ID is opaque to clients and valid for any scope. The API key decides which receipts are sent
//! behind it, so an ID needs no signature: an invented one requests the key's own receipts since
//! another position, within the same limits.

use cursors::StreamPositions;
use warehouse::{StreamPosition, VerdictsPosition};

/// Formats a position.
pub(super) fn format(position: &StreamPosition) -> String {
    let shards = position.0.iter();
    let shards = shards.map(|(shard, verdicts)| (*shard, (verdicts.epoch, verdicts.offset)));
    StreamPositions(shards.collect()).to_text()
}

/// Position of a client's event ID.
pub(super) fn of(positions: StreamPositions) -> StreamPosition {
    let verdicts = |(shard, (epoch, offset))| (shard, VerdictsPosition { epoch, offset });
    StreamPosition(positions.0.into_iter().map(verdicts).collect())
}
