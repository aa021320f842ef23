//! Erasures: what is to go, and how far it is.
//!
//! ```text
//! scheduled -> store -> warehouse -> done -> settled
//!     |-> cancelled
//! ```
//!
//! An erasure goes through [`ErasureState`]s, in steps that any replica may do and that may be done
//! again. Nothing is erased while it is scheduled, and until then it can be cancelled
//! (`scheduling`). `stepping` takes rows out of this store, its caller takes clients' metadata out
//! of the warehouse and finishes it. The row stays as the proof; no personal data is in it, but for
//! the identifier of a person whose receipts are erased, until the erasure is cancelled or settled.

mod requesting;
mod scheduling;
mod stepping;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sqlx::any::AnyRow;
use uuid::Uuid;

use crate::coverage::is_below;
use crate::row::RowValues;
use crate::{AccountsError, Inherited, Principal};

pub use requesting::{ERASURE_ENTRIES_MAX, ERASURES_OPEN_MAX, RequestedErasure};
pub use scheduling::CancelledErasure;

/// Request for an erasure. Whatever isn't named stays.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewErasure {
    /// Index entries.
    pub entries: ErasedEntries,
    /// Users' names and addresses, the labels of API keys, and what mail servers answered.
    pub personal_data: bool,
    /// Data that identify who used the content of these domains, in receipts of accesses before the
    /// request or received before it.
    pub receipt_metadata: Option<Coverage>,
    /// Of these receipts only those of this person, and of them only what names the person. Their
    /// clients stay.
    pub person: Option<Person>,
}

/// A person, as receipts name one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// The member of a receipt.
    pub kind: PersonKind,
    /// Value of the member. Empty once the erasure is cancelled or settled.
    pub id: String,
}

/// The member by which a receipt names a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PersonKind {
    /// `researcherId`.
    Researcher,
    /// `sessionId`.
    Session,
}

/// Entries that are to be erased.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ErasedEntries {
    /// No entries.
    #[default]
    None,
    /// All entries that exist when the erasure begins.
    All,
    /// Only these entries, as far as they are the account's. At most [`ERASURE_ENTRIES_MAX`].
    These(Vec<Uuid>),
}

/// The domains an account spoke for when it asked, and what was covered with them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Coverage {
    /// In lower case.
    pub domains: Vec<String>,
    /// Domains whose subdomains are covered.
    pub inherited: Vec<Inherited>,
}

/// State of an erasure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErasureState {
    /// Requested: nothing is erased yet, and it can be cancelled.
    Scheduled,
    /// Cancelled before it began: nothing was erased.
    Cancelled,
    /// Rows of this store are going.
    Store,
    /// Entries are gone; clients' metadata is being removed from the warehouse, if that was
    /// requested.
    Warehouse,
    /// All is erased.
    Done,
    /// And so long ago that nothing of the receipts can come back any more.
    Settled,
}

/// An erasure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Erasure {
    /// Identifier: `era_...`.
    pub id: String,
    /// Account that requested it.
    pub account_id: String,
    /// Actor as in the trail; `service` for an account whose time to be retained after all
    /// is over.
    pub actor: String,
    /// When, in milliseconds since the Unix epoch.
    pub requested_at_ms: i64,
    /// When it begins, in milliseconds since the Unix epoch. Until then it can be cancelled.
    pub execute_at_ms: i64,
    /// When it was cancelled, in milliseconds since the Unix epoch.
    pub cancelled_at_ms: Option<i64>,
    /// The request.
    pub request: NewErasure,
    /// Whether the account itself goes, with all that is its.
    pub whole_account: bool,
    /// State of the erasure.
    pub state: ErasureState,
    /// Rows that were erased so far, by table.
    pub counts: BTreeMap<String, u64>,
    /// Problem that delays the erasure.
    pub problem: Option<String>,
    /// When it was done, in milliseconds since the Unix epoch.
    pub finished_at_ms: Option<i64>,
}

impl Coverage {
    /// The part of this coverage that `other` has too.
    pub(crate) fn within(&self, other: &Self) -> Self {
        let covers = |name: &String| {
            other.domains.contains(name) || other.inherited.iter().any(|inherited| inherited.covers(name))
        };
        let narrowed = |inherited: &Inherited| {
            let parent = &inherited.parent;
            let wider = |wider: &&Inherited| wider.parent == *parent || wider.covers(parent);
            let wider = other.inherited.iter().find(wider)?;
            let mut except = inherited.except.clone();
            except.extend(wider.except.iter().filter(|name| is_below(name, parent)).cloned());
            except.sort();
            except.dedup();
            Some(Inherited {
                parent: parent.clone(),
                except,
            })
        };
        Self {
            domains: self.domains.iter().filter(|name| covers(name)).cloned().collect(),
            inherited: self.inherited.iter().filter_map(narrowed).collect(),
        }
    }
}

impl Principal {
    /// Domains that the account speaks for.
    #[must_use]
    pub fn coverage(&self) -> Coverage {
        Coverage {
            domains: self.domains.clone(),
            inherited: self.inherited.clone(),
        }
    }
}

impl ErasureState {
    fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Cancelled => "cancelled",
            Self::Store => "store",
            Self::Warehouse => "warehouse",
            Self::Done => "done",
            Self::Settled => "settled",
        }
    }

    fn read(text: &str) -> Result<Self, AccountsError> {
        use ErasureState::{Cancelled, Done, Scheduled, Settled, Store, Warehouse};
        [Scheduled, Cancelled, Store, Warehouse, Done, Settled]
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or_else(|| AccountsError::Store(format!("`{text}` is no state of an erasure")))
    }
}

impl PersonKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Researcher => "researcher",
            Self::Session => "session",
        }
    }

    fn read(text: &str) -> Result<Self, AccountsError> {
        [Self::Researcher, Self::Session]
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| AccountsError::Store(format!("`{text}` is no kind of person")))
    }
}

impl NewErasure {
    /// Short text of what is to go, without names: `all entries, personal data`.
    #[must_use]
    pub fn summary(&self) -> String {
        let entries = match &self.entries {
            ErasedEntries::None => None,
            ErasedEntries::All => Some("all entries".to_owned()),
            ErasedEntries::These(ids) => Some(format!("{} entries", ids.len())),
        };
        let personal = self.personal_data.then(|| "personal data".to_owned());
        let receipts = self.receipt_metadata.as_ref();
        let receipts = receipts.map(|_| match &self.person {
            None => "receipts' client metadata".to_owned(),
            Some(person) => format!("a {} in receipts", person.kind.as_str()),
        });
        let parts = [entries, personal, receipts];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

impl ErasedEntries {
    /// Empty, `*`, or the ids with commas.
    fn to_text(&self) -> String {
        match self {
            Self::None => String::new(),
            Self::All => "*".to_owned(),
            Self::These(ids) => ids.iter().map(Uuid::to_string).collect::<Vec<_>>().join(","),
        }
    }

    fn read(text: &str) -> Result<Self, AccountsError> {
        match text {
            "" => Ok(Self::None),
            "*" => Ok(Self::All),
            ids => {
                let ids: Result<Vec<Uuid>, _> = ids.split(',').map(str::parse).collect();
                let ids = ids.map_err(|_| AccountsError::Store("an erasure names what is no entry".to_owned()))?;
                Ok(Self::These(ids))
            }
        }
    }
}

/// The columns that [`read`] reads, of the erasures that the rest of the statement names.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, account_id, actor, requested_at_ms, entries, personal_data, coverage, whole_account, state, counts, problem,
                finished_at_ms, execute_at_ms, cancelled_at_ms, person_kind, person_id FROM erasures ",
            $rest
        )
    };
}
pub(crate) use select;

/// A row of [`select`].
pub(crate) fn read(row: &AnyRow) -> Result<Erasure, AccountsError> {
    let unreadable = |error: serde_json::Error| AccountsError::Store(format!("an erasure can't be read: {error}"));
    let coverage: Option<String> = row.value("coverage")?;
    let person = match row.value::<Option<&str>>("person_kind")? {
        Some(kind) => Some(Person {
            kind: PersonKind::read(kind)?,
            id: row.value("person_id")?,
        }),
        None => None,
    };
    Ok(Erasure {
        id: row.value("id")?,
        account_id: row.value("account_id")?,
        actor: row.value("actor")?,
        requested_at_ms: row.value("requested_at_ms")?,
        execute_at_ms: row.value("execute_at_ms")?,
        cancelled_at_ms: row.value("cancelled_at_ms")?,
        request: NewErasure {
            entries: ErasedEntries::read(row.value("entries")?)?,
            personal_data: row.flag("personal_data")?,
            receipt_metadata: coverage
                .map(|text| serde_json::from_str(&text))
                .transpose()
                .map_err(unreadable)?,
            person,
        },
        whole_account: row.flag("whole_account")?,
        state: ErasureState::read(row.value("state")?)?,
        counts: read_counts(row.value("counts")?)?,
        problem: row.value("problem")?,
        finished_at_ms: row.value("finished_at_ms")?,
    })
}

fn read_counts(text: &str) -> Result<BTreeMap<String, u64>, AccountsError> {
    serde_json::from_str(text).map_err(|error| AccountsError::Store(format!("counts can't be read: {error}")))
}

fn counts_text(counts: &BTreeMap<String, u64>) -> String {
    serde_json::json!(counts).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inherited(parent: &str, except: &[&str]) -> Inherited {
        Inherited {
            parent: parent.to_owned(),
            except: except.iter().map(|&name| name.to_owned()).collect(),
        }
    }

    #[test]
    fn a_coverage_is_narrowed_to_what_another_covers() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let requested = Coverage {
            domains: names(&["a.example", "b.example", "news.c.example", "lost.example"]),
            inherited: vec![
                inherited("a.example", &["x.a.example"]),
                inherited("news.c.example", &[]),
                inherited("b.example", &[]),
            ],
        };
        let now = Coverage {
            domains: names(&["a.example", "b.example", "c.example"]),
            inherited: vec![
                inherited("a.example", &["y.a.example"]),
                inherited("c.example", &["z.news.c.example", "other.c.example"]),
            ],
        };
        let narrowed = Coverage {
            domains: names(&["a.example", "b.example", "news.c.example"]),
            inherited: vec![
                inherited("a.example", &["x.a.example", "y.a.example"]),
                inherited("news.c.example", &["z.news.c.example"]),
            ],
        };
        assert_eq!(requested.within(&now), narrowed);
    }
}
