//! The statements.

use std::collections::BTreeMap;

use clickhouse::{Row, RowOwned, RowRead};
use serde::Deserialize;
use uuid::Uuid;

use super::Basis;
use super::hour::Hour;
use super::store::{Group, Told, Wanted, by_hour};
use super::used::Use;
use crate::client::Call;
use crate::queries::{EARLIER, FINAL_SETTINGS};
use crate::rollup::sums::Texts;
use crate::threads::elsewhere;
use crate::{Warehouse, WarehouseError};

/// Receipts that are read at a time: 40 bytes each.
const READ_MAX: usize = 1_500_000;
/// Rows that may have come in since the last reading.
const CAME_MAX: usize = 200_000;
/// Blocks below the newest that are looked at again.
const BLOCKS_AGAIN: u64 = 8;

/// A receipt without its texts; `key` is what all receipts of an hour differ in.
const COLUMNS: &str = "publisher AS whose, CAST(client_id AS UUID) AS client, toString(purpose) AS usage,
    toString(client_name) AS title, toString(organization) AS body, toString(model_id) AS model,
    toUnixTimestamp64Milli(timestamp) AS at, toUInt128(entry_id) AS entry,
    reinterpretAsUInt128(sipHash128Keyed(({secret_1:UInt64}, {secret_2:UInt64}), entry_id, receipt_id, payload_hash, timestamp))
        AS key";
const GROUPED: &str = "whose, client, usage, title, body, model";
/// Rows are taken apart again from their beginning whenever more of them arrives, so none may be long.
const PIECE: &str = "intDiv(rowNumberInAllBlocks(), 32768) AS piece";
const PIECE_WITH_URLS: &str = "intDiv(rowNumberInAllBlocks(), 4096) AS piece";
/// Longer ones aren't read: all that may have come in must fit into an answer.
const URL: &str = "if(length(url) <= 256, toString(url), '') AS place";
/// Rows of an answer.
const GROUPS_MAX: usize = 200_000;
/// The greatest block of the part that a row is in. Over nothing else, so that parts are chosen by it.
const BLOCK: &str = "toUInt64(splitByChar('_', _part)[3])";

#[derive(Row, Deserialize)]
struct Read {
    whose: String,
    #[serde(with = "clickhouse::serde::uuid")]
    client: Uuid,
    usage: String,
    title: String,
    body: String,
    model: String,
    receipts: Vec<Told>,
}

#[derive(Row, Deserialize)]
struct Came {
    whose: String,
    #[serde(with = "clickhouse::serde::uuid")]
    client: Uuid,
    usage: String,
    title: String,
    body: String,
    model: String,
    receipts: Vec<(i64, u128, u128, String)>,
}

impl Read {
    fn group(self, texts: &mut Texts) -> Group {
        Group {
            publisher: self.whose,
            of: Use::of(self.client, [self.usage, self.title, self.body, self.model], texts),
            receipts: self.receipts,
            urls: Vec::new(),
        }
    }
}

impl Came {
    fn group(self, texts: &mut Texts) -> Group {
        let told = self.receipts.into_iter();
        let (receipts, urls) = told.map(|(at, entry, key, url)| ((at, entry, key), url)).unzip();
        Group {
            publisher: self.whose,
            of: Use::of(self.client, [self.usage, self.title, self.body, self.model], texts),
            receipts,
            urls,
        }
    }
}

impl Warehouse {
    /// The number of the newest block of rows.
    pub(super) async fn newest_block(&self) -> Result<u64, WarehouseError> {
        // Of no parts it is 0.
        let call = Call::new(
            "SELECT toUInt64(greatest(max(max_block_number), 0)) FROM system.parts
             WHERE database = currentDatabase() AND table = 'receipts' AND active",
        );
        self.one("recent_block", call).await
    }

    /// What has come in; `None` if it is too much.
    pub(super) async fn came(
        &self,
        basis: &Basis,
        wanted: &Wanted,
        secret: (u64, u64),
    ) -> Result<Option<Vec<Group>>, WarehouseError> {
        let sql = format!(
            "SELECT {GROUPED}, groupArray((at, entry, key, place)) AS receipts FROM
             (
                SELECT {COLUMNS}, {URL}, {PIECE_WITH_URLS} FROM receipts
                PREWHERE {BLOCK} > {{block:UInt64}} AND publisher IN {{publishers:Array(String)}} AND
                    arrayExists(p -> NOT ({EARLIER}), positions)
                LIMIT {}
             )
             GROUP BY {GROUPED}, piece",
            CAME_MAX + 1
        );
        let call = Call::new(sql)
            .with("block", wanted.block.saturating_sub(BLOCKS_AGAIN))
            .with("publishers", wanted.publishers.clone())
            .with("epoch", basis.epoch().unwrap_or(u32::MAX))
            .with("low", wanted.low.clone());
        self.groups("recent_came", CAME_MAX, call, secret, Came::group).await
    }

    /// All receipts of some hours of a publisher; `None` if they are too many.
    pub(super) async fn receipts_of(
        &self,
        publisher: &str,
        hours: &[u32],
        secret: (u64, u64),
    ) -> Result<Option<Vec<Group>>, WarehouseError> {
        let (Some(first), Some(last)) = (hours.first(), hours.last()) else {
            return Ok(Some(Vec::new()));
        };
        // Merged, so that of rows that an erasure made different the same one is meant as everywhere.
        let sql = format!(
            "SELECT {GROUPED}, groupArray((at, entry, key)) AS receipts FROM
             (
                SELECT {COLUMNS}, {PIECE} FROM receipts FINAL
                WHERE publisher = {{publisher:String}} AND toStartOfHour(timestamp) IN {{hours_s:Array(DateTime('UTC'))}}
                    AND timestamp >= fromUnixTimestamp64Milli({{from_ms:Int64}}, 'UTC')
                    AND timestamp < fromUnixTimestamp64Milli({{to_ms:Int64}}, 'UTC')
                LIMIT {}
             )
             GROUP BY {GROUPED}, piece {FINAL_SETTINGS}",
            READ_MAX + 1
        );
        let hours_s: Vec<i64> = hours.iter().map(|hour| i64::from(*hour) * 3_600).collect();
        let call = Call::new(sql)
            .with("publisher", publisher.to_owned())
            .with("hours_s", hours_s)
            .with("from_ms", i64::from(*first) * 3_600_000)
            .with("to_ms", (i64::from(*last) + 1) * 3_600_000);
        self.groups("recent", READ_MAX, call, secret, Read::group).await
    }

    async fn groups<R>(
        &self,
        name: &'static str,
        receipts_max: usize,
        call: Call,
        secret: (u64, u64),
        group: fn(R, &mut Texts) -> Group,
    ) -> Result<Option<Vec<Group>>, WarehouseError>
    where
        R: RowOwned + RowRead,
    {
        let call = call.with("secret_1", secret.0).with("secret_2", secret.1);
        let Some(rows) = self.some_rows::<R>(name, GROUPS_MAX, call).await? else {
            return Ok(None);
        };
        let mut texts = Texts::default();
        let groups: Vec<Group> = rows.into_iter().map(|row| group(row, &mut texts)).collect();
        let receipts: usize = groups.iter().map(|group| group.receipts.len()).sum();
        Ok((receipts <= receipts_max).then_some(groups))
    }
}

/// The hours of what was read, also those without receipts; `places` are those of the receipts' uses.
pub(super) async fn built(
    hours: &[u32],
    places: Vec<u32>,
    receipts: Vec<Vec<Told>>,
) -> Result<BTreeMap<u32, Hour>, WarehouseError> {
    let mut built: BTreeMap<u32, Hour> = hours.iter().map(|hour| (*hour, Hour::default())).collect();
    let many = receipts.iter().map(Vec::len).sum();
    let build = move || {
        let mut of_each: BTreeMap<u32, Vec<_>> = BTreeMap::new();
        for (place, receipts) in places.into_iter().zip(receipts) {
            for (hour, some) in by_hour(receipts, place) {
                of_each.entry(hour).or_default().extend(some);
            }
        }
        for (hour, all) in of_each {
            if let Some(hour) = built.get_mut(&hour) {
                hour.add(all);
            }
        }
        built
    };
    elsewhere(many, build).await
}
