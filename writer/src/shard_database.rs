//! The database of a shard.

use service::retry::{Retry, Stopped};
use tracing::error;
use warehouse::Warehouse;

/// Returns the shard's database. If the configuration can't be right, there is none, and `part` of
/// readiness says why.
pub(crate) async fn shard_database(
    all: &Warehouse,
    retry: &Retry,
    part: &'static str,
    shard: u32,
) -> Result<Option<Warehouse>, Stopped> {
    let reason = match all.shard(shard) {
        Ok(warehouse) => {
            let other = || warehouse.writer_of_other_shard(shard);
            let Some(other) = retry.until_done("warehouse", other).await? else {
                return Ok(Some(warehouse.clone()));
            };
            format!(
                "the database `{}` has the tables of shard {other}, and warehouse.shards names it for shard {shard}: shards \
                 never change their positions in warehouse.shards",
                warehouse.database()
            )
        }
        Err(error) => error.to_string(),
    };
    error!(
        shard,
        part, reason, "nothing of the shard is stored until this process is configured and started again"
    );
    retry.parts.failed(part, reason);
    Ok(None)
}
