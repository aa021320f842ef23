//! `GET /api/v1/analytics/months/{month}`: a month as one file, a ZIP archive that is sent while it
//! is read.
//!
//! Receipts come first, then uses and totals: what arrives in between is counted, and isn't listed.
//! `receiptsInFile` of the totals says how many are listed.

mod receipts;
mod uses;

use std::sync::Arc;

use accounts::Principal;
use axum::Extension;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::header;
use jiff::Timestamp;
use jiff::civil::Date;
use serde::Serialize;
use usage::RankingPage;
use warehouse::{ExportPage, Filter, QueryScope};
use web::params::{InvalidQuery, Params};
use web::stream::{BrokenOff, PieceWriter};
use web::{Failure, rfc3339};

use super::TOP;
use super::dashboard::Dashboard;
use super::receipts::too_many;
use crate::access::Access;
use crate::answers::Refusals;
use crate::buckets::start_of;
use crate::completeness::Completeness;
use crate::format::archive::{Archive, unwritable};
use crate::format::reply::tell;
use crate::parameters::{DOMAIN, Query, TZ};
use crate::range::time_zone;
use crate::state::AnalyticsState;

pub(crate) const PATH: &str = "/api/v1/analytics/months/{month}";
pub(crate) const PARAMETERS: &[&[Query]] = &[&[TZ, DOMAIN]];

/// Years whose months there are: `from` and `to` of other addresses have the same.
const YEARS: std::ops::Range<i16> = 1970..2200;
const NO_ANSWER: BrokenOff = "an engine doesn't answer";

/// A calendar month in a time zone.
#[derive(Debug)]
struct Month {
    /// `YYYY-MM`.
    name: String,
    zone: String,
    from: Timestamp,
    to: Timestamp,
}

impl Month {
    fn of(name: String, params: &Params) -> Result<Self, InvalidQuery> {
        let detail = "not a month from 1970-01 to 2199-12: YYYY-MM, such as 2026-11";
        let fault = || InvalidQuery::new("month", detail);
        let (zone, tz) = time_zone(params)?;
        let is_form = name.len() == 7;
        let first: Date = format!("{name}-01").parse().map_err(|_| fault())?;
        if !is_form || !YEARS.contains(&first.year()) {
            return Err(fault());
        }
        let start = |date: Date| start_of(date, &tz).map_err(|_| fault());
        let next = first.last_of_month().tomorrow().map_err(|_| fault())?;
        Ok(Self {
            from: start(first)?,
            to: start(next)?,
            name,
            zone,
        })
    }
}

/// Archive of a month, and whose it is.
struct MonthArchive {
    app: Arc<AnalyticsState>,
    principal: Arc<Principal>,
    scope: QueryScope,
    filter: Filter,
    month: Month,
    /// Of the first query: it holds for all that come later.
    completeness: Completeness,
}

/// Totals of the month: the dashboard's, and those of the archive.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MonthSummary<'a> {
    account_id: &'a str,
    domains: &'a [String],
    /// Domains whose subdomains are included.
    with_subdomains_of: Vec<&'a str>,
    month: &'a str,
    tz: &'a str,
    #[serde(flatten)]
    totals: Dashboard,
    total_content: u64,
    /// Lines of `receipts.ndjson`.
    receipts_in_file: u64,
    #[serde(flatten)]
    completeness: &'a Completeness,
}

/// A month as one file
///
/// A ZIP archive of the calendar month in `tz`, for accounting and as evidence:
///
/// - `README.txt`: what the files are, and how to check a receipt
/// - `receipts.ndjson`: each receipt that is counted, as in the list of receipts, with its
///   `evidence`, as the address of evidence answers it
/// - `uses.csv`: the uses of each entry by each client, and the proven ones of them
/// - `summary.json`: account, domains, month, and the dashboard's totals under the same names;
///   `totalContent`, the number of entries; `receiptsInFile`, the lines of `receipts.ndjson`
///
/// A month that isn't complete is answered with what there is: `completeThrough` in `summary.json`
/// and the header `X-Complete-Through` say up to when. Receipts that arrive while the archive is
/// sent are counted, and may not be listed: `totalReceipts` is above `receiptsInFile` then.
///
/// An archive that broke off has no end, and no program opens it. It breaks off after ten minutes,
/// or if nobody reads on for one. An account has two streams at a time.
#[utoipa::path(
    get, path = PATH, tag = "analytics", security(("apiKey" = [])),
    params(("month" = String, Path, description = "The month", pattern = "^[0-9]{4}-[0-9]{2}$", example = "2026-11")),
    responses(
        (status = 200, description = "The archive", content_type = "application/zip", body = String),
        Refusals,
    ),
)]
pub(crate) async fn month(
    State(app): State<Arc<AnalyticsState>>,
    Extension(principal): Extension<Arc<Principal>>,
    access: Access,
    Path(month): Path<String>,
    params: Params,
) -> Result<Response, Failure> {
    let scope = access.scope(&params)?;
    let month = Month::of(month, &params)?;
    let permit = app.streams.take(access.account_id()).map_err(too_many)?;
    let filter = Filter {
        from_ms: month.from.as_millisecond(),
        to_ms: month.to.as_millisecond(),
        trusted: access.trusted().to_vec(),
        ..Filter::default()
    };
    // Before the head is sent: an engine that is away is a 503, not an archive that breaks off.
    let asked = receipts::page(&app, access.account_id(), &scope, &filter, None);
    let (completeness, first) = asked.await?;
    let headers = [
        (header::CONTENT_TYPE, "application/zip".to_owned()),
        (
            header::CONTENT_DISPOSITION,
            format!("attachment; filename=\"receipts-{}.zip\"", month.name),
        ),
        (header::CACHE_CONTROL, "no-store".to_owned()),
    ];
    let archive = MonthArchive {
        app,
        principal,
        scope,
        filter,
        month,
        completeness: completeness.clone(),
    };
    let body = web::stream::body(|pieces| async move {
        let _permit = permit;
        Box::pin(archive.produce(first, &pieces)).await
    });
    let mut response = (headers, body).into_response();
    tell(response.headers_mut(), &completeness);
    Ok(response)
}

impl MonthArchive {
    /// Sends all but the end, which it gives back.
    async fn produce(&self, first: Option<ExportPage>, pieces: &PieceWriter) -> Result<Vec<u8>, BrokenOff> {
        let mut archive = Archive::new(Timestamp::now(), pieces);
        archive.file("README.txt")?;
        archive.write(self.readme().as_bytes()).await?;
        archive.file("receipts.ndjson")?;
        let receipts = self.write_receipts(first, &mut archive).await?;
        archive.file("uses.csv")?;
        self.write_uses(&mut archive).await?;
        archive.file("summary.json")?;
        let summary = self.summary(receipts).await?;
        archive.write(&summary).await?;
        archive.end()
    }

    async fn summary(&self, receipts_in_file: u64) -> Result<Vec<u8>, BrokenOff> {
        let Self {
            app,
            principal,
            scope,
            filter,
            month,
            completeness,
        } = self;
        let asked = app.ask(&principal.account_id, async |snapshot| {
            let usage = snapshot.usage();
            let totals = usage.dashboard(scope, filter, TOP.min(app.config.top_max)).await?;
            let content = usage.top_content(scope, filter, &RankingPage::top(1), None).await?;
            Ok((totals, content.total))
        });
        let (_, (totals, total_content)) = asked.await.map_err(|_| NO_ANSWER)?;
        let range = (Some(rfc3339(month.from)), Some(rfc3339(month.to)));
        let summary = MonthSummary {
            account_id: &principal.account_id,
            domains: &scope.publishers,
            with_subdomains_of: scope.below.iter().map(|below| below.parent.as_str()).collect(),
            month: &month.name,
            tz: &month.zone,
            totals: Dashboard::new(app, principal, totals, range).await,
            total_content,
            receipts_in_file,
            completeness,
        };
        let mut text = serde_json::to_vec_pretty(&summary).map_err(unwritable)?;
        text.push(b'\n');
        Ok(text)
    }

    fn readme(&self) -> String {
        let Month { name, zone, from, to } = &self.month;
        let complete = &self.completeness.complete_through;
        let is_complete = complete.parse().is_ok_and(|complete: Timestamp| complete >= *to);
        let completeness = if is_complete && !self.completeness.incomplete {
            format!("The month is complete: every receipt that was accepted before {complete} is counted.")
        } else {
            format!(
                "THE MONTH IS NOT COMPLETE: what was accepted before {complete} is counted, and later\nreceipts may \
                 be missing. Download it again later."
            )
        };
        let (from, to) = (rfc3339(*from), rfc3339(*to));
        let mut domains = self.scope.publishers.join(", ");
        if !self.scope.below.is_empty() {
            domains.push_str(" (with subdomains)");
        }
        format!(include_str!("readme.txt"), name, zone, from, to, domains, completeness)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn month(name: &str, query: &str) -> Result<(String, String), InvalidQuery> {
        let params = Params::parse(&format!("/x?{query}").parse().unwrap(), &["tz"]).unwrap();
        let month = Month::of(name.to_owned(), &params)?;
        Ok((rfc3339(month.from), rfc3339(month.to)))
    }

    #[test]
    fn months_begin_and_end_at_local_midnight() {
        for (name, query, from, to) in [
            ("2026-11", "", "2026-11-01T00:00:00.000Z", "2026-12-01T00:00:00.000Z"),
            ("2026-12", "", "2026-12-01T00:00:00.000Z", "2027-01-01T00:00:00.000Z"),
            ("2024-02", "", "2024-02-01T00:00:00.000Z", "2024-03-01T00:00:00.000Z"),
            ("2199-12", "", "2199-12-01T00:00:00.000Z", "2200-01-01T00:00:00.000Z"),
            (
                "2026-03",
                "tz=Europe/Berlin",
                "2026-02-28T23:00:00.000Z",
                "2026-03-31T22:00:00.000Z",
            ),
        ] {
            assert_eq!(
                month(name, query).unwrap(),
                (from.to_owned(), to.to_owned()),
                "{name} {query}"
            );
        }
    }

    #[test]
    fn other_texts_are_no_months() {
        for name in [
            "2026-13",
            "2026-00",
            "1969-12",
            "2200-01",
            "2026-1",
            "202611",
            "-00026-11",
            "2026-11-01",
            "now",
            "",
        ] {
            assert_eq!(month(name, "").unwrap_err().parameter, "month", "{name}");
        }
        assert_eq!(month("2026-11", "tz=Mars").unwrap_err().parameter, "tz");
    }
}
