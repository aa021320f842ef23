//! Rows that a table doesn't accept.
//!
//! A refused insert is halved until the refused rows are alone, and each of those is tried twice.
//! Such a receipt is rejected with the reason `refused_by_warehouse`, and the ledger counts it so.
//! Every other verdict was decided by the verifier; this one depends on the table at the time, so
//! both orders of a crash must converge:
//! - stored as refused before: the row isn't inserted again;
//! - refused now, but stored before: the receipt counts as accepted.

use std::collections::BTreeSet;

use arrow_array::RecordBatch;
use blocks::{Block, BlockError, Columns, Header, ReceiptCounts, RejectedRow, Rows, SourceIndex, SourceRange};
use uuid::Uuid;
use warehouse::{REFUSED_BY_WAREHOUSE, Remedy, Warehouse, WarehouseError, WriterEpoch};

/// ClickHouse's message is stored up to this length.
const DETAIL_BYTES_MAX: usize = 1_000;

/// A row that the table `receipts` refuses.
#[derive(Debug, Clone)]
pub struct RefusedRow {
    /// The row alone.
    pub row: RecordBatch,
    /// ClickHouse's message.
    pub message: String,
}

/// Rows on their way: slices of batches, and whether they were refused before.
struct RowPart {
    rows: Vec<RecordBatch>,
    tried: bool,
}

fn count(rows: &[RecordBatch]) -> usize {
    rows.iter().map(RecordBatch::num_rows).sum()
}

/// Splits rows in the middle.
fn halves(rows: &[RecordBatch]) -> (Vec<RecordBatch>, Vec<RecordBatch>) {
    let (mut left, mut right) = (Vec::new(), Vec::new());
    let mut missing = count(rows) / 2;
    for batch in rows {
        let taken = missing.min(batch.num_rows());
        missing -= taken;
        if taken > 0 {
            left.push(batch.slice(0, taken));
        }
        if taken < batch.num_rows() {
            right.push(batch.slice(taken, batch.num_rows() - taken));
        }
    }
    (left, right)
}

/// A block's accepted rows, without those whose refusal is stored.
#[must_use]
pub fn accepted_without(block: &Block, refused: &BTreeSet<u128>) -> Vec<RecordBatch> {
    let accepted = block.accepted();
    let mut rows = Vec::new();
    let mut start = 0;
    if !refused.is_empty() {
        let columns = block.columns();
        for row in 0..accepted.num_rows() {
            if refused.contains(&position(columns, row)) {
                rows.push(accepted.slice(start, row - start));
                start = row + 1;
            }
        }
    }
    rows.push(accepted.slice(start, accepted.num_rows() - start));
    rows.retain(|rows| rows.num_rows() > 0);
    rows
}

/// Inserts accepted rows, as the shard's writer if `epoch` is given, and returns those that the
/// table refuses.
///
/// # Errors
/// [`WarehouseError`]: a failure that must pass, or be put right by a person, first.
pub async fn insert_accepted(
    warehouse: &Warehouse,
    rows: Vec<RecordBatch>,
    epoch: Option<&WriterEpoch>,
) -> Result<Vec<RefusedRow>, WarehouseError> {
    let mut parts = vec![RowPart { rows, tried: false }];
    let mut refused = Vec::new();
    while let Some(part) = parts.pop() {
        let Err(error) = warehouse.insert_accepted(&part.rows, epoch).await else {
            continue;
        };
        if error.remedy() != Remedy::Split {
            return Err(error);
        }
        if !error.is_about_rows() {
            // The error may be about something else: then the table accepts no insert at all.
            warehouse.accepts_receipts().await?;
        }
        let tried = part.tried;
        if count(&part.rows) > 1 {
            metrics::counter!("receipts_writer_splits_total").increment(1);
            let (left, right) = halves(&part.rows);
            parts.extend([right, left].map(|rows| RowPart { rows, tried: false }));
        } else if !tried {
            // A damaged transfer may look like a bad row: it is one only when it is refused twice.
            parts.push(RowPart { tried: true, ..part });
        } else if let Some(row) = part.rows.into_iter().next() {
            refused.push(RefusedRow {
                row,
                message: error.to_string(),
            });
        }
    }
    Ok(refused)
}

/// Inserts rejected rows, in halves where they are too many for one insert.
///
/// # Errors
/// [`WarehouseError`]: a failure that must pass, or be put right by a person, first.
pub async fn insert_rejections(
    warehouse: &Warehouse,
    rows: Vec<RecordBatch>,
    epoch: Option<&WriterEpoch>,
) -> Result<(), WarehouseError> {
    let mut parts = vec![rows];
    while let Some(rows) = parts.pop() {
        match warehouse.insert_rejections(&rows, epoch).await {
            Ok(()) => {}
            Err(error) if error.remedy() == Remedy::Split && count(&rows) > 1 => {
                let (left, right) = halves(&rows);
                parts.extend([right, left]);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The rejected rows of refused ones.
pub fn as_rejected(refused: &[RefusedRow]) -> Result<Vec<RecordBatch>, BlockError> {
    let mut rows = Rows::default();
    for RefusedRow { row, message } in refused {
        let columns = Columns::new(row)?;
        let end = (0..=message.len().min(DETAIL_BYTES_MAX))
            .rev()
            .find(|&end| message.is_char_boundary(end));
        let detail = format!("the warehouse refuses the row: {}", &message[..end.unwrap_or(0)]);
        rows.push_rejected(&RejectedRow {
            position: position(&columns, 0),
            reason: REFUSED_BY_WAREHOUSE,
            detail: &detail,
            publisher: columns.publisher.value(0),
            receipt_id: uuid(columns.receipt_id.value(0)),
            client_id: uuid(columns.client_id.value(0)),
            entry_id: uuid(columns.entry_id.value(0)),
            payload_hash: columns.payload_hash.value(0).try_into().unwrap_or(&[0; 32]),
            key_fingerprint: columns.key_fingerprint.value(0).try_into().unwrap_or(&[0; 32]),
            timestamp_ms: columns.timestamp.value(0),
            received_at_ms: columns.received_at.value(0),
            request_id: columns.request_id.value(0),
            client_address: columns.client_address.value(0),
            kind: columns.kind.value(0),
            raw: columns.raw.value(0),
            request_signature: columns.request_signature.value(0),
            origin: columns.origin.value(0),
            receipts: columns.receipts.value(0),
        });
    }
    let rejected = rows.rejected();
    let counts = ReceiptCounts {
        received: rejected,
        accepted: 0,
        rejected,
    };
    // A range that isn't empty, because it has rows.
    let source = SourceRange {
        end: SourceIndex { offset: 1, index: 0 },
        ..SourceRange::default()
    };
    let header = Header {
        version: blocks::VERSION,
        source,
        block: counts,
        ..Header::default()
    };
    Ok(vec![Block::decode(&rows.encode(header)?)?.rejected()])
}

/// A row's position in `receipts`.
#[must_use]
pub fn position(columns: &Columns, row: usize) -> u128 {
    columns.position.value(row).try_into().map_or(0, u128::from_le_bytes)
}

/// A UUID column's value.
#[must_use]
pub fn uuid(bytes: &[u8]) -> Uuid {
    Uuid::from_slice(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    /// A batch of rows at these positions.
    fn rows(positions: std::ops::Range<u128>) -> RecordBatch {
        let refused: Vec<_> = positions.map(refused).collect();
        as_rejected(&refused).unwrap().remove(0)
    }

    fn refused(position: u128) -> RefusedRow {
        let mut rows = Rows::default();
        rows.push_rejected(&RejectedRow {
            position,
            publisher: "news.example",
            timestamp_ms: 1,
            entry_id: Uuid::from_u128(1),
            receipt_id: Uuid::from_u128(2),
            payload_hash: &[3; 32],
            key_fingerprint: &[6; 32],
            received_at_ms: 4,
            client_id: Uuid::from_u128(5),
            request_id: "request",
            client_address: "192.0.2.1",
            kind: "batch",
            raw: b"{}",
            request_signature: "c2ln",
            origin: "signed_batch",
            reason: "malformed",
            detail: "",
            receipts: 1,
        });
        let counts = ReceiptCounts {
            received: 1,
            accepted: 0,
            rejected: 1,
        };
        let mut header = Header {
            version: blocks::VERSION,
            block: counts,
            ..Header::default()
        };
        header.source.end.offset = 1;
        RefusedRow {
            row: Block::decode(&rows.encode(header).unwrap()).unwrap().rejected(),
            message: format!("{}\u{fc}", "x".repeat(DETAIL_BYTES_MAX - 1)),
        }
    }

    fn positions(batches: &[RecordBatch]) -> Vec<u128> {
        let of_batch = |batch: &RecordBatch| {
            let columns = Columns::new(batch).unwrap();
            (0..batch.num_rows())
                .map(move |row| position(&columns, row))
                .collect::<Vec<_>>()
        };
        batches.iter().flat_map(of_batch).collect()
    }

    #[test]
    fn halves_have_all_rows_in_order_and_differ_by_at_most_one() {
        for sizes in [&[2][..], &[1, 1], &[5], &[1, 7, 2], &[3, 0, 3], &[100, 1]] {
            let mut next = 0;
            let batches: Vec<_> = sizes
                .iter()
                .filter(|size| **size > 0)
                .map(|size| {
                    next += size;
                    rows(next - size..next)
                })
                .collect();
            let (left, right) = halves(&batches);
            assert!(count(&right) - count(&left) <= 1 && count(&left) > 0, "{sizes:?}");
            assert_eq!(positions(&[left, right].concat()), (0..next).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_refused_row_is_rejected_with_its_own_members_and_the_message() {
        let rejected = as_rejected(&[refused(7), refused(9)]).unwrap();
        assert_eq!(positions(&rejected), [7, 9]);
        let columns = Columns::new(&rejected[0]).unwrap();
        assert_eq!(columns.reason.value(1), REFUSED_BY_WAREHOUSE);
        assert_eq!(columns.publisher.value(1), "news.example");
        assert_eq!(columns.key_fingerprint.value(1), [6; 32]);
        assert_eq!(uuid(columns.receipt_id.value(1)), Uuid::from_u128(2));
        assert_eq!(
            (columns.kind.value(1), columns.origin.value(1)),
            ("batch", "signed_batch")
        );
        assert_eq!(
            (columns.raw.value(1), columns.request_signature.value(1)),
            (&b"{}"[..], "c2ln")
        );
        let detail = columns.detail.value(1);
        assert!(detail.ends_with('x'), "cut between characters");
        assert!(detail.starts_with("the warehouse refuses the row: xxx"));
    }
}
