//! Random questions, their addresses, and what must be answered.

use jiff::tz::TimeZone;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::Value;
use uuid::Uuid;

use crate::calendar::{EVERY, Every, HOUR_MS};
use crate::making::{Maker, any_client, any_entry, any_reason, zone};
use crate::model::Model;
use crate::selecting::{Instant, Selection, escaped};
use crate::world::Reader;
use crate::{lists, single, totals};

/// Expected answer.
#[derive(Debug, PartialEq)]
pub(crate) enum Expected {
    /// 200 with this body, but for `completeThrough`.
    Ok(Value),
    /// A problem of this status.
    Problem(u16),
}

/// Everything an answer is made from.
pub(crate) struct View<'a> {
    pub(crate) model: &'a Model,
    pub(crate) reader: &'a Reader,
    /// Points that one answer may have.
    pub(crate) points_max: usize,
    pub(crate) series_max: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    Purpose,
    Client,
    Entry,
    Model,
    Operator,
}

#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) selection: Selection,
    pub(crate) metric: Option<&'static str>,
    pub(crate) every: Option<(Every, &'static str)>,
    /// Groups: none, one or two.
    pub(crate) groups: Vec<(Group, &'static str)>,
    pub(crate) limit: Option<usize>,
    pub(crate) compared: Option<&'static str>,
}

#[derive(Debug, Clone)]
pub(crate) enum Question {
    /// Compared with the period before, or not.
    Dashboard(Selection, Option<usize>, Option<&'static str>),
    Timeseries(Series),
    TopContent(Selection, Listing),
    Content(Uuid, Selection, Option<usize>),
    TopClients(Selection, Listing),
    Client(Uuid, Selection, Option<usize>),
    Purposes(Selection),
    Models(Selection, Listing),
    Operators(Selection, Listing),
    /// Pages of so many.
    Refusals(Selection, Option<&'static str>, usize),
    /// Pages of so many.
    Receipts(Selection, usize),
    Receipt(Uuid, Selection),
}

const ALL: &[&str] = &[
    "from",
    "to",
    "tz",
    "purpose",
    "clientId",
    "entryId",
    "modelId",
    "trust",
    "operator",
    "keyFingerprint",
    "beforeVerification",
    "domain",
];
const WITHOUT_ENTRY: &[&str] = &[
    "from",
    "to",
    "tz",
    "purpose",
    "clientId",
    "modelId",
    "trust",
    "operator",
    "keyFingerprint",
    "beforeVerification",
    "domain",
];
const WITHOUT_CLIENT: &[&str] = &[
    "from",
    "to",
    "tz",
    "purpose",
    "entryId",
    "modelId",
    "trust",
    "operator",
    "keyFingerprint",
    "beforeVerification",
    "domain",
];
const RANGE: &[&str] = &["from", "to", "tz", "domain"];

const GROUPS: [(Group, &str); 5] = [
    (Group::Purpose, "purpose"),
    (Group::Client, "client"),
    (Group::Entry, "content"),
    (Group::Model, "model"),
    (Group::Operator, "operator"),
];

impl Question {
    /// Picks one of each kind in turn.
    pub(crate) fn any(kind: usize, rng: &mut StdRng, maker: &Maker, reader: &Reader) -> Self {
        let selection = Selection::any(rng, maker, reader);
        let limit = rng.random_bool(0.4).then(|| rng.random_range(1..=40));
        match kind % Self::KINDS {
            0 | 1 => {
                let compared = compared(rng);
                Self::Dashboard(selection.only(ALL), limit, compared)
            }
            2..6 => Self::Timeseries(Series::any(rng, maker, selection.only(ALL))),
            6 => Self::TopContent(selection.only(ALL), Listing::any(rng, &CONTENT_SORTS)),
            7 => Self::Content(any_entry(rng), selection.only(WITHOUT_ENTRY), limit),
            8 => Self::TopClients(selection.only(ALL), Listing::any(rng, &CLIENT_SORTS)),
            9 => Self::Client(any_client(rng), selection.only(WITHOUT_CLIENT), limit),
            10 => Self::Purposes(selection.only(ALL)),
            11 => Self::Models(selection.only(ALL), Listing::any(rng, &MODEL_SORTS)),
            14 => Self::Operators(selection.only(ALL), Listing::any(rng, &OPERATOR_SORTS)),
            12 => {
                let reason = rng.random_bool(0.3).then(|| any_reason(rng));
                Self::Refusals(
                    refused_when(rng, selection).only(RANGE),
                    reason,
                    rng.random_range(1..40),
                )
            }
            13 => Self::Receipts(selection.only(ALL), any_page(rng)),
            _ => {
                let domain = selection.domain;
                let selection = Selection {
                    domain,
                    ..Selection::default()
                };
                Self::Receipt(maker.any_receipt(rng), selection)
            }
        }
    }

    pub(crate) const KINDS: usize = 16;

    fn parts(&self) -> (String, Vec<String>) {
        let given = |selection: &Selection, names: &[&str], limit: &Option<usize>| {
            let limit = limit.map(|limit| format!("limit={limit}"));
            selection.query(names).into_iter().chain(limit).collect::<Vec<_>>()
        };
        match self {
            Self::Dashboard(selection, limit, compared) => {
                let mut query = given(selection, ALL, limit);
                query.extend(compared.map(|period| format!("compare={period}")));
                ("analytics/dashboard".to_owned(), query)
            }
            Self::Timeseries(series) => ("analytics/timeseries".to_owned(), series.query()),
            Self::TopContent(selection, listing) => ("analytics/content".to_owned(), listing.query(selection)),
            Self::Content(id, selection, limit) => (
                format!("analytics/content/{id}"),
                given(selection, WITHOUT_ENTRY, limit),
            ),
            Self::TopClients(selection, listing) => ("analytics/clients".to_owned(), listing.query(selection)),
            Self::Client(id, selection, limit) => (
                format!("analytics/clients/{id}"),
                given(selection, WITHOUT_CLIENT, limit),
            ),
            Self::Purposes(selection) => ("analytics/purposes".to_owned(), given(selection, ALL, &None)),
            Self::Models(selection, listing) => ("analytics/models".to_owned(), listing.query(selection)),
            Self::Operators(selection, listing) => ("analytics/operators".to_owned(), listing.query(selection)),
            Self::Refusals(selection, reason, limit) => {
                let mut query = given(selection, RANGE, &Some(*limit));
                query.extend(reason.map(|reason| format!("reason={reason}")));
                ("analytics/refusals".to_owned(), query)
            }
            Self::Receipts(selection, limit) => ("analytics/receipts".to_owned(), given(selection, ALL, &Some(*limit))),
            Self::Receipt(id, selection) => (format!("receipts/{id}"), given(selection, &["domain"], &None)),
        }
    }

    pub(crate) fn path(&self) -> String {
        let (path, query) = self.parts();
        let mark = if query.is_empty() { "" } else { "?" };
        format!("/api/v1/{path}{mark}{}", query.join("&"))
    }

    /// `answered` says what nobody requested: the range of a series without one.
    pub(crate) fn expected(&self, view: &View<'_>, answered: &Value) -> Expected {
        let top = |limit: &Option<usize>| limit.unwrap_or(10);
        match self {
            Self::Dashboard(selection, limit, compared) => totals::dashboard(view, selection, top(limit), *compared),
            Self::Timeseries(series) => crate::series::timeseries(view, series, answered),
            Self::TopContent(selection, listing) => lists::content(view, selection, listing),
            Self::Content(id, selection, limit) => totals::content(view, *id, selection, top(limit)),
            Self::TopClients(selection, listing) => lists::clients(view, selection, listing),
            Self::Client(id, selection, limit) => totals::client(view, *id, selection, top(limit)),
            Self::Purposes(selection) => lists::purposes(view, selection),
            Self::Models(selection, listing) => lists::models(view, selection, listing),
            Self::Operators(selection, listing) => lists::operators(view, selection, listing),
            Self::Refusals(selection, reason, _) => single::refusals(view, selection, *reason),
            Self::Receipts(selection, _) => lists::receipts(view, selection),
            Self::Receipt(id, selection) => single::receipt(view, *id, selection),
        }
    }

    /// The member that comes page by page, and how long a page is.
    pub(crate) fn paged(&self) -> Option<(&'static str, usize)> {
        match self {
            Self::Refusals(_, _, limit) => Some(("newest", *limit)),
            Self::Receipts(_, limit) => Some(("receipts", *limit)),
            Self::TopContent(_, listing) => Some(("content", listing.page())),
            Self::TopClients(_, listing) => Some(("clients", listing.page())),
            Self::Models(_, listing) => Some(("models", listing.page())),
            Self::Operators(_, listing) => Some(("operators", listing.page())),
            _ => None,
        }
    }
}

/// No comparison, mostly.
fn compared(rng: &mut StdRng) -> Option<&'static str> {
    rng.random_bool(0.3)
        .then(|| if rng.random() { "previous" } else { "year" })
}
/// A ranking's order, what is searched for, and the length of its pages.
#[derive(Debug, Clone)]
pub(crate) struct Listing {
    sort: Option<(&'static str, bool)>,
    pub(crate) search: Option<&'static str>,
    limit: Option<usize>,
}

const CONTENT_SORTS: [&str; 3] = ["receiptCount", "lastSeen", "entryId"];
const CLIENT_SORTS: [&str; 4] = ["receiptCount", "lastSeen", "name", "clientId"];
const MODEL_SORTS: [&str; 3] = ["receiptCount", "uniqueClients", "modelId"];
const OPERATOR_SORTS: [&str; 3] = ["receiptCount", "uniqueClients", "operator"];
/// Parts of titles, URLs, names, models and domains, and what is in none of them.
const SEARCHED: [&str; 10] = [
    "TITLE 2",
    "/own/",
    "news.example/1",
    "'N°1",
    "org \"0",
    "AI.",
    "Ö",
    "m-",
    "%",
    "_",
];

impl Listing {
    fn any(rng: &mut StdRng, sorts: &[&'static str]) -> Self {
        Self {
            sort: rng
                .random_bool(0.7)
                .then(|| (*sorts.choose(rng).unwrap(), rng.random_bool(0.5))),
            search: rng.random_bool(0.4).then(|| *SEARCHED.choose(rng).unwrap()),
            limit: rng.random_bool(0.6).then(|| rng.random_range(1..=20)),
        }
    }

    /// The member that is sorted by, and whether the greatest comes first.
    pub(crate) fn order(&self) -> (&'static str, bool) {
        self.sort.unwrap_or(("receiptCount", true))
    }

    fn page(&self) -> usize {
        self.limit.unwrap_or(10)
    }

    fn query(&self, selection: &Selection) -> Vec<String> {
        let mut query = selection.query(ALL);
        let sort = |(name, is_descending)| format!("sort={}{name}", if is_descending { "-" } else { "" });
        query.extend(self.sort.map(sort));
        query.extend(self.search.map(|search| format!("q={}", escaped(search))));
        query.extend(self.limit.map(|limit| format!("limit={limit}")));
        query
    }
}

fn any_page(rng: &mut StdRng) -> usize {
    // Every page is a question of its own.
    match rng.random_range(0..8) {
        0 => rng.random_range(5..20),
        1..4 => 1_000,
        _ => rng.random_range(60..300),
    }
}

/// A range within the time in which things were received.
fn refused_when(rng: &mut StdRng, selection: Selection) -> Selection {
    let tz = selection.tz.unwrap_or("UTC");
    let first = crate::making::RECEIVED_MS + rng.random_range(0..1_000_000);
    let second = first + rng.random_range(1..1_000_000);
    let mut instant = |ms: i64| {
        let found = Instant::any(rng, ms, tz);
        // A date would be hours away.
        (found.ms == ms).then_some(found)
    };
    Selection {
        from: instant(first),
        to: instant(second),
        ..selection
    }
}

impl Series {
    /// Of a length that its interval allows, or nearly.
    fn any(rng: &mut StdRng, maker: &Maker, selection: Selection) -> Self {
        let every = rng.random_bool(0.9).then(|| *EVERY.choose(rng).unwrap());
        let longest = match every.map_or(Every::Day, |(every, _)| every) {
            Every::Minute => 34 * HOUR_MS,
            Every::Hour => 90 * 24 * HOUR_MS,
            Every::Day | Every::Week | Every::Month => 900 * 24 * HOUR_MS,
        };
        let groups = if rng.random_bool(0.5) {
            rng.random_range(1..=2)
        } else {
            0
        };
        let groups: Vec<(Group, &str)> = GROUPS.sample(rng, groups).copied().collect();
        let longest = if groups.is_empty() { longest } else { longest / 10 };
        let longest = longest >> rng.random_range(0..8);
        let length = rng.random_range(1..=longest);
        let tz = selection.tz.unwrap_or("UTC");
        let middle = maker.any_time(rng);
        let begin = middle - length / rng.random_range(1..4);
        let from = Instant::any(rng, begin, tz);
        let mut to = Instant::any(rng, from.ms + length, tz);
        if to.ms <= from.ms {
            to = Instant::any(rng, from.ms + 36 * HOUR_MS, tz);
        }
        let limit = !groups.is_empty() && rng.random_bool(0.7);
        Self {
            selection: Selection {
                from: rng.random_bool(0.9).then_some(from),
                to: rng.random_bool(0.9).then_some(to),
                ..selection
            },
            metric: rng
                .random_bool(0.8)
                .then(|| *["receipts", "clients", "content"].choose(rng).unwrap()),
            every,
            groups,
            limit: limit.then(|| rng.random_range(1..=20)),
            compared: compared(rng),
        }
    }

    fn query(&self) -> Vec<String> {
        let mut query = self.selection.query(ALL);
        let own = [("metric", self.metric), ("interval", self.every.map(|(_, name)| name))];
        let names: Vec<&str> = self.groups.iter().map(|(_, name)| *name).collect();
        query.extend((!names.is_empty()).then(|| format!("groupBy={}", names.join(","))));
        query.extend(
            own.into_iter()
                .filter_map(|(name, value)| value.map(|value| format!("{name}={value}"))),
        );
        query.extend(self.limit.map(|limit| format!("limit={limit}")));
        query.extend(self.compared.map(|period| format!("compare={period}")));
        query
    }

    pub(crate) fn zone(&self) -> (&'static str, TimeZone) {
        let name = self.selection.tz.unwrap_or("UTC");
        (name, zone(name))
    }
}
