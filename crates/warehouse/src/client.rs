//! [`Warehouse`]: the one way in, over ClickHouse's HTTP protocol.

use bytes::Bytes;

use crate::{LedgerRow, Target, WarehouseConfig, WarehouseError};

/// A ClickHouse that holds our tables. Cheap to clone; clones share connections.
#[derive(Debug, Clone)]
pub struct Warehouse {}

impl Warehouse {
    /// Makes a client. Connects to nothing yet: an unreachable warehouse shows at the first call.
    ///
    /// # Errors
    /// [`WarehouseError::Config`].
    pub fn new(_target: &Target, config: &WarehouseConfig) -> Result<Self, WarehouseError> {
        config.validate().map_err(WarehouseError::Config)?;
        Ok(Self {})
    }

    /// Makes a client and asks the warehouse whether it is there.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn connect(target: &Target, config: &WarehouseConfig) -> Result<Self, WarehouseError> {
        let warehouse = Self::new(target, config)?;
        warehouse.ping().await?;
        Ok(warehouse)
    }

    /// Whether the warehouse answers a query.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn ping(&self) -> Result<(), WarehouseError> {
        Err(WarehouseError::Unavailable("not built yet".to_owned()))
    }

    /// Creates the database and brings the schema up to date. Safe to repeat.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn migrate(&self) -> Result<(), WarehouseError> {
        Err(WarehouseError::Unavailable("not built yet".to_owned()))
    }

    /// Inserts `count` rows encoded by [`crate::ReceiptRow::encode`], in chunks of any size, as one block. `Ok` means
    /// they are durable. Inserting the same rows again changes nothing.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn insert_receipts(&self, _rows: Vec<Bytes>, _count: u64) -> Result<(), WarehouseError> {
        Err(WarehouseError::Unavailable("not built yet".to_owned()))
    }

    /// Inserts `count` rows encoded by [`crate::RejectedRow::encode`]; as [`insert_receipts`](Self::insert_receipts).
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn insert_rejected(&self, _rows: Vec<Bytes>, _count: u64) -> Result<(), WarehouseError> {
        Err(WarehouseError::Unavailable("not built yet".to_owned()))
    }

    /// Inserts ledger rows; as [`insert_receipts`](Self::insert_receipts).
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn insert_ledger(&self, _rows: &[LedgerRow]) -> Result<(), WarehouseError> {
        Err(WarehouseError::Unavailable("not built yet".to_owned()))
    }
}
