//! `GET /api/v1/analytics/timeseries`: values over time, empty buckets as 0.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Uri};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use warehouse::{GroupBy, Metric, TimeseriesPoint};

use super::csv;
use crate::access::Access;
use crate::app::App;
use crate::buckets::{BucketError, INTERVALS, Interval, back, boundaries, recent};
use crate::completeness::Completeness;
use crate::format::{Csv, Format};
use crate::range;
use crate::selection::{PURPOSES, ends, filter};
use web::Failure;
use web::params::{InvalidQuery, Params};
use web::rfc3339;

const PARAMETERS: &[&str] = &[
    "metric", "interval", "from", "to", "tz", "purpose", "clientId", "entryId", "groupBy", "domain", "limit",
];

const METRICS: [(&str, Metric); 3] = [
    ("receipts", Metric::Receipts),
    ("clients", Metric::Clients),
    ("content", Metric::Content),
];

const GROUPS: [(&str, GroupBy); 3] = [
    ("purpose", GroupBy::Purpose),
    ("client", GroupBy::Client),
    ("entry", GroupBy::Entry),
];

/// The answer: `points`, or with `groupBy` `series` and `seriesMax`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    metric: &'static str,
    interval: &'static str,
    tz: String,
    from: String,
    to: String,
    #[serde(flatten)]
    completeness: Completeness,
    #[serde(skip_serializing_if = "Option::is_none")]
    group_by: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    points: Option<Vec<Point>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<Vec<Series>>,
    /// As many series as this: those with the most receipts, and there may be more.
    #[serde(skip_serializing_if = "Option::is_none")]
    series_max: Option<u32>,
}

/// One group's points.
#[derive(Debug, Serialize)]
struct Series {
    key: String,
    points: Vec<Point>,
}

/// One bucket: `[start, the next one's start)`, the last one to `to`.
#[derive(Debug, Clone, Serialize)]
struct Point {
    /// UTC.
    start: String,
    /// The same instant with the time zone's offset.
    local: String,
    value: u64,
}

/// A query read and found answerable.
struct Question {
    metric: (&'static str, Metric),
    interval: Interval,
    tz_name: String,
    tz: TimeZone,
    group: Option<(&'static str, GroupBy)>,
    series_max: u32,
    /// `from`, the starts within, `to`.
    boundaries: Vec<Timestamp>,
}

impl Question {
    fn of(params: &Params, app: &App, now: Timestamp) -> Result<Self, InvalidQuery> {
        let metric = params
            .choice("metric", &METRICS.map(|m| (m.0, m)))?
            .unwrap_or(METRICS[0]);
        let interval = params
            .choice("interval", &INTERVALS.map(|i| (i.name(), i)))?
            .unwrap_or(Interval::Day);
        let group = params.choice("groupBy", &GROUPS.map(|g| (g.0, g)))?;
        let limit = params.count("limit", app.config.series_max)?;
        if limit.is_some() && group.is_none() {
            return Err(InvalidQuery::new("limit", "is the number of series; it needs groupBy"));
        }
        let series_max = match group {
            Some((_, GroupBy::Purpose)) => u32::try_from(PURPOSES.len()).unwrap_or(u32::MAX),
            _ => limit.unwrap_or(app.config.series_max),
        };
        let points_max = match group {
            Some(_) => (app.config.points_max / usize::try_from(series_max).unwrap_or(usize::MAX)).max(1),
            None => app.config.points_max,
        };
        let (tz_name, tz) = range::time_zone(params)?;
        let (from, to) = span(params, interval, &tz, now)?;
        range::ordered(from, to, params)?;
        let boundaries = boundaries(interval, &tz, from, to, points_max).map_err(|error| match error {
            BucketError::TooMany { points_max } => too_many(interval, from, to, points_max, group.is_some()),
            BucketError::OutOfCalendar => InvalidQuery::new("from", "outside the calendar"),
        })?;
        Ok(Self {
            metric,
            interval,
            tz_name,
            tz,
            group,
            series_max,
            boundaries,
        })
    }

    fn from(&self) -> Timestamp {
        self.boundaries.first().copied().unwrap_or_default()
    }

    fn to(&self) -> Timestamp {
        self.boundaries.last().copied().unwrap_or_default()
    }

    /// Every bucket's start, without the end of the last one.
    fn starts(&self) -> &[Timestamp] {
        self.boundaries.split_last().map_or(&[], |(_, starts)| starts)
    }

    /// All points of one series; `values` by start, in milliseconds since the Unix epoch.
    fn points(&self, values: &HashMap<i64, u64>) -> Vec<Point> {
        let local = |start: &Timestamp| start.display_with_offset(self.tz.to_offset(*start));
        self.starts()
            .iter()
            .map(|start| Point {
                start: rfc3339(*start),
                local: format!("{:.3}", local(start)),
                value: values.get(&start.as_millisecond()).copied().unwrap_or(0),
            })
            .collect()
    }

    /// The groups with the greatest sum first.
    fn series(&self, points: Vec<TimeseriesPoint>) -> Vec<Series> {
        let mut groups: HashMap<String, HashMap<i64, u64>> = HashMap::new();
        if let Some((_, GroupBy::Purpose)) = self.group {
            groups.extend(PURPOSES.map(|name| (name.to_owned(), HashMap::new())));
        }
        for point in points {
            groups
                .entry(point.group.unwrap_or_default())
                .or_default()
                .insert(point.bucket_start_ms, point.value);
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        let sum = |values: &HashMap<i64, u64>| values.values().sum::<u64>();
        groups.sort_by(|(a_key, a), (b_key, b)| sum(b).cmp(&sum(a)).then_with(|| a_key.cmp(b_key)));
        groups
            .into_iter()
            .map(|(key, values)| Series {
                points: self.points(&values),
                key,
            })
            .collect()
    }
}

/// `from` and `to`, where they aren't given: the last intervals up to the end of the one that now is in.
fn span(
    params: &Params,
    interval: Interval,
    tz: &TimeZone,
    now: Timestamp,
) -> Result<(Timestamp, Timestamp), InvalidQuery> {
    let points = interval.default_points();
    let outside = |_| InvalidQuery::new("to", "outside the calendar");
    let (recent_from, recent_to) = recent(interval, tz, now, points).map_err(outside)?;
    Ok(match ends(params, tz)? {
        (Some(from), Some(to)) => (from, to),
        (Some(from), None) => (from, recent_to),
        (None, Some(to)) => (back(interval, tz, to, points).map_err(outside)?, to),
        (None, None) => (recent_from, recent_to),
    })
}

/// Says what would be answerable: a coarser interval, or how long a range.
fn too_many(interval: Interval, from: Timestamp, to: Timestamp, points_max: usize, grouped: bool) -> InvalidQuery {
    let seconds = to.as_second().saturating_sub(from.as_second());
    let points_max_i = i64::try_from(points_max).unwrap_or(i64::MAX);
    // Two points of slack: a range cuts its first and its last interval.
    let fitting = INTERVALS
        .iter()
        .find(|i| **i > interval && seconds / i.usual_seconds() + 2 <= points_max_i);
    let longest = points_max_i.saturating_mul(interval.usual_seconds());
    let longest = match longest {
        s if s >= 2 * 86_400 => format!("{} days", s / 86_400),
        s if s >= 2 * 3_600 => format!("{} hours", s / 3_600),
        s => format!("{} minutes", s / 60),
    };
    let each = if grouped {
        " for each series (fewer series with limit allow more)"
    } else {
        ""
    };
    let name = interval.name();
    let advice = match fitting {
        Some(coarser) => format!("choose interval={}, or a range of at most {longest}", coarser.name()),
        None => format!("choose a range of at most {longest}"),
    };
    let about = seconds / interval.usual_seconds();
    let detail = format!(
        "this range has about {about} points of one {name} each, at most {points_max} are answered{each}: {advice}"
    );
    InvalidQuery::new("interval", detail)
}

pub(crate) async fn timeseries(
    State(app): State<Arc<App>>,
    access: Access,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Failure> {
    let format = Format::of(&headers, &[Format::Json, Format::Csv])?;
    let params = Params::parse(&uri, PARAMETERS)?;
    let scope = access.scope(&params)?;
    let question = Question::of(&params, &app, Timestamp::now())?;
    let filter = filter(
        &params,
        question.from().as_millisecond(),
        question.to().as_millisecond(),
    )?;
    let starts: Vec<i64> = question.starts().iter().map(|start| start.as_millisecond()).collect();
    let (group_name, group_by) = question
        .group
        .map_or((None, GroupBy::None), |(name, group)| (Some(name), group));
    let query = app.warehouse().timeseries(
        &scope,
        &filter,
        question.metric.1,
        &starts,
        group_by,
        question.series_max,
    );
    let (completeness, points) = app.ask(query).await?;
    let (points, series) = if group_name.is_some() {
        (None, Some(question.series(points)))
    } else {
        let values = points
            .into_iter()
            .map(|point| (point.bucket_start_ms, point.value))
            .collect();
        (Some(question.points(&values)), None)
    };
    let answer = Answer {
        metric: question.metric.0,
        interval: question.interval.name(),
        from: rfc3339(question.from()),
        to: rfc3339(question.to()),
        completeness,
        group_by: group_name,
        series_max: series.is_some().then_some(question.series_max),
        tz: question.tz_name,
        points,
        series,
    };
    Ok(match format {
        Format::Json => Json(answer).into_response(),
        Format::Csv => csv(table(&answer), &answer.completeness),
    })
}

fn table(answer: &Answer) -> Csv {
    let Some(series) = &answer.series else {
        let mut csv = Csv::new(&["start", "local", "value"]);
        for point in answer.points.iter().flatten() {
            csv.row(&[point.start.as_str(), &point.local, &point.value.to_string()]);
        }
        return csv;
    };
    let mut csv = Csv::new(&[answer.group_by.unwrap_or("key"), "start", "local", "value"]);
    for one in series {
        for point in &one.points {
            csv.row(&[one.key.as_str(), &point.start, &point.local, &point.value.to_string()]);
        }
    }
    csv
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn too_long_ranges_are_told_what_would_fit() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let (from, month, decades) = (
            at("2024-01-01T00:00:00Z"),
            at("2024-02-01T00:00:00Z"),
            at("2190-01-01T00:00:00Z"),
        );
        let detail = too_many(Interval::Minute, from, month, 2_000, false).detail;
        assert!(
            detail.contains("about 44640 points of one minute each, at most 2000"),
            "{detail}"
        );
        assert!(
            detail.ends_with("choose interval=hour, or a range of at most 33 hours"),
            "{detail}"
        );
        let detail = too_many(Interval::Hour, from, decades, 2_000, false).detail;
        assert!(detail.contains("points of one hour each"), "{detail}");
        let detail = too_many(Interval::Month, from, decades, 1_000, true).detail;
        assert!(detail.contains("fewer series"), "{detail}");
        assert!(detail.ends_with("choose a range of at most 30000 days"), "{detail}");
    }
}
