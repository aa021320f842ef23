//! The account store of the configuration.

use accounts::Accounts;

use crate::failure::Failure;
use crate::settings::Settings;

/// Opens it, and creates the data directory that SQLite's file is in.
///
/// # Errors
/// The directory can't be created, or the store can't be opened.
pub async fn open(settings: &Settings) -> Result<Accounts, Failure> {
    settings.data.create()?;
    let accounts = Accounts::open(&settings.accounts, settings.data.root()).await;
    accounts.map_err(Failure::unavailable)
}
