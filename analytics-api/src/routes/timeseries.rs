//! `GET /api/v1/analytics/timeseries`: values over time, empty buckets as 0.

mod names;
pub(crate) mod question;

use std::collections::HashMap;
use std::sync::Arc;

use accounts::Principal;
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, Uri};
use jiff::Timestamp;
use serde::Serialize;
use usage::{GroupBy, SeriesGroup, TimeseriesPoint};
use utoipa::ToSchema;
use warehouse::{Filter, WarehouseError};

use self::names::GroupNames;
pub(crate) use self::question::GROUPS;
use self::question::{CLIENT_GROUP, Period, TimeseriesQuery};
use crate::access::Access;
use crate::answers::{ByTrust, Refusals};
use crate::format::reply::{Complete, Reply};
use crate::parameters::{
    CLIENTS, COMPARE, DOMAIN, ENTRIES, GROUP_BY, INTERVAL, MEMBERS, METRIC, Query, RANGE, ROWS, SERIES_LIMIT,
};
use crate::selection::{filter, purposes};
use crate::state::AnalyticsState;
use web::format::column::{RowColumn, instant, integer, text};
use web::format::table::{Table, TableError, Tabular};
use web::params::Params;
use web::{Failure, rfc3339};

pub(crate) const PATH: &str = "/api/v1/analytics/timeseries";
pub(crate) const PARAMETERS: &[&[Query]] = &[
    &[METRIC, INTERVAL],
    RANGE,
    CLIENTS,
    ENTRIES,
    MEMBERS,
    &[GROUP_BY, DOMAIN, SERIES_LIMIT, COMPARE],
    ROWS,
];

/// Columns of the labels of the first group, and of the second.
const LABELS: [&str; 2] = ["label", "secondLabel"];

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
    /// The groups of the series: one, or two.
    #[schema(required = false)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    group_by: Vec<&'static str>,
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

/// Points of a group, or of a pair of groups.
#[derive(Debug, Serialize, ToSchema)]
struct Series {
    #[serde(flatten)]
    first: GroupKey,
    /// The other group of a pair.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    second: Option<GroupKey>,
    points: Vec<Point>,
}

/// A group of receipts.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct GroupKey {
    /// The purpose, the client's or entry's id, the model or the operator; null for receipts that
    /// name no model, or whose key was no operator's.
    #[schema(required = true)]
    key: Option<String>,
    /// A client's name as its newest receipt in the range says, an entry's title; of others the
    /// key. Null for an erased client, and where `key` is null.
    #[schema(required = true)]
    label: Option<String>,
    /// The key, of a client that isn't erased: clients are pairs of ID and key.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    key_fingerprint: Option<String>,
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
    fn series(&self, period: &Period, points: Vec<TimeseriesPoint>, names: &GroupNames) -> Vec<Series> {
        let mut groups: HashMap<Vec<SeriesGroup>, ByStart> = HashMap::new();
        if let [(_, GroupBy::Purpose)] = self.groups.as_slice() {
            let group = |name: &str| SeriesGroup {
                id: name.to_owned(),
                key_fingerprint: String::new(),
            };
            groups.extend(purposes().map(|name| (vec![group(name)], HashMap::new())));
        }
        for point in points {
            groups
                .entry(point.groups)
                .or_default()
                .insert(point.bucket_start_ms, (point.value, point.by_trust.into()));
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        let sum = |values: &ByStart| values.values().map(|(value, _)| value).sum::<u64>();
        groups.sort_by(|(a_key, a), (b_key, b)| sum(b).cmp(&sum(a)).then_with(|| a_key.cmp(b_key)));
        groups
            .into_iter()
            .map(|(groups, values)| {
                let keys = self.groups.iter().zip(groups);
                let mut keys = keys.map(|((_, by), group)| names.key(*by, group));
                Series {
                    first: keys.next().unwrap_or_default(),
                    second: keys.next(),
                    points: self.points(period, &values),
                }
            })
            .collect()
    }

    fn values(&self, period: &Period, points: Vec<TimeseriesPoint>, names: &GroupNames) -> Values {
        if !self.groups.is_empty() {
            return Values {
                points: None,
                series: Some(self.series(period, points, names)),
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
    fn columns(&self) -> Vec<RowColumn> {
        let period = self.previous.as_ref().map(|_| text("period"));
        let mut columns: Vec<RowColumn> = period.into_iter().collect();
        for (group, label) in self.group_by.iter().zip(LABELS) {
            columns.push(text(group));
            // The other part of a client.
            columns.extend((*group == CLIENT_GROUP).then_some(text("keyFingerprint")));
            columns.push(text(label));
        }
        // `local` stays a text: Parquet has no offsets.
        columns.extend([instant("start"), text("local")]);
        columns.extend(["value", "proven", "unproven"].map(integer));
        columns
    }

    fn rows(&self, table: &mut Table) -> Result<(), TableError> {
        self.values.rows(table, "current", &self.group_by)?;
        let previous = self.previous.as_ref();
        previous.map_or(Ok(()), |previous| {
            previous.values.rows(table, "previous", &self.group_by)
        })
    }
}

impl Values {
    fn rows(&self, table: &mut Table, period: &str, group_by: &[&str]) -> Result<(), TableError> {
        let period = ("period", Some(period));
        for point in self.points.iter().flatten() {
            table.row(point, &[period])?;
        }
        for one in self.series.iter().flatten() {
            let mut cells = vec![period];
            let groups = [&one.first].into_iter().chain(&one.second);
            for ((group, name), label) in groups.zip(group_by).zip(LABELS) {
                cells.extend([(*name, group.key.as_deref()), (label, group.label.as_deref())]);
                let fingerprint = group.key_fingerprint.as_deref();
                cells.extend((*name == CLIENT_GROUP).then_some(("keyFingerprint", fingerprint)));
            }
            for point in &one.points {
                table.row(point, &cells)?;
            }
        }
        Ok(())
    }
}

/// Values over time
///
/// A value for each interval of the range, 0 where nothing was; the last 60 minutes, 48 hours, 30
/// days, 26 weeks or 12 months if no range is given. Points of receipts add up to the range's
/// total; those of distinct clients and entries don't. As rows a row for each
/// point: `start`, `local`, `value`, before them the group's key under the name of the group, of
/// clients `keyFingerprint`, and `label` (of a second group `secondLabel`), and with
/// `compare` `period` (`current` or `previous`) before all.
#[utoipa::path(
    get, path = PATH, tag = "analytics", security(("apiKey" = [])),
    responses(
        (status = 200, description = "The values", body = Complete<Timeseries>),
        Refusals,
    ),
)]
pub(crate) async fn timeseries(
    State(app): State<Arc<AnalyticsState>>,
    access: Access,
    Extension(principal): Extension<Arc<Principal>>,
    headers: HeaderMap,
    params: Params,
    uri: Uri,
) -> Result<Response, Failure> {
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
    let group_by: Vec<GroupBy> = question.groups.iter().map(|(_, group)| *group).collect();
    let filters: (Filter, Option<Filter>) = (
        filter_of(&question.period)?,
        question.previous.as_ref().map(filter_of).transpose()?,
    );
    let (completeness, (points, previous)) = app
        .ask(access.account_id(), async |snapshot| {
            let usage = snapshot.usage();
            let ask = async |period: &Period, filter: &Filter| {
                let starts = period.starts_ms();
                let points = usage
                    .timeseries(
                        &scope,
                        filter,
                        question.metric.1,
                        &starts,
                        &group_by,
                        question.series_max,
                    )
                    .await?;
                let names = GroupNames::read(usage, &scope, filter, &group_by, &points).await?;
                Ok::<_, WarehouseError>((points, names))
            };
            let points = ask(&question.period, &filters.0).await?;
            Ok(match (&question.previous, &filters.1) {
                (Some(period), Some(filter)) => (points, Some(ask(period, filter).await?)),
                _ => (points, None),
            })
        })
        .await?;
    let (points, names) = points;
    let names = names.titled(&app, &principal).await;
    let previous = match question.previous.as_ref().zip(previous) {
        Some((period, (points, names))) => {
            let names = names.titled(&app, &principal).await;
            Some(PreviousPoints {
                from: rfc3339(period.from()),
                to: rfc3339(period.to()),
                values: question.values(period, points, &names),
            })
        }
        None => None,
    };
    let group_by: Vec<&'static str> = question.groups.iter().map(|(name, _)| *name).collect();
    let answer = Timeseries {
        metric: question.metric.0,
        interval: question.interval.name(),
        from: rfc3339(question.period.from()),
        to: rfc3339(question.period.to()),
        values: question.values(&question.period, points, &names),
        series_max: (!group_by.is_empty()).then_some(question.series_max),
        tz: question.tz_name,
        group_by,
        previous,
    };
    Ok(reply.answer(answer, completeness))
}
