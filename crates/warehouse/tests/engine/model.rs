//! Every query against a plain model in memory, over random receipts with retries, conflicts and refusals.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use uuid::Uuid;
use warehouse::{
    ClientStats, ContentStats, DashboardStats, Filter, GroupBy, Metric, Scope, TimeseriesPoint, TopClient, TopContent,
    UsageByPurpose, Warehouse,
};

use crate::harness::{NOON_MS, Receipt, fresh, insert, insert_rejected, position, rejected, run};

/// Names as a user might choose them.
const PUBLISHERS: [&str; 4] = [
    "news.example",
    "o'reilly.example",
    "ünïcode.example",
    "') OR 1=1 --.example",
];
const PURPOSES: [&str; 3] = ["training", "inference", "research"];
const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 86_400_000;
const TOP: u32 = 5;

struct Model {
    /// Distinct receipts with their positions.
    receipts: Vec<(Receipt, BTreeSet<u128>)>,
    rejected: BTreeMap<u128, (&'static str, i64)>,
}

fn random_receipt(rng: &mut StdRng, number: u128) -> Receipt {
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
async fn fill(rng: &mut StdRng, warehouse: &Warehouse) -> Model {
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

fn random_question(rng: &mut StdRng, model: &Model) -> (Scope, Filter) {
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
    };
    (Scope { publishers }, filter)
}

impl Model {
    fn matching(&self, scope: &Scope, filter: &Filter) -> Vec<&Receipt> {
        let matches = |receipt: &&Receipt| {
            scope.publishers.contains(&receipt.publisher)
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

fn purposes(receipts: &[&Receipt]) -> UsageByPurpose {
    let of = |purpose| receipts.iter().filter(|receipt| receipt.purpose == purpose).count() as u64;
    UsageByPurpose {
        training: of("training"),
        inference: of("inference"),
        research: of("research"),
    }
}

/// The text that the newest receipt gives; of equally new ones the greatest.
fn newest<'a>(receipts: &[&'a Receipt], text: impl Fn(&'a Receipt) -> &'a String) -> String {
    receipts
        .iter()
        .map(|receipt| (receipt.timestamp_ms, text(receipt)))
        .max()
        .unwrap()
        .1
        .clone()
}

fn grouped<'a, K: Ord>(receipts: &[&'a Receipt], key: impl Fn(&'a Receipt) -> K) -> BTreeMap<K, Vec<&'a Receipt>> {
    let mut groups = BTreeMap::<K, Vec<&Receipt>>::new();
    for receipt in receipts {
        groups.entry(key(receipt)).or_default().push(receipt);
    }
    groups
}

/// The largest groups first, equal ones in order of their key's text.
fn largest<K: Ord + ToString>(groups: BTreeMap<K, Vec<&Receipt>>) -> Vec<(K, Vec<&Receipt>)> {
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(key, members)| (std::cmp::Reverse(members.len()), key.to_string()));
    groups.truncate(TOP as usize);
    groups
}

fn top_content(receipts: &[&Receipt]) -> Vec<TopContent> {
    let groups = largest(grouped(receipts, |receipt| receipt.entry_id));
    let top = groups.into_iter().map(|(entry_id, members)| TopContent {
        entry_id,
        url: newest(&members, |receipt| &receipt.url),
        receipt_count: members.len() as u64,
    });
    top.collect()
}

fn distinct<K: Ord>(receipts: &[&Receipt], key: impl Fn(&Receipt) -> K) -> u64 {
    receipts
        .iter()
        .map(|receipt| key(receipt))
        .collect::<BTreeSet<_>>()
        .len() as u64
}

fn seen(receipts: &[&Receipt]) -> (Option<i64>, Option<i64>) {
    let times = || receipts.iter().map(|receipt| receipt.timestamp_ms);
    (times().min(), times().max())
}

fn timeseries(receipts: &[&Receipt], metric: Metric, boundaries: &[i64], group_by: GroupBy) -> Vec<TimeseriesPoint> {
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

#[test]
fn every_query_agrees_with_a_plain_model() {
    run(async {
        for seed in [1, 2, rand::random::<u32>()] {
            println!("seed {seed}");
            let mut rng = StdRng::seed_from_u64(u64::from(seed));
            let warehouse = fresh().await;
            let model = fill(&mut rng, &warehouse).await;
            totals(&model, &warehouse).await;
            refusals(&mut rng, &model, &warehouse).await;
            for _ in 0..25 {
                let (scope, filter) = random_question(&mut rng, &model);
                dashboard(&model, &warehouse, &scope, &filter).await;
                content_and_client(&mut rng, &model, &warehouse, &scope, &filter).await;
                series(&mut rng, &model, &warehouse, &scope, &filter).await;
                receipt(&mut rng, &model, &warehouse, &scope).await;
            }
        }
    });
}

async fn totals(model: &Model, warehouse: &Warehouse) {
    let totals = warehouse.totals().await.unwrap();
    assert_eq!(totals.receipts, model.receipts.len() as u64);
    assert_eq!(
        totals.occurrences,
        model
            .receipts
            .iter()
            .map(|(_, positions)| positions.len() as u64)
            .sum::<u64>()
    );
    assert_eq!(totals.rejected, model.rejected.len() as u64);
    let mut hashes = BTreeMap::<Uuid, BTreeSet<[u8; 32]>>::new();
    for (receipt, _) in &model.receipts {
        hashes
            .entry(receipt.receipt_id)
            .or_default()
            .insert(receipt.payload_hash);
    }
    assert_eq!(
        totals.conflicts,
        hashes.values().filter(|hashes| hashes.len() > 1).count() as u64
    );
}

async fn dashboard(model: &Model, warehouse: &Warehouse, scope: &Scope, filter: &Filter) {
    let matching = model.matching(scope, filter);
    let expected = DashboardStats {
        total_receipts: matching.len() as u64,
        unique_clients: distinct(&matching, |receipt| receipt.client_id),
        top_content: top_content(&matching),
        usage_by_purpose: purposes(&matching),
    };
    assert_eq!(
        warehouse.dashboard(scope, filter, TOP).await.unwrap(),
        expected,
        "{scope:?} {filter:?}"
    );
}

async fn content_and_client(rng: &mut StdRng, model: &Model, warehouse: &Warehouse, scope: &Scope, filter: &Filter) {
    let (chosen, _) = model.receipts.choose(rng).unwrap();
    let filter = Filter {
        entry_id: None,
        client_id: None,
        ..filter.clone()
    };

    let matching = model.matching(
        scope,
        &Filter {
            entry_id: Some(chosen.entry_id),
            ..filter.clone()
        },
    );
    let (first_seen_ms, last_seen_ms) = seen(&matching);
    let client = |(client_id, members): (Uuid, Vec<&Receipt>)| TopClient {
        client_id,
        name: newest(&members, |receipt| &receipt.client_name),
        organization: newest(&members, |receipt| &receipt.organization),
        receipt_count: members.len() as u64,
    };
    let expected = ContentStats {
        total_receipts: matching.len() as u64,
        unique_clients: distinct(&matching, |receipt| receipt.client_id),
        usage_by_purpose: purposes(&matching),
        top_clients: largest(grouped(&matching, |receipt| receipt.client_id))
            .into_iter()
            .map(client)
            .collect(),
        first_seen_ms,
        last_seen_ms,
        urls: matching
            .iter()
            .map(|receipt| receipt.url.clone())
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect(),
    };
    assert_eq!(
        warehouse.content(scope, &filter, chosen.entry_id, TOP).await.unwrap(),
        expected
    );

    let matching = model.matching(
        scope,
        &Filter {
            client_id: Some(chosen.client_id),
            ..filter.clone()
        },
    );
    let (first_seen_ms, last_seen_ms) = seen(&matching);
    let name = |text: fn(&Receipt) -> &String| {
        if matching.is_empty() {
            String::new()
        } else {
            newest(&matching, text)
        }
    };
    let versions = matching
        .iter()
        .map(|receipt| receipt.client_version.clone())
        .collect::<BTreeSet<_>>();
    let expected = ClientStats {
        name: name(|receipt| &receipt.client_name),
        organization: name(|receipt| &receipt.organization),
        versions: versions.into_iter().collect(),
        total_receipts: matching.len() as u64,
        unique_content: distinct(&matching, |receipt| receipt.entry_id),
        usage_by_purpose: purposes(&matching),
        top_content: top_content(&matching),
        first_seen_ms,
        last_seen_ms,
    };
    assert_eq!(
        warehouse.client(scope, &filter, chosen.client_id, TOP).await.unwrap(),
        expected
    );
}

async fn series(rng: &mut StdRng, model: &Model, warehouse: &Warehouse, scope: &Scope, filter: &Filter) {
    // Days of 23, 24 and 25 hours, as around a change of the clocks; sometimes beginning after `from`.
    let mut boundaries = vec![filter.from_ms + rng.random_range(0..2) * DAY_MS];
    while boundaries.len() < 60 {
        let hours = rng.random_range(23..=25);
        boundaries.push(boundaries.last().unwrap() + hours * 60 * MINUTE_MS);
    }
    let metric = *[Metric::Receipts, Metric::Clients, Metric::Content]
        .choose(rng)
        .unwrap();
    let group_by = *[GroupBy::None, GroupBy::Purpose, GroupBy::Client, GroupBy::Entry]
        .choose(rng)
        .unwrap();
    let expected = timeseries(&model.matching(scope, filter), metric, &boundaries, group_by);
    let found = warehouse
        .timeseries(scope, filter, metric, &boundaries, group_by, TOP)
        .await
        .unwrap();
    assert_eq!(found, expected, "{metric:?} {group_by:?} {scope:?} {filter:?}");
}

async fn receipt(rng: &mut StdRng, model: &Model, warehouse: &Warehouse, scope: &Scope) {
    let id = model.receipts.choose(rng).unwrap().0.receipt_id;
    let facts = warehouse.receipt(scope, id).await.unwrap();
    let mut expected: Vec<_> = model
        .receipts
        .iter()
        .filter(|(receipt, _)| receipt.receipt_id == id && scope.publishers.contains(&receipt.publisher))
        .collect();
    expected.sort_by_key(|(_, positions)| *positions.first().unwrap());
    assert_eq!(facts.conflict(), expected.len() > 1);
    assert_eq!(facts.stored.len(), expected.len());
    for (found, (receipt, positions)) in facts.stored.iter().zip(expected) {
        assert_eq!(found.payload_hash, receipt.payload_hash);
        assert_eq!(found.occurrences, positions.len() as u64);
        assert_eq!(found.first_position, *positions.first().unwrap());
        assert_eq!(
            (found.timestamp_ms, found.received_at_ms),
            (receipt.timestamp_ms, receipt.received_at_ms)
        );
        assert_eq!(
            (&found.publisher, &found.purpose),
            (&receipt.publisher, &receipt.purpose)
        );
        assert_eq!((found.entry_id, found.client_id), (receipt.entry_id, receipt.client_id));
        assert_eq!(found.algorithm, "Ed25519");
    }
    assert_eq!(
        warehouse.receipt(scope, Uuid::nil()).await.unwrap(),
        warehouse::ReceiptFacts::default()
    );
}

async fn refusals(rng: &mut StdRng, model: &Model, warehouse: &Warehouse) {
    let scope = Scope {
        publishers: vec!["news.example".to_owned(), "other.example".to_owned()],
    };
    let found = warehouse.refusals(&scope, NOON_MS, NOON_MS + 1, 3).await.unwrap();
    let mut reasons = BTreeMap::<&str, u64>::new();
    for (reason, _) in model.rejected.values() {
        *reasons.entry(reason).or_default() += 1;
    }
    let mut expected: Vec<_> = reasons
        .into_iter()
        .map(|(reason, count)| (reason.to_owned(), count))
        .collect();
    expected.sort_by_key(|(reason, count)| (std::cmp::Reverse(*count), reason.clone()));
    assert_eq!(found.by_reason, expected);
    let newest: Vec<_> = model.rejected.keys().rev().take(3).copied().collect();
    assert_eq!(found.newest.iter().map(|one| one.position).collect::<Vec<_>>(), newest);
    assert!(
        found
            .newest
            .iter()
            .all(|one| one.receipt_id.is_none() && one.request_id == "request")
    );
    for (from_ms, to_ms) in [(NOON_MS + 1, i64::MAX), (i64::MIN, NOON_MS)] {
        assert_eq!(
            warehouse.refusals(&scope, from_ms, to_ms, 3).await.unwrap(),
            warehouse::RefusalStats::default()
        );
    }
    let other = Scope {
        publishers: vec![(*PUBLISHERS.choose(rng).unwrap()).to_owned() + "x"],
    };
    assert_eq!(
        warehouse.refusals(&other, 0, i64::MAX, 3).await.unwrap(),
        warehouse::RefusalStats::default()
    );
}

#[test]
fn an_empty_scope_sees_nothing_and_is_no_query() {
    run(async {
        let warehouse = fresh().await;
        insert(&warehouse, &[(Receipt::new(1), position(0, 0, 0))]).await;
        let scope = Scope { publishers: Vec::new() };
        let filter = Filter {
            from_ms: i64::MIN,
            to_ms: i64::MAX,
            ..Filter::default()
        };
        assert_eq!(
            warehouse.dashboard(&scope, &filter, TOP).await.unwrap(),
            DashboardStats::default()
        );
        let points = warehouse
            .timeseries(&scope, &filter, Metric::Receipts, &[0], GroupBy::None, TOP)
            .await
            .unwrap();
        assert!(points.is_empty());
        let all = Scope {
            publishers: vec!["news.example".to_owned()],
        };
        assert_eq!(warehouse.dashboard(&all, &filter, 0).await.unwrap().total_receipts, 1);
    });
}
