//! Work that is to run once, however many replicas there are: a lease in the store, by the
//! replicas' clocks.

use crate::{Accounts, AccountsError};

impl Accounts {
    /// Takes the job `name` for `holder` until `for_ms` milliseconds from now, or holds it for so
    /// much longer. `false` if another holder's time isn't over. A holder that stays away longer
    /// than its time may meet its successor: each step must bear being done twice.
    pub async fn claim(&self, name: &str, holder: &str, for_ms: i64) -> Result<bool, AccountsError> {
        let now_ms = self.now_ms();
        let claim = "INSERT INTO jobs (name, holder, until_ms) VALUES ($1, $2, $3)
            ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until_ms = excluded.until_ms
            WHERE jobs.holder = excluded.holder OR jobs.until_ms <= $4";
        let claim = sqlx::query(claim)
            .bind(name)
            .bind(holder)
            .bind(now_ms.saturating_add(for_ms.max(0)))
            .bind(now_ms);
        let done = self
            .timed("claim_job", async { Ok(claim.execute(&self.pool).await?) })
            .await?;
        Ok(done.rows_affected() > 0)
    }

    /// Gives the job back, so that the next replica needn't wait for its time to end. Does nothing
    /// if it is another's by now.
    ///
    /// # Errors
    /// The store fails; the lease then ends by itself.
    pub async fn release(&self, name: &str, holder: &str) -> Result<(), AccountsError> {
        let release = "DELETE FROM jobs WHERE name = $1 AND holder = $2";
        let release = sqlx::query(release).bind(name).bind(holder);
        self.timed("release_job", async { Ok(release.execute(&self.pool).await?) })
            .await?;
        Ok(())
    }
}
