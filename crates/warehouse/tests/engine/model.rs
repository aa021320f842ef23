//! A plain model in memory: random receipts, and what each query should say of them.

use std::collections::{BTreeMap, BTreeSet};

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use uuid::Uuid;
use warehouse::{Below, Filter, GroupBy, Metric, Scope, TimeseriesPoint, TopContent, UsageByPurpose, Warehouse};

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

pub(crate) struct Model {
    /// Distinct receipts with their positions.
    pub(crate) receipts: Vec<(Receipt, BTreeSet<u128>)>,
    pub(crate) rejected: BTreeMap<u128, (&'static str, i64)>,
}

pub(crate) fn random_receipt(rng: &mut StdRng, number: u128) -> Receipt {
    let entry = rng.random_range(0..40_u128);
    let client = rng.random_range(0..12_u128);
    let timestamp_ms = match rng.random_range(0..4) {
        // On, just before and just after an hour: where buckets meet.
        0 => NOON_MS - DAY_MS * rng.random_range(0..40) + rng.random_range(-1..=1),
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
        ..Receipt::new(number)
    }
}

/// Fills a warehouse in random blocks and keeps the model.
pub(crate) async fn fill(rng: &mut StdRng, warehouse: &Warehouse) -> Model {
    let mut model = Model {
        receipts: Vec::new(),
        rejected: BTreeMap::new(),
    };
    let mut offset = 0;
    for _ in 0..12 {
        let mut block = Vec::new();
        let mut refusals = Vec::new();
        for _ in 0..rng.random_range(1..200) {
            offset += 1;
            let at = position(rng.random_range(0..3), offset, rng.random_range(0..9));
            match rng.random_range(0..20) {
                0 if !model.receipts.is_empty() => {
                    // A retry.
                    let chosen = rng.random_range(0..model.receipts.len());
                    let (receipt, positions) = &mut model.receipts[chosen];
                    positions.insert(at);
                    block.push((receipt.clone(), at));
                }
                1 if !model.receipts.is_empty() => {
                    // Another payload under an id of before.
                    let (earlier, _) = model.receipts.choose(rng).unwrap();
                    let mut receipt = earlier.clone();
                    receipt.payload_hash = rng.random();
                    model.receipts.push((receipt.clone(), BTreeSet::from([at])));
                    block.push((receipt, at));
                }
                2 => {
                    let reason = ["bad_signature", "malformed", "bad_content_hash"].choose(rng).unwrap();
                    let row = rejected(at, reason);
                    model.rejected.insert(at, (reason, row.received_at_ms));
                    refusals.push(row);
                }
                _ => {
                    let receipt = random_receipt(rng, u128::from(offset));
                    model.receipts.push((receipt.clone(), BTreeSet::from([at])));
                    block.push((receipt, at));
                }
            }
        }
        for _ in 0..rng.random_range(1..3) {
            insert(warehouse, &block).await;
            insert_rejected(warehouse, &refusals).await;
        }
    }
    model
}

pub(crate) fn random_question(rng: &mut StdRng, model: &Model) -> (Scope, Filter) {
    let count = rng.random_range(1..=PUBLISHERS.len());
    let publishers = PUBLISHERS.sample(rng, count).map(|name| (*name).to_owned()).collect();
    let some = |rng: &mut StdRng| {
        rng.random_bool(0.25)
            .then(|| model.receipts.choose(rng).unwrap().0.clone())
    };
    let to_ms = NOON_MS - rng.random_range(-1..DAY_MS * 20);
    let filter = Filter {
        from_ms: to_ms - rng.random_range(0..DAY_MS * 45),
        to_ms,
        purpose: some(rng).map(|receipt| receipt.purpose),
        client_id: some(rng).map(|receipt| receipt.client_id),
        entry_id: some(rng).map(|receipt| receipt.entry_id),
        model_id: None,
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
