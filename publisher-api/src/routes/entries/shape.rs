//! Entries as JSON: what comes in, checked, and what goes out.

use accounts::{
    Created, Entry, EntryAuthors, EntryContent, EntryFault, EntryTitle, EntryUrl, NewEntry, Principal, Rectification,
};
use serde::{Deserialize, Deserializer, Serialize};
use service::problem::{Kind, Problem};
use utoipa::ToSchema;
use uuid::Uuid;
use web::format::column::{RowColumn, instant, text};
use web::format::table::{Table, TableError, Tabular};
use web::{Failure, rfc3339_ms};

use crate::routes::key_domains;

/// An entry to be created.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct EntryRequest {
    /// Identifier, your choice. If it isn't given: the UUIDv5 of the canonical URL, by which
    /// clients report content that nobody lists.
    #[schema(format = "uuid")]
    entry_id: Option<String>,
    /// An absolute http or https URL on a verified domain of yours, 2,048 bytes at most.
    #[schema(format = "uri", max_length = 2048)]
    url: String,
    /// 1 to 1,000 characters; the URL if it isn't given, as where a site map is listed.
    #[schema(min_length = 1, max_length = 1000)]
    title: Option<String>,
    /// Up to 100 names of 1 to 256 characters.
    #[serde(default)]
    #[schema(required = false, max_items = 100)]
    authors: Vec<String>,
}

impl EntryRequest {
    pub(super) fn checked(self, principal: &Principal) -> Result<NewEntry, Refusal> {
        let id = self.entry_id.as_deref().map(entry_id).transpose();
        let url = EntryUrl::parse(&self.url);
        let title = self.title.map(EntryTitle::parse).transpose();
        let authors = EntryAuthors::parse(self.authors);
        let (id, url, title, authors) = match (id, url, title, authors) {
            (Ok(id), Ok(url), Ok(title), Ok(authors)) => {
                let title = title.unwrap_or_else(|| EntryTitle::of(&url));
                (id.unwrap_or_else(|| url.id()), url, title, authors)
            }
            (id, url, title, authors) => {
                return Err(Refusal::faults([id.err(), url.err(), title.err(), authors.err()]));
            }
        };
        if !principal.covers(url.host()) {
            return Err(Refusal::not_covered(principal, url.host()));
        }
        let content = EntryContent { url, title, authors };
        Ok(NewEntry { id, content })
    }
}

/// Members of an entry that are to be corrected.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EntryPatch {
    /// As when it was created.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = String, required = false, format = "uri", max_length = 2048)]
    url: Option<Option<String>>,
    /// As when it was created.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = String, required = false, min_length = 1, max_length = 1000)]
    title: Option<Option<String>>,
    /// All of them, as when it was created; null: none.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Vec<String>>, required = false, max_items = 100)]
    authors: Option<Option<Vec<String>>>,
}

/// A member that is there, null or not.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl EntryPatch {
    pub(super) fn checked(self) -> Result<Rectification, Refusal> {
        let needed = |member: &str| EntryFault {
            pointer: format!("/{member}"),
            code: "missing_member",
            detail: "an entry can't be without it".to_owned(),
        };
        let url = self.url.map(|url| EntryUrl::parse(&url.ok_or_else(|| needed("url"))?));
        let title = self
            .title
            .map(|title| EntryTitle::parse(title.ok_or_else(|| needed("title"))?));
        let authors = self
            .authors
            .map(|authors| EntryAuthors::parse(authors.unwrap_or_default()));
        match (url.transpose(), title.transpose(), authors.transpose()) {
            (Ok(url), Ok(title), Ok(authors)) => Ok(Rectification { url, title, authors }),
            (url, title, authors) => Err(Refusal::faults([url.err(), title.err(), authors.err(), None])),
        }
    }
}

fn entry_id(text: &str) -> Result<Uuid, EntryFault> {
    let malformed = || EntryFault {
        pointer: "/entryId".to_owned(),
        code: "invalid_uuid",
        detail: "not a UUID of the form xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx".to_owned(),
    };
    if text.len() != 36 {
        return Err(malformed());
    }
    Uuid::try_parse(text).map_err(|_| malformed())
}

/// Why an entry isn't taken: a problem of its own request, or of its line among many.
#[derive(Debug)]
pub(super) struct Refusal(Box<Problem>);

impl Refusal {
    fn faults(faults: [Option<EntryFault>; 4]) -> Self {
        let problem = Problem::new(Kind::InvalidBody, "the entry isn't valid: errors says where");
        let add = |problem: Problem, fault: EntryFault| problem.fault(fault.pointer, fault.code, fault.detail);
        Self(Box::new(faults.into_iter().flatten().fold(problem, add)))
    }

    /// A host that the account doesn't speak for, or that isn't one of the key's.
    pub(super) fn not_covered(principal: &Principal, host: &str) -> Self {
        if !principal.may_act_on(host) {
            return Self(Box::new(key_domains::problem(principal, host)));
        }
        Self::not_verified(host)
    }

    fn not_verified(host: &str) -> Self {
        let detail = format!("{host} is not a verified domain of your account");
        Self(Box::new(Problem::new(Kind::DomainNotVerified, detail)))
    }

    /// Why a creation came to nothing.
    pub(super) fn of(outcome: &Created) -> Self {
        let (kind, detail) = match outcome {
            Created::Differs => (
                Kind::EntryConflict,
                "you have an entry of this id with other content: PATCH it, or choose another id",
            ),
            Created::TooMany => (
                Kind::TooManyEntries,
                "the account has as many entries as it may have: erase some first",
            ),
            // Nothing was refused.
            Created::New(_) | Created::Unchanged(_) => (Kind::Internal, "the entry is there"),
        };
        Self(Box::new(Problem::new(kind, detail)))
    }

    /// A line that can't be read.
    pub(super) fn unreadable(failure: Failure) -> Self {
        Self(failure.0)
    }

    /// As what became of a line.
    pub(super) fn of_line(self, line: usize, entry_id: Option<Uuid>) -> LineOutcome {
        let Problem {
            detail, faults, kind, ..
        } = *self.0;
        let (code, detail, pointer) = match faults.into_iter().next() {
            Some(fault) => (fault.code, fault.detail, Some(fault.pointer)),
            None => (kind.code().to_owned(), detail, None),
        };
        LineOutcome {
            line,
            status: LineStatus::Refused,
            entry_id,
            code: Some(code),
            detail: Some(cut(detail)),
            pointer: pointer.map(cut),
        }
    }
}

impl From<Refusal> for Failure {
    fn from(Refusal(problem): Refusal) -> Self {
        Self(problem)
    }
}

/// Details quote the caller's own words, and there is one for each line.
fn cut(mut text: String) -> String {
    const BYTES_MAX: usize = 200;
    if text.len() > BYTES_MAX {
        let end = (0..=BYTES_MAX).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or_default());
        text.push_str("...");
    }
    text
}

/// An entry.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct EntryBody {
    #[schema(value_type = String, format = "uuid")]
    entry_id: Uuid,
    url: String,
    title: String,
    authors: Vec<String>,
    /// The URL's host.
    domain: String,
    #[schema(format = DateTime)]
    created_at: String,
    /// When it was created or last rectified.
    #[schema(format = DateTime)]
    updated_at: String,
}

impl From<Entry> for EntryBody {
    fn from(entry: Entry) -> Self {
        Self {
            entry_id: entry.id,
            url: entry.url,
            title: entry.title,
            authors: entry.authors,
            domain: entry.domain,
            created_at: rfc3339_ms(entry.created_at_ms),
            updated_at: rfc3339_ms(entry.updated_at_ms),
        }
    }
}

/// Body of a POST that is answered with 200.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum CreateAnswer {
    /// An entry that existed with the same content.
    One(EntryBody),
    /// Many.
    Many(BulkAnswer),
}

/// A page of entries.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListAnswer {
    pub(super) entries: Vec<EntryBody>,
    /// For the next page; null: this was the last one.
    pub(super) next_cursor: Option<String>,
}

impl Tabular for ListAnswer {
    fn columns(&self) -> Vec<RowColumn> {
        vec![
            text("entryId"),
            text("url"),
            text("title"),
            text("authors"),
            text("domain"),
            instant("createdAt"),
            instant("updatedAt"),
            text("cursor"),
        ]
    }

    fn rows(&self, table: &mut Table) -> Result<(), TableError> {
        table.page(&self.entries, self.next_cursor.as_deref())
    }
}

/// Results of a bulk.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(super) struct BulkAnswer {
    /// Lines whose entry is new.
    created: usize,
    /// Lines whose entry was there with the same content.
    unchanged: usize,
    /// Lines that weren't taken.
    refused: usize,
    /// Each line that isn't empty, in order.
    lines: Vec<LineOutcome>,
}

impl BulkAnswer {
    pub(super) fn add(&mut self, outcome: LineOutcome) {
        match outcome.status {
            LineStatus::Created => self.created += 1,
            LineStatus::Unchanged => self.unchanged += 1,
            LineStatus::Refused => self.refused += 1,
        }
        self.lines.push(outcome);
    }
}

/// Result of one line.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct LineOutcome {
    /// Number of the line, from 1.
    line: usize,
    status: LineStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = "uuid")]
    entry_id: Option<Uuid>,
    /// Of a refused line: why, as a stable name.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    /// Of a refused line: what a person can do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// Of a refused line: where in it, as a JSON Pointer (RFC 6901).
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum LineStatus {
    Created,
    Unchanged,
    Refused,
}

impl LineOutcome {
    /// Result of the creation that line `line` requested.
    pub(super) fn of(line: usize, id: Uuid, outcome: &Created) -> Self {
        let status = match outcome {
            Created::New(_) => LineStatus::Created,
            Created::Unchanged(_) => LineStatus::Unchanged,
            other => return Refusal::of(other).of_line(line, Some(id)),
        };
        Self {
            line,
            status,
            entry_id: Some(id),
            code: None,
            detail: None,
            pointer: None,
        }
    }
}
