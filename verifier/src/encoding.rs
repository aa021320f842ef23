//! Verdicts to records of the log `verdicts`: plain functions, run on the CPU pool.

use std::collections::BTreeMap;

use accounts::ShardMap;
use blocks::{AcceptedRow, BlockError, Header, ReceiptCounts, RejectedRow, Rows, SourceIndex, SourceRange};
use receipt::Origin;
use receipt_log::{LoggedRecord, Record, RecordKind};
use tokio::time::Instant;

use crate::assignment::{AppendClaim, Settled};
use crate::judging::{AcceptedReceipt, JudgedPartition, JudgedRecord, ReceiptText, RejectedReceiptBytes, Verdict};
use crate::kept::{Candidate, KeptRejections};
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

/// Encodes a block. `source_partitions` is the number of partitions of `receipts`; `kept` decides
/// which rejections are stored with their bytes.
///
/// # Errors
/// [`BlockError`]: rows of one source record that no Arrow column can hold (2 GiB of text).
pub fn encode(
    encoding: &EncodingSettings,
    shard_map: &ShardMap,
    block: StampedBlock,
    source_partitions: u32,
    kept: &mut KeptRejections,
) -> Result<EncodedBlock, BlockError> {
    let mut encoded = EncodedBlock::empty(block.0.opened);
    encoded.traces = block.0.traces;
    for part in block.0.partitions {
        for verdict in part.records.iter().flat_map(|record| &record.verdicts) {
            match verdict {
                Verdict::Accepted(receipt) => encoded.clients.accepted(receipt.ids.client),
                Verdict::Rejected(receipt) => {
                    encoded
                        .clients
                        .rejected(Some(receipt.ids.client).filter(|client| !client.is_nil()));
                    *encoded.reasons.entry(receipt.reason.as_str()).or_insert(0) += 1;
                }
            }
        }
        let partition =
            PartitionEncoder::new(encoding, shard_map, source_partitions, &part).run(&part.records, kept)?;
        encoded.partitions.push(partition);
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
        first_offset: settled.next_offset,
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
    first_offset: u64,
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
        let first = part.records.first().map(|record| &record.logged);
        let epoch = first.map_or(0, |logged| logged.position.epoch);
        let appended_at_ms = first.map_or(0, |logged| logged.appended_at_ms);
        Self {
            encoding,
            shard_map,
            source_partitions,
            epoch,
            open: open(shard_map),
            first_offset: first.map_or(0, |logged| logged.position.offset),
            first_appended_at_ms: appended_at_ms,
            last_appended_at_ms: appended_at_ms,
            done: EncodedPartition::empty(part.claim, epoch),
        }
    }

    fn run(mut self, records: &[JudgedRecord], kept: &mut KeptRejections) -> Result<EncodedPartition, BlockError> {
        let mut next_offset = self.first_offset;
        for JudgedRecord { logged, verdicts } in records {
            let mut rows = open(self.shard_map);
            let mut not_kept = BTreeMap::new();
            for (index, verdict) in (0_u16..).zip(verdicts) {
                let shard = self.shard(logged, verdict);
                match verdict {
                    Verdict::Rejected(receipt) if !is_kept(logged, receipt, kept) => {
                        let group = (shard, receipt.key_fingerprint, &receipt.publisher, receipt.reason);
                        not_kept.entry(group).or_insert((index, 0_u32)).1 += 1;
                    }
                    _ => push(&mut rows[shard], logged, index, verdict),
                }
            }
            for ((shard, key_fingerprint, publisher, reason), (first, receipts)) in not_kept {
                let not_kept = RejectedReceiptBytes::not_kept(reason, publisher.clone(), key_fingerprint);
                push_rejected(&mut rows[shard], logged, first, &not_kept, receipts);
            }
            let is_begun = self.open.iter().any(|rows| !rows.is_empty());
            if is_begun && bytes(&self.open) + bytes(&rows) > self.encoding.record_bytes_max {
                self.close(logged.position.offset)?;
                self.first_appended_at_ms = logged.appended_at_ms;
            }
            for (open, rows) in self.open.iter_mut().zip(rows) {
                open.append(rows);
            }
            self.last_appended_at_ms = logged.appended_at_ms;
            self.done.source_records += 1;
            next_offset = logged.position.offset + 1;
        }
        self.close(next_offset)?;
        Ok(self.done)
    }

    /// The index of a verdict's shard. A rejected receipt's own timestamp isn't known to be true,
    /// so the instant of its receipt counts.
    fn shard(&self, logged: &LoggedRecord, verdict: &Verdict) -> usize {
        let (publisher, at_ms, receipt_id) = match verdict {
            Verdict::Accepted(receipt) => (
                receipt.texts.get(ReceiptText::Publisher),
                receipt.timestamp_ms,
                receipt.ids.receipt,
            ),
            Verdict::Rejected(receipt) => (
                receipt.publisher.as_str(),
                logged.record.received_at_ms,
                receipt.ids.receipt,
            ),
        };
        self.shard_map.shard(publisher, at_ms, receipt_id) as usize
    }

    /// Ends the open range before `next_offset`: a record for each shard.
    fn close(&mut self, next_offset: u64) -> Result<(), BlockError> {
        let shards = std::mem::replace(&mut self.open, open(self.shard_map));
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

fn bytes(shards: &[Rows]) -> usize {
    shards.iter().map(Rows::bytes).sum()
}

fn push(rows: &mut Rows, logged: &LoggedRecord, index: u16, verdict: &Verdict) {
    match verdict {
        Verdict::Accepted(receipt) => rows.push_accepted(&accepted_row(logged, index, receipt, &address(logged))),
        Verdict::Rejected(receipt) => push_rejected(rows, logged, index, receipt, 1),
    }
}

fn address(logged: &LoggedRecord) -> String {
    logged
        .record
        .client_address
        .map_or_else(String::new, |address| address.to_string())
}

/// Adds a row that counts so many receipts, of which the first has the index.
fn push_rejected(rows: &mut Rows, logged: &LoggedRecord, index: u16, receipt: &RejectedReceiptBytes, receipts: u32) {
    rows.push_rejected(&rejected_row(logged, index, receipt, receipts, &address(logged)));
}

/// Whether a rejected receipt is stored with its bytes. A batch that is rejected as a whole always
/// is: its one row says that its receipts weren't judged. The gateway refuses such batches.
fn is_kept(logged: &LoggedRecord, receipt: &RejectedReceiptBytes, kept: &mut KeptRejections) -> bool {
    let is_whole_batch = logged.record.kind == RecordKind::Batch && receipt.origin == Origin::Record.as_str();
    is_whole_batch
        || kept.keeps(&Candidate {
            key_fingerprint: &receipt.key_fingerprint,
            address: logged.record.client_address,
            publisher: &receipt.publisher,
            bytes: receipt.raw.len(),
            received_at_ms: logged.record.received_at_ms,
        })
}

fn kind(logged: &LoggedRecord) -> &'static str {
    match logged.record.kind {
        RecordKind::Batch => "batch",
        RecordKind::Receipt | RecordKind::Verdicts => "receipt",
    }
}

fn accepted_row<'a>(
    logged: &'a LoggedRecord,
    index: u16,
    receipt: &'a AcceptedReceipt,
    client_address: &'a str,
) -> AcceptedRow<'a> {
    let text = |text| receipt.texts.get(text);
    let batch = receipt.batch.as_deref();
    AcceptedRow {
        position: logged.position.receipt(index),
        publisher: text(ReceiptText::Publisher),
        timestamp_ms: receipt.timestamp_ms,
        entry_id: receipt.ids.entry,
        receipt_id: receipt.ids.receipt,
        payload_hash: &receipt.payload_hash,
        received_at_ms: logged.record.received_at_ms,
        url: text(ReceiptText::Url),
        content_hash: &receipt.content_hash,
        client_id: receipt.ids.client,
        client_name: text(ReceiptText::ClientName),
        client_version: text(ReceiptText::ClientVersion),
        organization: text(ReceiptText::Organization),
        key_fingerprint: &receipt.key_fingerprint,
        algorithm: receipt.algorithm,
        purpose: receipt.purpose,
        context: text(ReceiptText::Context),
        dataset_id: text(ReceiptText::DatasetId),
        model_id: text(ReceiptText::ModelId),
        query_id: text(ReceiptText::QueryId),
        session_id: text(ReceiptText::SessionId),
        study_id: text(ReceiptText::StudyId),
        researcher_id: text(ReceiptText::ResearcherId),
        request_id: &logged.record.request_id,
        client_address,
        kind: kind(logged),
        raw: &receipt.raw,
        request_signature: logged.record.request_signature.as_deref().unwrap_or_default(),
        origin: receipt.origin,
        operator: receipt.operator.as_deref().unwrap_or_default(),
        batch_signature: batch.map_or(&[], |batch| &batch.signature),
        batch_hash: batch.map_or(&[0; 32], |batch| &batch.payload_hash),
        publisher_verified: receipt.publisher_verified,
    }
}

fn rejected_row<'a>(
    logged: &'a LoggedRecord,
    index: u16,
    receipt: &'a RejectedReceiptBytes,
    receipts: u32,
    client_address: &'a str,
) -> RejectedRow<'a> {
    RejectedRow {
        position: logged.position.receipt(index),
        reason: receipt.reason.as_str(),
        detail: &receipt.detail,
        publisher: &receipt.publisher,
        receipt_id: receipt.ids.receipt,
        client_id: receipt.ids.client,
        entry_id: receipt.ids.entry,
        payload_hash: &receipt.payload_hash,
        key_fingerprint: &receipt.key_fingerprint,
        timestamp_ms: 0,
        received_at_ms: logged.record.received_at_ms,
        request_id: &logged.record.request_id,
        client_address,
        kind: kind(logged),
        raw: &receipt.raw,
        request_signature: logged.record.request_signature.as_deref().unwrap_or_default(),
        origin: receipt.origin,
        receipts,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use accounts::ShardMapEntry;
    use blocks::Block;
    use bytes::Bytes;
    use receipt::RejectReason;
    use receipt_log::Position;

    use super::*;
    use crate::judging::{JudgedBlock, ReceiptIds};

    const CLAIM: AppendClaim = AppendClaim {
        partition: 3,
        number: 1,
    };

    /// A record of which each receipt is rejected with so many bytes.
    fn judged(offset: u64, receipts: usize, bytes: usize) -> JudgedRecord {
        let rejected = RejectedReceiptBytes {
            reason: RejectReason::Malformed,
            detail: String::new(),
            publisher: String::new(),
            ids: ReceiptIds::default(),
            payload_hash: [0; 32],
            key_fingerprint: [0; 32],
            raw: Bytes::from(vec![b'x'; bytes]),
            origin: "record",
        };
        JudgedRecord {
            logged: LoggedRecord {
                position: Position {
                    epoch: 7,
                    partition: 3,
                    offset,
                },
                appended_at_ms: 1_000 + i64::try_from(offset).unwrap(),
                record: Record::verdicts(Bytes::new(), 0),
            },
            verdicts: vec![Verdict::Rejected(Box::new(rejected)); receipts],
        }
    }

    fn encoded(record_bytes_max: usize, records: Vec<JudgedRecord>) -> EncodedPartition {
        let encoding = EncodingSettings {
            verifier: "test".to_owned(),
            record_bytes_max,
        };
        let block = JudgedBlock {
            traces: Traces::default(),
            partitions: vec![JudgedPartition { claim: CLAIM, records }],
            opened: Instant::now(),
        };
        let encoded = encode(
            &encoding,
            &ShardMap::default(),
            StampedBlock(block),
            12,
            &mut KeptRejections::new(1_000, u64::MAX),
        );
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
        for (verdict, publisher) in records[0].verdicts.iter_mut().zip(publishers) {
            let Verdict::Rejected(receipt) = verdict else { continue };
            receipt.publisher = publisher.to_owned();
        }
        let encoding = EncodingSettings {
            verifier: "test".to_owned(),
            record_bytes_max: 2_000,
        };
        let block = JudgedBlock {
            traces: Traces::default(),
            partitions: vec![JudgedPartition { claim: CLAIM, records }],
            opened: Instant::now(),
        };
        let encoded = encode(
            &encoding,
            &map,
            StampedBlock(block),
            12,
            &mut KeptRejections::new(1_000, u64::MAX),
        )
        .unwrap();
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
        let encoding = EncodingSettings {
            verifier: "test".to_owned(),
            record_bytes_max: 1,
        };
        let settled = Settled {
            claim: CLAIM,
            epoch: 7,
            next_offset: 9,
            complete_through_ms: 100,
            idle_at: None,
        };
        let part = idle(&encoding, &ShardMap::default(), &settled, 12, 200).unwrap();
        assert_eq!(summary(&part), [(9, 9, 0, 200)]);
        assert_eq!(
            (part.next_offset(), part.source_records, part.counts),
            (9, 0, ReceiptCounts::default())
        );
    }

    #[test]
    fn outcomes_are_counted_by_reason() {
        let encoding = EncodingSettings {
            verifier: "test".to_owned(),
            record_bytes_max: 1_000,
        };
        let records = vec![judged(0, 2, 1), judged(1, 1, 1)];
        let block = JudgedBlock {
            traces: Traces::default(),
            partitions: vec![JudgedPartition { claim: CLAIM, records }],
            opened: Instant::now(),
        };
        let encoded = encode(
            &encoding,
            &ShardMap::default(),
            StampedBlock(block),
            1,
            &mut KeptRejections::new(1, u64::MAX),
        )
        .unwrap();
        assert_eq!(encoded.reasons, BTreeMap::from([("malformed", 3)]));
    }

    #[test]
    fn rejections_beyond_the_cap_are_one_row_of_their_record() {
        let encoding = EncodingSettings {
            verifier: "test".to_owned(),
            record_bytes_max: 1 << 20,
        };
        let mut records = vec![judged(5, 4, 10), judged(6, 3, 10), judged(7, 1, 10)];
        for (record, publishers) in records
            .iter_mut()
            .zip([&["a", "b", "a", "a"][..], &["a", "b", "a"], &["a"]])
        {
            record.logged.record.kind = RecordKind::Batch;
            for (verdict, publisher) in record.verdicts.iter_mut().zip(publishers) {
                let Verdict::Rejected(receipt) = verdict else { continue };
                receipt.publisher = (*publisher).to_owned();
                receipt.origin = "signed_batch";
                receipt.key_fingerprint = [9; 32];
            }
        }
        // A batch that was rejected as a whole.
        if let Some(Verdict::Rejected(receipt)) = records[2].verdicts.first_mut() {
            receipt.origin = "record";
        }
        let block = JudgedBlock {
            traces: Traces::default(),
            partitions: vec![JudgedPartition { claim: CLAIM, records }],
            opened: Instant::now(),
        };
        let mut kept = KeptRejections::new(2, u64::MAX);
        let encoded = encode(&encoding, &ShardMap::default(), StampedBlock(block), 1, &mut kept).unwrap();
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
                row(5, 3, "a", "not_kept", 0, 1),
                row(6, 1, "b", "signed_batch", 10, 1),
                row(6, 0, "a", "not_kept", 0, 2),
                row(7, 0, "a", "record", 10, 1),
            ]
        );
        assert!((0..7).all(|row| columns.key_fingerprint.value(row) == [9; 32]));
    }
}
