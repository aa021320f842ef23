//! A plain model in memory: random receipts, and what each query should say of them.

use std::collections::{BTreeMap, BTreeSet};

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use uuid::Uuid;
use warehouse::{
    Below, CleanFrom, CommittedOffset, Filter, GroupBy, MarkRow, MetadataErasure, Metric, RollBounds, Scope,
    TimeseriesPoint, TopContent, Touched, UsageByPurpose, Warehouse,
};

use crate::harness::{NOON_MS, Receipt, insert, insert_rejected, position, rejected};

/// Names as a user might choose them.
pub(crate) const PUBLISHERS: [&str; 4] = [
    "news.example",
    "o'reilly.example",
    "ünïcode.example",
    "') OR 1=1 --.example",
];
pub(crate) const PURPOSES: [&str; 3] = ["training", "inference", "research"];
pub(crate) const MINUTE_MS: i64 = 60_000;
pub(crate) const DAY_MS: i64 = 86_400_000;
pub(crate) const TOP: u32 = 5;

pub(crate) const HOUR_MS: i64 = 60 * MINUTE_MS;
/// Partitions of the log.
const PARTITIONS: u32 = 3;

#[derive(Default)]
pub(crate) struct Model {
    /// Distinct receipts with their positions.
    pub(crate) receipts: Vec<(Receipt, BTreeSet<u128>)>,
    pub(crate) rejected: BTreeMap<u128, (&'static str, i64)>,
    /// The offset behind the last record, by partition.
    next_offsets: [u64; PARTITIONS as usize],
    offset: u64,
    rolls: u32,
}

pub(crate) fn random_receipt(rng: &mut StdRng, number: u128) -> Receipt {
    let entry = rng.random_range(0..40_u128);
    let client = rng.random_range(0..12_u128);
    let timestamp_ms = match rng.random_range(0..8) {
        // On, just before and just after an hour or half hour: where buckets meet.
        0 => NOON_MS - DAY_MS * rng.random_range(0..40) + rng.random_range(-1..=1),
        1 => NOON_MS - HOUR_MS / 2 * rng.random_range(0..2_000) + rng.random_range(-1..=1),
        // A clock that is ahead.
        2 => NOON_MS + rng.random_range(0..5 * HOUR_MS),
        _ => NOON_MS - rng.random_range(0..DAY_MS * 40),
    };
    Receipt {
        publisher: (*PUBLISHERS.choose(rng).unwrap()).to_owned(),
        timestamp_ms,
        entry_id: Uuid::from_u128(entry << 90 | (40 - entry)),
        url: format!("https://x.example/{entry}?v={}", rng.random_range(0..3)),
        client_id: Uuid::from_u128(client << 70 | client),
        client_name: format!("client 'n°{client}' {}", rng.random_range(0..2)),
        client_version: format!("1.{}", rng.random_range(0..4)),
        organization: format!("org {client}"),
        purpose: (*PURPOSES.choose(rng).unwrap()).to_owned(),
        model_id: ["", "model 'a'", "model b"].choose(rng).unwrap().to_string(),
        ..Receipt::new(number)
    }
}

/// Fills a warehouse in random blocks and keeps the model.
pub(crate) async fn fill(rng: &mut StdRng, warehouse: &Warehouse) -> Model {
    let mut model = Model::default();
    for _ in 0..12 {
        model.block(rng, warehouse).await;
    }
    model
}

impl Model {
    /// Writes a block of the log, with its marks, once or several times.
    pub(crate) async fn block(&mut self, rng: &mut StdRng, warehouse: &Warehouse) {
        let mut block = Vec::new();
        let mut refusals = Vec::new();
        let firsts = self.next_offsets;
        let mut touched: [Touched; PARTITIONS as usize] = Default::default();
        for _ in 0..rng.random_range(1..200) {
            self.offset += 1;
            let partition = rng.random_range(0..PARTITIONS);
            self.next_offsets[partition as usize] = self.offset + 1;
            let at = position(partition, self.offset, rng.random_range(0..9));
            let receipt = match rng.random_range(0..20) {
                0 if !self.receipts.is_empty() => {
                    // A retry.
                    let chosen = rng.random_range(0..self.receipts.len());
                    let (receipt, positions) = &mut self.receipts[chosen];
                    positions.insert(at);
                    let mut again = receipt.clone();
                    if again.client_id.is_nil() {
                        // It comes as it was, and stays erased.
                        again.client_id = Uuid::from_u128(77);
                        again.client_name = "not erased".to_owned();
                    }
                    again
                }
                1 if !self.receipts.is_empty() => {
                    // Another payload under an id of before.
                    let (earlier, _) = self.receipts.choose(rng).unwrap();
                    let mut receipt = earlier.clone();
                    receipt.payload_hash = rng.random();
                    self.receipts.push((receipt.clone(), BTreeSet::from([at])));
                    receipt
                }
                2 => {
                    let reason = ["bad_signature", "malformed", "bad_content_hash"].choose(rng).unwrap();
                    let row = rejected(at, reason);
                    self.rejected.insert(at, (reason, row.received_at_ms));
                    refusals.push(row);
                    continue;
                }
                _ => {
                    let receipt = random_receipt(rng, u128::from(self.offset));
                    self.receipts.push((receipt.clone(), BTreeSet::from([at])));
                    receipt
                }
            };
            touched[partition as usize].add(receipt.timestamp_ms, &receipt.publisher);
            block.push((receipt, at));
        }
        let partitions = (0..PARTITIONS).zip(firsts.into_iter().zip(self.next_offsets).zip(touched));
        let written = partitions.filter(|(_, ((first, next), _))| first < next);
        let marks: Vec<MarkRow> = written
            .map(|(partition, ((first_offset, next), touched))| MarkRow {
                epoch: 1,
                partition,
                first_offset,
                last_offset: next - 1,
                touched,
            })
            .collect();
        for _ in 0..rng.random_range(1..3) {
            warehouse.insert_marks(&marks).await.unwrap();
            insert(warehouse, &block).await;
            insert_rejected(warehouse, &refusals).await;
        }
    }

    pub(crate) fn committed(&self) -> Vec<CommittedOffset> {
        let commit = |(partition, next_offset)| CommittedOffset {
            epoch: 1,
            partition,
            next_offset,
        };
        (0..PARTITIONS).zip(self.next_offsets).map(commit).collect()
    }

    /// One roll of what had ended by `settled_ms`.
    pub(crate) async fn roll(&mut self, warehouse: &Warehouse, settled_ms: i64, rows_max: u64) {
        let bounds = RollBounds {
            settled_ms,
            rows_max,
            clean_from: Some(CleanFrom::default()),
            even_day: Some(u32::try_from(settled_ms / DAY_MS - i64::from(self.rolls % 4)).unwrap()),
        };
        let plan = warehouse.plan_roll(&self.committed(), &bounds, &[]).await.unwrap();
        if plan.is_needed() {
            self.rolls += 1;
            assert!(warehouse.roll(plan, self.rolls, 100).await.unwrap().counts);
        }
    }

    /// Takes out what a publisher's receipts so far tell of their clients.
    pub(crate) async fn erase(&mut self, warehouse: &Warehouse, publisher: &str) {
        let erasure = MetadataErasure {
            scope: Scope::of(vec![publisher.to_owned()]),
            before_ms: NOON_MS + DAY_MS,
        };
        warehouse
            .erase_metadata(&erasure, std::time::Duration::ZERO)
            .await
            .unwrap();
        for (receipt, _) in self
            .receipts
            .iter_mut()
            .filter(|(receipt, _)| receipt.publisher == publisher)
        {
            receipt.client_id = Uuid::nil();
            for text in [
                &mut receipt.client_name,
                &mut receipt.client_version,
                &mut receipt.organization,
            ] {
                text.clear();
            }
        }
    }
}

pub(crate) fn random_question(rng: &mut StdRng, model: &Model) -> (Scope, Filter) {
    let count = rng.random_range(1..=PUBLISHERS.len());
    let publishers = PUBLISHERS.sample(rng, count).map(|name| (*name).to_owned()).collect();
    let some = |rng: &mut StdRng| {
        rng.random_bool(0.25)
            .then(|| model.receipts.choose(rng).unwrap().0.clone())
    };
    // To the millisecond, or where somebody's days, hours or quarters of them begin.
    let unit_ms = *[1, HOUR_MS / 4, HOUR_MS / 2, HOUR_MS, DAY_MS].choose(rng).unwrap();
    let cut = |at: i64| at - at.rem_euclid(unit_ms);
    let to_ms = cut(NOON_MS - rng.random_range(-6 * HOUR_MS..DAY_MS * 20));
    let filter = Filter {
        from_ms: cut(to_ms - rng.random_range(0..DAY_MS * 45)),
        to_ms,
        purpose: some(rng).map(|receipt| receipt.purpose),
        client_id: some(rng).map(|receipt| receipt.client_id),
        entry_id: some(rng).map(|receipt| receipt.entry_id),
        model_id: some(rng).map(|receipt| receipt.model_id),
    };
    let mut scope = Scope::of(publishers);
    if rng.random_bool(0.3) {
        // Every publisher's name ends so.
        let except = PUBLISHERS.sample(rng, 1).map(|name| (*name).to_owned()).collect();
        scope.below.push(Below {
            parent: "example".to_owned(),
            except,
        });
        scope.publishers.truncate(1);
    }
    (scope, filter)
}

impl Model {
    pub(crate) fn matching(&self, scope: &Scope, filter: &Filter) -> Vec<&Receipt> {
        let matches = |receipt: &&Receipt| {
            in_scope(scope, &receipt.publisher)
                && (filter.from_ms..filter.to_ms).contains(&receipt.timestamp_ms)
                && filter
                    .purpose
                    .as_ref()
                    .is_none_or(|purpose| *purpose == receipt.purpose)
                && filter.client_id.is_none_or(|id| id == receipt.client_id)
                && filter.entry_id.is_none_or(|id| id == receipt.entry_id)
                && filter.model_id.as_ref().is_none_or(|model| *model == receipt.model_id)
        };
        self.receipts
            .iter()
            .map(|(receipt, _)| receipt)
            .filter(matches)
            .collect()
    }
}

pub(crate) fn in_scope(scope: &Scope, name: &str) -> bool {
    scope.publishers.iter().any(|publisher| publisher == name) || scope.below.iter().any(|below| is_meant(below, name))
}

fn is_meant(below: &Below, name: &str) -> bool {
    let under = |parent: &str| name.ends_with(&format!(".{parent}"));
    under(&below.parent) && !below.except.iter().any(|other| name == other || under(other))
}

pub(crate) fn purposes(receipts: &[&Receipt]) -> UsageByPurpose {
    let of = |purpose| receipts.iter().filter(|receipt| receipt.purpose == purpose).count() as u64;
    UsageByPurpose {
        training: of("training"),
        inference: of("inference"),
        research: of("research"),
    }
}

/// The text that the newest receipt gives; of equally new ones the greatest.
pub(crate) fn newest<'a>(receipts: &[&'a Receipt], text: impl Fn(&'a Receipt) -> &'a String) -> String {
    receipts
        .iter()
        .map(|receipt| (receipt.timestamp_ms, text(receipt)))
        .max()
        .unwrap()
        .1
        .clone()
}

pub(crate) fn grouped<'a, K: Ord>(
    receipts: &[&'a Receipt],
    key: impl Fn(&'a Receipt) -> K,
) -> BTreeMap<K, Vec<&'a Receipt>> {
    let mut groups = BTreeMap::<K, Vec<&Receipt>>::new();
    for receipt in receipts {
        groups.entry(key(receipt)).or_default().push(receipt);
    }
    groups
}

/// The largest groups first, equal ones in order of their key's text.
pub(crate) fn largest<K: Ord + ToString>(groups: BTreeMap<K, Vec<&Receipt>>) -> Vec<(K, Vec<&Receipt>)> {
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(key, members)| (std::cmp::Reverse(members.len()), key.to_string()));
    groups.truncate(TOP as usize);
    groups
}

pub(crate) fn top_content(receipts: &[&Receipt]) -> Vec<TopContent> {
    let groups = largest(grouped(receipts, |receipt| receipt.entry_id));
    let top = groups.into_iter().map(|(entry_id, members)| TopContent {
        entry_id,
        url: newest(&members, |receipt| &receipt.url),
        receipt_count: members.len() as u64,
    });
    top.collect()
}

pub(crate) fn distinct<K: Ord>(receipts: &[&Receipt], key: impl Fn(&Receipt) -> K) -> u64 {
    receipts
        .iter()
        .map(|receipt| key(receipt))
        .collect::<BTreeSet<_>>()
        .len() as u64
}

pub(crate) fn seen(receipts: &[&Receipt]) -> (Option<i64>, Option<i64>) {
    let times = || receipts.iter().map(|receipt| receipt.timestamp_ms);
    (times().min(), times().max())
}

pub(crate) fn timeseries(
    receipts: &[&Receipt],
    metric: Metric,
    boundaries: &[i64],
    group_by: GroupBy,
) -> Vec<TimeseriesPoint> {
    let group = |receipt: &Receipt| match group_by {
        GroupBy::None => String::new(),
        GroupBy::Purpose => receipt.purpose.clone(),
        GroupBy::Client => receipt.client_id.to_string(),
        GroupBy::Entry => receipt.entry_id.to_string(),
        GroupBy::Model => receipt.model_id.clone(),
    };
    let within: Vec<_> = receipts
        .iter()
        .copied()
        .filter(|receipt| receipt.timestamp_ms >= boundaries[0])
        .collect();
    let shown: BTreeSet<String> = largest(grouped(&within, group))
        .into_iter()
        .map(|(group, _)| group)
        .collect();
    let bucket = |receipt: &Receipt| {
        *boundaries
            .iter()
            .rfind(|start| **start <= receipt.timestamp_ms)
            .unwrap()
    };
    let points = grouped(&within, |receipt| (bucket(receipt), group(receipt))).into_iter();
    let points = points.filter(|((_, group), _)| group_by == GroupBy::None || shown.contains(group));
    let point = |((bucket_start_ms, group), members): ((i64, String), Vec<&Receipt>)| TimeseriesPoint {
        bucket_start_ms,
        group: (group_by != GroupBy::None).then_some(group),
        value: match metric {
            Metric::Receipts => members.len() as u64,
            Metric::Clients => distinct(&members, |receipt| receipt.client_id),
            Metric::Content => distinct(&members, |receipt| receipt.entry_id),
        },
    };
    points.map(point).collect()
}
