//! Client IDs that operators claim. A claim rejects nobody's receipts: those that other keys signed
//! are unproven.

use uuid::Uuid;

use super::{Operator, OperatorError, note};
use crate::registry::{RegistrySection, increment};
use crate::row::RowValues;
use crate::{Accounts, AccountsError};

/// The most client IDs that an operator claims.
pub const OPERATOR_CLIENTS_MAX: i64 = 1_000;

impl Accounts {
    /// Claims a client ID for an operator. Several operators may claim the same. `false` if this
    /// one claims it already.
    ///
    /// # Errors
    /// [`OperatorError`]; nothing is changed then.
    pub async fn claim_client(&self, operator: &Operator, actor: &str, client_id: Uuid) -> Result<bool, OperatorError> {
        let work = async {
            let mut transaction = self.begin().await?;
            increment(&mut transaction, RegistrySection::Operators).await?;
            let (id, now_ms) = (operator.id.to_string(), self.now_ms());
            let insert = "INSERT INTO operator_clients (client_id, operator_id, claimed_at_ms) VALUES ($1, $2, $3)
                ON CONFLICT (client_id, operator_id) DO NOTHING";
            let insert = sqlx::query(insert).bind(client_id.to_string()).bind(&id).bind(now_ms);
            if insert.execute(&mut *transaction).await?.rows_affected() == 0 {
                return Ok(Ok(false));
            }
            let count =
                sqlx::query_scalar::<_, i64>("SELECT COUNT(*) FROM operator_clients WHERE operator_id = $1").bind(&id);
            if count.fetch_one(&mut *transaction).await? > OPERATOR_CLIENTS_MAX {
                return Ok(Err(OperatorError::TooManyClients));
            }
            let detail = client_id.to_string();
            note(
                &mut transaction,
                operator,
                actor,
                "operator.client.claim",
                &detail,
                now_ms,
            )
            .await?;
            transaction.commit().await?;
            Ok(Ok(true))
        };
        self.timed("operator_client_claim", work).await?
    }

    /// Gives up a claim. `false` if there is none.
    ///
    /// # Errors
    /// The store fails; nothing is changed then.
    pub async fn release_client(
        &self,
        operator: &Operator,
        actor: &str,
        client_id: Uuid,
    ) -> Result<bool, AccountsError> {
        let work = async {
            let mut transaction = self.begin().await?;
            increment(&mut transaction, RegistrySection::Operators).await?;
            let delete = "DELETE FROM operator_clients WHERE client_id = $1 AND operator_id = $2";
            let delete = sqlx::query(delete).bind(client_id.to_string());
            let delete = delete.bind(operator.id.to_string());
            if delete.execute(&mut *transaction).await?.rows_affected() == 0 {
                return Ok(false);
            }
            let (detail, now_ms) = (client_id.to_string(), self.now_ms());
            note(
                &mut transaction,
                operator,
                actor,
                "operator.client.release",
                &detail,
                now_ms,
            )
            .await?;
            transaction.commit().await?;
            Ok(true)
        };
        self.timed("operator_client_release", work).await
    }

    /// Returns the client IDs that an operator claims, in order.
    pub async fn operator_clients(&self, operator: &Operator) -> Result<Vec<Uuid>, AccountsError> {
        let query = "SELECT client_id FROM operator_clients WHERE operator_id = $1 ORDER BY client_id";
        let query = sqlx::query(query).bind(operator.id.to_string());
        let work = async { Ok(query.fetch_all(&self.pool).await?) };
        let rows = self.timed("operator_clients", work).await?;
        rows.iter().map(|row| row.parsed("client_id")).collect()
    }
}
