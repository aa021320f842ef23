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
//! | a live stream, once | 5 |
//! | `Prefer: wait` on a receipt: each 10 s begun | + 1 |
//!
//! `from` alone is a range up to now, `to` alone one of more than five years; of a time series it
//! is as many intervals as it has by itself.
//!
//! Never more than [`COST_MAX`], nor than the key may ask in a minute at all.

use axum::extract::Query;
use http::{Request, Uri};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::buckets::{INTERVALS, Interval};
use crate::format::{ALL, Format};
use crate::parameters::FORMAT;
use crate::waiting::preferred_wait_s;

/// The most that one question costs.
pub const COST_MAX: u32 = 20;
/// Cost of a live stream.
const LIVE: u32 = 5;
/// A stream without `limit` may have any number of rows.
const ROWS_OF_STREAM: u64 = u64::MAX;
const DAY_S: i64 = 86_400;

/// The units of a request, 1 to [`COST_MAX`]. What can't be answered costs as much as a question of
/// the same form could.
#[must_use]
pub fn of_request<B>(request: &Request<B>) -> u32 {
    let waits = if request.uri().path().starts_with("/api/v1/receipts/") {
        preferred_wait_s(request.headers()).map_or(0, |wait_s| wait_s.div_ceil(10))
    } else {
        0
    };
    units(request.uri(), wants_rows(request), Timestamp::now()) + waits
}

/// Cost by the address, whether rows are wanted rather than JSON, and the time.
#[must_use]
pub fn units(uri: &Uri, rows: bool, now: Timestamp) -> u32 {
    let Some(end) = uri.path().strip_prefix("/api/v1/analytics/") else {
        return 1;
    };
    if end == "live" {
        return LIVE;
    }
    let params = QueryParameters::of(uri);
    let mut cost = 1;
    let range_s = range_s(&params, end == "timeseries", now);
    cost += match range_s.unwrap_or(0) / DAY_S {
        ..=93 => 0,
        94..=366 => 1,
        367..=1_830 => 2,
        _ => 4,
    };
    if params.get("compare").is_some() {
        cost += 1;
    }
    cost += u32::from(params.get("q").is_some());
    let sort = params.get("sort").map(|sort| sort.trim_start_matches('-'));
    cost += u32::from(matches!(sort, Some("lastSeen" | "name")));
    if end == "timeseries" {
        let groups = params
            .get("groupBy")
            .map_or(0, |groups| groups.split(',').take(2).count());
        cost += u32::try_from(groups).unwrap_or(0);
        cost += match points(&params, range_s) {
            ..=500 => 0,
            501..=1_000 => 1,
            _ => 2,
        };
    }
    let limit: Option<u64> = params.get("limit").and_then(|limit| limit.parse().ok());
    cost += if end == "receipts" && rows {
        let thousands = limit.unwrap_or(ROWS_OF_STREAM).div_ceil(1_000);
        u32::try_from(thousands).unwrap_or(COST_MAX).min(COST_MAX)
    } else {
        match limit.unwrap_or(0) {
            ..=250 => 0,
            251..=500 => 1,
            _ => 3,
        }
    };
    cost.min(COST_MAX)
}

/// The parameters, whether they are right or not.
struct QueryParameters(Vec<(String, String)>);

impl QueryParameters {
    fn of(uri: &Uri) -> Self {
        Self(Query::try_from_uri(uri).map_or_else(|_| Vec::new(), |Query(pairs)| pairs))
    }

    fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(given, _)| given == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Length of the range, as far as one is given.
fn range_s(params: &QueryParameters, of_series: bool, now: Timestamp) -> Option<i64> {
    let at = |name| params.get(name).and_then(instant).map(Timestamp::as_second);
    let length = match (at("from"), at("to")) {
        (Some(from), Some(to)) => to - from,
        (Some(from), None) => now.as_second() - from,
        (None, Some(_)) if of_series => {
            let interval = interval(params);
            i64::try_from(interval.default_points()).unwrap_or(i64::MAX) * interval.usual_seconds()
        }
        (None, Some(_)) => i64::MAX,
        (None, None) => return None,
    };
    Some(length.max(0))
}

/// A date is taken as UTC's: hours make no difference here.
fn instant(text: &str) -> Option<Timestamp> {
    let date = |text: &str| text.parse::<Date>().ok()?.to_zoned(TimeZone::UTC).ok();
    match text.len() {
        10 => date(text).map(|at| at.timestamp()),
        // An unescaped + arrives as a space.
        11..=40 => text.replace(' ', "+").parse().ok(),
        _ => None,
    }
}

fn interval(params: &QueryParameters) -> Interval {
    let named = |interval: &Interval| params.get("interval") == Some(interval.name());
    INTERVALS.into_iter().find(named).unwrap_or(Interval::Day)
}

fn points(params: &QueryParameters, range_s: Option<i64>) -> i64 {
    range_s.map_or(0, |range_s| range_s / interval(params).usual_seconds())
}

/// Whether the answer will be rows: decided as the answer's own form is.
fn wants_rows<B>(request: &Request<B>) -> bool {
    let params = QueryParameters::of(request.uri());
    match params.get(FORMAT.name) {
        Some(name) => ALL
            .iter()
            .any(|format| format.name() == name && *format != Format::Json),
        None => Format::of(request.headers(), &ALL).is_ok_and(|format| format != Format::Json),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    fn at(address: &str, rows: bool) -> u32 {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        units(&format!("/api/v1/analytics/{address}").parse().unwrap(), rows, now)
    }

    #[test]
    fn what_is_asked_for_without_more_costs_one() {
        for address in ["dashboard", "timeseries", "receipts", "clients", "content/x"] {
            assert_eq!(at(address, false), 1, "{address}");
        }
        let receipt = "/api/v1/receipts/x?from=1970-01-01&to=2199-01-01";
        assert_eq!(units(&receipt.parse().unwrap(), false, Timestamp::now()), 1);
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
            let mut request = Request::get("/api/v1/analytics/receipts?limit=5000");
            for line in accept {
                request = request.header("accept", *line);
            }
            assert_eq!(of_request(&request.body(()).unwrap()), cost, "{accept:?}");
        }
        for (format, cost) in [("csv", 6), ("ndjson", 6), ("parquet", 6), ("json", 4), ("xls", 4)] {
            let address = format!("/api/v1/analytics/receipts?limit=5000&format={format}");
            let request = Request::get(address).header("accept", if cost == 4 { "text/csv" } else { "*/*" });
            assert_eq!(of_request(&request.body(()).unwrap()), cost, "{format}");
        }
    }

    #[test]
    fn waiting_costs_by_its_time() {
        for (path, wait, cost) in [
            ("/api/v1/receipts/x", "wait=0", 1),
            ("/api/v1/receipts/x", "wait=10", 2),
            ("/api/v1/receipts/x", "wait=60", 4),
            ("/api/v1/analytics/dashboard", "wait=60", 1),
        ] {
            let request = Request::get(path).header("prefer", wait).body(()).unwrap();
            assert_eq!(of_request(&request), cost, "{path} {wait}");
        }
    }

    proptest! {
        #[test]
        fn any_address_costs_something_bounded(address in "[a-z/]{0,12}[?][a-zA-Z0-9=&%+:-]{0,60}", rows: bool) {
            prop_assert!((1..=COST_MAX).contains(&at(&address, rows)));
        }

        /// A longer range, a finer interval or a larger page never costs less, and the order of
        /// parameters is no matter.
        #[test]
        fn never_less_for_more(days in 0..4_000_i64, more in 0..4_000_i64, limit in 1..3_000_u32, rows: bool) {
            let end = |days: i64| Timestamp::from_second(1_700_000_000 + days * DAY_S).unwrap().to_string();
            let (start, short, long) = (end(0), end(days), end(days + more));
            for path in ["timeseries", "receipts"] {
                let of = |to: &str, limit: u32, interval: &str| {
                    let cost = at(&format!("{path}?from={start}&to={to}&limit={limit}&interval={interval}"), rows);
                    let turned = at(&format!("{path}?interval={interval}&limit={limit}&to={to}&from={start}"), rows);
                    assert_eq!(cost, turned);
                    cost
                };
                prop_assert!(of(&short, limit, "day") <= of(&long, limit, "day"));
                prop_assert!(of(&short, limit, "day") <= of(&short, limit, "hour"));
                prop_assert!(of(&short, limit, "day") <= of(&short, limit + 700, "day"));
            }
        }
    }
}
