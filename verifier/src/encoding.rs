//! Verdicts to records of the log `verdicts`: plain functions, run on the CPU pool.

use std::collections::BTreeMap;

use accounts::ShardMap;
use blocks::{AcceptedRow, BlockError, Header, ReceiptCounts, RejectedRow, Rows, SourceIndex, SourceRange};
use receipt::{Origin, RejectReason};
use receipt_log::Record;
use tokio::time::Instant;
use uuid::Uuid;

use crate::assignment::{AppendClaim, Settled};
use crate::judging::{BATCH, JudgedPartition, JudgedRows, ReceiptStamp, SourceRecord};
use crate::rejection_cap::{Candidate, RejectionCap};
use crate::rejections::Tallies;
use crate::stamping::StampedBlock;
use crate::traces::Traces;

/// Settings and names that every header needs.
#[derive(Debug, Clone)]
pub struct EncodingSettings {
    /// The name of this process.
    pub verifier: String,
    /// Values of one range, in bytes: further ranges are begun beyond. One source record always
    /// fits whole.
    pub record_bytes_max: usize,
}

/// Verdicts on one partition's records, ready to be appended.
#[derive(Debug)]
pub struct EncodedPartition {
    /// The claim under which the records were polled.
    pub claim: AppendClaim,
    /// The epoch of the log `receipts`.
    pub epoch: u32,
    /// The ranges of source records. Each has a record in every shard.
    pub ranges: Vec<SourceRange>,
    /// The shard, and what is appended to its partition of `verdicts`.
    pub records: Vec<(u32, Record)>,
    /// Source records.
    pub source_records: u64,
    /// Receipts in them.
    pub counts: ReceiptCounts,
    /// When the last source record was appended to `receipts`.
    pub complete_through_ms: i64,
}

/// A block that can be appended.
#[derive(Debug)]
#[must_use = "verdicts must be appended"]
pub struct EncodedBlock {
    /// At most one element per partition.
    pub partitions: Vec<EncodedPartition>,
    /// Rejections by reason.
    pub reasons: BTreeMap<&'static str, u64>,
    /// Outcomes by client, as the receipts state it.
    pub clients: Tallies,
    /// When the first record was polled.
    pub opened: Instant,
    /// The traces of its requests.
    pub traces: Traces,
}

impl EncodedBlock {
    /// A block without records.
    pub fn empty(opened: Instant) -> Self {
        Self {
            partitions: Vec::new(),
            reasons: BTreeMap::new(),
            clients: Tallies::default(),
            opened,
            traces: Traces::default(),
        }
    }
}

/// Encodes a block. `source_partitions` is the number of partitions of `receipts`; `cap` decides
/// which rejections are stored with their bytes.
///
/// # Errors
/// [`BlockError`]: rows of one source record that no Arrow column can hold (2 GiB of text).
pub fn encode(
    encoding: &EncodingSettings,
    shard_map: &ShardMap,
    block: StampedBlock,
    source_partitions: u32,
    cap: &mut RejectionCap,
) -> Result<EncodedBlock, BlockError> {
    let mut encoded = EncodedBlock::empty(block.0.opened);
    encoded.traces = block.0.traces;
    for part in block.0.partitions {
        let mut encoder = PartitionEncoder::new(encoding, shard_map, source_partitions, &part);
        for rows in &part.rows {
            encoder.add(rows, cap, &mut encoded)?;
        }
        encoder.close(encoder.next_offset)?;
        encoded.partitions.push(encoder.done);
    }
    Ok(encoded)
}

/// Records without rows, which say that a partition has no more records than these.
pub fn idle(
    encoding: &EncodingSettings,
    shard_map: &ShardMap,
    settled: &Settled,
    source_partitions: u32,
    complete_through_ms: i64,
) -> Result<EncodedPartition, BlockError> {
    let mut encoder = PartitionEncoder {
        encoding,
        shard_map,
        source_partitions,
        epoch: settled.epoch,
        open: open(shard_map),
        open_bytes: 0,
        first_offset: settled.next_offset,
        next_offset: settled.next_offset,
        first_appended_at_ms: complete_through_ms,
        last_appended_at_ms: complete_through_ms,
        done: EncodedPartition::empty(settled.claim, settled.epoch),
    };
    encoder.close(settled.next_offset)?;
    Ok(encoder.done)
}

impl EncodedPartition {
    fn empty(claim: AppendClaim, epoch: u32) -> Self {
        Self {
            claim,
            epoch,
            ranges: Vec::new(),
            records: Vec::new(),
            source_records: 0,
            counts: ReceiptCounts::default(),
            complete_through_ms: 0,
        }
    }

    /// Offset behind the last source record.
    #[must_use]
    pub fn next_offset(&self) -> u64 {
        self.ranges.last().map_or(0, |range| range.end.offset)
    }
}

struct PartitionEncoder<'a> {
    encoding: &'a EncodingSettings,
    shard_map: &'a ShardMap,
    source_partitions: u32,
    epoch: u32,
    /// Rows of the open range, by shard.
    open: Vec<Rows>,
    /// Bytes of their columns.
    open_bytes: usize,
    first_offset: u64,
    next_offset: u64,
    first_appended_at_ms: i64,
    last_appended_at_ms: i64,
    done: EncodedPartition,
}

impl<'a> PartitionEncoder<'a> {
    fn new(
        encoding: &'a EncodingSettings,
        shard_map: &'a ShardMap,
        source_partitions: u32,
        part: &JudgedPartition,
    ) -> Self {
        let first = part.rows.iter().flat_map(|rows| &rows.records).next();
        let first_offset = first.map_or(0, |record| record.offset);
        let appended_at_ms = first.map_or(0, |record| record.appended_at_ms);
        Self {
            encoding,
            shard_map,
            source_partitions,
            epoch: part.epoch,
            open: open(shard_map),
            open_bytes: 0,
            first_offset,
            next_offset: first_offset,
            first_appended_at_ms: appended_at_ms,
            last_appended_at_ms: appended_at_ms,
            done: EncodedPartition::empty(part.claim, part.epoch),
        }
    }

    /// Adds records behind those so far.
    fn add(&mut self, rows: &JudgedRows, cap: &mut RejectionCap, block: &mut EncodedBlock) -> Result<(), BlockError> {
        let (mut accepted, mut rejected) = (0, 0);
        for record in &rows.records {
            let stamps = &rows.stamps[accepted..accepted + record.accepted];
            self.begin(record, stamps)?;
            let mut counted = OnlyCounted::new();
            for (row, stamp) in (accepted..).zip(stamps) {
                let row = rows.accepted.accepted_row(row);
                if let Some((reason, detail)) = &stamp.rejection {
                    let row = RejectedRow {
                        timestamp_ms: 0,
                        ..row.as_rejected(reason.as_str(), detail)
                    };
                    self.reject(row, cap, &mut counted, block);
                } else {
                    block.clients.accepted(row.client_id);
                    let shard = self.shard(row.publisher, row.timestamp_ms, row.receipt_id);
                    self.open[shard].push_accepted(&AcceptedRow {
                        operator: stamp.operator.as_deref().unwrap_or_default(),
                        publisher_verified: stamp.publisher_verified,
                        ..row
                    });
                }
            }
            for row in rejected..rejected + record.rejected {
                self.reject(rows.rejected.rejected_row(row), cap, &mut counted, block);
            }
            for ((shard, ..), (first, receipts)) in counted {
                self.open[shard].push_rejected(&only_counted(first, receipts));
            }
            accepted += record.accepted;
            rejected += record.rejected;
        }
        Ok(())
    }

    /// Takes a record into the open range, or into a new one if its rows don't fit there.
    fn begin(&mut self, record: &SourceRecord, stamps: &[ReceiptStamp]) -> Result<(), BlockError> {
        let operators = stamps.iter().filter_map(|stamp| stamp.operator.as_deref());
        let bytes = record.bytes + operators.map(str::len).sum::<usize>();
        if self.open_bytes > 0 && self.open_bytes + bytes > self.encoding.record_bytes_max {
            self.close(record.offset)?;
            self.first_appended_at_ms = record.appended_at_ms;
        }
        self.open_bytes += bytes;
        self.last_appended_at_ms = record.appended_at_ms;
        self.done.source_records += 1;
        self.next_offset = record.offset + 1;
        Ok(())
    }

    /// Adds a rejected receipt's row, or counts it if its bytes aren't stored. Its own timestamp
    /// isn't known to be true, so the instant of its receipt decides the shard.
    fn reject<'r>(
        &mut self,
        row: RejectedRow<'r>,
        cap: &mut RejectionCap,
        counted: &mut OnlyCounted<'r>,
        block: &mut EncodedBlock,
    ) {
        block
            .clients
            .rejected(Some(row.client_id).filter(|client| !client.is_nil()));
        let reason = row.reason.parse().map_or("", RejectReason::as_str);
        *block.reasons.entry(reason).or_insert(0) += 1;
        let shard = self.shard(row.publisher, row.received_at_ms, row.receipt_id);
        if is_stored(&row, cap) {
            self.open[shard].push_rejected(&row);
        } else {
            let group = (shard, row.key_fingerprint, row.publisher, row.reason);
            counted.entry(group).or_insert((row, 0)).1 += 1;
        }
    }

    /// The index of a receipt's shard.
    fn shard(&self, publisher: &str, at_ms: i64, receipt_id: Uuid) -> usize {
        self.shard_map.shard(publisher, at_ms, receipt_id) as usize
    }

    /// Ends the open range before `next_offset`: a record for each shard.
    fn close(&mut self, next_offset: u64) -> Result<(), BlockError> {
        let shards = std::mem::replace(&mut self.open, open(self.shard_map));
        self.open_bytes = 0;
        let accepted = shards.iter().map(|rows| rows.accepted() as u64).sum();
        let rejected = shards.iter().map(Rows::rejected).sum();
        let counts = ReceiptCounts {
            received: accepted + rejected,
            accepted,
            rejected,
        };
        let range = SourceRange {
            epoch: self.epoch,
            partition: self.done.claim.partition,
            first: SourceIndex {
                offset: self.first_offset,
                index: 0,
            },
            end: SourceIndex {
                offset: next_offset,
                index: 0,
            },
        };
        for (shard, rows) in (0..).zip(shards) {
            let header = Header {
                version: blocks::VERSION,
                source: range,
                source_partitions: self.source_partitions,
                shard,
                shards: self.shard_map.shards(),
                shard_map_version: self.shard_map.version(),
                shard_map: self.shard_map.hash(),
                first_appended_at_ms: self.first_appended_at_ms,
                complete_through_ms: self.last_appended_at_ms,
                block: counts,
                // Set from the rows.
                shard_counts: ReceiptCounts::default(),
                verifier: self.encoding.verifier.clone(),
            };
            let record = Record::verdicts(rows.encode(header)?, service::instant::now_ms());
            self.done.records.push((shard, record));
        }
        let done = &mut self.done;
        done.ranges.push(range);
        done.counts.received += counts.received;
        done.counts.accepted += counts.accepted;
        done.counts.rejected += counts.rejected;
        done.complete_through_ms = self.last_appended_at_ms;
        self.first_offset = next_offset;
        Ok(())
    }
}

/// Empty rows for each shard.
fn open(shard_map: &ShardMap) -> Vec<Rows> {
    (0..shard_map.shards()).map(|_| Rows::default()).collect()
}

/// Rejected receipts of one record whose bytes aren't stored: by shard, key, publisher and reason,
/// the first one's row and their number.
type OnlyCounted<'a> = BTreeMap<(usize, &'a [u8; 32], &'a str, &'a str), (RejectedRow<'a>, u32)>;

/// Whether a rejected receipt is stored with its bytes. A batch that is rejected as a whole always
/// is: its one row says that its receipts weren't judged. The gateway refuses such batches.
fn is_stored(row: &RejectedRow<'_>, cap: &mut RejectionCap) -> bool {
    let is_whole_batch = row.kind == BATCH && row.origin == Origin::Record.as_str();
    is_whole_batch
        || cap.keeps(&Candidate {
            key_fingerprint: row.key_fingerprint,
            address: row.client_address.parse().ok(),
            publisher: row.publisher,
            bytes: row.raw.len(),
            received_at_ms: row.received_at_ms,
        })
}

/// The row of rejected receipts that are only counted, with what they have in common.
fn only_counted(first: RejectedRow<'_>, receipts: u32) -> RejectedRow<'_> {
    RejectedRow {
        detail: "only counted, without bytes and receiptId: more is rejected today than \
                 verifier.rejected_stored_per_day_max (of a key and publisher) or \
                 verifier.rejected_bytes_per_day_max (of all senders) lets be stored",
        receipt_id: Uuid::nil(),
        client_id: Uuid::nil(),
        entry_id: Uuid::nil(),
        payload_hash: &[0; 32],
        raw: &[],
        origin: blocks::NOT_STORED,
        receipts,
        ..first
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use accounts::ShardMapEntry;
    use blocks::Block;
    use bytes::Bytes;
    use receipt_log::{LoggedRecord, Position};

    use super::*;
    use crate::judging::{JudgedBlock, RowsOfRecords};

    const CLAIM: AppendClaim = AppendClaim {
        partition: 3,
        number: 1,
    };

    /// A record and the rows of its receipts, all rejected.
    type Source = (LoggedRecord, Vec<RejectedRow<'static>>);

    /// A record of which each receipt is rejected with so many bytes.
    fn judged(offset: u64, receipts: u16, bytes: usize) -> Source {
        let logged = LoggedRecord {
            position: Position {
                epoch: 7,
                partition: 3,
                offset,
            },
            appended_at_ms: 1_000 + i64::try_from(offset).unwrap(),
            record: Record::verdicts(Bytes::new(), 0),
        };
        let row = |index| RejectedRow {
            position: logged.position.receipt(index),
            raw: &[b'x'; 4_000][..bytes],
            origin: "record",
            ..AcceptedRow::default().as_rejected("malformed", "")
        };
        let rows = (0..receipts).map(row).collect();
        (logged, rows)
    }

    fn encoding(record_bytes_max: usize) -> EncodingSettings {
        EncodingSettings {
            verifier: "test".to_owned(),
            record_bytes_max,
        }
    }

    fn block(records: Vec<Source>) -> StampedBlock {
        let mut judged = RowsOfRecords::default();
        for (logged, receipts) in records {
            let mut rows = Rows::default();
            receipts.iter().for_each(|row| rows.push_rejected(row));
            judged.add(&logged, vec![rows]);
        }
        StampedBlock(JudgedBlock {
            traces: Traces::default(),
            partitions: vec![JudgedPartition {
                claim: CLAIM,
                epoch: 7,
                rows: vec![judged.finish().unwrap()],
            }],
            opened: Instant::now(),
        })
    }

    fn encoded(record_bytes_max: usize, records: Vec<Source>) -> EncodedPartition {
        let mut cap = RejectionCap::new(1_000, u64::MAX);
        let settings = encoding(record_bytes_max);
        let encoded = encode(&settings, &ShardMap::default(), block(records), 12, &mut cap);
        encoded.unwrap().partitions.remove(0)
    }

    /// First and end offset, receipts and instant of each record.
    fn summary(part: &EncodedPartition) -> Vec<(u64, u64, u64, i64)> {
        let header = |(_, record): &(u32, Record)| Block::decode(&record.body).unwrap().header;
        let headers: Vec<_> = part.records.iter().map(header).collect();
        assert_eq!(
            headers.iter().map(|header| header.source).collect::<Vec<_>>(),
            part.ranges
        );
        assert!(
            headers
                .iter()
                .all(|header| (header.source.epoch, header.source.partition) == (7, 3))
        );
        assert!(
            headers
                .iter()
                .all(|header| header.source_partitions == 12 && header.verifier == "test")
        );
        let ranges = headers.iter().map(|header| {
            let source = &header.source;
            (
                source.first.offset,
                source.end.offset,
                header.block.received,
                header.complete_through_ms,
            )
        });
        ranges.collect()
    }

    #[test]
    fn records_are_cut_between_source_records_only() {
        let small = encoded(1 << 20, vec![judged(5, 1, 10), judged(6, 3, 10)]);
        assert_eq!(summary(&small), [(5, 7, 4, 1_006)]);
        assert_eq!(
            (small.source_records, small.counts.rejected, small.next_offset()),
            (2, 4, 7)
        );
        let large = encoded(
            5_000,
            vec![
                judged(5, 1, 10),
                judged(6, 3, 4_000),
                judged(7, 1, 10),
                judged(8, 1, 10),
            ],
        );
        assert_eq!(summary(&large), [(5, 6, 1, 1_005), (6, 7, 3, 1_006), (7, 9, 2, 1_008)]);
        assert_eq!((large.complete_through_ms, large.epoch), (1_008, 7));
    }

    #[test]
    fn every_shard_has_a_record_of_every_range() {
        let map = ShardMap::new(vec![ShardMapEntry {
            version: 1,
            from_day: 0,
            shards: 3,
            splits: BTreeMap::new(),
        }])
        .unwrap();
        let publishers = ["a.example", "b.example", "c.example", "d.example"];
        let mut records = vec![judged(5, 4, 10), judged(6, 2, 4_000)];
        for (row, publisher) in records[0].1.iter_mut().zip(publishers) {
            row.publisher = publisher;
        }
        let mut cap = RejectionCap::new(1_000, u64::MAX);
        let encoded = encode(&encoding(2_000), &map, block(records), 12, &mut cap).unwrap();
        let part = &encoded.partitions[0];
        assert_eq!((part.ranges.len(), part.records.len(), part.counts.rejected), (2, 6, 6));
        let mut rows = [0; 3];
        for ((shard, record), (range, expected)) in part.records.iter().zip((0..6).map(|n| (n / 3, n % 3))) {
            let header = Block::decode(&record.body).unwrap().header;
            assert_eq!(
                (*shard, header.shard, header.source),
                (expected, expected, part.ranges[range as usize])
            );
            assert_eq!(
                (header.shards, header.shard_map_version, header.shard_map),
                (3, 1, map.hash())
            );
            assert_eq!(header.block.received, [4, 2][range as usize]);
            rows[expected as usize] += header.shard_counts.received;
        }
        let mut expected = [0; 3];
        for publisher in publishers.iter().chain(&["", ""]) {
            expected[map.shard(publisher, 0, uuid::Uuid::nil()) as usize] += 1;
        }
        assert_eq!(rows, expected);
        assert!(rows.iter().filter(|rows| **rows > 0).count() > 1, "{rows:?}");
    }

    #[test]
    fn an_idle_record_is_an_empty_range_at_the_end() {
        let settled = Settled {
            claim: CLAIM,
            epoch: 7,
            next_offset: 9,
            complete_through_ms: 100,
            idle_at: None,
        };
        let part = idle(&encoding(1), &ShardMap::default(), &settled, 12, 200).unwrap();
        assert_eq!(summary(&part), [(9, 9, 0, 200)]);
        assert_eq!(
            (part.next_offset(), part.source_records, part.counts),
            (9, 0, ReceiptCounts::default())
        );
    }

    #[test]
    fn outcomes_are_counted_by_reason() {
        let block = block(vec![judged(0, 2, 1), judged(1, 1, 1)]);
        let mut cap = RejectionCap::new(1, u64::MAX);
        let encoded = encode(&encoding(1_000), &ShardMap::default(), block, 1, &mut cap).unwrap();
        assert_eq!(encoded.reasons, BTreeMap::from([("malformed", 3)]));
    }

    #[test]
    fn rejections_beyond_the_cap_are_one_row_of_their_record() {
        let mut records = vec![judged(5, 4, 10), judged(6, 3, 10), judged(7, 1, 10)];
        for (record, publishers) in records
            .iter_mut()
            .zip([&["a", "b", "a", "a"][..], &["a", "b", "a"], &["a"]])
        {
            for (row, publisher) in record.1.iter_mut().zip(publishers) {
                row.kind = BATCH;
                row.publisher = publisher;
                row.origin = "signed_batch";
                row.key_fingerprint = &[9; 32];
            }
        }
        // A batch that was rejected as a whole.
        records[2].1[0].origin = "record";
        let mut cap = RejectionCap::new(2, u64::MAX);
        let encoded = encode(&encoding(1 << 20), &ShardMap::default(), block(records), 1, &mut cap).unwrap();
        assert_eq!(encoded.reasons, BTreeMap::from([("malformed", 8)]));
        let block = Block::decode(&encoded.partitions[0].records[0].1.body).unwrap();
        assert_eq!(
            (block.header.block.rejected, encoded.partitions[0].counts.rejected),
            (8, 8)
        );
        let columns = block.columns();
        let rows: Vec<_> = (0..block.rejected().num_rows())
            .map(|row| {
                let position = u128::from_le_bytes(columns.position.value(row).try_into().unwrap());
                (
                    u16::try_from((position >> 16) & 0xffff).unwrap(),
                    u16::try_from(position & 0xffff).unwrap(),
                    columns.publisher.value(row).to_owned(),
                    columns.origin.value(row).to_owned(),
                    columns.raw.value(row).len(),
                    columns.receipts.value(row),
                )
            })
            .collect();
        let row = |offset, index, publisher: &str, origin: &str, bytes, receipts| {
            (offset, index, publisher.to_owned(), origin.to_owned(), bytes, receipts)
        };
        assert_eq!(
            rows,
            [
                row(5, 0, "a", "signed_batch", 10, 1),
                row(5, 1, "b", "signed_batch", 10, 1),
                row(5, 2, "a", "signed_batch", 10, 1),
                row(5, 3, "a", "not_stored", 0, 1),
                row(6, 1, "b", "signed_batch", 10, 1),
                row(6, 0, "a", "not_stored", 0, 2),
                row(7, 0, "a", "record", 10, 1),
            ]
        );
        assert!((0..7).all(|row| columns.key_fingerprint.value(row) == [9; 32]));
    }
}
