//! The query of a time series: which metric, by which group, and where its points begin and
//! end.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use usage::{GroupBy, Metric};

use crate::buckets::{BucketError, INTERVALS, Interval, back, boundaries, recent};
use crate::config::AnalyticsConfig;
use crate::range;
use crate::selection::{comparison, ends, purposes};
use web::params::{InvalidQuery, Params, parse_choice};

const METRICS: [(&str, Metric); 3] = [
    ("receipts", Metric::Receipts),
    ("clients", Metric::Clients),
    ("content", Metric::Content),
];

/// The group of clients.
pub(super) const CLIENT_GROUP: &str = "client";

/// The groups of `groupBy`.
pub(crate) const GROUPS: [(&str, GroupBy); 5] = [
    ("purpose", GroupBy::Purpose),
    (CLIENT_GROUP, GroupBy::Client),
    ("content", GroupBy::Entry),
    ("model", GroupBy::Model),
    ("operator", GroupBy::Operator),
];

/// A query read and found answerable.
pub(super) struct TimeseriesQuery {
    pub(super) metric: (&'static str, Metric),
    pub(super) interval: Interval,
    pub(super) tz_name: String,
    pub(super) tz: TimeZone,
    /// Groups: none, one or two.
    pub(super) groups: Vec<(&'static str, GroupBy)>,
    pub(super) series_max: u32,
    pub(super) period: Period,
    /// The period to compare with, if one is wanted.
    pub(super) previous: Option<Period>,
}

/// `from`, the starts of intervals within, `to`.
pub(super) struct Period {
    boundaries: Vec<Timestamp>,
}

impl Period {
    pub(super) fn from(&self) -> Timestamp {
        self.boundaries.first().copied().unwrap_or_default()
    }

    pub(super) fn to(&self) -> Timestamp {
        self.boundaries.last().copied().unwrap_or_default()
    }

    /// Every bucket's start, without the end of the last one.
    pub(super) fn starts(&self) -> &[Timestamp] {
        self.boundaries.split_last().map_or(&[], |(_, starts)| starts)
    }

    pub(super) fn starts_ms(&self) -> Vec<i64> {
        self.starts().iter().map(|start| start.as_millisecond()).collect()
    }
}

impl TimeseriesQuery {
    pub(super) fn of(params: &Params, config: &AnalyticsConfig, now: Timestamp) -> Result<Self, InvalidQuery> {
        let metric = params
            .choice("metric", &METRICS.map(|m| (m.0, m)))?
            .unwrap_or(METRICS[0]);
        let interval = interval(params)?;
        let groups = groups(params)?;
        let limit = params.count("limit", config.series_max)?;
        if limit.is_some() && groups.is_empty() {
            return Err(InvalidQuery::new("limit", "is the number of series; it needs groupBy"));
        }
        let series_max = match groups.as_slice() {
            [(_, GroupBy::Purpose)] => u32::try_from(purposes().len()).unwrap_or(u32::MAX),
            _ => limit.unwrap_or(config.series_max),
        };
        let points_max = if groups.is_empty() {
            config.points_max
        } else {
            (config.points_max / usize::try_from(series_max).unwrap_or(usize::MAX)).max(1)
        };
        let (tz_name, tz) = range::time_zone(params)?;
        let (from, to) = span(params, interval, &tz, now)?;
        range::ordered(from, to, params)?;
        let period = |from: Timestamp, to: Timestamp| {
            let boundaries = boundaries(interval, &tz, from, to, points_max).map_err(|error| match error {
                BucketError::TooMany { points_max } => too_many(interval, from, to, points_max, !groups.is_empty()),
                BucketError::OutOfCalendar => InvalidQuery::new("from", "outside the calendar"),
            })?;
            Ok::<_, InvalidQuery>(Period { boundaries })
        };
        let present = period(from, to)?;
        let previous = match comparison(params)? {
            Some(comparison) => {
                let (from, to) = comparison.period(from, to, &tz)?;
                Some(period(from, to)?)
            }
            None => None,
        };
        Ok(Self {
            metric,
            interval,
            tz_name,
            groups,
            series_max,
            period: present,
            previous,
            tz,
        })
    }
}

/// The parameter `interval`.
pub(crate) fn interval(params: &Params) -> Result<Interval, InvalidQuery> {
    let given = params.choice("interval", &INTERVALS.map(|interval| (interval.name(), interval)))?;
    Ok(given.unwrap_or(Interval::Day))
}

/// The parameter `groupBy`: a group, or two of them with a comma between.
pub(crate) fn groups(params: &Params) -> Result<Vec<(&'static str, GroupBy)>, InvalidQuery> {
    let name = "groupBy";
    let given = params.get(name).into_iter().flat_map(|text| text.split(','));
    let groups = given.map(|text| parse_choice(name, text, &GROUPS.map(|group| (group.0, group))));
    let groups: Vec<(&'static str, GroupBy)> = groups.collect::<Result<_, _>>()?;
    match groups.as_slice() {
        [_, _, _, ..] => Err(InvalidQuery::new(name, "has one group, or two with a comma between")),
        [first, second] if first == second => {
            let detail = format!("{} is named twice: leave one of them out", first.0);
            Err(InvalidQuery::new(name, detail))
        }
        _ => Ok(groups),
    }
}

/// `from` and `to`, where they aren't given: the last intervals up to the end of the one that now
/// is in.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn too_long_ranges_are_answered_what_would_fit() {
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
