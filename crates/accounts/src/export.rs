//! Everything that is stored of an account, table by table and page by page, without secrets.
//!
//! Each table is read in an order that never changes, oldest first: a row that is there when its
//! table is begun is in exactly one page.

use sqlx::Row;
use sqlx::any::AnyRow;

use crate::page::Cursor;
use crate::{Accounts, AccountsError};

/// A table as its account may see it.
#[derive(Debug)]
pub struct Collection {
    /// Public name.
    pub name: &'static str,
    /// Columns that are shown, in order.
    pub columns: &'static [Column],
    table: &'static str,
    of_account: &'static str,
    /// Instant and identifier, neither of which ever changes.
    order: [&'static str; 2],
}

/// A column as it is shown.
#[derive(Debug)]
pub struct Column {
    /// Public name.
    pub name: &'static str,
    sql: &'static str,
    kind: ColumnKind,
}

/// Kind of value in a column.
#[derive(Debug, Clone, Copy)]
enum ColumnKind {
    Text,
    Instant,
    Number,
    Flag,
    /// Strings as a JSON array.
    List,
    /// Words with commas.
    Words,
}

/// A value of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExportValue {
    /// No value.
    Absent,
    /// A text.
    Text(String),
    /// Milliseconds since the Unix epoch.
    Instant(i64),
    /// A number.
    Number(i64),
    /// Yes or no.
    Flag(bool),
    /// Texts.
    List(Vec<String>),
}

/// A row, and the cursor behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedRow {
    /// To continue behind it.
    pub cursor: Cursor,
    /// A cell for each of the collection's columns.
    pub cells: Vec<ExportValue>,
}

const fn text(name: &'static str, sql: &'static str) -> Column {
    let kind = ColumnKind::Text;
    Column { name, sql, kind }
}

const fn number(name: &'static str, sql: &'static str) -> Column {
    let kind = ColumnKind::Number;
    Column { name, sql, kind }
}

const fn instant(name: &'static str, sql: &'static str) -> Column {
    let kind = ColumnKind::Instant;
    Column { name, sql, kind }
}

const fn flag(name: &'static str, sql: &'static str) -> Column {
    let kind = ColumnKind::Flag;
    Column { name, sql, kind }
}

const OWN: &str = "account_id = $1";
const OF_OPERATOR: &str = "operator_id IN (SELECT operator_id FROM operators WHERE account_id = $1)";

/// In the order in which they are exported.
pub const COLLECTIONS: &[Collection] = &[
    Collection {
        name: "account",
        table: "accounts",
        of_account: "id = $1",
        order: ["created_at_ms", "id"],
        columns: &[
            text("accountId", "id"),
            text("name", "name"),
            text("tier", "tier"),
            number("requestsPerMinute", "requests_per_minute"),
            number("requestsPerDay", "requests_per_day"),
            instant("createdAt", "created_at_ms"),
            Column {
                name: "trustedOperators",
                sql: "trusted_operators",
                kind: ColumnKind::Words,
            },
            instant("deletionRequestedAt", "deletion_requested_at_ms"),
            instant("eraseAfter", "erase_after_ms"),
        ],
    },
    Collection {
        name: "members",
        table: "members JOIN users ON users.id = members.user_id",
        of_account: "members.account_id = $1",
        order: ["members.created_at_ms", "user_id"],
        columns: &[
            text("userId", "user_id"),
            text("issuer", "issuer"),
            text("subject", "subject"),
            text("email", "email"),
            text("name", "name"),
            text("role", "role"),
            instant("memberSince", "members.created_at_ms"),
            instant("createdAt", "users.created_at_ms"),
        ],
    },
    Collection {
        name: "reportSubscriptions",
        table: "report_subscriptions",
        of_account: OWN,
        // A member has one, whose instants change.
        order: ["CAST(0 AS BIGINT)", "user_id"],
        columns: &[
            text("userId", "user_id"),
            instant("weeklySince", "weekly_since_ms"),
            instant("monthlySince", "monthly_since_ms"),
            instant("newOperatorSince", "new_operator_since_ms"),
            number("unprovenPercent", "unproven_percent"),
            number("silentHours", "silent_hours"),
        ],
    },
    Collection {
        name: "invitations",
        table: "invitations",
        of_account: OWN,
        order: ["created_at_ms", "id"],
        columns: &[
            text("invitationId", "id"),
            text("role", "role"),
            text("email", "email"),
            text("invitedBy", "invited_by"),
            instant("createdAt", "created_at_ms"),
            instant("expiresAt", "expires_at_ms"),
        ],
    },
    Collection {
        name: "sessions",
        table: "sessions",
        of_account: OWN,
        order: ["created_at_ms", "id"],
        columns: &[
            text("sessionId", "id"),
            text("userId", "user_id"),
            instant("signedInAt", "signed_in_at_ms"),
            instant("seenAt", "seen_at_ms"),
            instant("createdAt", "created_at_ms"),
            instant("endsAt", "ends_at_ms"),
        ],
    },
    Collection {
        name: "domains",
        table: "domains",
        of_account: OWN,
        // A renewal changes its instants.
        order: ["CAST(0 AS BIGINT)", "domain"],
        columns: &[
            text("domain", "domain"),
            text("verificationId", "verification_id"),
            text("method", "method"),
            flag("includeSubdomains", "include_subdomains"),
            instant("verifiedAt", "verified_at_ms"),
            instant("expiresAt", "expires_at_ms"),
            instant("revokedAt", "revoked_at_ms"),
            number("proofFailures", "proof_failures"),
            instant("proofNextCheckAt", "proof_next_at_ms"),
            instant("suspendedExpiresAt", "suspended_expires_at_ms"),
        ],
    },
    Collection {
        name: "challenges",
        table: "challenges",
        of_account: OWN,
        order: ["created_at_ms", "id"],
        columns: &[
            text("challengeId", "id"),
            text("domain", "domain"),
            text("method", "method"),
            flag("includeSubdomains", "include_subdomains"),
            instant("createdAt", "created_at_ms"),
            instant("expiresAt", "expires_at_ms"),
        ],
    },
    Collection {
        name: "operators",
        table: "operators",
        of_account: OWN,
        order: ["created_at_ms", "operator_id"],
        columns: &[
            text("operatorId", "operator_id"),
            text("domain", "domain"),
            instant("createdAt", "created_at_ms"),
        ],
    },
    Collection {
        name: "operatorKeys",
        table: "operator_keys",
        of_account: OF_OPERATOR,
        // A key may have been an operator's several times.
        order: ["from_ms", "fingerprint"],
        columns: &[
            text("operatorId", "operator_id"),
            text("fingerprint", "fingerprint"),
            text("thumbprint", "thumbprint"),
            text("publicKey", "pem"),
            text("algorithm", "algorithm"),
            text("source", "source"),
            instant("from", "from_ms"),
            instant("until", "until_ms"),
        ],
    },
    Collection {
        name: "operatorClients",
        table: "operator_clients",
        of_account: OF_OPERATOR,
        order: ["claimed_at_ms", "client_id || '.' || operator_id"],
        columns: &[
            text("operatorId", "operator_id"),
            text("clientId", "client_id"),
            instant("claimedAt", "claimed_at_ms"),
        ],
    },
    Collection {
        name: "keys",
        table: "api_keys",
        of_account: OWN,
        order: ["created_at_ms", "id"],
        columns: &[
            text("keyId", "id"),
            text("name", "name"),
            Column {
                name: "scope",
                sql: "scopes",
                kind: ColumnKind::Words,
            },
            Column {
                name: "domains",
                sql: "domains",
                kind: ColumnKind::Words,
            },
            instant("createdAt", "created_at_ms"),
            instant("expiresAt", "expires_at_ms"),
            instant("revokedAt", "revoked_at_ms"),
            text("replacedBy", "replaced_by"),
            text("createdBy", "created_by"),
            instant("lastUsedAt", "last_used_at_ms"),
        ],
    },
    Collection {
        name: "entries",
        table: "entries",
        of_account: OWN,
        order: ["created_at_ms", "id"],
        columns: &[
            text("entryId", "id"),
            text("domain", "domain"),
            text("url", "url"),
            text("title", "title"),
            Column {
                name: "authors",
                sql: "authors",
                kind: ColumnKind::List,
            },
            instant("createdAt", "created_at_ms"),
            instant("updatedAt", "updated_at_ms"),
            number("revision", "revision"),
        ],
    },
    Collection {
        name: "mails",
        table: "mails",
        of_account: OWN,
        order: ["created_at_ms", "id"],
        columns: &[
            text("mailId", "id"),
            text("kind", "kind"),
            text("domain", "NULLIF(domain, '')"),
            text("erasureId", "erasure_id"),
            text("invitationId", "invitation_id"),
            text("userId", "user_id"),
            text("report", "report"),
            text("state", "state"),
            instant("createdAt", "created_at_ms"),
            instant("endedAt", "ended_at_ms"),
        ],
    },
    Collection {
        name: "erasures",
        table: "erasures",
        of_account: OWN,
        order: ["requested_at_ms", "id"],
        columns: &[
            text("erasureId", "id"),
            text("actor", "actor"),
            text("state", "state"),
            instant("requestedAt", "requested_at_ms"),
            instant("executeAt", "execute_at_ms"),
            instant("cancelledAt", "cancelled_at_ms"),
            instant("finishedAt", "finished_at_ms"),
        ],
    },
    Collection {
        name: "trail",
        table: "trail",
        of_account: OWN,
        order: ["at_ms", "id"],
        columns: &[
            text("id", "id"),
            instant("at", "at_ms"),
            text("actor", "actor"),
            text("action", "action"),
            text("subject", "subject"),
            text("detail", "detail"),
        ],
    },
];

impl Accounts {
    /// Number of the account's rows in a collection.
    pub async fn collection_rows(&self, account_id: &str, collection: &Collection) -> Result<u64, AccountsError> {
        let question = format!(
            "SELECT COUNT(*) FROM {} WHERE {}",
            collection.table, collection.of_account
        );
        // Of this file's own words.
        let question = sqlx::query_scalar(sqlx::AssertSqlSafe(question)).bind(account_id);
        let rows: i64 = self
            .timed("collection_rows", async { Ok(question.fetch_one(&self.pool).await?) })
            .await?;
        Ok(u64::try_from(rows).unwrap_or(0))
    }

    /// At most `rows_max` rows of a collection, oldest first, that come after `after`. There are no
    /// more if there are none.
    pub async fn collection_page(
        &self,
        account_id: &str,
        collection: &Collection,
        after: Option<&Cursor>,
        rows_max: i64,
    ) -> Result<Vec<ExportedRow>, AccountsError> {
        let Collection {
            columns,
            table,
            of_account,
            order: [at, id],
            ..
        } = collection;
        let shown: Vec<&str> = columns.iter().map(|column| column.sql).collect();
        let question = format!(
            "SELECT {at}, {id}, {} FROM {table} WHERE {of_account} AND ({at}, {id}) > ($2, $3) ORDER BY {at}, {id} LIMIT $4",
            shown.join(", ")
        );
        let (at_ms, id) = after.map_or((i64::MIN, ""), |cursor| (cursor.created_at_ms, cursor.id.as_str()));
        let question = sqlx::query(sqlx::AssertSqlSafe(question)).bind(account_id);
        let question = question.bind(at_ms).bind(id).bind(rows_max);
        let rows = self
            .timed("collection_page", async { Ok(question.fetch_all(&self.pool).await?) })
            .await?;
        rows.iter().map(|row| exported(row, columns)).collect()
    }
}

/// Reads a row by position, without `FromRow`: its columns are known at run time only.
fn exported(row: &AnyRow, columns: &[Column]) -> Result<ExportedRow, AccountsError> {
    let cursor = Cursor {
        created_at_ms: row.try_get(0)?,
        id: row.try_get(1)?,
    };
    let cells: Result<Vec<ExportValue>, AccountsError> = columns
        .iter()
        .enumerate()
        .map(|(number, column)| cell(row, number + 2, column.kind))
        .collect();
    Ok(ExportedRow { cursor, cells: cells? })
}

fn cell(row: &AnyRow, at: usize, kind: ColumnKind) -> Result<ExportValue, AccountsError> {
    let cell = match kind {
        ColumnKind::Text => row.try_get::<Option<String>, _>(at)?.map(ExportValue::Text),
        ColumnKind::Instant => row.try_get::<Option<i64>, _>(at)?.map(ExportValue::Instant),
        ColumnKind::Number => row.try_get::<Option<i64>, _>(at)?.map(ExportValue::Number),
        ColumnKind::Flag => row
            .try_get::<Option<i64>, _>(at)?
            .map(|flag| ExportValue::Flag(flag != 0)),
        ColumnKind::Words => row.try_get::<Option<String>, _>(at)?.map(|words| {
            let words = words.split(',').filter(|word| !word.is_empty());
            ExportValue::List(words.map(str::to_owned).collect())
        }),
        ColumnKind::List => row
            .try_get::<Option<String>, _>(at)?
            .map(|list| serde_json::from_str(&list).map(ExportValue::List))
            .transpose()
            .map_err(|error| AccountsError::Store(format!("a list can't be read: {error}")))?,
    };
    Ok(cell.unwrap_or(ExportValue::Absent))
}
