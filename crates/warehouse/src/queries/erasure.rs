//! Erasure of data that identify users of content, from rows that stay: counts, positions and
//! hashes are as before, and so is the audit.
//!
//! A blank is the least value of its column, and `receipts` and `evidence` unite rows by `min`:
//! what comes later of the same receipt (a duplicate, a block written again, a repair) doesn't
//! bring anything back. The duplicate's bytes go with the next merge or the next erasure.

use super::{Below, QueryScope, TIME_MS_MAX, TIME_MS_MIN};
use crate::schema::{EVIDENCE, RECEIPTS, REJECTED, SchemaTable, USAGE};
use crate::{SqlStatement, Warehouse, WarehouseError};

/// Publishers that one statement names: their names have 253 bytes, twice as many in it, and a
/// statement has 256 KiB.
const PUBLISHERS_MAX: usize = 200;
/// Longest conditions of one statement, in bytes.
const STATEMENT_BYTES_MAX: usize = 200_000;
/// Receipts of a person that one statement names, 39 bytes each.
const PERSON_RECEIPTS_MAX: usize = 1_000;

/// Rows that lose the data that identify their clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataErasure {
    /// Scope of the erasure.
    pub scope: QueryScope,
    /// Receipts of accesses before or received before (a client's clock may be ahead), and refusals
    /// received before; milliseconds since the Unix epoch. A duplicate has the time of its
    /// original, so it is covered too.
    pub before_ms: i64,
    /// Only rows of this person, and of receipts only what names a person: clients stay, and with
    /// them the aggregates of usage.
    pub person: Option<ErasedPerson>,
}

/// A person, as a receipt's `usage` names one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErasedPerson {
    /// By `researcherId`.
    Researcher(String),
    /// By `sessionId`.
    Session(String),
}

/// Stored rows that identify their clients. A receipt that isn't merged with its duplicates yet is
/// several rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MetadataRows {
    /// Of `receipts`.
    pub receipts: u64,
    /// Of `rejected`.
    pub rejected: u64,
    /// Of `evidence`.
    pub evidence: u64,
}

impl MetadataRows {
    /// Whether there are none.
    #[must_use]
    pub fn is_none(self) -> bool {
        self.receipts == 0 && self.rejected == 0 && self.evidence == 0
    }
}

/// A column and what it is when it is blank.
type Blank = (&'static str, &'static str);

/// `client` without its key's algorithm, and what of `usage` can name a person.
const RECEIPT_BLANKS: &[Blank] = &[
    ("client_id", "toUUID('00000000-0000-0000-0000-000000000000')"),
    ("client_name", "''"),
    ("client_version", "''"),
    ("organization", "''"),
    ("key_fingerprint", "toFixedString('', 32)"),
    ("stamp", "(toDateTime64(0, 3, 'UTC'), '', tupleElement(stamp, 3))"),
    ("context", "''"),
    ("query_id", "''"),
    ("session_id", "''"),
    ("study_id", "''"),
    ("researcher_id", "''"),
];

/// Columns of [`RECEIPT_BLANKS`] that can name a person: those behind `stamp`.
const PERSON_BLANKS: &[Blank] = RECEIPT_BLANKS.split_at(6).1;

/// The bytes have everything.
const EVIDENCE_BLANKS: &[Blank] = &[(
    "arrival",
    "(toDateTime64(0, 3, 'UTC'), toUInt128(0), '', toFixedString('', 32), '')",
)];

/// The bytes hold everything, and what was found may quote them.
const REJECTED_BLANKS: &[Blank] = &[
    ("client_id", "NULL"),
    ("key_fingerprint", "toFixedString('', 32)"),
    ("detail", "''"),
    ("request_id", "''"),
    ("client_address", "''"),
    ("raw", "''"),
    ("request_signature", "NULL"),
];

/// A table with data of clients.
struct ErasedTable {
    table: &'static SchemaTable,
    /// Columns that date its rows.
    times: &'static [&'static str],
    /// Columns that are blanked.
    blanks: &'static [Blank],
}

static ERASED_RECEIPTS: ErasedTable = ErasedTable {
    table: &RECEIPTS,
    times: &["timestamp", "received_at"],
    blanks: RECEIPT_BLANKS,
};
static ERASED_REJECTED: ErasedTable = ErasedTable {
    table: &REJECTED,
    times: &["received_at"],
    blanks: REJECTED_BLANKS,
};
static ERASED_EVIDENCE: ErasedTable = ErasedTable {
    table: &EVIDENCE,
    times: &["timestamp", "tupleElement(arrival, 1)"],
    blanks: EVIDENCE_BLANKS,
};

/// Columns of a request's technical data that identify its origin.
const ADDRESS_BLANKS: &[Blank] = &[("client_address", "''")];

impl Warehouse {
    /// Number of rows of the erasure that still identify their clients, or its person; 0 once it is
    /// done, but for what came since.
    pub async fn metadata_left(&self, erasure: &MetadataErasure) -> Result<MetadataRows, WarehouseError> {
        let mut left = MetadataRows::default();
        for whose in conditions(&erasure.scope) {
            let count = async |of: &ErasedTable, also: &str| {
                let rows = rows_of(of.times, erasure.before_ms, of.blanks);
                self.count_of(of.table, &format!("{rows} AND {whose}{also}")).await
            };
            let Some(person) = &erasure.person else {
                left.receipts += count(&ERASED_RECEIPTS, "").await?;
                left.rejected += count(&ERASED_REJECTED, "").await?;
                left.evidence += count(&ERASED_EVIDENCE, "").await?;
                continue;
            };
            left.receipts += count(&ERASED_RECEIPTS, &person.in_receipts()).await?;
            left.rejected += count(&ERASED_REJECTED, &person.in_rejected()).await?;
            let mut after = None;
            while let Some(ids) = self.receipts_of_person(erasure, &whose, person, after).await? {
                left.evidence += count(&ERASED_EVIDENCE, &among(&ids)).await?;
                after = ids.last().cloned();
            }
        }
        Ok(left)
    }

    /// Takes it out, on every replica, and returns when that is done: no query sees it any more,
    /// and it is gone from the files once ClickHouse has removed the parts that were replaced
    /// (minutes). Can be done again.
    pub async fn erase_metadata(&self, erasure: &MetadataErasure) -> Result<(), WarehouseError> {
        for whose in conditions(&erasure.scope) {
            let blank = async |of: &ErasedTable, blanks: &[Blank], also: &str| {
                let rows = rows_of(of.times, erasure.before_ms, of.blanks);
                self.blank(of.table, blanks, &format!("{rows} AND {whose}{also}")).await
            };
            let Some(person) = &erasure.person else {
                for of in [&ERASED_RECEIPTS, &ERASED_REJECTED, &ERASED_EVIDENCE] {
                    blank(of, of.blanks, "").await?;
                }
                continue;
            };
            blank(&ERASED_REJECTED, REJECTED_BLANKS, &person.in_rejected()).await?;
            // Evidence doesn't say whose it is, so it goes before the receipts that do. Blanked
            // receipts aren't found any more, so each page is the first.
            while let Some(ids) = self.receipts_of_person(erasure, &whose, person, None).await? {
                blank(&ERASED_EVIDENCE, EVIDENCE_BLANKS, &among(&ids)).await?;
                let these = format!("{}{}", person.in_receipts(), among(&ids));
                blank(&ERASED_RECEIPTS, PERSON_BLANKS, &these).await?;
            }
        }
        Ok(())
    }

    /// Returns the next receipts that name the person, in the order of their identifiers; `None` if
    /// there are no more.
    async fn receipts_of_person(
        &self,
        erasure: &MetadataErasure,
        whose: &str,
        person: &ErasedPerson,
        after: Option<String>,
    ) -> Result<Option<Vec<String>>, WarehouseError> {
        let rows = rows_of(ERASED_RECEIPTS.times, erasure.before_ms, PERSON_BLANKS);
        let after = after.map_or_else(String::new, |after| format!(" AND receipt_id > toUUID('{after}')"));
        let sql = format!(
            "SELECT toString(receipt_id) FROM receipts WHERE {rows} AND {whose}{}{after}
             GROUP BY receipt_id ORDER BY receipt_id LIMIT {PERSON_RECEIPTS_MAX}",
            person.in_receipts()
        );
        let ids: Vec<String> = self.rows("receipts_of_person", SqlStatement::new(sql).slow()).await?;
        Ok(Some(ids).filter(|ids| !ids.is_empty()))
    }

    /// Takes the addresses out of everyone's refusals received before `before_ms` (milliseconds
    /// since the Unix epoch); how many there were.
    pub async fn blank_addresses(&self, before_ms: i64) -> Result<u64, WarehouseError> {
        let condition = rows_of(&["received_at"], before_ms, ADDRESS_BLANKS);
        let found = self.count_of(&REJECTED, &condition).await?;
        if found > 0 {
            self.blank(&REJECTED, ADDRESS_BLANKS, &condition).await?;
        }
        Ok(found)
    }

    /// Removes rows of a shard's `usage` without receipts, which compensated others, from a month's
    /// partition. Such a row is neutral, so this may happen at any time.
    pub async fn delete_compensated(&self, month: u32) -> Result<(), WarehouseError> {
        let table = self.layout().name(&USAGE);
        for sql in [
            format!(
                "OPTIMIZE TABLE {table} PARTITION {month} FINAL SETTINGS optimize_throw_if_noop = 1, alter_sync = 2"
            ),
            format!("ALTER TABLE {table} DELETE IN PARTITION {month} WHERE receipts = 0 SETTINGS mutations_sync = 2"),
        ] {
            self.execute("delete_compensated", SqlStatement::new(sql).slow())
                .await?;
        }
        Ok(())
    }

    async fn count_of(&self, table: &'static SchemaTable, condition: &str) -> Result<u64, WarehouseError> {
        let sql = format!("SELECT count() FROM {} WHERE {condition}", table.name);
        self.one("metadata_left", SqlStatement::new(sql).slow()).await
    }

    async fn blank(
        &self,
        table: &'static SchemaTable,
        blanks: &[Blank],
        condition: &str,
    ) -> Result<(), WarehouseError> {
        let changes = blanks.iter().map(|(column, blank)| format!("{column} = {blank}"));
        let changes = changes.collect::<Vec<_>>().join(", ");
        for shard in self.shards() {
            let table = shard.layout().name(table);
            let sql = format!("ALTER TABLE {table} UPDATE {changes} WHERE {condition} SETTINGS mutations_sync = 2");
            shard.execute("erase_metadata", SqlStatement::new(sql).slow()).await?;
        }
        Ok(())
    }
}

impl ErasedPerson {
    /// The condition of the person's receipts, to be added to others.
    fn in_receipts(&self) -> String {
        match self {
            Self::Researcher(id) => format!(" AND researcher_id = {}", literal(id)),
            Self::Session(id) => format!(" AND session_id = {}", literal(id)),
        }
    }

    /// The condition of rejected receipts that have the identifier as a JSON string. Nobody has
    /// checked their form, so any member may have it.
    fn in_rejected(&self) -> String {
        let (Self::Researcher(id) | Self::Session(id)) = self;
        let string = serde_json::Value::from(id.as_str()).to_string();
        format!(" AND position(raw, {}) > 0", literal(&string))
    }
}

/// The condition of these receipts, to be added to others.
fn among(ids: &[String]) -> String {
    let ids: Vec<String> = ids.iter().map(|id| format!("'{id}'")).collect();
    format!(" AND receipt_id IN ({})", ids.join(", "))
}

/// Rows from before by any of their `times`, in which something isn't blank. A mutation takes no
/// parameters, so everything is spelled out: numbers here.
fn rows_of(times: &[&str], before_ms: i64, blanks: &[Blank]) -> String {
    let before_ms = before_ms.clamp(TIME_MS_MIN, TIME_MS_MAX);
    let before = |time: &&str| format!("{time} < fromUnixTimestamp64Milli(toInt64({before_ms}), 'UTC')");
    let before: Vec<String> = times.iter().map(before).collect();
    let filled = |(column, blank): &Blank| match *blank {
        "NULL" => format!("{column} IS NOT NULL"),
        blank => format!("{column} != {blank}"),
    };
    let filled: Vec<String> = blanks.iter().map(filled).collect();
    format!("({}) AND ({})", before.join(" OR "), filled.join(" OR "))
}

/// The publishers of a scope, in as many conditions as they need. A name of any bytes is there
/// in hexadecimal.
fn conditions(scope: &QueryScope) -> Vec<String> {
    let names = |some: &[String]| some.iter().map(|name| literal(name)).collect::<Vec<_>>().join(", ");
    let chunks = scope.publishers.chunks(PUBLISHERS_MAX);
    let own = chunks.map(|some| format!("publisher IN ({})", names(some)));
    let conditions: Vec<String> = own.chain(scope.below.iter().map(below)).collect();
    // In one where they fit: a row that two of them are about is counted once then.
    if conditions.len() < 2 || conditions.iter().map(String::len).sum::<usize>() > STATEMENT_BYTES_MAX {
        return conditions;
    }
    vec![format!("({})", conditions.join(" OR "))]
}

fn below(below: &Below) -> String {
    let under = |name: &str| format!("endsWith(publisher, {})", literal(&format!(".{name}")));
    let except = below.except.iter();
    let except = except.map(|name| format!(" AND publisher != {} AND NOT {}", literal(name), under(name)));
    format!("{}{}", under(&below.parent), except.collect::<String>())
}

/// Text as its bytes, for statements that take no parameters.
pub(super) fn literal(name: &str) -> String {
    format!("unhex('{}')", hex::encode(name))
}

#[cfg(test)]
mod tests {
    use super::{Below, QueryScope, conditions};

    #[test]
    fn names_get_into_a_mutation_as_their_bytes_only() {
        let scope = |publishers: &[&str]| QueryScope::of(publishers.iter().map(ToString::to_string).collect());
        assert_eq!(
            conditions(&scope(&["ab", "'\\"])),
            ["publisher IN (unhex('6162'), unhex('275c'))"]
        );
        assert_eq!(conditions(&scope(&[])), [""; 0]);
        let long = "x".repeat(250);
        assert_eq!(conditions(&scope(&[long.as_str(); 401])).len(), 3);
        let mut wider = scope(&["ab"]);
        wider.below.push(Below {
            parent: "ab".to_owned(),
            except: vec!["c.ab".to_owned()],
        });
        assert_eq!(
            conditions(&wider),
            [
                "(publisher IN (unhex('6162')) OR endsWith(publisher, unhex('2e6162')) AND publisher != unhex('632e6162') \
              AND NOT endsWith(publisher, unhex('2e632e6162')))"
            ]
        );
    }
}
