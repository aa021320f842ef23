//! The account store of the configuration.

use accounts::Accounts;

use crate::failure::CommandFailure;
use crate::serve::engines;
use crate::settings::{Settings, SettingsArgs};

/// Opens the account store, and creates the data directory that SQLite's file is in.
///
/// # Errors
/// The directory can't be created, or the store can't be opened.
pub async fn open(settings: &Settings) -> Result<Accounts, CommandFailure> {
    settings.data.create()?;
    engines::accounts(settings).await
}

/// Runs `work` on the account store of the settings, and closes the store afterwards.
///
/// # Errors
/// The settings are invalid, [`open`] fails, or `work` does.
pub async fn with_store<T>(
    settings: &SettingsArgs,
    work: impl AsyncFnOnce(&Accounts) -> Result<T, CommandFailure>,
) -> Result<T, CommandFailure> {
    let accounts = open(&settings.load()?).await?;
    let done = work(&accounts).await;
    accounts.close().await;
    done
}
