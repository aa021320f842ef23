//! Answers of time series.

use std::cmp::Reverse;

use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::asking::{Expected, Group, Series, View};
use crate::calendar::{Every, compared_period, local_text, milliseconds, starts, utc_text};
use crate::making::PURPOSES;
use crate::model::{Fact, client, distinct, grouped, largest, newest, parts};
use crate::selecting::hex;

pub(crate) fn timeseries(view: &View<'_>, series: &Series, answered: &Value) -> Expected {
    let selection = &series.selection;
    let (tz_name, tz) = series.zone();
    let (every, interval) = series.every.unwrap_or((Every::Day, "day"));
    // Where a series without them begins and ends is checked elsewhere; here the answer's own
    // word is good enough.
    let reported = |name: &str| answered[name].as_str().map_or(0, milliseconds);
    let from_ms = selection.from.as_ref().map_or_else(|| reported("from"), |from| from.ms);
    let to_ms = selection.to.as_ref().map_or_else(|| reported("to"), |to| to.ms);
    if from_ms >= to_ms {
        // Only where one of them is left out: the range then ends now.
        return Expected::Problem(400);
    }
    let limit = match series.groups.as_slice() {
        [] => 1,
        [(Group::Purpose, _)] => PURPOSES.len(),
        _ => series.limit.unwrap_or(view.series_max),
    };
    let metric = series.metric.unwrap_or("receipts");
    let asked = Asked {
        every,
        tz: &tz,
        points_max: view.points_max / limit,
        metric,
        view,
        groups: series.groups.iter().map(|(group, _)| *group).collect(),
        limit,
    };
    let of = |from_ms: i64, to_ms: i64| {
        let facts = selection.facts(view.model, view.reader, from_ms, to_ms);
        asked.period(from_ms, to_ms, &facts)
    };
    let Some(mut answer) = of(from_ms, to_ms) else {
        return Expected::Problem(400);
    };
    if let Some(period) = series.compared {
        let (start_ms, end_ms) = compared_period(period, from_ms, to_ms, &tz);
        let Some(previous) = of(start_ms, end_ms) else {
            return Expected::Problem(400);
        };
        answer["previous"] = previous;
    }
    answer["metric"] = json!(metric);
    answer["interval"] = json!(interval);
    answer["tz"] = json!(tz_name);
    if !series.groups.is_empty() {
        answer["groupBy"] = series.groups.iter().map(|(_, name)| *name).collect();
        answer["seriesMax"] = json!(limit);
    }
    Expected::Ok(answer)
}

/// Query of each period.
struct Asked<'a> {
    every: Every,
    tz: &'a TimeZone,
    points_max: usize,
    metric: &'a str,
    view: &'a View<'a>,
    groups: Vec<Group>,
    limit: usize,
}

impl Asked<'_> {
    /// The range and its values; `None` where they are too many.
    fn period(&self, from_ms: i64, to_ms: i64, facts: &[&Fact]) -> Option<Value> {
        let starts = starts(self.every, self.tz, from_ms, to_ms, self.points_max);
        if starts.len() > self.points_max {
            return None;
        }
        let values = |facts: &[&Fact]| -> Vec<u64> { values(&starts, to_ms, facts, self.metric) };
        let points = |facts: &[&Fact]| -> Value {
            let [proven, unproven] = parts(facts).map(|part| values(&part));
            let parts = proven.into_iter().zip(unproven);
            let points = starts.iter().zip(values(facts)).zip(parts);
            let points = points.map(|((start_ms, value), (proven, unproven))| {
                json!({
                    "start": utc_text(*start_ms), "local": local_text(*start_ms, self.tz), "value": value,
                    "byTrust": {"proven": proven, "unproven": unproven},
                })
            });
            points.collect()
        };
        let mut answer = json!({"from": utc_text(from_ms), "to": utc_text(to_ms)});
        if self.groups.is_empty() {
            answer["points"] = points(facts);
            return Some(answer);
        }
        let mut groups = groups(facts, &self.groups, self.limit);
        groups.sort_by_key(|(keys, facts)| (Reverse(values(facts).iter().sum::<u64>()), keys.clone()));
        let series = groups.iter().map(|(keys, of_group)| {
            let keys = self.groups.iter().zip(keys);
            let mut shown = keys.map(|(group, key)| self.shown(*group, key, facts));
            let mut one = shown.next().unwrap();
            one["points"] = points(of_group);
            if let Some(second) = shown.next() {
                one["second"] = second;
            }
            one
        });
        answer["series"] = series.collect();
        Some(answer)
    }

    /// A group with its label, which is the newest of all receipts of the range.
    fn shown(&self, group: Group, group_key: &GroupKey, facts: &[&Fact]) -> Value {
        let (id, key) = group_key;
        let mut same = facts.to_vec();
        same.retain(|fact| key_of(group, fact) == *group_key);
        let label = match group {
            Group::Client => newest(&same, |fact| &fact.name).to_owned(),
            Group::Entry => {
                let label = self.view.reader.label(id.parse().unwrap());
                label.map_or_else(|| newest(&same, |fact| &fact.url).to_owned(), |(title, _)| title)
            }
            Group::Purpose | Group::Model | Group::Operator => id.clone(),
        };
        let stated = |text: String| Some(text).filter(|text| !text.is_empty());
        let mut one = json!({"key": stated(id.clone()), "label": stated(label)});
        if *key != [0; 32] {
            one["keyFingerprint"] = json!(hex(key));
        }
        one
    }
}

fn values(starts: &[i64], to_ms: i64, facts: &[&Fact], metric: &str) -> Vec<u64> {
    let ends = starts[1..].iter().copied().chain([to_ms]);
    let value = |(start, end): (&i64, i64)| {
        let mut within = facts.to_vec();
        within.retain(|fact| *start <= fact.timestamp_ms && fact.timestamp_ms < end);
        match metric {
            "receipts" => within.len() as u64,
            "clients" => distinct(&within, client),
            _ => distinct(&within, |fact| fact.entry_id),
        }
    };
    starts.iter().zip(ends).map(value).collect()
}

/// ID of a group, and a client's key.
type GroupKey = (String, [u8; 32]);

fn key_of(group: Group, fact: &Fact) -> GroupKey {
    match group {
        Group::Purpose => (fact.purpose.to_owned(), [0; 32]),
        Group::Client => (fact.client_id.to_string(), fact.key),
        Group::Entry => (fact.entry_id.to_string(), [0; 32]),
        Group::Model => (fact.model_id.clone(), [0; 32]),
        Group::Operator => (fact.operator.to_owned(), [0; 32]),
    }
}

/// The groups with the most receipts; every purpose, also one that nobody stated.
fn groups<'a>(facts: &[&'a Fact], by: &[Group], limit: usize) -> Vec<(Vec<GroupKey>, Vec<&'a Fact>)> {
    let mut groups = grouped(facts, |fact| by.iter().map(|group| key_of(*group, fact)).collect());
    if by == [Group::Purpose] {
        for purpose in PURPOSES {
            groups.entry(vec![(purpose.to_owned(), [0; 32])]).or_default();
        }
    }
    largest(groups, limit)
}
