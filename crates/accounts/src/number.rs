//! Numbers for work whose steps must not be taken for those of another: each is given out once, however many replicas ask.

use sqlx::Row;

use crate::{Accounts, AccountsError};

impl Accounts {
    /// The next number of the row `name`: greater than all that it gave out before, and than `above` (what the caller has seen of
    /// them, as this store may have been restored from an older copy).
    ///
    /// # Errors
    /// The store fails.
    pub async fn next_number(&self, name: &str, above: i64) -> Result<i64, AccountsError> {
        let next = "INSERT INTO numbers (name, last) VALUES ($1, $2)
            ON CONFLICT (name) DO UPDATE
            SET last = CASE WHEN numbers.last >= excluded.last THEN numbers.last + 1 ELSE excluded.last END
            RETURNING last";
        let next = sqlx::query(next).bind(name).bind(above.saturating_add(1));
        self.timed("next_number", async {
            let row = next.fetch_one(&self.pool).await?;
            Ok(row.try_get(0)?)
        })
        .await
    }
}
