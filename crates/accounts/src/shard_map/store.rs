//! Entries of the shard map in the account store. Entries are only appended.

use std::collections::BTreeMap;

use sqlx::{Any, Transaction};

use super::{DAY_MS, ShardMap, ShardMapEntry};
use crate::row::RowValues;
use crate::trail::{self, TrailChange};
use crate::{Accounts, AccountsError, Domain};

/// Time before an entry takes effect: verifiers read the map at least once an hour, and a
/// timestamp may be a few minutes ahead.
const NOTICE_MS: i64 = DAY_MS;

/// An entry to be appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewShardMapEntry {
    /// The first UTC day, in days since the Unix epoch.
    pub from_day: i64,
    /// Number of shards.
    pub shards: u32,
    /// Publishers whose receipts are spread over several shards, and over how many.
    pub splits: BTreeMap<Domain, u32>,
}

/// An entry, and when it was registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredShardMapEntry {
    /// The entry.
    pub entry: ShardMapEntry,
    /// When, in milliseconds since the Unix epoch.
    pub registered_at_ms: i64,
}

impl Accounts {
    /// Reads the shard map.
    ///
    /// # Errors
    /// The stored entries aren't a map, or the store fails.
    pub async fn shard_map(&self) -> Result<ShardMap, AccountsError> {
        let registered = self.shard_map_entries().await?;
        let entries = registered.into_iter().map(|registered| registered.entry);
        ShardMap::new(entries.collect()).map_err(|error| AccountsError::ShardMap(error.to_string()))
    }

    /// The entries of the shard map, by version.
    pub async fn shard_map_entries(&self) -> Result<Vec<RegisteredShardMapEntry>, AccountsError> {
        let query = sqlx::query(ENTRIES);
        let rows = self.timed("shard_map", async { Ok(query.fetch_all(&self.pool).await?) });
        rows.await?.iter().map(entry).collect()
    }

    /// Appends an entry to the shard map.
    ///
    /// # Errors
    /// [`AccountsError::ShardMap`]: the entry takes effect in less than 24 hours, or the map
    /// wouldn't be one. The store fails. Nothing is stored then.
    pub async fn add_shard_map_entry(&self, new: &NewShardMapEntry) -> Result<ShardMapEntry, AccountsError> {
        let now_ms = self.now_ms();
        if new.from_day.saturating_mul(DAY_MS) < now_ms.saturating_add(NOTICE_MS) {
            let earliest = now_ms.saturating_add(NOTICE_MS + DAY_MS - 1).div_euclid(DAY_MS);
            let days = earliest.saturating_sub(now_ms.div_euclid(DAY_MS));
            return Err(AccountsError::ShardMap(format!(
                "an entry of the shard map takes effect 24 hours after its registration at the earliest, at 00:00 UTC: \
                 {days} days after today",
            )));
        }
        let work = async {
            let mut transaction = self.begin().await?;
            let mut entries = stored(&mut transaction).await?;
            let version = u32::try_from(entries.len() + 1).unwrap_or(u32::MAX);
            let added = ShardMapEntry {
                version,
                from_day: new.from_day,
                shards: new.shards,
                splits: new.splits.clone(),
            };
            entries.push(added.clone());
            ShardMap::new(entries).map_err(|error| AccountsError::ShardMap(error.to_string()))?;
            let splits: BTreeMap<&str, u32> = added.splits.iter().map(|(of, ways)| (of.as_str(), *ways)).collect();
            let splits = serde_json::to_string(&splits).map_err(|error| AccountsError::Store(error.to_string()))?;
            // Of two registrations at once, the second meets the first one's version.
            let insert = "INSERT INTO shard_map (version, from_day, shards, splits, registered_at_ms)
                VALUES ($1, $2, $3, $4, $5)";
            let insert = sqlx::query(insert).bind(i64::from(version)).bind(new.from_day);
            let insert = insert.bind(i64::from(new.shards)).bind(splits).bind(now_ms);
            insert.execute(&mut *transaction).await?;
            let (subject, detail) = (
                version.to_string(),
                format!("{} shards from day {}", new.shards, new.from_day),
            );
            let change = TrailChange::of_deployment("shard_map.add", &subject, &detail, now_ms);
            trail::note(&mut transaction, &change).await?;
            transaction.commit().await?;
            Ok(added)
        };
        self.timed("shard_map_add", work).await
    }
}

const ENTRIES: &str = "SELECT version, from_day, shards, splits, registered_at_ms FROM shard_map ORDER BY version";

async fn stored(transaction: &mut Transaction<'static, Any>) -> Result<Vec<ShardMapEntry>, AccountsError> {
    let rows = sqlx::query(ENTRIES).fetch_all(&mut **transaction).await?;
    rows.iter()
        .map(|row| entry(row).map(|registered| registered.entry))
        .collect()
}

fn entry(row: &sqlx::any::AnyRow) -> Result<RegisteredShardMapEntry, AccountsError> {
    let number = |column| -> Result<u32, AccountsError> {
        let number: i64 = row.value(column)?;
        u32::try_from(number)
            .map_err(|_| AccountsError::ShardMap(format!("{number} can't be a number of the shard map")))
    };
    let splits: &str = row.value("splits")?;
    let splits: BTreeMap<String, u32> =
        serde_json::from_str(splits).map_err(|error| AccountsError::ShardMap(format!("`splits`: {error}")))?;
    let split = |(publisher, ways): (String, u32)| match publisher.parse() {
        Ok(publisher) => Ok((publisher, ways)),
        Err(error) => Err(AccountsError::ShardMap(format!("`splits`: {error}"))),
    };
    Ok(RegisteredShardMapEntry {
        entry: ShardMapEntry {
            version: number("version")?,
            from_day: row.value("from_day")?,
            shards: number("shards")?,
            splits: splits.into_iter().map(split).collect::<Result<_, _>>()?,
        },
        registered_at_ms: row.value("registered_at_ms")?,
    })
}
