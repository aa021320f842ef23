//! Fencing of writers: at most one process changes a shard's tables.
//!
//! An epoch is a pair (number, random token), compared as a pair. A writer inserts a pair above all
//! others, reads it back, and kills the statements of every other pair. Each of its inserts checks
//! on the server that the pair is still the greatest. The embedded engine belongs to one process,
//! which its directory's lock ensures; there the check after an insert is enough.

use clickhouse::Row;
use receipt_clickhouse::INSERT_SETTINGS;
use serde::Deserialize;

use crate::{SqlStatement, Warehouse, WarehouseError};

/// Settings with which an `INSERT ... SELECT` writes one block.
const ONE_BLOCK: [(&str, &str); 3] = [
    ("max_insert_threads", "1"),
    ("min_insert_block_size_bytes", "1000000000000"),
    ("min_insert_block_size_rows", "1000000000000"),
];

/// The right to change a shard's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriterEpoch {
    /// The shard.
    pub shard: u32,
    /// Counts the shard's writers.
    pub number: u64,
    /// Distinguishes writers that took the same number.
    pub token: u128,
}

#[derive(Row, Deserialize)]
struct Pair {
    number: u64,
    token: u128,
}

impl WriterEpoch {
    /// The condition under which an insert of this writer may change anything.
    pub(crate) fn condition(&self) -> String {
        let Self { shard, number, token } = self;
        format!("(SELECT max((number, token)) FROM writers WHERE shard = {shard}) = ({number}, toUInt128('{token}'))")
    }

    /// Prefix of the query IDs of this writer's inserts.
    fn query_prefix(&self) -> String {
        format!("{}{}-", shard_prefix(self.shard), self.token)
    }

    /// A query ID for one insert.
    pub(crate) fn query_id(&self) -> String {
        format!("{}{}", self.query_prefix(), uuid::Uuid::new_v4())
    }
}

fn shard_prefix(shard: u32) -> String {
    format!("receipts-writer-{shard}-")
}

impl Warehouse {
    /// Becomes the shard's writer: takes an epoch above all others and ends the statements of
    /// earlier writers. `None` if another writer was faster.
    pub async fn take_epoch(&self, shard: u32) -> Result<Option<WriterEpoch>, WarehouseError> {
        let greatest = self.greatest_epoch(shard).await?;
        let epoch = WriterEpoch {
            shard,
            number: greatest.map_or(0, |pair| pair.number) + 1,
            token: uuid::Uuid::new_v4().as_u128(),
        };
        let insert = SqlStatement::new(
            "INSERT INTO writers (shard, number, token) SELECT {shard:UInt32}, {number:UInt64}, {token:UInt128}",
        )
        .with("shard", shard)
        .with("number", epoch.number)
        .with("token", epoch.token)
        .set("async_insert", "0");
        self.execute("take_epoch", insert).await?;
        if !self.holds_epoch(&epoch).await? {
            return Ok(None);
        }
        // The embedded engine runs inserts one after the other: late ones ended before this one.
        if self.is_server() {
            self.kill_other_writers(&epoch).await?;
        }
        Ok(Some(epoch))
    }

    /// Whether the epoch is still the shard's greatest. Epochs only grow, so `true` also holds for
    /// everything before.
    pub async fn holds_epoch(&self, epoch: &WriterEpoch) -> Result<bool, WarehouseError> {
        let greatest = self.greatest_epoch(epoch.shard).await?;
        Ok(greatest.is_some_and(|pair| (pair.number, pair.token) == (epoch.number, epoch.token)))
    }

    /// Runs an `INSERT ... SELECT` as the shard's writer if `epoch` is given. `{fence}` in its
    /// condition holds while no later writer has superseded this one. All rows become one block,
    /// and so one part per partition of the table. `Ok` means that they are durable, or that this
    /// writer was superseded ([`Self::holds_epoch`]).
    pub async fn insert_select(
        &self,
        name: &'static str,
        call: SqlStatement,
        epoch: Option<&WriterEpoch>,
    ) -> Result<(), WarehouseError> {
        let epoch = epoch.filter(|_| self.is_server());
        let condition = epoch.map_or_else(|| "1".to_owned(), WriterEpoch::condition);
        let mut call = call.fenced_by(&condition);
        for (setting, value) in INSERT_SETTINGS.into_iter().chain(ONE_BLOCK) {
            call = call.set(setting, value);
        }
        if let Some(epoch) = epoch {
            call = call.set("query_id", epoch.query_id());
        }
        self.execute(name, call).await
    }

    /// Another shard whose writers have worked in this database.
    pub async fn writer_of_other_shard(&self, shard: u32) -> Result<Option<u32>, WarehouseError> {
        let sql = "SELECT shard FROM writers WHERE shard != {shard:UInt32} LIMIT 1";
        let other = SqlStatement::new(sql).with("shard", shard);
        Ok(self.rows::<u32>("writer_epoch", other).await?.pop())
    }

    async fn greatest_epoch(&self, shard: u32) -> Result<Option<Pair>, WarehouseError> {
        let call = SqlStatement::new(
            "SELECT number, token FROM writers WHERE shard = {shard:UInt32} ORDER BY number DESC, token DESC LIMIT 1",
        )
        .with("shard", shard);
        Ok(self.rows::<Pair>("writer_epoch", call).await?.pop())
    }

    /// Ends the running inserts of every other writer of the shard, and waits for their end.
    async fn kill_other_writers(&self, epoch: &WriterEpoch) -> Result<(), WarehouseError> {
        // Numbers and fixed texts only: KILL takes no parameters.
        let sql = format!(
            "KILL QUERY WHERE startsWith(query_id, '{}') AND NOT startsWith(query_id, '{}') SYNC",
            shard_prefix(epoch.shard),
            epoch.query_prefix(),
        );
        self.execute("kill_writers", SqlStatement::new(sql).slow()).await
    }
}
