//! AI operators: their keys, from key directories and from requests that a key signed.
//!
//! - `directory`: one fetch of a key directory, and what it changes
//! - `freshness`: how long a directory's answer is used
//! - `possession`: a request that is signed with the key it registers

mod directory;
mod freshness;
pub(crate) mod possession;

use std::time::Duration;

use accounts::{AccountsError, Fingerprint, KeySource, NewOperatorKey, Operator};
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use http_signatures::DirectoryKey;
use tokio::time::MissedTickBehavior;
use web::shares::FairSemaphore;

pub(crate) use self::directory::Directories;
use crate::tasks;

/// Directories that are fetched at one time. An account gets as many of these permits as it leaves
/// free: directories that hang, or are slow, delay those of other accounts as long as not every
/// permit is another account's.
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

/// A fetch in progress, and its permit.
type Fetch<'a> = BoxFuture<'a, Result<(), AccountsError>>;

/// Fetches directories when they are due. Every `pause` it reads which ones are; as permits become
/// free, it begins with the next.
pub(crate) async fn watch(directories: Directories, pause: Duration) {
    tasks::begin("directories");
    let permits = FairSemaphore::new(FETCHES_MAX);
    let mut fetches = FuturesUnordered::<Fetch<'_>>::new();
    let mut due = Vec::new();
    let mut ticks = tokio::time::interval(pause);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let outcome = tokio::select! {
            _ = ticks.tick() => directories.accounts.due_directories().await.map(|read| {
                due = read;
                tasks::done("directories");
            }),
            Some(fetched) = fetches.next() => fetched,
        };
        let outcome = match outcome {
            Ok(()) => begin(&directories, &permits, &mut due, &mut fetches).await,
            failed => failed,
        };
        if let Err(error) = outcome {
            tracing::warn!(%error, "key directories couldn't be fetched; the next round tries again");
        }
    }
}

/// Begins as many of the due fetches as there are permits for, and leaves the others.
async fn begin<'a>(
    directories: &'a Directories,
    permits: &'a FairSemaphore,
    due: &mut Vec<Operator>,
    fetches: &mut FuturesUnordered<Fetch<'a>>,
) -> Result<(), AccountsError> {
    let mut left = Vec::new();
    for operator in std::mem::take(due) {
        let Ok(permit) = permits.take(&[&operator.account_id]) else {
            left.push(operator);
            continue;
        };
        if let Some(taken) = directories.accounts.take_directory(operator).await? {
            fetches.push(Box::pin(async move {
                let _permit = permit;
                directories.refresh(taken).await
            }));
        }
    }
    *due = left;
    Ok(())
}
