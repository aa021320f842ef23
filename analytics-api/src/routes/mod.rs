//! The addresses, one file each.

pub(crate) mod clients;
pub(crate) mod content;
pub(crate) mod dashboard;
pub(crate) mod index;
pub(crate) mod receipts;
pub(crate) mod refusals;
pub(crate) mod timeseries;

use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, header};
use serde::Serialize;
use warehouse::{TopContent, UsageByPurpose};

use crate::completeness::Completeness;
use crate::format::Csv;

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
    /// The URL until entries have titles of their own: receipts carry none.
    title: String,
    url: String,
    receipt_count: u64,
}

impl From<TopContent> for ContentCount {
    fn from(top: TopContent) -> Self {
        let receipt_count = top.receipt_count;
        Self {
            entry_id: top.entry_id.to_string(),
            title: top.url.clone(),
            url: top.url,
            receipt_count,
        }
    }
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
