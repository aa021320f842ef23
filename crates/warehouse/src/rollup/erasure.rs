//! Erasures and rolled rows.
//!
//! An erasure changes receipts without a record of the log, so it marks its publishers itself: before its first statement, from when
//! on nothing of theirs is read from rolled rows, and after its last one, from when on they may be made anew. Their rolled rows are
//! deleted in between. One that dies halfway leaves its publishers to be read from the receipts until it is done again, or until a roll
//! finds it old and no mutation under way.

use uuid::Uuid;

use super::tables::{BY_CLIENT, BY_ENTRY};
use crate::client::Call;
use crate::schema::Table;
use crate::{Scope, Warehouse, WarehouseError};

/// What of rolled rows tells of clients.
const TELLS: [(&Table, &str); 2] = [
    (
        &BY_CLIENT,
        "(client_id != toUUID('00000000-0000-0000-0000-000000000000') OR name != '' OR organization != '' OR client_version != '')",
    ),
    (&BY_ENTRY, "client_id != toUUID('00000000-0000-0000-0000-000000000000')"),
];

impl Warehouse {
    /// Marks the beginning or the end of an erasure.
    pub(crate) async fn mark_erasure(&self, erasure: Uuid, scope: &Scope, ended: bool) -> Result<(), WarehouseError> {
        let parents: Vec<String> = scope.below.iter().map(|below| below.parent.clone()).collect();
        let call = Call::new(
            "INSERT INTO rollup_erasures (erasure, ended, publishers, parents)
             SELECT {erasure:UUID}, {ended:UInt8}, {publishers:Array(String)}, {parents:Array(String)}",
        )
        .with("erasure", erasure.to_string())
        .with("ended", u8::from(ended))
        .with("publishers", scope.publishers.clone())
        .with("parents", parents);
        self.execute("mark_erasure", call).await
    }

    /// How many rolled rows tell of clients' receipts before `before_ms`. Those that are made of erased receipts don't.
    pub(crate) async fn rolled_left(&self, whose: &str, before_ms: i64) -> Result<u64, WarehouseError> {
        let mut left = 0;
        for (table, tells) in TELLS {
            let sql = format!(
                "SELECT count() FROM {} WHERE first_ms < {before_ms} AND {tells} AND {whose}",
                table.name
            );
            left += self.one::<u64>("metadata_left", Call::new(sql).slow()).await?;
        }
        Ok(left)
    }

    /// Whether there are rolled rows of these publishers.
    pub(crate) async fn has_rolled(&self, whose: &str) -> Result<bool, WarehouseError> {
        for (table, _) in TELLS {
            let sql = format!(
                "SELECT count() FROM (SELECT 1 FROM {} WHERE {whose} LIMIT 1)",
                table.name
            );
            if self.one::<u64>("metadata_left", Call::new(sql).slow()).await? > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Deletes all rolled rows of these publishers, on every replica. Who read a view before their erasure was marked may still be asking
    /// for them: wait that long before.
    pub(crate) async fn delete_rolled(&self, whose: &str) -> Result<(), WarehouseError> {
        let layout = self.layout();
        for (table, _) in TELLS {
            let sql = format!(
                "ALTER TABLE {}{} DELETE WHERE {whose} SETTINGS mutations_sync = 2",
                layout.stored(table),
                layout.on_cluster(),
            );
            self.execute("erase_metadata", Call::new(sql).slow()).await?;
        }
        Ok(())
    }
}
