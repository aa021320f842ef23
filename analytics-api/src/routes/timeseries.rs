//! `GET /api/v1/analytics/timeseries`: values over time, empty buckets as 0.

mod question;

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, Uri};
use jiff::Timestamp;
use serde::Serialize;
use usage::{GroupBy, SeriesGroup, TimeseriesPoint};
use utoipa::ToSchema;
use warehouse::Filter;

use self::question::{CLIENT_GROUP, Period, TimeseriesQuery};
use crate::access::Access;
use crate::answers::{ByTrust, Refusals};
use crate::format::reply::{Complete, Reply};
use crate::format::table::{Table, Tabular};
use crate::parameters::{
    self, BOM, CLIENTS, COMPARE, DOMAIN, ENTRIES, GROUP_BY, INTERVAL, FORMAT, MEMBERS, METRIC, Query, RANGE, SERIES_LIMIT,
};
use crate::selection::{filter, purposes};
use crate::state::AnalyticsState;
use web::{Failure, rfc3339};

pub(crate) const PATH: &str = "/api/v1/analytics/timeseries";
pub(crate) const PARAMETERS: &[&[Query]] = &[
    &[METRIC, INTERVAL],
    RANGE,
    CLIENTS,
    ENTRIES,
    MEMBERS,
    &[GROUP_BY, DOMAIN, SERIES_LIMIT, COMPARE, FORMAT, BOM],
];

/// Values over time: `points`, or with `groupBy` `series` and `seriesMax`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Timeseries {
    /// `receipts`, `clients` or `content`.
    metric: &'static str,
    /// `minute`, `hour`, `day`, `week` or `month`.
    interval: &'static str,
    /// The time zone, by its canonical name.
    tz: String,
    #[schema(format = DateTime)]
    from: String,
    #[schema(format = DateTime)]
    to: String,
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    group_by: Option<&'static str>,
    #[serde(flatten)]
    values: Values,
    /// As many series as this: those with the most receipts, and there may be more.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    series_max: Option<u32>,
    /// The period that `compare` names. Its points correspond to those of the same
    /// index; there may be more or fewer of them, as months differ. Its series are those with the
    /// most receipts of that period.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    previous: Option<PreviousPoints>,
}

/// The values of one period.
#[derive(Debug, Serialize, ToSchema)]
struct Values {
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    points: Option<Vec<Point>>,
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<Vec<Series>>,
}

/// The values of the period before.
#[derive(Debug, Serialize, ToSchema)]
struct PreviousPoints {
    #[schema(format = DateTime)]
    from: String,
    #[schema(format = DateTime)]
    to: String,
    #[serde(flatten)]
    values: Values,
}

/// Points of a group.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Series {
    /// The purpose, the client's or entry's id, or the model; null for receipts that name no model.
    #[schema(required = true)]
    key: Option<String>,
    /// The key, of a client that isn't erased: clients are pairs of ID and key.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    key_fingerprint: Option<String>,
    points: Vec<Point>,
}

/// A bucket: `[start, the next one's start)`, the last one to `to`.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Point {
    /// UTC.
    #[schema(format = DateTime)]
    start: String,
    /// Start with the time zone's offset.
    #[schema(format = DateTime)]
    local: String,
    value: u64,
    by_trust: ByTrust,
}

/// Values of one series by their bucket's start, in milliseconds since the Unix epoch.
type ByStart = HashMap<i64, (u64, ByTrust)>;

impl TimeseriesQuery {
    /// All points of one series.
    fn points(&self, period: &Period, values: &ByStart) -> Vec<Point> {
        let local = |start: &Timestamp| start.display_with_offset(self.tz.to_offset(*start));
        let point = |start: &Timestamp| {
            let (value, by_trust) = values.get(&start.as_millisecond()).copied().unwrap_or_default();
            Point {
                start: rfc3339(*start),
                local: format!("{:.3}", local(start)),
                value,
                by_trust,
            }
        };
        period.starts().iter().map(point).collect()
    }

    /// The groups with the greatest sum first.
    fn series(&self, period: &Period, points: Vec<TimeseriesPoint>) -> Vec<Series> {
        let mut groups: HashMap<SeriesGroup, ByStart> = HashMap::new();
        if let Some((_, GroupBy::Purpose)) = self.group {
            let group = |name: &str| SeriesGroup {
                id: name.to_owned(),
                key_fingerprint: String::new(),
            };
            groups.extend(purposes().map(|name| (group(name), HashMap::new())));
        }
        for point in points {
            groups
                .entry(point.group.unwrap_or_default())
                .or_default()
                .insert(point.bucket_start_ms, (point.value, point.by_trust.into()));
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        let sum = |values: &ByStart| values.values().map(|(value, _)| value).sum::<u64>();
        groups.sort_by(|(a_key, a), (b_key, b)| sum(b).cmp(&sum(a)).then_with(|| a_key.cmp(b_key)));
        groups
            .into_iter()
            .map(|(group, values)| Series {
                points: self.points(period, &values),
                key: Some(group.id).filter(|id| !id.is_empty()),
                key_fingerprint: Some(group.key_fingerprint).filter(|key| key.bytes().any(|digit| digit != b'0')),
            })
            .collect()
    }

    fn values(&self, period: &Period, points: Vec<TimeseriesPoint>) -> Values {
        if self.group.is_some() {
            return Values {
                points: None,
                series: Some(self.series(period, points)),
            };
        }
        let values = points
            .into_iter()
            .map(|point| (point.bucket_start_ms, (point.value, point.by_trust.into())));
        Values {
            points: Some(self.points(period, &values.collect())),
            series: None,
        }
    }
}

impl Tabular for Timeseries {
    fn columns(&self) -> Vec<&'static str> {
        let period = self.previous.as_ref().map(|_| "period");
        let mut columns: Vec<&'static str> = period.into_iter().chain(self.group_by).collect();
        // The other part of a client.
        columns.extend((self.group_by == Some(CLIENT_GROUP)).then_some("keyFingerprint"));
        columns.extend(["start", "local", "value", "proven", "unproven"]);
        columns
    }

    fn rows(&self, table: &mut Table) -> Result<(), serde_json::Error> {
        self.values.rows(table, "current", self.group_by)?;
        let previous = self.previous.as_ref();
        previous.map_or(Ok(()), |previous| {
            previous.values.rows(table, "previous", self.group_by)
        })
    }
}

impl Values {
    fn rows(&self, table: &mut Table, period: &str, group_by: Option<&str>) -> Result<(), serde_json::Error> {
        let period = ("period", Some(period));
        for point in self.points.iter().flatten() {
            table.row(point, &[period])?;
        }
        for one in self.series.iter().flatten() {
            let key = (group_by.unwrap_or_default(), one.key.as_deref());
            let fingerprint = ("keyFingerprint", one.key_fingerprint.as_deref());
            for point in &one.points {
                table.row(point, &[period, key, fingerprint])?;
            }
        }
        Ok(())
    }
}

/// Values over time
///
/// A value for each interval of the range, 0 where nothing was; the last 60 minutes, 48 hours, 30
/// days, 26 weeks or 12 months if no range is given. Points of receipts add up to the range's
/// total; those of distinct clients and entries don't. As CSV or lines of JSON a row for each
/// point: `start`, `local`, `value`, before them the group's key under the name of the group and,
/// of clients, `keyFingerprint`, and with `compare` `period` (`current` or `previous`)
/// before all.
#[utoipa::path(
    get, path = PATH, tag = "analytics", security(("apiKey" = [])),
    responses(
        (status = 200, description = "The values", content((Complete<Timeseries> = "application/json"), (String = "text/csv"), (String = "application/x-ndjson"))),
        Refusals,
    ),
)]
pub(crate) async fn timeseries(
    State(app): State<Arc<AnalyticsState>>,
    access: Access,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Failure> {
    let params = parameters::read(&uri, PARAMETERS)?;
    let reply = Reply::of(headers, &uri, &params)?;
    let scope = access.scope(&params)?;
    let question = TimeseriesQuery::of(&params, &app.config, Timestamp::now())?;
    let filter_of = |period: &Period| {
        filter(
            &access,
            &params,
            period.from().as_millisecond(),
            period.to().as_millisecond(),
        )
    };
    let group_by = question.group.map_or(GroupBy::None, |(_, group)| group);
    let filters: (Filter, Option<Filter>) = (
        filter_of(&question.period)?,
        question.previous.as_ref().map(filter_of).transpose()?,
    );
    let (completeness, (points, previous)) = app
        .ask(access.account_id(), async |snapshot| {
            let usage = snapshot.usage();
            let ask = async |period: &Period, filter: &Filter| {
                let starts = period.starts_ms();
                usage
                    .timeseries(
                        &scope,
                        filter,
                        question.metric.1,
                        &starts,
                        group_by,
                        question.series_max,
                    )
                    .await
            };
            let points = ask(&question.period, &filters.0).await?;
            Ok(match (&question.previous, &filters.1) {
                (Some(period), Some(filter)) => (points, Some(ask(period, filter).await?)),
                _ => (points, None),
            })
        })
        .await?;
    let previous = question
        .previous
        .as_ref()
        .zip(previous)
        .map(|(period, points)| PreviousPoints {
            from: rfc3339(period.from()),
            to: rfc3339(period.to()),
            values: question.values(period, points),
        });
    let group_by = question.group.map(|(name, _)| name);
    let answer = Timeseries {
        metric: question.metric.0,
        interval: question.interval.name(),
        from: rfc3339(question.period.from()),
        to: rfc3339(question.period.to()),
        values: question.values(&question.period, points),
        series_max: group_by.is_some().then_some(question.series_max),
        tz: question.tz_name,
        group_by,
        previous,
    };
    Ok(reply.answer(answer, completeness))
}
