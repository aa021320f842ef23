//! Counting: which receipts of a batch are new, and the rows of `usage` that count them.
//!
//! A receipt is identified by its payload's hash, which covers publisher, entry, receipt ID and
//! timestamp. Its counted row has the hash's first 16 bytes and the timestamp's second, by which
//! counted rows are ordered. Repeating any part of this adds nothing: the lookup finds what is
//! stored, and a receipt's rows are stored together or not at all.

use std::collections::HashSet;
use std::collections::hash_map::{Entry, HashMap};

use arrow_array::RecordBatch;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use blocks::{BlockError, Columns};
use warehouse::{SqlStatement, Warehouse, WarehouseError, WriterEpoch};

use crate::counted_key::{CountedKey, NewReceipt};
use crate::rows::{rows, text_bytes_of};
use crate::{Grain, Usage};

/// Keys of one lookup: with 27 characters each they stay below the server's limit of 128 KiB for
/// a parameter.
const LOOKUP_KEYS_MAX: usize = 4_000;
/// Receipts of one insert.
const INSERT_RECEIPTS_MAX: usize = 20_000;
/// Rows of a receipt: one of each grain.
const ROWS_PER_RECEIPT: u64 = Grain::ALL.len() as u64;
/// Bytes of texts in one insert.
const INSERT_TEXT_BYTES_MAX: usize = 16 << 20;
/// Bytes of a key in a lookup.
const KEY_BYTES: usize = 20;

/// Receipts of some batches that may have to be counted, each once.
#[derive(Debug)]
pub struct NewReceipts {
    batches: Vec<Columns>,
    receipts: Vec<NewReceipt>,
}

impl NewReceipts {
    /// Receipts of these batches of accepted rows. Of several occurrences the one that arrived
    /// first counts: its stamp is the one that `receipts` keeps.
    ///
    /// # Errors
    /// The batches don't have the columns of verdicts.
    pub fn of(accepted: &[RecordBatch]) -> Result<Self, BlockError> {
        let batches = accepted.iter().map(Columns::new).collect::<Result<Vec<_>, _>>()?;
        let count = accepted.iter().map(RecordBatch::num_rows).sum();
        let mut seen = HashMap::with_capacity(count);
        let mut receipts: Vec<NewReceipt> = Vec::with_capacity(count);
        let stamp = |receipt: &NewReceipt| {
            let columns = &batches[receipt.batch];
            (
                columns.received_at.value(receipt.row),
                columns.operator.value(receipt.row),
                columns.publisher_verified.value(receipt.row),
            )
        };
        for (batch, columns) in batches.iter().enumerate() {
            for row in 0..columns.timestamp.len() {
                let key = counted_key(columns, row);
                let receipt = NewReceipt { key, batch, row };
                match seen.entry(key) {
                    Entry::Vacant(entry) => {
                        entry.insert(receipts.len());
                        receipts.push(receipt);
                    }
                    Entry::Occupied(entry) => {
                        let earlier = &mut receipts[*entry.get()];
                        if stamp(&receipt) < stamp(earlier) {
                            *earlier = receipt;
                        }
                    }
                }
            }
        }
        Ok(Self { batches, receipts })
    }

    /// Keys to look up.
    #[must_use]
    pub fn keys(&self) -> Vec<CountedKey> {
        self.receipts.iter().map(|receipt| receipt.key).collect()
    }

    /// Receipts without those that are counted.
    #[must_use]
    pub fn without(mut self, counted: &HashSet<CountedKey>) -> Self {
        if !counted.is_empty() {
            self.receipts.retain(|receipt| !counted.contains(&receipt.key));
        }
        self
    }

    /// Number of receipts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.receipts.len()
    }

    /// Whether there is nothing to count.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.receipts.is_empty()
    }

    /// Rows of `usage` that count the receipts: a batch for each insert, in the table's order.
    /// Inserts have at most `insert_rows_max` rows, but those of one receipt.
    pub fn rows(&self, insert_rows_max: u64) -> Result<Vec<RecordBatch>, WarehouseError> {
        let receipts_max = usize::try_from(insert_rows_max / ROWS_PER_RECEIPT).unwrap_or(usize::MAX);
        let receipts_max = receipts_max.clamp(1, INSERT_RECEIPTS_MAX);
        let mut inserts = Vec::new();
        let mut start = 0;
        let mut text_bytes = 0;
        for (end, receipt) in self.receipts.iter().enumerate() {
            let bytes = text_bytes_of(&self.batches[receipt.batch], receipt.row);
            if end - start == receipts_max || text_bytes + bytes > INSERT_TEXT_BYTES_MAX {
                inserts.push(rows(&self.batches, &self.receipts[start..end])?);
                (start, text_bytes) = (end, 0);
            }
            text_bytes += bytes;
        }
        if start < self.receipts.len() {
            inserts.push(rows(&self.batches, &self.receipts[start..])?);
        }
        Ok(inserts)
    }
}

fn counted_key(columns: &Columns, row: usize) -> CountedKey {
    let mut hash = [0; 16];
    hash.copy_from_slice(&columns.payload_hash.value(row)[..16]);
    let second = columns.timestamp.value(row).div_euclid(1_000);
    CountedKey {
        second: u32::try_from(second).unwrap_or(0),
        hash,
    }
}

impl Usage {
    /// Looks up which of these keys are counted.
    pub async fn counted(&self, keys: &[CountedKey]) -> Result<HashSet<CountedKey>, WarehouseError> {
        let mut counted = HashSet::new();
        for keys in keys.chunks(LOOKUP_KEYS_MAX) {
            let mut bytes = Vec::with_capacity(keys.len() * KEY_BYTES);
            for key in keys {
                bytes.extend_from_slice(&key.second.to_le_bytes());
                bytes.extend_from_slice(&key.hash);
            }
            let call = SqlStatement::new(
                "WITH base64Decode({keys:String}) AS bytes
                 SELECT time, reinterpretAsUInt128(key) FROM usage
                 WHERE grain = 'counted' AND reverse(publisher) = '' AND (time, key) IN (
                    SELECT reinterpretAsUInt32(substring(bytes, 20 * number + 1, 4)),
                        toFixedString(substring(bytes, 20 * number + 5, 16), 16)
                    FROM (SELECT arrayJoin(range({count:UInt32})) AS number))
                 GROUP BY time, key HAVING sum(receipts) > 0",
            )
            .with("keys", STANDARD.encode(&bytes))
            .with("count", u32::try_from(keys.len()).unwrap_or(u32::MAX));
            let found: Vec<(u32, u128)> = self.warehouse.rows("usage_counted", call).await?;
            counted.extend(found.into_iter().map(|(second, hash)| CountedKey {
                second,
                hash: hash.to_le_bytes(),
            }));
        }
        Ok(counted)
    }

    /// Inserts rows of [`NewReceipts::rows`], as the shard's writer if `epoch` is given. Each batch
    /// is stored as a whole or not at all. After an unknown result, look the keys up again before
    /// another attempt.
    pub async fn insert(&self, rows: &[RecordBatch], epoch: Option<&WriterEpoch>) -> Result<(), WarehouseError> {
        for batch in rows {
            let batch = std::slice::from_ref(batch);
            self.warehouse.insert_arrow("usage", batch, epoch).await?;
        }
        Ok(())
    }

    /// Stores accepted rows of verdicts and counts those that are new; how many were new. For
    /// processes that are the only writer.
    pub async fn insert_counted(&self, accepted: &[RecordBatch]) -> Result<usize, WarehouseError> {
        self.warehouse.insert_accepted(accepted, None).await?;
        let new = NewReceipts::of(accepted).map_err(|_| WarehouseError::BadRows("they aren't columns of verdicts"))?;
        let counted = self.counted(&new.keys()).await?;
        let new = new.without(&counted);
        let (rows_max, _) = self.warehouse.insert_limits();
        self.insert(&new.rows(rows_max)?, None).await?;
        Ok(new.len())
    }

    /// The warehouse that holds the table.
    #[must_use]
    pub fn warehouse(&self) -> &Warehouse {
        &self.warehouse
    }
}
