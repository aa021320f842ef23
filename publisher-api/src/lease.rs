//! Work that one replica does for all: a job of the account store, held for as long as the work
//! takes.

use std::time::Duration;

use accounts::{Accounts, AccountsError};

/// Duration of a lease, and the time after which it is renewed.
const LEASE_MS: i64 = 60_000;
const RENEW_AFTER: Duration = Duration::from_secs(20);

/// Outcome of the work.
pub(crate) enum Turn<T> {
    /// The work came to its end.
    Done(T),
    /// Another replica is at it.
    Elsewhere,
    /// Another replica took the job over, and the work was dropped where it was.
    Lost,
}

/// Does `work` while `holder` has the job `name`.
///
/// # Errors
/// The store fails. The work isn't begun, or it is done and the job ends by itself.
pub(crate) async fn alone<T>(
    accounts: &Accounts,
    name: &str,
    holder: &str,
    work: impl Future<Output = T>,
) -> Result<Turn<T>, AccountsError> {
    if !accounts.claim(name, holder, LEASE_MS).await? {
        return Ok(Turn::Elsewhere);
    }
    // A store that is away is no reason to stop: work there fails by itself.
    let lost = async {
        loop {
            tokio::time::sleep(RENEW_AFTER).await;
            if let Ok(false) = accounts.claim(name, holder, LEASE_MS).await {
                return;
            }
        }
    };
    let turn = tokio::select! {
        done = work => Turn::Done(done),
        () = lost => Turn::Lost,
    };
    accounts.release(name, holder).await?;
    Ok(turn)
}
