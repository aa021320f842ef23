//! AI operators: their keys, from key directories and from requests that a key signed.
//!
//! - `directory`: one fetch of a key directory, and what it changes
//! - `freshness`: how long a directory's answer is used
//! - `possession`: a request that is signed with the key it registers

mod directory;
mod freshness;
pub(crate) mod possession;

use std::time::Duration;

use accounts::{AccountsError, Fingerprint, KeySource, NewOperatorKey};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use http_signatures::DirectoryKey;

pub(crate) use self::directory::Directories;
use crate::tasks;

/// Directories of one round; the next round continues.
const DIRECTORIES_MAX: usize = 64;
/// Directories that are fetched at one time. With the time of one fetch, a round ends within the
/// store's lease.
const FETCHES_MAX: usize = 16;

/// A key as the account store takes it.
#[must_use]
pub fn operator_key(key: &DirectoryKey, source: KeySource) -> NewOperatorKey {
    NewOperatorKey {
        fingerprint: Fingerprint(*key.key.fingerprint()),
        thumbprint: key.thumbprint.clone(),
        pem: key.pem.clone(),
        algorithm: key.key.algorithm().to_string(),
        source,
    }
}

/// Fetches directories when they are due, round after round.
pub(crate) async fn watch(directories: Directories, pause: Duration) {
    tasks::begin("directories");
    loop {
        match round(&directories).await {
            Ok(()) => tasks::done("directories"),
            Err(error) => {
                tracing::warn!(%error, "key directories couldn't be fetched; the next round tries again");
            }
        }
        tokio::time::sleep(pause).await;
    }
}

async fn round(directories: &Directories) -> Result<(), AccountsError> {
    let due = directories.accounts.take_due_directories(DIRECTORIES_MAX).await?;
    let fetches = stream::iter(due).map(|due| directories.refresh(due));
    fetches.buffer_unordered(FETCHES_MAX).try_collect().await
}
