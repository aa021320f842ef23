//! The addresses, one file each.

pub(crate) mod clients;
pub(crate) mod content;
pub(crate) mod dashboard;
pub(crate) mod index;
pub(crate) mod receipts;
pub(crate) mod refusals;
pub(crate) mod timeseries;

use accounts::Principal;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, header};
use serde::Serialize;
use uuid::Uuid;
use warehouse::{TopContent, UsageByPurpose};

use crate::app::App;
use crate::completeness::Completeness;
use crate::format::Csv;
use crate::labels::{Labelled, Labels};

/// `completeThrough` of a CSV answer, which has no other place for it.
const COMPLETE_THROUGH: HeaderName = HeaderName::from_static("x-complete-through");
/// `incomplete` of a CSV answer.
const INCOMPLETE: HeaderName = HeaderName::from_static("x-incomplete");

/// `usageByPurpose`.
#[derive(Debug, Serialize)]
struct PurposeCounts {
    training: u64,
    inference: u64,
    research: u64,
}

impl From<UsageByPurpose> for PurposeCounts {
    fn from(usage: UsageByPurpose) -> Self {
        Self {
            training: usage.training,
            inference: usage.inference,
            research: usage.research,
        }
    }
}

/// A member of `topContent`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ContentCount {
    entry_id: String,
    /// The entry's title; where the account lists no such entry, its URL.
    title: String,
    /// The entry's URL; where the account lists no such entry, the receipts'.
    url: String,
    receipt_count: u64,
    /// Whether the account lists no such entry. Left out if that couldn't be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown_entry: Option<bool>,
}

/// `topContent`, with what the account of `principal` calls its entries.
async fn labelled(app: &App, principal: &Principal, top: Vec<TopContent>) -> Vec<ContentCount> {
    let ids: Vec<Uuid> = top.iter().map(|content| content.entry_id).collect();
    let mut labels = Labels::of(app, principal, &ids).await;
    let count = |content: TopContent| {
        let Labelled { url, title, unknown } = labels.of_entry(content.entry_id, content.url);
        ContentCount {
            entry_id: content.entry_id.to_string(),
            title,
            url,
            receipt_count: content.receipt_count,
            unknown_entry: unknown,
        }
    };
    top.into_iter().map(count).collect()
}

/// A CSV answer.
fn csv(csv: Csv, completeness: &Completeness) -> Response {
    let complete = HeaderValue::from_str(&completeness.complete_through).unwrap_or(HeaderValue::from_static(""));
    let kind = HeaderValue::from_static("text/csv; charset=utf-8; header=present");
    let mut response = (
        [(header::CONTENT_TYPE, kind), (COMPLETE_THROUGH, complete)],
        csv.into_text(),
    )
        .into_response();
    if completeness.incomplete {
        response
            .headers_mut()
            .insert(INCOMPLETE, HeaderValue::from_static("true"));
    }
    response
}
