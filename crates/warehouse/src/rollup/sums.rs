//! What is [kept](super::kept) of rolled rows: one kind of sums for each kind of question.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::ops::Range;
use std::sync::Arc;

use clickhouse::{Row, RowOwned, RowRead};
use foldhash::fast::RandomState;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::kept::{Kept, KnownSums, Sums, Weighed};
use super::recent::{PlacedSum, Recent, Use};
use super::tails::{Shared, Tails};
use crate::queries::{Column, Cube};

/// A sum over receipts that have a key in common.
pub(crate) trait Sum: Weighed {
    /// How the warehouse says it of days: a number of [`super::kept::Unit`], the key and the sums.
    type Asked: RowOwned + RowRead + DeserializeOwned + Send;
    /// What of hours and of receipts it is made of.
    type Tail: TailSum;

    /// What it is selected by from the rolled rows of days, which are those that the tails' hours are of.
    const ROLLED: &'static str;
    /// What they are grouped by, besides time and version.
    const ROLLED_KEY: &'static str;
    /// What no unit may lie across, in milliseconds.
    const SPAN_MS: i64;

    /// One with its unit.
    fn of(row: Self::Asked, texts: &mut Texts) -> (u64, Self);

    /// Each with its unit.
    fn of_all(rows: Vec<Self::Asked>) -> Vec<(u64, Self)> {
        let mut texts = Texts::default();
        rows.into_iter().map(|row| Self::of(row, &mut texts)).collect()
    }

    /// Where these are kept.
    fn kept(all: &KnownSums) -> &Kept<Self>;

    /// Of hours, or of receipts that were read as they are.
    fn of_tail(tail: &Self::Tail) -> Self;

    /// All of them, of each key one.
    fn of_tails(tails: Vec<Sums<Self::Tail>>) -> Vec<Sums<Self>> {
        let of_all = |sums: &Sums<Self::Tail>| joined(&[sums.iter().map(Self::of_tail).collect()]);
        tails.iter().map(of_all).collect()
    }

    /// What sums that can be one have in common.
    type Key<'a>: Eq + Hash;

    /// Its own.
    fn key(&self) -> Self::Key<'_>;

    /// Takes up another one of the same key.
    fn add(&mut self, other: &Self);
}

/// Each key once.
pub(super) fn joined<S: Sum>(all: &[Arc<[S]>]) -> Arc<[S]> {
    let largest = all.iter().map(|sums| sums.len()).max().unwrap_or(0);
    let mut places: HashMap<S::Key<'_>, usize, RandomState> =
        HashMap::with_capacity_and_hasher(largest, RandomState::default());
    let mut joined: Vec<S> = Vec::with_capacity(largest);
    for sum in all.iter().flat_map(|sums| sums.iter()) {
        let new = joined.len();
        let place = *places.entry(sum.key()).or_insert(new);
        match joined.get_mut(place) {
            Some(known) => known.add(sum),
            None => joined.push(sum.clone()),
        }
    }
    joined.into()
}

/// A sum over an hour's rolled rows, or over receipts as they are.
pub(crate) trait TailSum: Weighed {
    /// How the warehouse says it: a number of [`super::kept::Unit`], which means nothing of receipts as they are, the key and the sums.
    type Asked: RowOwned + RowRead + DeserializeOwned + Send;

    /// The rolled rows that it is over.
    const CUBE: Cube;
    /// What it is selected by from those of hours.
    const ROLLED: &'static str;
    /// What those are grouped by; empty where they are taken as they are.
    const ROLLED_BY: &'static str;
    /// The columns of receipts that it needs.
    const COLUMNS: &'static [Column];
    /// What it is selected by from these.
    const SELECTED: &'static str;
    /// What those are grouped by.
    const SELECTED_KEY: &'static str;

    /// One with its unit.
    fn of(row: Self::Asked, texts: &mut Texts) -> (u64, Self);

    /// Each with its unit.
    fn of_all(rows: Vec<Self::Asked>) -> Vec<(u64, Self)> {
        let mut texts = Texts::default();
        rows.into_iter().map(|row| Self::of(row, &mut texts)).collect()
    }

    /// Where those of hours are kept.
    fn kept(all: &KnownSums) -> &Kept<Self>;

    /// Those of receipts of a half-open range.
    fn over(recent: &Recent, range: &Range<i64>) -> Vec<Self>;

    /// Where these are shared.
    fn shared(tails: &Tails) -> &Shared<Self>;
}

const HOUR_MS: i64 = 3_600_000;

/// Of one client under one name and organization of its own, for one purpose.
#[derive(Debug, Clone)]
pub(crate) struct ClientSum {
    pub(crate) client: Uuid,
    pub(crate) purpose: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) organization: Arc<str>,
    pub(crate) receipts: u64,
    pub(crate) last_ms: i64,
}

#[derive(Row, Deserialize)]
pub(crate) struct AskedClient {
    unit: u64,
    #[serde(with = "clickhouse::serde::uuid")]
    client: Uuid,
    usage: String,
    title: String,
    body: String,
    total: u64,
    newest: i64,
}

/// What many rows have in common.
#[derive(Default)]
pub(crate) struct Texts {
    texts: HashSet<Arc<str>, RandomState>,
    uses: HashSet<Arc<Use>, RandomState>,
}

impl Texts {
    pub(super) fn one(&mut self, text: String) -> Arc<str> {
        if let Some(known) = self.texts.get(text.as_str()) {
            return Arc::clone(known);
        }
        let new: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&new));
        new
    }

    fn one_use(&mut self, client: Uuid, texts: [String; 4]) -> Arc<Use> {
        let used = Use::of(client, texts, self);
        if let Some(known) = self.uses.get(&used) {
            return Arc::clone(known);
        }
        let new = Arc::new(used);
        self.uses.insert(Arc::clone(&new));
        new
    }
}

impl Weighed for ClientSum {
    // Rows that came together share their texts, but they may be all that is left of those.
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.name.len() + self.organization.len()
    }
}

impl Sum for ClientSum {
    type Asked = AskedClient;
    type Tail = UseSum;

    const ROLLED: &'static str = "client_id AS client, purpose AS usage, toString(name) AS title,
        toString(organization) AS body, sum(receipts) AS total, max(last_ms) AS newest";
    const ROLLED_KEY: &'static str = "client_id, purpose, name, organization";
    const SPAN_MS: i64 = HOUR_MS;

    fn of(row: AskedClient, texts: &mut Texts) -> (u64, Self) {
        let sum = Self {
            client: row.client,
            purpose: texts.one(row.usage),
            name: texts.one(row.title),
            organization: texts.one(row.body),
            receipts: row.total,
            last_ms: row.newest,
        };
        (row.unit, sum)
    }

    fn kept(all: &KnownSums) -> &Kept<Self> {
        &all.0.clients
    }

    fn of_tail(tail: &UseSum) -> Self {
        Self {
            client: tail.used.client,
            purpose: Arc::clone(&tail.used.purpose),
            name: Arc::clone(&tail.used.name),
            organization: Arc::clone(&tail.used.organization),
            receipts: tail.receipts,
            last_ms: tail.last_ms,
        }
    }

    type Key<'a> = (Uuid, &'a str, &'a str, &'a str);

    fn key(&self) -> Self::Key<'_> {
        (self.client, &self.purpose, &self.name, &self.organization)
    }

    fn add(&mut self, other: &Self) {
        self.receipts += other.receipts;
        self.last_ms = self.last_ms.max(other.last_ms);
    }
}

/// Of one client with one model; the empty text for receipts that name none.
#[derive(Debug, Clone)]
pub(crate) struct ModelSum {
    pub(crate) model: Arc<str>,
    pub(crate) client: Uuid,
    pub(crate) receipts: u64,
}

#[derive(Row, Deserialize)]
pub(crate) struct AskedModel {
    unit: u64,
    model: String,
    #[serde(with = "clickhouse::serde::uuid")]
    client: Uuid,
    total: u64,
}

impl Weighed for ModelSum {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.model.len()
    }
}

impl Sum for ModelSum {
    type Asked = AskedModel;
    type Tail = UseSum;

    const ROLLED: &'static str = "model_id AS model, client_id AS client, sum(receipts) AS total";
    const ROLLED_KEY: &'static str = "model_id, client_id";
    const SPAN_MS: i64 = HOUR_MS;

    fn of(row: AskedModel, texts: &mut Texts) -> (u64, Self) {
        let sum = Self {
            model: texts.one(row.model),
            client: row.client,
            receipts: row.total,
        };
        (row.unit, sum)
    }

    fn kept(all: &KnownSums) -> &Kept<Self> {
        &all.0.models
    }

    fn of_tail(tail: &UseSum) -> Self {
        Self {
            model: Arc::clone(&tail.used.model),
            client: tail.used.client,
            receipts: tail.receipts,
        }
    }

    type Key<'a> = (&'a str, Uuid);

    fn key(&self) -> Self::Key<'_> {
        (&self.model, self.client)
    }

    fn add(&mut self, other: &Self) {
        self.receipts += other.receipts;
    }
}

/// Of one entry.
#[derive(Debug, Clone)]
pub(crate) struct EntrySum {
    pub(crate) entry: Uuid,
    pub(crate) receipts: u64,
    pub(crate) last_ms: i64,
}

#[derive(Row, Deserialize)]
pub(crate) struct AskedEntry {
    unit: u64,
    #[serde(with = "clickhouse::serde::uuid")]
    entry: Uuid,
    total: u64,
    newest: i64,
}

impl Weighed for EntrySum {}

impl Sum for EntrySum {
    type Asked = AskedEntry;
    type Tail = Self;

    const ROLLED: &'static str = "entry_id AS entry, sum(receipts) AS total, max(last_ms) AS newest";
    const ROLLED_KEY: &'static str = "entry_id";
    const SPAN_MS: i64 = HOUR_MS;

    fn of(row: AskedEntry, texts: &mut Texts) -> (u64, Self) {
        <Self as TailSum>::of(row, texts)
    }

    fn kept(all: &KnownSums) -> &Kept<Self> {
        &all.0.entries
    }

    fn of_tail(tail: &Self) -> Self {
        tail.clone()
    }

    fn of_tails(tails: Vec<Sums<Self>>) -> Vec<Sums<Self>> {
        tails
    }

    type Key<'a> = Uuid;

    fn key(&self) -> Uuid {
        self.entry
    }

    fn add(&mut self, other: &Self) {
        self.receipts += other.receipts;
        self.last_ms = self.last_ms.max(other.last_ms);
    }
}

/// Of a half hour for one purpose.
#[derive(Debug, Clone)]
pub(crate) struct SlotSum {
    /// Where the half hour begins.
    pub(crate) at_ms: i64,
    pub(crate) purpose: Arc<str>,
    pub(crate) receipts: u64,
}

#[derive(Row, Deserialize)]
pub(crate) struct AskedSlot {
    unit: u64,
    at_ms: i64,
    usage: String,
    total: u64,
}

impl Weighed for SlotSum {}

impl Sum for SlotSum {
    type Asked = AskedSlot;
    type Tail = UseSum;

    const ROLLED: &'static str = "toInt64(slot) * 1800000 AS at_ms, purpose AS usage, sum(receipts) AS total";
    const ROLLED_KEY: &'static str = "slot, purpose";
    const SPAN_MS: i64 = HOUR_MS / 2;

    fn of(row: AskedSlot, texts: &mut Texts) -> (u64, Self) {
        let sum = Self {
            at_ms: row.at_ms,
            purpose: texts.one(row.usage),
            receipts: row.total,
        };
        (row.unit, sum)
    }

    fn kept(all: &KnownSums) -> &Kept<Self> {
        &all.0.slots
    }

    fn of_tail(tail: &UseSum) -> Self {
        Self {
            at_ms: tail.at_ms,
            purpose: Arc::clone(&tail.used.purpose),
            receipts: tail.receipts,
        }
    }

    type Key<'a> = (i64, &'a str);

    fn key(&self) -> Self::Key<'_> {
        (self.at_ms, &self.purpose)
    }

    fn add(&mut self, other: &Self) {
        self.receipts += other.receipts;
    }
}

/// Of one client under one name and organization of its own, for one purpose with one model, in a half hour: what all sums but those by
/// entry are made of. Reading the rows costs so much more than grouping them that one reading for all is cheaper than two.
#[derive(Debug, Clone)]
pub(crate) struct UseSum {
    used: Arc<Use>,
    at_ms: i64,
    receipts: u64,
    last_ms: i64,
}

impl Weighed for UseSum {
    // Sums that came together share their uses: those of an hour's two halves at least.
    const BYTES: usize = size_of::<Self>() + size_of::<Use>() / 2;
}

#[derive(Row, Deserialize)]
pub(crate) struct AskedUse {
    unit: u64,
    #[serde(with = "clickhouse::serde::uuid")]
    client: Uuid,
    usage: String,
    title: String,
    body: String,
    model: String,
    at_ms: i64,
    total: u64,
    newest: i64,
}

impl TailSum for UseSum {
    type Asked = AskedUse;

    const CUBE: Cube = Cube::Clients;
    const ROLLED: &'static str = "client_id AS client, purpose AS usage, toString(name) AS title,
        toString(organization) AS body, model_id AS model, toInt64(slot) * 1800000 AS at_ms, receipts AS total, last_ms AS newest";
    // But for versions of clients they are one for each key.
    const ROLLED_BY: &'static str = "";
    const COLUMNS: &'static [Column] = &[
        Column::Count,
        Column::Client,
        Column::Purpose,
        Column::Last,
        Column::Name,
        Column::Organization,
        Column::Model,
    ];
    const SELECTED: &'static str =
        "toUInt64(0) AS unit, client, usage, title, body, model, last_at - positiveModulo(last_at, 1800000) AS at_ms,
        sum(n) AS total, max(last_at) AS newest";
    const SELECTED_KEY: &'static str = "client, usage, title, body, model, at_ms";

    fn of(row: AskedUse, texts: &mut Texts) -> (u64, Self) {
        let sum = Self {
            used: texts.one_use(row.client, [row.usage, row.title, row.body, row.model]),
            at_ms: row.at_ms,
            receipts: row.total,
            last_ms: row.newest,
        };
        (row.unit, sum)
    }

    fn kept(all: &KnownSums) -> &Kept<Self> {
        &all.0.uses
    }

    fn over(recent: &Recent, range: &Range<i64>) -> Vec<Self> {
        let of = |(used, sum): (Arc<Use>, PlacedSum)| Self {
            used,
            at_ms: sum.at_ms,
            receipts: sum.receipts,
            last_ms: sum.last_ms,
        };
        recent.uses(range).into_iter().map(of).collect()
    }

    fn shared(tails: &Tails) -> &Shared<Self> {
        &tails.uses
    }
}

impl TailSum for EntrySum {
    type Asked = AskedEntry;

    const CUBE: Cube = Cube::Entries;
    const ROLLED: &'static str = <Self as Sum>::ROLLED;
    const ROLLED_BY: &'static str = <Self as Sum>::ROLLED_KEY;
    const COLUMNS: &'static [Column] = &[Column::Count, Column::Entry, Column::Last];
    const SELECTED: &'static str = "toUInt64(0) AS unit, entry, sum(n) AS total, max(last_at) AS newest";
    const SELECTED_KEY: &'static str = "entry";

    fn of(row: AskedEntry, _texts: &mut Texts) -> (u64, Self) {
        let sum = Self {
            entry: row.entry,
            receipts: row.total,
            last_ms: row.newest,
        };
        (row.unit, sum)
    }

    fn kept(all: &KnownSums) -> &Kept<Self> {
        &all.0.entries
    }

    fn over(recent: &Recent, range: &Range<i64>) -> Vec<Self> {
        recent.entries(range)
    }

    fn shared(tails: &Tails) -> &Shared<Self> {
        &tails.entries
    }
}
