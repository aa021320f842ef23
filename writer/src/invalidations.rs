//! Hours of publishers that a batch touches: the rollups are rebuilt from them.

use blocks::Block;
use warehouse::{MarkRow, Touched};

use crate::reading::ReadBlock;

/// Returns one row per block with accepted receipts or source records.
#[must_use]
pub fn invalidations(blocks: &[ReadBlock]) -> Vec<MarkRow> {
    blocks.iter().filter_map(|read| invalidation(&read.block)).collect()
}

fn invalidation(block: &Block) -> Option<MarkRow> {
    let source = &block.header.source;
    if source.is_empty() {
        return None;
    }
    let mut touched = Touched::default();
    let columns = block.columns();
    for row in 0..block.accepted().num_rows() {
        touched.add(columns.timestamp.value(row), columns.publisher.value(row));
    }
    Some(MarkRow {
        epoch: source.epoch,
        partition: source.partition,
        first_offset: source.first.offset,
        last_offset: source.end.offset - 1,
        touched,
    })
}
