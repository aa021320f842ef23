//! Cost of a query in units of the key's quota: a function of the request's head (and of the time,
//! where a range has no end), so that whoever asks can tell it beforehand.
//!
//! | a request | units |
//! |---|---|
//! | any, without what is below | 1 |
//! | a range of more than 93 days, of more than a year, of more than five years | + 1, 2, 4 |
//! | `q`; `sort` by `lastSeen` or `name` | + 1 each |
//! | each group in `groupBy` of a time series | + 1 |
//! | more than 500 points of a time series, more than 1,000 | + 1, 2 |
//! | `compare` | + 1 |
//! | a page of more than 250 rows, of more than 500 | + 1, 3 |
//! | receipts streamed as rows (not JSON): up to 1,000 rows, then each further 1,000 | + 1, 1 |
//! | a month as one file | 20 |
//! | a live stream, once | 5 |
//! | `Prefer: wait` on a receipt: each 10 s begun | + 1 |
//!
//! `from` alone is a range up to now, `to` alone one of more than five years; of a time series it
//! is as many intervals as it has by itself.
//!
//! Never more than [`COST_MAX`], nor than the key may ask in a minute at all.

use axum::extract::Request;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use web::params::Params;
use web::parsed_query::ParsedQuery;

use crate::buckets::Interval;
use crate::range::instant;
use crate::routes::timeseries::question::{groups, interval};
use crate::waiting::preferred_wait_s;
use web::format::Format;

/// The most that one question costs.
pub const COST_MAX: u32 = 20;
/// Cost of a live stream.
const LIVE: u32 = 5;
const DAY_S: i64 = 86_400;

/// The units of a request, 1 to [`COST_MAX`], by its query as the layer before has parsed it. A
/// query that can't be parsed costs 1: nothing more is done with it.
#[must_use]
pub fn of_request(request: &Request) -> u32 {
    let path = request.uri().path();
    let Some(Ok(params)) = request.extensions().get::<ParsedQuery>() else {
        return 1;
    };
    if path.starts_with("/api/v1/receipts/") {
        return 1 + preferred_wait_s(request.headers()).map_or(0, |wait_s| wait_s.div_ceil(10));
    }
    let rows = Format::wanted(request.headers(), params).is_ok_and(|format| format != Format::Json);
    path.strip_prefix("/api/v1/analytics/")
        .map_or(1, |end| units(end, params, rows, Timestamp::now()))
}

/// Cost by the end of the address, its parameters, whether rows are wanted rather than JSON, and
/// the time. What a parameter that can't be read would add isn't counted.
fn units(end: &str, params: &Params, rows: bool, now: Timestamp) -> u32 {
    if end == "live" {
        return LIVE;
    }
    if end.starts_with("months/") {
        return COST_MAX;
    }
    let interval = (end == "timeseries").then(|| interval(params).unwrap_or(Interval::Day));
    let range_s = range_s(params, interval, now).unwrap_or(0);
    let mut cost = 1;
    cost += match range_s / DAY_S {
        ..=93 => 0,
        94..=366 => 1,
        367..=1_830 => 2,
        _ => 4,
    };
    cost += u32::from(params.get("compare").is_some());
    cost += u32::from(params.get("q").is_some());
    let sort = params.get("sort").map(|sort| sort.trim_start_matches('-'));
    cost += u32::from(matches!(sort, Some("lastSeen" | "name")));
    if let Some(interval) = interval {
        let groups = groups(params).map_or(0, |groups| groups.len());
        cost += u32::try_from(groups).unwrap_or(0);
        cost += match range_s / interval.usual_seconds() {
            ..=500 => 0,
            501..=1_000 => 1,
            _ => 2,
        };
    }
    let limit = params.count("limit", u32::MAX).unwrap_or(None);
    cost += if end == "receipts" && rows {
        limit.map_or(COST_MAX, |limit| limit.div_ceil(1_000)).min(COST_MAX)
    } else {
        match limit.unwrap_or(0) {
            ..=250 => 0,
            251..=500 => 1,
            _ => 3,
        }
    };
    cost.min(COST_MAX)
}

/// Length of the range, as far as one is given; of a time series by its interval. A date is taken
/// as UTC's: hours make no difference here.
fn range_s(params: &Params, interval: Option<Interval>, now: Timestamp) -> Option<i64> {
    let at = |name| instant(params, name, &TimeZone::UTC).ok().flatten();
    let length = match (at("from"), at("to")) {
        (Some(from), Some(to)) => to.as_second() - from.as_second(),
        (Some(from), None) => now.as_second() - from.as_second(),
        (None, Some(_)) => interval.map_or(i64::MAX, |interval| {
            i64::try_from(interval.default_points()).unwrap_or(i64::MAX) * interval.usual_seconds()
        }),
        (None, None) => return None,
    };
    Some(length.max(0))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use axum::body::Body;
    use http::Uri;
    use http::request::Builder;
    use proptest::prelude::*;

    use super::*;
    use crate::query_parsing::read;
    use crate::routes::dashboard::PATH as DASHBOARD;
    use crate::routes::month::PATH as MONTH;
    use crate::routes::receipt::PATH as RECEIPT;
    use crate::routes::receipts::PATH as RECEIPTS;

    fn at(address: &str, rows: bool) -> u32 {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let uri: Uri = format!("/api/v1/analytics/{address}").parse().unwrap();
        let end = uri.path().strip_prefix("/api/v1/analytics/").unwrap();
        read(&uri, uri.path()).map_or(1, |params| units(end, &params, rows, now))
    }

    /// The cost of a request for the address `path`.
    fn of(request: Builder, path: &str) -> u32 {
        let mut request = request.body(Body::empty()).unwrap();
        let parsed = read(request.uri(), path);
        request.extensions_mut().insert(parsed);
        of_request(&request)
    }

    #[test]
    fn what_is_asked_for_without_more_costs_one() {
        for address in ["dashboard", "timeseries", "receipts", "clients", "content/x"] {
            assert_eq!(at(address, false), 1, "{address}");
        }
        for faulty in ["?from=1970-01-01&form=csv", "?from=1970-01-01&from=1970-01-01"] {
            assert_eq!(at(&format!("receipts{faulty}"), true), 1, "{faulty}");
        }
    }

    #[test]
    fn more_costs_more() {
        for (address, cost) in [
            ("live", 5),
            ("live?tz=Europe/Berlin", 5),
            ("dashboard?from=2025-01-01&to=2025-02-01", 1),
            ("dashboard?from=2025-01-01&to=2025-04-05", 2),
            ("dashboard?from=2024-01-01&to=2025-04-05", 3),
            ("dashboard?from=1970-01-01&to=2199-01-01", 5),
            ("dashboard?from=2025-01-01&to=2025-02-01&compare=previous", 2),
            ("dashboard?from=2025-01-01T00:00:00%2B02:00&to=2025-12-01T00:00:00Z", 2),
            ("dashboard?from=2025-01-01T00:00:00+02:00&to=2025-12-01T00:00:00Z", 2),
            // Open ranges: up to now, and from the first receipt.
            ("dashboard?from=2025-10-01", 1),
            ("dashboard?from=2025-06-01", 2),
            ("dashboard?from=2020-01-01", 5),
            ("dashboard?from=2199-01-01", 1),
            ("dashboard?to=2025-12-01", 5),
            ("dashboard?from=nonsense&to=2025-12-01", 5),
            ("timeseries?to=2025-12-01", 1),
            ("timeseries?to=2025-12-01&interval=month", 2),
            ("timeseries?from=2020-01-01&interval=hour", 7),
            (
                "timeseries?interval=minute&from=2025-01-01T00:00:00Z&to=2025-01-01T09:00:00Z",
                2,
            ),
            (
                "timeseries?interval=minute&from=2025-01-01&to=2025-01-02&groupBy=client",
                4,
            ),
            ("timeseries?groupBy=operator", 2),
            ("timeseries?groupBy=operator,purpose", 3),
            ("content?sort=entryId", 1),
            ("content?sort=-lastSeen&q=news", 3),
            ("receipts?limit=250", 1),
            ("receipts?limit=500", 2),
            ("receipts?limit=1000", 4),
            ("content?limit=250", 1),
            ("clients?limit=1000&sort=name", 5),
        ] {
            assert_eq!(at(address, false), cost, "{address}");
        }
        let rows = ["receipts?limit=1", "receipts?limit=5000", "receipts"].map(|address| at(address, true));
        assert_eq!(rows, [2, 6, COST_MAX]);
    }

    #[test]
    fn the_form_is_chosen_by_accept() {
        for (accept, cost) in [
            (&["text/csv"][..], 6),
            (&["Text/CSV; charset=utf-8"], 6),
            (&["text/*"], 6),
            (&["application/x-ndjson, application/json;q=0.5"], 6),
            (&["application/vnd.apache.parquet"], 6),
            (&["application/json;q=0.1, text/csv"], 6),
            (&["application/json;q=0.1", "text/csv"], 6),
            (&["application/json;q=0, */*"], 6),
            (&["application/json, text/csv"], 4),
            (&["text/csv;q=0.5, application/json"], 4),
            (&["*/*"], 4),
            (&["image/png"], 4),
        ] {
            let mut request = Request::get(format!("{RECEIPTS}?limit=5000"));
            for line in accept {
                request = request.header("accept", *line);
            }
            assert_eq!(of(request, RECEIPTS), cost, "{accept:?}");
        }
        for (format, cost) in [("csv", 6), ("ndjson", 6), ("parquet", 6), ("json", 4), ("xls", 4)] {
            let address = format!("{RECEIPTS}?limit=5000&format={format}");
            let request = Request::get(address).header("accept", if cost == 4 { "text/csv" } else { "*/*" });
            assert_eq!(of(request, RECEIPTS), cost, "{format}");
        }
    }

    #[test]
    fn a_month_costs_the_most() {
        let request = Request::get("/api/v1/analytics/months/2026-11?tz=Europe/Berlin");
        assert_eq!(of(request, MONTH), COST_MAX);
    }

    #[test]
    fn waiting_costs_by_its_time() {
        for (path, address, wait, cost) in [
            (RECEIPT, "/api/v1/receipts/x", "wait=0", 1),
            (RECEIPT, "/api/v1/receipts/x", "wait=10", 2),
            (RECEIPT, "/api/v1/receipts/x", "wait=60", 4),
            (DASHBOARD, DASHBOARD, "wait=60", 1),
        ] {
            let request = Request::get(address).header("prefer", wait);
            assert_eq!(of(request, path), cost, "{address} {wait}");
        }
    }

    proptest! {
        #[test]
        fn any_address_costs_something_bounded(
            address in "(dashboard|timeseries|receipts|[a-z/]{0,12})[?]((from|to|limit|interval)=)?[a-zA-Z0-9=&%+:-]{0,60}",
            rows: bool,
        ) {
            prop_assert!((1..=COST_MAX).contains(&at(&address, rows)));
        }

        /// A longer range, a finer interval or a larger page never costs less, and the order of
        /// parameters is no matter.
        #[test]
        fn never_less_for_more(days in 0..4_000_i64, more in 0..4_000_i64, limit in 1..3_000_u32, rows: bool) {
            let end = |days: i64| Timestamp::from_second(1_700_000_000 + days * DAY_S).unwrap().to_string();
            let (start, short, long) = (end(0), end(days), end(days + more));
            let of = |to: &str, more: &str| {
                let cost = at(&format!("{more}&from={start}&to={to}"), rows);
                let (path, last) = more.split_once('?').unwrap();
                assert_eq!(at(&format!("{path}?to={to}&from={start}&{last}"), rows), cost);
                cost
            };
            let (series, page) = ("timeseries?groupBy=client&interval=", "receipts?limit=");
            for path in [format!("{series}day&limit="), page.to_owned()] {
                let (fewer, more) = (format!("{path}{limit}"), format!("{path}{}", limit + 700));
                prop_assert!(of(&short, &fewer) <= of(&long, &fewer));
                prop_assert!(of(&short, &fewer) <= of(&short, &more));
            }
            let finer = |interval: &str| of(&short, &format!("{series}{interval}&limit={limit}"));
            prop_assert!(finer("day") <= finer("hour"));
        }
    }
}
