//! [`Warehouse`]: the tables of one shard or of all, and their configuration.

use std::ops::Deref;
use std::sync::Arc;

use receipt_clickhouse::{ClickHouseClient, Target, WarehouseConfig};

use crate::WarehouseError;
use crate::queries::names_a_part;
use crate::schema::Layout;

/// A ClickHouse that holds our tables. Cheap to clone; clones share connections.
///
/// With several [shards](Self::shards), queries read the tables of all of them, and whatever
/// changes tables goes to one shard.
///
/// **With replicas**, `Ok` of an insert means that most of them have the rows (`insert_quorum`), so
/// that no death of one replica loses them. Queries see all of these inserts
/// (`select_sequential_consistency`), or fail where a replica doesn't have them yet. All statements
/// of a shard go to one address.
#[derive(Debug, Clone)]
pub struct Warehouse {
    client: ClickHouseClient,
    cluster: Option<String>,
    is_replicated: bool,
    /// Empty for a single one, which this is itself.
    shards: Arc<[Warehouse]>,
    fsync: bool,
    receipts_days_max: u64,
    rejected_days_max: u64,
}

/// Statements are the client's.
impl Deref for Warehouse {
    type Target = ClickHouseClient;

    fn deref(&self) -> &ClickHouseClient {
        &self.client
    }
}

impl Warehouse {
    /// Makes a client. Connects to nothing yet: an unreachable warehouse shows at the first call.
    pub fn new(target: &Target, config: &WarehouseConfig) -> Result<Self, WarehouseError> {
        let client = ClickHouseClient::new(target, config, names_a_part)?;
        let shards = config.of_shards();
        let shards = shards.iter().map(|shard| {
            let url = shard.url.clone().unwrap_or_default();
            let shard = Self::new(&Target::Url(url), shard)?;
            Ok(Self {
                client: shard.client.with_damage_of(&client),
                ..shard
            })
        });
        Ok(Self {
            shards: shards.collect::<Result<_, WarehouseError>>()?,
            cluster: config.cluster.clone(),
            is_replicated: config.replicated,
            fsync: config.fsync || !client.is_server(),
            receipts_days_max: config.receipts_days_max,
            rejected_days_max: config.rejected_days_max,
            client,
        })
    }

    /// Makes a client and checks that the warehouse answers, and that a server is
    /// [one that we can use](Self::check_server).
    pub async fn connect(target: &Target, config: &WarehouseConfig) -> Result<Self, WarehouseError> {
        let warehouse = Self::new(target, config)?;
        warehouse.ping().await?;
        if warehouse.is_server() {
            warehouse.check_server().await?;
            for shard in warehouse.shards.iter() {
                shard.check_server().await?;
            }
        }
        Ok(warehouse)
    }

    /// Reads the files of certificates and keys again, for further connections to every shard.
    ///
    /// # Errors
    /// As [`ClickHouseClient::reload_tls`].
    pub fn reload_tls(&self) -> Result<(), WarehouseError> {
        for shard in self.shards() {
            shard.client.reload_tls()?;
        }
        self.client.reload_tls()
    }

    /// Returns the layout of the tables.
    pub(crate) fn layout(&self) -> Layout<'_> {
        Layout {
            database: self.database(),
            is_replicated: self.is_replicated,
            fsync: self.fsync,
            receipts_days_max: self.receipts_days_max,
            rejected_days_max: self.rejected_days_max,
        }
    }

    /// The cluster that has the shards, if there are several.
    pub(crate) fn cluster(&self) -> Option<&str> {
        self.cluster.as_deref()
    }

    /// Whether the tables are replicated.
    pub(crate) fn is_replicated(&self) -> bool {
        self.is_replicated
    }

    /// The shards, each as a warehouse of its own, in the order of their numbers.
    #[must_use]
    pub fn shards(&self) -> &[Self] {
        if self.shards.is_empty() {
            std::slice::from_ref(self)
        } else {
            &self.shards
        }
    }

    /// A shard as a warehouse of its own.
    ///
    /// # Errors
    /// [`WarehouseError::Config`]: the configuration has no such shard.
    pub fn shard(&self, number: u32) -> Result<&Self, WarehouseError> {
        let shards = self.shards();
        shards.get(number as usize).ok_or_else(|| {
            WarehouseError::Config(format!(
                "shard {number} has no address: warehouse.shards has {} of them",
                shards.len()
            ))
        })
    }

    /// Returns the age at which receipts are deleted, in days.
    #[must_use]
    pub fn receipts_days_max(&self) -> u64 {
        self.receipts_days_max
    }

    /// Returns the age at which rejected receipts are deleted, in days.
    #[must_use]
    pub fn rejected_days_max(&self) -> u64 {
        self.rejected_days_max
    }
}
