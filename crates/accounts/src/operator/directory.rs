//! State of operators' key directories: when each was fetched, and when it is fetched next.

use super::Operator;
use crate::{Accounts, AccountsError};

/// Time in which the process that took a directory must have stored what it found.
const LEASE_MS: i64 = 60_000;

/// State of a key directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DirectoryState {
    /// The last fetch that succeeded, milliseconds since the Unix epoch; 0 if none has.
    pub fetched_at_ms: i64,
    /// The next fetch.
    pub next_at_ms: i64,
    /// Fetches that have failed since one succeeded.
    pub failures: u32,
    /// Why the last fetch failed, or what of its answer wasn't used; empty if all is well.
    pub failure: String,
}

/// A directory to fetch now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueDirectory {
    /// Operator whose directory it is.
    pub operator: Operator,
    /// `ETag` of the stored answer; empty if there is none.
    pub etag: String,
}

impl Accounts {
    /// Returns the operators whose domain is proven and whose directory is due, those that have
    /// been due longest first.
    pub async fn due_directories(&self) -> Result<Vec<Operator>, AccountsError> {
        let now_ms = self.now_ms();
        let mut due = self.operators(None).await?;
        due.retain(|operator| operator.is_domain_proven && operator.directory.next_at_ms <= now_ms);
        due.sort_by_key(|operator| operator.directory.next_at_ms);
        Ok(due)
    }

    /// Takes an operator's directory, unless another process has taken it since it was read. For a
    /// minute no other process gets it.
    pub async fn take_directory(&self, operator: Operator) -> Result<Option<DueDirectory>, AccountsError> {
        let take = "UPDATE operators SET directory_next_at_ms = $1
            WHERE operator_id = $2 AND directory_next_at_ms = $3 RETURNING directory_etag";
        let take = sqlx::query_scalar(take).bind(self.now_ms().saturating_add(LEASE_MS));
        let take = take.bind(operator.id.to_string()).bind(operator.directory.next_at_ms);
        let work = async { Ok(take.fetch_optional(&self.pool).await?) };
        let etag = self.timed("operator_directory_take", work).await?;
        Ok(etag.map(|etag| DueDirectory { operator, etag }))
    }

    /// Stores the outcome of a fetch: the state, and the answer's `ETag`, or `None` to leave it.
    pub async fn store_directory(
        &self,
        operator: &Operator,
        state: &DirectoryState,
        etag: Option<&str>,
    ) -> Result<(), AccountsError> {
        let update = "UPDATE operators SET directory_at_ms = $1, directory_next_at_ms = $2, directory_failures = $3,
                directory_failure = $4, directory_etag = COALESCE($5, directory_etag) WHERE operator_id = $6";
        let update = sqlx::query(update).bind(state.fetched_at_ms).bind(state.next_at_ms);
        let update = update.bind(i64::from(state.failures));
        let update = update.bind(&state.failure).bind(etag).bind(operator.id.to_string());
        let work = async { Ok(update.execute(&self.pool).await?) };
        self.timed("operator_directory_store", work).await?;
        Ok(())
    }
}
