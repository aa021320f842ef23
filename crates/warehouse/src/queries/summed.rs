//! Questions that are answered from [kept sums](crate::rollup::Sums) of rolled rows and the rest's rows, added up here.
//!
//! Narrowed questions, those of many publishers or of too many rows, and those on a cluster, where a replica that is behind might have
//! part of a roll's rows, are asked in SQL as a whole.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use clickhouse::Row;
use foldhash::fast::RandomState;
use serde::Deserialize;
use uuid::Uuid;

use super::dashboard::{MostUsed, UsedEntry};
use super::source::{Column, Cube, Source};
use super::{
    ClientUsage, DashboardStats, FINAL_SETTINGS, Filter, Ranking, Scope, Share, TimeseriesPoint, Usage, UsageByPurpose,
    narrowing,
};
use crate::WarehouseError;
use crate::rollup::{ClientSum, EntrySum, ModelSum, Recent, SlotSum, Sum, Sums, TailSum, Unit};
use crate::threads::elsewhere;

/// Hours that are read from receipts, and their sums: with more the warehouse adds up.
const TAIL_HOURS_MAX: u64 = 96;
const TAIL_MAX: usize = 100_000;

/// All rows of a question: rolled ones, and those of receipts read as they are.
pub(super) struct Summed<S> {
    rolled: Vec<Sums<S>>,
    tail: Vec<S>,
}

impl Usage<'_> {
    /// The sums of a question; `None` where it is asked in SQL. `boundaries` are starts of half hours, or that of the range.
    pub(super) async fn summed<S: Sum>(
        &self,
        name: &'static str,
        scope: &Scope,
        filter: &Filter,
        boundaries: &[i64],
    ) -> Result<Option<Summed<S>>, WarehouseError> {
        if !self.is_summed(scope, filter) {
            return Ok(None);
        }
        let source = self
            .source_by(scope, filter, boundaries, S::Tail::CUBE, S::SPAN_MS)
            .await?;
        let Some(units) = units_of(&source) else {
            return Ok(None);
        };
        let mut rolled = Vec::new();
        for (publisher, units) in &units {
            // Large, and kept for the whole question.
            match Box::pin(self.warehouse.sums::<S>(publisher, units)).await? {
                Some(found) => rolled.extend(found),
                None => return Ok(None),
            }
        }
        let Some(tail) = self.tail_of::<S::Tail>(name, &source).await? else {
            return Ok(None);
        };
        let tail = elsewhere(tail.len(), move || tail.iter().map(S::of_tail).collect()).await?;
        Ok(Some(Summed { rolled, tail }))
    }

    /// The sums of receipts that aren't rolled.
    async fn tail_of<T: TailSum>(
        &self,
        name: &'static str,
        source: &Source<'_>,
    ) -> Result<Option<Arc<[T]>>, WarehouseError> {
        let Some(rows) = source.tail(T::COLUMNS) else {
            return Ok(Some([].into()));
        };
        let read = async {
            let range = source.range();
            if let Some(recent) = self.recent(source).await? {
                let many = recent.iter().map(Recent::len).sum();
                let over = move || {
                    let mut sums = Vec::new();
                    for recent in recent {
                        sums.extend(T::over(&recent, &range));
                        if sums.len() > TAIL_MAX {
                            return None;
                        }
                    }
                    Some(sums.into())
                };
                return elsewhere(many, over).await;
            }
            let (selected, key) = (T::SELECTED, T::SELECTED_KEY);
            let sql = format!(
                "SELECT {selected} FROM ({rows}) GROUP BY {key} LIMIT {} {FINAL_SETTINGS}",
                TAIL_MAX + 1
            );
            let call = source.tail_call(sql);
            let Some(rows) = self.warehouse.some_rows::<T::Asked>(name, TAIL_MAX, call).await? else {
                return Ok(None);
            };
            let many = rows.len();
            let sums = move || T::of_all(rows).into_iter().map(|(_, sum)| sum).collect();
            elsewhere(many, sums).await.map(Some)
        };
        match self.view.tails() {
            Some(tails) => T::shared(tails).read(source.selection(), read).await,
            None => read.await,
        }
    }

    /// The receipts that aren't rolled; `None` where the warehouse is to add them up.
    async fn recent(&self, source: &Source<'_>) -> Result<Option<Vec<Recent>>, WarehouseError> {
        let hours = source.tail_hours();
        // Rarely asked for anything, and large.
        Box::pin(self.warehouse.recent(self.view, source.scope(), &hours)).await
    }

    /// How many clients used each of some entries; `None` where it is asked in SQL.
    pub(super) async fn clients_of_entries(
        &self,
        name: &'static str,
        scope: &Scope,
        filter: &Filter,
        entries: &[Uuid],
    ) -> Result<Option<HashMap<Uuid, u64>>, WarehouseError> {
        if !self.is_summed(scope, filter) {
            return Ok(None);
        }
        let source = self.source(scope, filter, &[], Cube::Entries).await?;
        let Some(units) = units_of(&source) else {
            return Ok(None);
        };
        let mut rolled = Vec::new();
        for (publisher, units) in &units {
            match Box::pin(self.warehouse.clients_of(publisher, entries, units)).await? {
                Some(found) => rolled.extend(found),
                None => return Ok(None),
            }
        }
        let mut tail = Vec::new();
        let rows = source.tail(&[Column::Entry, Column::Client]);
        let recent = match &rows {
            Some(_) => self.recent(&source).await?,
            None => Some(Vec::new()),
        };
        if let (Some(rows), None) = (rows, &recent) {
            let sql = format!(
                "SELECT DISTINCT entry AS entry_of, client AS client_of FROM ({rows}) WHERE entry IN {{entries:Array(UUID)}}
                 LIMIT {} {FINAL_SETTINGS}",
                TAIL_MAX + 1
            );
            let entries: Vec<String> = entries.iter().map(Uuid::to_string).collect();
            let call = source.tail_call(sql).with("entries", entries);
            match self.warehouse.some_rows::<ClientOfEntry>(name, TAIL_MAX, call).await? {
                Some(rows) => tail = rows,
                None => return Ok(None),
            }
        }
        let recent = recent.unwrap_or_default();
        let held = rolled.iter().flat_map(|(_, all)| all).map(|clients| clients.len());
        let many = held.chain(recent.iter().map(Recent::len)).sum();
        let range = source.range();
        let entries = entries.to_vec();
        let count = move || {
            let mut clients: Map<Uuid, Set<Uuid>> = Map::default();
            for (entry, found) in rolled {
                clients
                    .entry(entry)
                    .or_default()
                    .extend(found.iter().flat_map(|clients| clients.iter()));
            }
            for row in tail {
                clients.entry(row.entry_of).or_default().insert(row.client_of);
            }
            for entry in entries {
                let of_entry = recent.iter().flat_map(|recent| recent.clients_of(entry, &range));
                let mut of_entry = of_entry.peekable();
                if of_entry.peek().is_some() {
                    clients.entry(entry).or_default().extend(of_entry);
                }
            }
            clients
                .into_iter()
                .map(|(entry, clients)| (entry, clients.len() as u64))
                .collect()
        };
        elsewhere(many, count).await.map(Some)
    }

    /// Whether a question is answered from sums where they are to be had.
    pub(super) fn is_summed(&self, scope: &Scope, filter: &Filter) -> bool {
        !scope.is_empty() && narrowing(filter).is_empty() && !self.view.is_none() && self.warehouse.cluster().is_none()
    }
}

/// The rolled side by publisher; `None` where the whole is asked in SQL.
fn units_of<'a>(source: &'a Source<'_>) -> Option<Vec<(&'a str, Vec<Unit>)>> {
    source.units().filter(|_| source.tail_hours().count() <= TAIL_HOURS_MAX)
}

#[derive(Row, Deserialize)]
struct ClientOfEntry {
    #[serde(with = "clickhouse::serde::uuid")]
    entry_of: Uuid,
    #[serde(with = "clickhouse::serde::uuid")]
    client_of: Uuid,
}

impl<S: Sum> Summed<S> {
    /// What `add` makes of it.
    pub(super) async fn into<T: Send + 'static>(
        self,
        add: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, WarehouseError> {
        let rows = self.tail.len() + self.rolled.iter().map(|sums| sums.len()).sum::<usize>();
        elsewhere(rows, move || add(&self)).await
    }

    fn rows(&self) -> impl Iterator<Item = &S> {
        self.rolled.iter().flat_map(|sums| sums.iter()).chain(&self.tail)
    }
}

type Map<K, V> = HashMap<K, V, RandomState>;
type Set<K> = HashSet<K, RandomState>;

impl UsageByPurpose {
    fn add(&mut self, purpose: &str, receipts: u64) {
        match purpose {
            "training" => self.training += receipts,
            "inference" => self.inference += receipts,
            "research" => self.research += receipts,
            _ => {}
        }
    }
}

/// Those with most receipts, equal ones in order of their key, and how many there are.
fn most<K: Ord, T>(all: impl IntoIterator<Item = (K, u64, T)>, top_max: u32) -> (Vec<(K, u64, T)>, u64) {
    let mut all: Vec<_> = all.into_iter().collect();
    let total = all.len() as u64;
    let before = |one: &(K, u64, T), other: &(K, u64, T)| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0));
    let top_max = usize::try_from(top_max).unwrap_or(usize::MAX);
    if top_max < all.len() {
        all.select_nth_unstable_by(top_max, before);
        all.truncate(top_max);
    }
    all.sort_unstable_by(before);
    (all, total)
}

/// The text of the newest of several, the greatest of equally new ones.
#[derive(Default)]
struct Newest(Option<(i64, Arc<str>)>);

impl Newest {
    fn add(&mut self, at_ms: i64, text: &Arc<str>) {
        let is_newer = self
            .0
            .as_ref()
            .is_none_or(|(known_ms, known)| (*known_ms, known) < (at_ms, text));
        if is_newer {
            self.0 = Some((at_ms, Arc::clone(text)));
        }
    }

    fn text(self) -> String {
        self.0.map(|(_, text)| text.to_string()).unwrap_or_default()
    }
}

impl Summed<ClientSum> {
    /// Totals, without entries.
    pub(super) fn totals(&self) -> DashboardStats {
        let mut totals = DashboardStats::default();
        let mut clients: Set<Uuid> = Set::default();
        for sum in self.rows() {
            totals.total_receipts += sum.receipts;
            totals.usage_by_purpose.add(&sum.purpose, sum.receipts);
            clients.insert(sum.client);
        }
        totals.unique_clients = clients.len() as u64;
        totals
    }

    pub(super) fn top_clients(&self, top_max: u32) -> Ranking<ClientUsage> {
        #[derive(Default)]
        struct Client {
            receipts: u64,
            last_ms: i64,
            name: Newest,
            organization: Newest,
        }
        let mut clients: Map<Uuid, Client> = Map::default();
        for sum in self.rows() {
            let client = clients.entry(sum.client).or_insert_with(|| Client {
                last_ms: i64::MIN,
                ..Client::default()
            });
            client.receipts += sum.receipts;
            client.last_ms = client.last_ms.max(sum.last_ms);
            client.name.add(sum.last_ms, &sum.name);
            client.organization.add(sum.last_ms, &sum.organization);
        }
        let all = clients.into_iter().map(|(id, client)| (id, client.receipts, client));
        let (top, total) = most(all, top_max);
        let usage = |(client_id, receipt_count, client): (Uuid, u64, Client)| ClientUsage {
            client_id,
            name: client.name.text(),
            organization: client.organization.text(),
            receipt_count,
            last_seen_ms: client.last_ms,
        };
        Ranking {
            items: top.into_iter().map(usage).collect(),
            total,
        }
    }

    pub(super) fn by_purpose(&self, top_max: u32) -> Ranking<Share> {
        shares(self.rows().map(|sum| (&sum.purpose, sum.client, sum.receipts)), top_max)
    }
}

impl Summed<ModelSum> {
    pub(super) fn by_model(&self, top_max: u32) -> Ranking<Share> {
        shares(self.rows().map(|sum| (&sum.model, sum.client, sum.receipts)), top_max)
    }
}

fn shares<'a>(rows: impl Iterator<Item = (&'a Arc<str>, Uuid, u64)>, top_max: u32) -> Ranking<Share> {
    let mut parts: Map<&str, (u64, Set<Uuid>)> = Map::default();
    for (part, client, receipts) in rows {
        let share = parts.entry(part).or_default();
        share.0 += receipts;
        share.1.insert(client);
    }
    let all = parts
        .into_iter()
        .map(|(part, (receipts, clients))| (part, receipts, clients.len() as u64));
    let (top, total) = most(all, top_max);
    let share = |(part, receipt_count, unique_clients): (&str, u64, u64)| Share {
        key: part.to_owned(),
        receipt_count,
        unique_clients,
    };
    Ranking {
        items: top.into_iter().map(share).collect(),
        total,
    }
}

impl Summed<EntrySum> {
    /// Without URLs.
    pub(super) fn most_used(&self, top_max: u32) -> MostUsed {
        let largest = self.rolled.iter().map(|sums| sums.len()).max().unwrap_or(0);
        let mut entries: Map<Uuid, (u64, i64)> = Map::with_capacity_and_hasher(largest, RandomState::default());
        for sum in self.rows() {
            let (receipts, last_ms) = entries.entry(sum.entry).or_insert((0, i64::MIN));
            *receipts += sum.receipts;
            *last_ms = sum.last_ms.max(*last_ms);
        }
        let all = entries
            .into_iter()
            .map(|(id, (receipts, last_ms))| (id, receipts, last_ms));
        let (top, total) = most(all, top_max);
        let entry = |(entry_id, receipts, last_ms): (Uuid, u64, i64)| UsedEntry {
            entry_id,
            url: String::new(),
            receipts,
            last_ms,
        };
        MostUsed {
            entries: top.into_iter().map(entry).collect(),
            total,
        }
    }
}

impl Summed<SlotSum> {
    /// Points in order of bucket, then purpose, of receipts from `from_ms` to `to_ms`; `boundaries` as in
    /// [`timeseries`](Usage::timeseries), the first of them at most `from_ms`.
    pub(super) fn points(
        &self,
        boundaries: &[i64],
        by_purpose: bool,
        from_ms: i64,
        to_ms: i64,
    ) -> Vec<TimeseriesPoint> {
        let mut points: Map<(i64, &str), u64> = Map::default();
        // What is read from receipts is within the range, though its half hour may begin below it.
        let begin = |sum: &SlotSum| sum.at_ms.max(from_ms);
        let rolled = self.rolled.iter().flat_map(|sums| sums.iter());
        let rolled = rolled.filter(|sum| (from_ms..to_ms).contains(&sum.at_ms));
        for sum in rolled.chain(&self.tail) {
            let after = boundaries.partition_point(|boundary| *boundary <= begin(sum));
            let Some(bucket) = after.checked_sub(1).and_then(|place| boundaries.get(place)) else {
                continue;
            };
            let part = if by_purpose { &*sum.purpose } else { "" };
            *points.entry((*bucket, part)).or_default() += sum.receipts;
        }
        let point = |((bucket_start_ms, part), value): ((i64, &str), u64)| TimeseriesPoint {
            bucket_start_ms,
            group: by_purpose.then(|| part.to_owned()),
            value,
        };
        let mut points: Vec<_> = points.into_iter().map(point).collect();
        points.sort_unstable_by(|one, other| {
            (one.bucket_start_ms, &one.group).cmp(&(other.bucket_start_ms, &other.group))
        });
        points
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use uuid::Uuid;

    use super::{ClientSum, EntrySum, SlotSum, Summed};

    const HOUR_MS: i64 = 3_600_000;

    fn slots(all: &[(i64, &str, u64)]) -> Vec<SlotSum> {
        let slot = |&(at_ms, purpose, receipts): &(i64, &str, u64)| SlotSum {
            at_ms,
            purpose: purpose.into(),
            receipts,
        };
        all.iter().map(slot).collect()
    }

    #[test]
    fn half_hours_beyond_a_range_are_left_out_and_cut_buckets_are_not() {
        let summed = Summed {
            rolled: vec![
                slots(&[
                    (10 * HOUR_MS, "training", 1),
                    (10 * HOUR_MS + HOUR_MS / 2, "training", 2),
                ])
                .into(),
                slots(&[
                    (12 * HOUR_MS, "research", 4),
                    (12 * HOUR_MS + HOUR_MS / 2, "training", 8),
                ])
                .into(),
            ],
            // Of a range's first half hour, which begins below it.
            tail: slots(&[(10 * HOUR_MS, "inference", 16)]),
        };
        let boundaries: Vec<i64> = (10..14).map(|hour| hour * HOUR_MS).collect();
        let half = HOUR_MS / 2;
        let points = summed.points(&boundaries, true, 10 * HOUR_MS + half, 12 * HOUR_MS + half);
        let points: Vec<_> = points
            .iter()
            .map(|point| (point.bucket_start_ms / HOUR_MS, point.group.as_deref(), point.value))
            .collect();
        assert_eq!(
            points,
            [
                (10, Some("inference"), 16),
                (10, Some("training"), 2),
                (12, Some("research"), 4)
            ]
        );
        let points = summed.points(&boundaries[..1], false, 10 * HOUR_MS, 14 * HOUR_MS);
        assert_eq!(points.len(), 1);
        assert_eq!((points[0].group.as_deref(), points[0].value), (None, 31));
        assert!(summed.points(&[20 * HOUR_MS], false, 0, 30 * HOUR_MS).is_empty());
        // The first bucket begins with the range, within the half hour.
        let begin = 10 * HOUR_MS + 5;
        let points = summed.points(&[begin, 11 * HOUR_MS], false, begin, 12 * HOUR_MS);
        let points: Vec<_> = points
            .iter()
            .map(|point| (point.bucket_start_ms, point.value))
            .collect();
        assert_eq!(points, [(begin, 18)]);
    }

    #[test]
    fn clients_are_named_as_their_newest_receipts_name_them() {
        let of = |client: u128, name: &str, organization: &str, receipts, last_ms| ClientSum {
            client: Uuid::from_u128(client),
            purpose: "research".into(),
            name: name.into(),
            organization: organization.into(),
            receipts,
            last_ms,
        };
        let rolled: Arc<[ClientSum]> = [
            of(1, "old", "z", 5, 10),
            of(2, "b", "b", 6, 10),
            of(1, "new", "a", 1, 20),
        ]
        .into();
        let summed = Summed {
            rolled: vec![rolled],
            tail: vec![of(1, "mid", "b", 1, 20), of(3, "c", "c", 7, -5)],
        };
        let top = summed.top_clients(2);
        assert_eq!(top.total, 3);
        let found: Vec<_> = top
            .items
            .iter()
            .map(|client| (client.name.as_str(), client.organization.as_str(), client.last_seen_ms))
            .collect();
        // Equal counts go by id.
        assert_eq!(found, [("new", "b", 20), ("c", "c", -5)]);
        let totals = summed.totals();
        assert_eq!((totals.total_receipts, totals.unique_clients), (20, 3));
        assert_eq!(totals.usage_by_purpose.research, 20);
    }

    #[test]
    fn the_most_used_are_those_with_most_in_all() {
        let of = |entry: u128, receipts, last_ms| EntrySum {
            entry: Uuid::from_u128(entry),
            receipts,
            last_ms,
        };
        let summed = Summed {
            rolled: vec![
                [of(9, 3, 1), of(8, 4, 2)].into(),
                [of(9, 3, 7), of(7, 5, 3), of(6, 5, 4)].into(),
            ],
            tail: vec![of(5, 1, 9)],
        };
        for (most, expected) in [(1, vec![(9, 6, 7)]), (3, vec![(9, 6, 7), (6, 5, 4), (7, 5, 3)])] {
            let used = summed.most_used(most);
            let found = used.entries.iter();
            let found: Vec<_> = found
                .map(|entry| (entry.entry_id.as_u128(), entry.receipts, entry.last_ms))
                .collect();
            assert_eq!((found, used.total), (expected, 5));
        }
        assert_eq!(summed.most_used(9).entries.len(), 5);
    }
}
