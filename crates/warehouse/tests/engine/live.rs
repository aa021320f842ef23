//! New receipts between positions of `verdicts`: each one in exactly one link of any chain.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use uuid::Uuid;
use warehouse::{
    ARRIVALS_MAX, LedgerRow, PartitionProgress, QueryScope, ShardProgress, StreamPosition, Touched, VerdictsPosition,
    Warehouse,
};

use crate::harness::{NOON_MS, Receipt, fresh, insert, position, run, sql};

const HOUR_MS: i64 = 3_600_000;
/// Epoch of `verdicts`.
const EPOCH: u32 = 9;

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

/// Ledger of one shard, in the order of `verdicts`. A block is one record of `verdicts`.
#[derive(Default)]
struct Ledger(Vec<LedgerRow>);

impl Ledger {
    /// Appends a block of so many records of a partition of `receipts`.
    fn append(&mut self, (epoch, partition): (u32, u32), records: u64, touched: &[(i64, &str)]) {
        let offset = self.0.len() as u64;
        let same = |row: &&LedgerRow| (row.epoch, row.partition) == (epoch, partition);
        let first_offset = self
            .0
            .iter()
            .filter(same)
            .map(|row| row.last_offset + 1)
            .max()
            .unwrap_or(0);
        let mut hours = Touched::default();
        touched.iter().for_each(|(ms, publisher)| hours.add(*ms, publisher));
        self.0.push(LedgerRow {
            epoch,
            partition,
            first_offset,
            last_offset: first_offset + records - 1,
            records,
            receipts_in: records,
            accepted: records,
            rejected: 0,
            verifier: "v".to_owned(),
            committed_at_ms: now_ms(),
            shard: 0,
            verdicts: VerdictsPosition { epoch: EPOCH, offset },
            touched: hours,
        });
    }

    /// Progress behind the first blocks, of the newest epoch of `receipts` only, as the writer's.
    fn progress(&self, blocks: usize) -> Vec<ShardProgress> {
        let rows = &self.0[..blocks];
        let newest = rows.last().map(|row| row.epoch);
        let mut next: BTreeMap<u32, u64> = BTreeMap::new();
        for row in rows.iter().filter(|row| Some(row.epoch) == newest) {
            next.insert(row.partition, row.last_offset + 1);
        }
        let partition = |(partition, next_offset)| PartitionProgress {
            epoch: newest.unwrap_or_default(),
            partition,
            first_offset: 0,
            next_offset,
            complete_through_ms: 1,
        };
        vec![ShardProgress {
            verdicts: VerdictsPosition {
                epoch: EPOCH,
                offset: blocks as u64,
            },
            source_partitions: 3,
            partitions: next.into_iter().map(partition).collect(),
            ..ShardProgress::default()
        }]
    }

    /// The new receipts between two positions; `None` if they can't be determined.
    async fn arrivals(&self, warehouse: &Warehouse, scope: &QueryScope, from: usize, to: usize) -> Option<Vec<Uuid>> {
        let from = StreamPosition::new(&self.progress(from));
        let changes = warehouse.touched(&from, &self.progress(to)).await.unwrap()?;
        let hours = changes.touched.hours(scope);
        let found = warehouse.arrivals(scope, &changes.offsets, &hours).await.unwrap()?;
        Some(found.into_iter().map(|receipt| receipt.key.receipt_id).collect())
    }

    /// The hours of a scope that are touched between two positions.
    async fn hours(&self, warehouse: &Warehouse, scope: &QueryScope, from: usize, to: usize) -> Option<Vec<u32>> {
        let from = StreamPosition::new(&self.progress(from));
        let changes = warehouse.touched(&from, &self.progress(to)).await.unwrap()?;
        Some(changes.touched.hours(scope).into_iter().collect())
    }
}

fn own(publisher: &str) -> QueryScope {
    QueryScope::of(vec![publisher.to_owned()])
}

/// Any rows with copies anywhere, any chain of positions, while everything is stored already.
#[test]
fn each_receipt_is_new_in_exactly_one_link() {
    run(async {
        let mut rng = StdRng::seed_from_u64(7);
        for case in 0..12 {
            let count = 1 + rng.random_range(0..40_usize);
            // The log `receipts` may be recreated once.
            let recreated_at = rng.random_range(0..80_usize);
            // A block's receipts, and its partition.
            let blocks: Vec<(Vec<u8>, u32)> = (0..count)
                .map(|_| {
                    let receipts = (0..rng.random_range(1..4)).map(|_| rng.random_range(0..16_u8));
                    (receipts.collect(), rng.random_range(0..3_u32))
                })
                .collect();
            let mut cuts: Vec<usize> = (0..rng.random_range(0..8))
                .map(|_| rng.random_range(0..count))
                .collect();
            cuts.sort_unstable();
            check(case, &blocks, recreated_at, &cuts).await;
        }
    });
}

async fn check(case: u32, blocks: &[(Vec<u8>, u32)], recreated_at: usize, cuts: &[usize]) {
    let warehouse = fresh().await;
    let publisher = format!("case-{case}.example");
    let (mut ledger, mut stored, mut first_block) = (Ledger::default(), Vec::new(), BTreeMap::new());
    for (block, (receipts, partition)) in blocks.iter().enumerate() {
        // Epochs are random: here the later one is smaller.
        let epoch = if block < recreated_at { 2 } else { 1 };
        let receipts: Vec<Receipt> = receipts
            .iter()
            .map(|number| Receipt {
                publisher: publisher.clone(),
                timestamp_ms: NOON_MS - i64::from(number % 5) * 7 * HOUR_MS,
                ..Receipt::new(u128::from(*number))
            })
            .collect();
        let touched: Vec<_> = receipts
            .iter()
            .map(|receipt| (receipt.timestamp_ms, publisher.as_str()))
            .collect();
        ledger.append((epoch, *partition), receipts.len() as u64, &touched);
        let first_offset = ledger.0[block].first_offset;
        for (offset, receipt) in (first_offset..).zip(receipts) {
            first_block.entry(receipt.receipt_id).or_insert(block);
            let position = position(*partition, offset, 0) + (u128::from(epoch - 1) << 96);
            stored.push((receipt, position));
        }
    }
    insert(&warehouse, &stored).await;
    warehouse.insert_ledger(&ledger.0, None).await.unwrap();
    let mut ends = vec![0];
    ends.extend(cuts);
    ends.push(blocks.len());
    let context = format!("{blocks:?} in {ends:?}, recreated at {recreated_at}");
    for link in ends.windows(2) {
        let found = ledger.arrivals(&warehouse, &own(&publisher), link[0], link[1]).await;
        let found = found.unwrap_or_else(|| panic!("{link:?} of {context}"));
        let distinct: BTreeSet<Uuid> = found.iter().copied().collect();
        assert_eq!(distinct.len(), found.len(), "{link:?} of {context}");
        let first = first_block
            .iter()
            .filter(|(_, block)| (link[0]..link[1]).contains(*block));
        let expected: BTreeSet<Uuid> = first.map(|(id, _)| *id).collect();
        assert_eq!(distinct, expected, "{link:?} of {context}");
    }
}

#[test]
fn only_receipts_of_the_scope_and_of_touched_hours_are_found() {
    run(async {
        let warehouse = fresh().await;
        let other = Receipt {
            publisher: "other.example".to_owned(),
            ..Receipt::new(2)
        };
        let old = Receipt::new(3);
        let rows = [
            (Receipt::new(1), position(0, 0, 0)),
            (other, position(0, 1, 0)),
            (old.clone(), position(0, 2, 0)),
            // In a log of another epoch, before.
            (old, position(0, 900, 0) + (6 << 96)),
        ];
        insert(&warehouse, &rows).await;
        let mut ledger = Ledger::default();
        let news = own("news.example");
        ledger.append((1, 0), 1, &[(NOON_MS, "news.example")]);
        ledger.append((1, 0), 1, &[(NOON_MS, "other.example")]);
        ledger.append((1, 0), 1, &[(NOON_MS, "news.example")]);
        warehouse.insert_ledger(&ledger.0, None).await.unwrap();
        let first = Receipt::new(1).receipt_id;
        assert_eq!(ledger.arrivals(&warehouse, &news, 0, 3).await, Some(vec![first]));
        assert_eq!(ledger.arrivals(&warehouse, &news, 1, 3).await, Some(Vec::new()));
        assert_eq!(ledger.arrivals(&warehouse, &news, 3, 3).await, Some(Vec::new()));
        assert_eq!(
            ledger.arrivals(&warehouse, &QueryScope::default(), 0, 3).await,
            Some(Vec::new())
        );
        let all = warehouse.touched(&StreamPosition::default(), &ledger.progress(3)).await;
        let offsets = all.unwrap().unwrap().offsets;
        let hour = u32::try_from(NOON_MS / HOUR_MS).unwrap();
        let in_hour = async |hour| {
            let found = warehouse.arrivals(&news, &offsets, &BTreeSet::from([hour])).await;
            found.unwrap().unwrap().len()
        };
        assert_eq!((in_hour(hour).await, in_hour(hour + 1).await), (1, 0));
    });
}

#[test]
fn offsets_of_consecutive_links_are_those_of_one() {
    run(async {
        let warehouse = fresh().await;
        let mut ledger = Ledger::default();
        for (epoch, partition) in [(2, 0), (2, 1), (2, 0), (1, 0), (1, 1), (1, 0)] {
            ledger.append((epoch, partition), 2, &[(NOON_MS, "news.example")]);
        }
        warehouse.insert_ledger(&ledger.0, None).await.unwrap();
        let offsets = async |from, to| {
            let from = StreamPosition::new(&ledger.progress(from));
            let changes = warehouse.touched(&from, &ledger.progress(to)).await.unwrap();
            changes.unwrap().offsets
        };
        for middle in 1..6 {
            let mut joined = offsets(1, middle).await;
            joined.append(&offsets(middle, 6).await);
            let rows: Vec<_> = (0..12_u128)
                .map(|number| {
                    let row = &ledger.0[usize::try_from(number / 2).unwrap()];
                    let offset = row.first_offset + u64::try_from(number % 2).unwrap();
                    let at = position(row.partition, offset, 0) + (u128::from(row.epoch - 1) << 96);
                    (Receipt::new(number), at)
                })
                .collect();
            insert(&warehouse, &rows).await;
            let hours = BTreeSet::from([u32::try_from(NOON_MS / HOUR_MS).unwrap()]);
            let found = warehouse.arrivals(&own("news.example"), &joined, &hours).await;
            assert_eq!(found.unwrap().unwrap().len(), 10, "{middle}");
        }
    });
}

#[test]
fn more_receipts_than_one_query_may_find_are_reported() {
    run(async {
        let warehouse = fresh().await;
        let rows: Vec<_> = (0..=ARRIVALS_MAX as u64)
            .map(|number| (Receipt::new(number.into()), position(0, number, 0)))
            .collect();
        insert(&warehouse, &rows).await;
        let mut ledger = Ledger::default();
        ledger.append((1, 0), 1, &[(NOON_MS, "news.example")]);
        ledger.append((1, 0), ARRIVALS_MAX as u64, &[(NOON_MS, "news.example")]);
        warehouse.insert_ledger(&ledger.0, None).await.unwrap();
        let news = own("news.example");
        assert_eq!(ledger.arrivals(&warehouse, &news, 0, 2).await, None);
        let but_one = ledger.arrivals(&warehouse, &news, 1, 2).await;
        assert_eq!(but_one.unwrap().len(), ARRIVALS_MAX);
    });
}

#[test]
fn a_position_reaches_positions_before_it_in_the_same_logs() {
    let at = |shards: &[(u32, u32, u64)]| {
        let shard = |&(shard, epoch, offset): &_| (shard, VerdictsPosition { epoch, offset });
        StreamPosition(shards.iter().map(shard).collect())
    };
    for (later, earlier, reaches) in [
        (at(&[(0, 1, 3)]), at(&[(0, 1, 3)]), true),
        (at(&[(0, 1, 3)]), at(&[(0, 1, 4)]), false),
        (at(&[(0, 2, 9)]), at(&[(0, 1, 3)]), false),
        (at(&[(0, 1, 3), (1, 5, 4)]), at(&[(0, 1, 3)]), true),
        (at(&[(0, 1, 3)]), at(&[(0, 1, 3), (1, 5, 0)]), false),
        (at(&[(0, 1, 9), (1, 5, 3)]), at(&[(0, 1, 3), (1, 5, 4)]), false),
        (at(&[(0, 1, 1)]), StreamPosition::default(), true),
    ] {
        assert_eq!(later.reaches(&earlier), reaches, "{later:?} {earlier:?}");
    }
}

#[test]
fn touched_hours_are_those_of_the_link() {
    run(async {
        let warehouse = fresh().await;
        let mut ledger = Ledger::default();
        let hour = |number: i64| number * HOUR_MS;
        ledger.append((1, 0), 5, &[(hour(10), "a.example"), (hour(11), "b.example")]);
        ledger.append((1, 1), 3, &[(hour(12), "a.example")]);
        ledger.append((1, 0), 1, &[]);
        ledger.append((1, 0), 4, &[(hour(14), "a.example")]);
        ledger.append((1, 1), 4, &[(hour(15), "a.example")]);
        warehouse.insert_ledger(&ledger.0, None).await.unwrap();
        // A repair may insert a row again.
        warehouse.insert_ledger(&ledger.0[1..2], None).await.unwrap();
        let (a, b) = (own("a.example"), own("b.example"));
        assert_eq!(ledger.hours(&warehouse, &a, 0, 2).await, Some(vec![10, 12]));
        assert_eq!(ledger.hours(&warehouse, &b, 0, 5).await, Some(vec![11]));
        assert_eq!(ledger.hours(&warehouse, &a, 1, 4).await, Some(vec![12, 14]));
        assert_eq!(ledger.hours(&warehouse, &a, 2, 3).await, Some(Vec::new()));
        assert_eq!(ledger.hours(&warehouse, &a, 5, 5).await, Some(Vec::new()));
        assert_eq!(ledger.hours(&warehouse, &a, 3, 2).await, None, "not reached");
        let other_log = StreamPosition([(0, VerdictsPosition { epoch: 8, offset: 1 })].into());
        let changes = warehouse.touched(&other_log, &ledger.progress(5)).await.unwrap();
        assert_eq!(changes, None);
        assert_eq!(warehouse.ledger(1, 0, 0, 9).await.unwrap()[0], ledger.0[0]);
    });
}

#[test]
fn a_link_with_missing_or_old_rows_is_unknown() {
    run(async {
        let news = own("news.example");
        // The block that isn't stored, and links that can and can't be determined.
        for (missing, existing, unknown) in [(1, [(2, 5), (0, 1)], (0, 4)), (4, [(0, 4), (1, 3)], (2, 5))] {
            let warehouse = fresh().await;
            let mut ledger = Ledger::default();
            for partition in [0, 0, 0, 1, 0] {
                ledger.append((1, partition), 2, &[(NOON_MS, "news.example")]);
            }
            let mut rows = ledger.0.clone();
            rows.remove(missing);
            warehouse.insert_ledger(&rows, None).await.unwrap();
            for (from, to) in existing {
                let hours = ledger.hours(&warehouse, &news, from, to).await;
                assert_eq!(
                    hours.map(|hours| hours.len()),
                    Some(1),
                    "{from} to {to} without {missing}"
                );
            }
            let (from, to) = unknown;
            assert_eq!(
                ledger.hours(&warehouse, &news, from, to).await,
                None,
                "without {missing}"
            );
        }

        let warehouse = fresh().await;
        let mut ledger = Ledger::default();
        for age_hours in [80, 72, 70, 0] {
            ledger.append((1, 0), 2, &[(NOON_MS, "news.example")]);
            ledger.0.last_mut().unwrap().committed_at_ms -= age_hours * HOUR_MS;
        }
        warehouse.insert_ledger(&ledger.0, None).await.unwrap();
        for from in 0..4 {
            let hours = ledger.hours(&warehouse, &news, from, 4).await;
            assert_eq!(hours.is_some(), from >= 2, "{from}");
        }
        let optimize = "OPTIMIZE TABLE ledger FINAL";
        assert_eq!(sql(warehouse.database(), optimize).await, "");
        let counts = "SELECT length(touched) FROM ledger ORDER BY first_offset FORMAT TSV";
        assert_eq!(sql(warehouse.database(), counts).await, "0\n0\n1\n1\n");
    });
}

/// A link is read by the index, however long the ledger is.
#[test]
fn a_link_reads_few_granules_of_the_ledger() {
    run(async {
        let warehouse = fresh().await;
        let database = warehouse.database().to_owned();
        let fill = "INSERT INTO ledger (epoch, partition, first_offset, last_offset, verdicts_epoch, verdicts_offset)
            SELECT 1, number % 4, intDiv(number, 4), intDiv(number, 4), 9, number FROM numbers(400000)";
        assert_eq!(sql(&database, fill).await, "");
        assert_eq!(sql(&database, "OPTIMIZE TABLE ledger FINAL").await, "");
        let explain = "EXPLAIN indexes = 1 SELECT touched FROM ledger
            WHERE (shard = 0 AND verdicts_epoch = 9 AND verdicts_offset >= 399000 AND verdicts_offset < 399900)";
        let plan = sql(&database, explain).await;
        let granules = plan
            .lines()
            .rev()
            .find_map(|line| line.trim().strip_prefix("Granules: "));
        let (read, all) = granules.unwrap().split_once('/').unwrap();
        let (read, all): (u32, u32) = (read.parse().unwrap(), all.parse().unwrap());
        assert!(read <= 8 && all >= 40, "{plan}");
        // So is the end of the ledger, behind what a writer has published.
        let end = async |since: Option<u64>| {
            let since = since.map(|offset| VerdictsPosition { epoch: 9, offset });
            warehouse.ledger_progress(0, since).await.unwrap()
        };
        let found = end(Some(399_998)).await;
        assert_eq!(
            found.verdicts,
            VerdictsPosition {
                epoch: 9,
                offset: 400_000
            }
        );
        let partitions: Vec<_> = found
            .partitions
            .iter()
            .map(|one| (one.partition, one.next_offset))
            .collect();
        assert_eq!(partitions, [(2, 100_000), (3, 100_000)]);
        assert_eq!(end(Some(400_000)).await, ShardProgress::default());
        assert_eq!(end(None).await.partitions.len(), 4);
    });
}
