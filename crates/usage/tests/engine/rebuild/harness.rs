//! Random receipts, and what `usage` must have of them.

use std::sync::LazyLock;

use arrow_array::RecordBatch;
use blocks::{AcceptedRow, Rows};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use usage::{Grain, NewReceipts, Usage};
use uuid::Uuid;
use warehouse::{FINAL_SETTINGS, SqlStatement};

use crate::engine::fresh;

pub(crate) const DAY_S: u32 = 86_400;
pub(crate) const PUBLISHERS: [&str; 3] = ["a.example", "b.example", "c.b.example"];

/// Today's first second.
pub(crate) fn today() -> u32 {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let now = u32::try_from(now.as_secs()).unwrap();
    now - now % DAY_S
}

/// A database, and what fills it.
pub(crate) struct World {
    pub(crate) usage: Usage,
    random: StdRng,
    next: u64,
    made: Vec<u64>,
}

impl World {
    pub(crate) async fn new(seed: u64) -> Self {
        Self {
            usage: fresh().await,
            random: StdRng::seed_from_u64(seed),
            next: 1,
            made: Vec::new(),
        }
    }

    /// Random receipts of three days; some are duplicates of earlier ones.
    pub(crate) fn receipts(&mut self, count: usize) -> RecordBatch {
        let mut rows = Rows::default();
        for _ in 0..count {
            let number = if !self.made.is_empty() && self.random.random_bool(0.2) {
                self.made[self.random.random_range(0..self.made.len())]
            } else {
                self.next += 1;
                self.made.push(self.next - 1);
                self.next - 1
            };
            push(&mut rows, number, u128::from(self.random.random::<u64>()));
        }
        rows.batches().unwrap().0
    }

    /// Stores receipts of which some are new, and counts them.
    pub(crate) async fn fill(&mut self, batches: usize) {
        for _ in 0..batches {
            let batch = self.receipts(200);
            self.usage.insert_counted(&[batch]).await.unwrap();
        }
    }

    /// Stores receipts without counting them.
    pub(crate) async fn store_only(&self, batch: &RecordBatch) {
        let batch = std::slice::from_ref(batch);
        self.usage.warehouse().insert_accepted(batch, None).await.unwrap();
    }

    /// Counts receipts without storing them.
    pub(crate) async fn count_only(&self, batch: RecordBatch) {
        let rows = NewReceipts::of(&[batch]).unwrap().rows(200_000).unwrap();
        self.usage.insert(&rows, None).await.unwrap();
    }

    pub(crate) async fn sql(&self, sql: &str) {
        let call = SqlStatement::new(sql).slow();
        self.usage.warehouse().execute("test", call).await.unwrap();
    }

    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let call = SqlStatement::new(sql);
        self.usage.warehouse().one("test", call).await.unwrap()
    }

    /// Rebuilds all publishers on all days; the number of rows.
    pub(crate) async fn rebuild(&self) -> u64 {
        let mut rows = 0;
        for day in (0..4).map(|day| today() - day * DAY_S) {
            for publisher in PUBLISHERS {
                rows += self.usage.rebuild_day(publisher, day, None).await.unwrap();
            }
        }
        rows
    }

    /// Asserts that `usage` is equal to what its definition says about `receipts FINAL`.
    pub(crate) async fn assert_equal(&self) {
        assert_eq!(
            EXPECTED.each_ref().map(|(grain, _)| *grain),
            Grain::ALL.map(Grain::name)
        );
        for (grain, expected) in EXPECTED.iter() {
            let keys = "publisher, time, entry_id, half_hour, client_id, purpose, model_id, client_name,
                organization, client_version, url, operator, key_fingerprint, verified";
            let differing = format!(
                "SELECT toInt64(count()) FROM (
                    SELECT {keys}, key, sum(revised) AS stored, min(first) AS stored_first, max(last) AS stored_last
                    FROM (
                        SELECT {keys}, key, revision, sum(receipts) AS revised, min(first_ms) AS first,
                            max(last_ms) AS last
                        FROM usage WHERE grain = '{grain}' GROUP BY {keys}, key, revision HAVING revised != 0)
                    GROUP BY {keys}, key) AS of_usage
                 FULL JOIN (SELECT *, receipts AS expected FROM ({expected})) AS of_receipts USING ({keys}, key)
                 WHERE stored != expected OR '{grain}' != 'counted'
                    AND (stored_first, stored_last) != (expected_first, expected_last)
                 {FINAL_SETTINGS}, join_use_nulls = 0"
            );
            assert_eq!(self.number(&differing).await, 0, "{grain}");
        }
    }
}

const NIL: &str = "toUUID('00000000-0000-0000-0000-000000000000')";

static EXPECTED: LazyLock<[(&str, String); Grain::ALL.len()]> = LazyLock::new(expected);

/// Each grain's rows from `receipts FINAL`, written as its definition.
fn expected() -> [(&'static str, String); Grain::ALL.len()] {
    let day = "toUInt32(toUnixTimestamp(toStartOfDay(timestamp, 'UTC')))";
    let empty = "toFixedString('', 16)";
    let stamp = "tupleElement(stamp, 2)::LowCardinality(String) AS operator, tupleElement(stamp, 3) AS verified";
    let (key, no_key) = (
        "key_fingerprint::LowCardinality(FixedString(32)) AS key_fingerprint",
        "toFixedString('', 32)::LowCardinality(FixedString(32)) AS key_fingerprint",
    );
    let grain = |columns: String| {
        format!(
            "SELECT {columns}, toInt64(count()) AS receipts, min(toUnixTimestamp64Milli(timestamp)) AS expected_first,
                max(toUnixTimestamp64Milli(timestamp)) AS expected_last
             FROM receipts FINAL GROUP BY ALL"
        )
    };
    [
        (
            "counted",
            grain(format!(
                "'' AS publisher, toUInt32(toUnixTimestamp(timestamp)) AS time, {NIL} AS entry_id, 0::UInt8 AS half_hour,
                 {NIL} AS client_id, '' AS purpose, '' AS model_id, '' AS client_name, '' AS organization,
                 '' AS client_version, '' AS url, '' AS operator, false AS verified, {no_key}, substring(payload_hash, 1, 16)::FixedString(16) AS key"
            )),
        ),
        (
            "all",
            grain(format!(
                "publisher, {day} AS time, entry_id, toUInt8(toHour(timestamp) * 2 + intDiv(toMinute(timestamp), 30))
                 AS half_hour, client_id, purpose, model_id, '' AS client_name, '' AS organization,
                 '' AS client_version, '' AS url, {stamp}, {key}, {empty} AS key"
            )),
        ),
        (
            "purpose",
            grain(format!(
                "publisher, toUInt32(toUnixTimestamp(toStartOfInterval(timestamp, INTERVAL 30 MINUTE))) AS time,
                 {NIL} AS entry_id, 0::UInt8 AS half_hour, {NIL} AS client_id, purpose, '' AS model_id, '' AS client_name,
                 '' AS organization, '' AS client_version, '' AS url, {stamp}, {no_key}, {empty} AS key"
            )),
        ),
        (
            "client",
            grain(format!(
                "publisher, {day} AS time, {NIL} AS entry_id, 0::UInt8 AS half_hour, client_id, purpose, model_id,
                 client_name, organization, client_version, '' AS url, {stamp}, {key}, {empty} AS key"
            )),
        ),
        (
            "entry",
            grain(format!(
                "publisher, {day} AS time, entry_id, 0::UInt8 AS half_hour, {NIL} AS client_id, '' AS purpose,
                 '' AS model_id, '' AS client_name, '' AS organization, '' AS client_version, url, {stamp}, {no_key}, {empty} AS key"
            )),
        ),
    ]
}

/// The receipt of a number; its content follows from the number.
fn push(rows: &mut Rows, number: u64, position: u128) {
    let mut random = StdRng::seed_from_u64(number);
    let mut payload_hash = [0; 32];
    random.fill(&mut payload_hash);
    let mut pick = |count: usize| random.random_range(0..count);
    let day_ms = i64::from(today() - DAY_S * u32::try_from(pick(3)).unwrap()) * 1_000;
    // Half of the receipts are at boundaries of half hours.
    let timestamp_ms = if pick(2) == 0 {
        day_ms + 1_800_000 * i64::try_from(pick(48)).unwrap()
    } else {
        day_ms + i64::try_from(pick(86_400_000)).unwrap()
    };
    let client = pick(4);
    let key = [u8::try_from(1 + pick(3)).unwrap(); 32];
    let operator = ["", "ai.example"][pick(2)];
    rows.push_accepted(&AcceptedRow {
        position,
        publisher: PUBLISHERS[pick(3)],
        timestamp_ms,
        entry_id: Uuid::from_u128(100 + u128::try_from(pick(5)).unwrap()),
        receipt_id: Uuid::from_u128(u128::from(number)),
        payload_hash: &payload_hash,
        received_at_ms: timestamp_ms,
        url: ["https://a.example/", "https://a.example/b"][pick(2)],
        content_hash: &[1; 32],
        client_id: Uuid::from_u128(1 + u128::try_from(client).unwrap()),
        client_name: ["Alpha", "Beta", "Gamma", "Gamma"][client],
        client_version: ["1.0", "2.0"][pick(2)],
        organization: "Organization",
        key_fingerprint: &key,
        operator,
        publisher_verified: pick(4) > 0,
        algorithm: "Ed25519",
        purpose: ["training", "inference", "research"][pick(3)],
        model_id: ["", "m1", "m2"][pick(3)],
        kind: "receipt",
        origin: "record",
        ..AcceptedRow::default()
    });
}
