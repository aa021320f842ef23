//! Every query against the plain model, over random receipts with retries, conflicts and refusals.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use uuid::Uuid;
use warehouse::{
    ClientStats, ClientUsage, ContentStats, DashboardStats, EntryUsage, Filter, GroupBy, Metric, NewestCursor, Ranking,
    RollupView, Scope, Share, TopClient, Usage, Warehouse,
};

use crate::harness::{NOON_MS, Receipt, fresh, insert, position, run};
use crate::model::{
    DAY_MS, HOUR_MS, MINUTE_MS, Model, PUBLISHERS, TOP, distinct, fill, grouped, in_scope, largest, newest, purposes,
    random_question, seen, timeseries, top_content,
};

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
            let nothing = RollupView::none();
            for _ in 0..10 {
                let (scope, filter) = random_question(&mut rng, &model);
                usage(&mut rng, &model, &warehouse.usage(&nothing), &scope, &filter).await;
                listing(&mut rng, &model, &warehouse, &scope, &filter).await;
                receipt(&mut rng, &model, &warehouse, &scope).await;
            }
        }
    });
}

#[test]
fn every_query_agrees_with_a_plain_model_whatever_is_rolled() {
    run(async {
        let mut rolled = 0;
        let seed = rand::random::<u32>();
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(u64::from(seed));
        let warehouse = fresh().await;
        let mut model = Model::default();
        for step in 0..12 {
            model.block(&mut rng, &warehouse).await;
            // A view of before what comes next is a view of what is there, or says less.
            for _ in 0..rng.random_range(0..6) {
                let settled_ms = NOON_MS - rng.random_range(0..3 * HOUR_MS);
                model.roll(&warehouse, settled_ms, rng.random_range(1..500)).await;
            }
            if step % 6 == 5 {
                model.erase(&warehouse, PUBLISHERS.choose(&mut rng).unwrap()).await;
            }
            let view = warehouse.rollup_view(&model.committed()).await.unwrap();
            for _ in 0..2 {
                let (scope, filter) = random_question(&mut rng, &model);
                rolled += view.clean_hours(&scope).count();
                usage(&mut rng, &model, &warehouse.usage(&view), &scope, &filter).await;
                // What isn't narrowed is added up from sums in memory, most of which earlier steps left there.
                let (from_ms, to_ms) = (filter.from_ms, filter.to_ms);
                let whole = Filter {
                    from_ms,
                    to_ms,
                    ..Filter::default()
                };
                usage(&mut rng, &model, &warehouse.usage(&view), &scope, &whole).await;
            }
        }
        assert!(rolled > 1_000, "{rolled} hours were read from rolled rows");
    });
}

/// All questions over one selection.
async fn usage(rng: &mut StdRng, model: &Model, usage: &Usage<'_>, scope: &Scope, filter: &Filter) {
    dashboard(model, usage, scope, filter).await;
    content_and_client(rng, model, usage, scope, filter).await;
    series(rng, model, usage, scope, filter).await;
    lists(model, usage, scope, filter).await;
}

async fn lists(model: &Model, usage: &Usage<'_>, scope: &Scope, filter: &Filter) {
    let matching = model.matching(scope, filter);
    let entries = grouped(&matching, |receipt| receipt.entry_id);
    let entry = |(entry_id, members): (Uuid, Vec<&Receipt>)| EntryUsage {
        entry_id,
        url: newest(&members, |receipt| &receipt.url),
        receipt_count: members.len() as u64,
        unique_clients: distinct(&members, |receipt| receipt.client_id),
        last_seen_ms: seen(&members).1.unwrap(),
    };
    let expected = Ranking {
        total: entries.len() as u64,
        items: largest(entries).into_iter().map(entry).collect(),
    };
    let found = usage.top_content(scope, filter, TOP).await.unwrap();
    assert_eq!(found, expected, "{scope:?} {filter:?}");

    let clients = grouped(&matching, |receipt| receipt.client_id);
    let client = |(client_id, members): (Uuid, Vec<&Receipt>)| ClientUsage {
        client_id,
        name: newest(&members, |receipt| &receipt.client_name),
        organization: newest(&members, |receipt| &receipt.organization),
        receipt_count: members.len() as u64,
        last_seen_ms: seen(&members).1.unwrap(),
    };
    let expected = Ranking {
        total: clients.len() as u64,
        items: largest(clients).into_iter().map(client).collect(),
    };
    let found = usage.top_clients(scope, filter, TOP).await.unwrap();
    assert_eq!(found, expected, "{scope:?} {filter:?}");

    let shares = |key: fn(&Receipt) -> &String| {
        let groups = grouped(&matching, key);
        let share = |(key, members): (&String, Vec<&Receipt>)| Share {
            key: key.clone(),
            receipt_count: members.len() as u64,
            unique_clients: distinct(&members, |receipt| receipt.client_id),
        };
        Ranking {
            total: groups.len() as u64,
            items: largest(groups).into_iter().map(share).collect(),
        }
    };
    let found = usage.by_model(scope, filter, TOP).await.unwrap();
    assert_eq!(found, shares(|receipt| &receipt.model_id), "{scope:?} {filter:?}");
    let found = usage.by_purpose(scope, filter).await.unwrap();
    assert_eq!(found, shares(|receipt| &receipt.purpose).items, "{scope:?} {filter:?}");
}

/// Pages hold each receipt once, newest first, whatever comes in between them.
async fn listing(rng: &mut StdRng, model: &Model, warehouse: &Warehouse, scope: &Scope, filter: &Filter) {
    let mut expected = model.matching(scope, filter);
    expected.sort_by_key(|receipt| Reverse((receipt.timestamp_ms, receipt.receipt_id, receipt.payload_hash)));
    let rows_max = rng.random_range(1..400);
    let mut found = Vec::new();
    let mut after: Option<NewestCursor> = None;
    loop {
        let page = warehouse
            .receipts_page(scope, filter, after.as_ref(), rows_max)
            .await
            .unwrap();
        assert!(page.len() <= rows_max as usize);
        let Some(last) = page.last() else { break };
        after = Some(last.into());
        found.extend(page);
    }
    assert_eq!(found.len(), expected.len(), "{scope:?} {filter:?} {rows_max}");
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(
            (found.key.timestamp_ms, found.key.receipt_id, found.key.payload_hash),
            (expected.timestamp_ms, expected.receipt_id, expected.payload_hash)
        );
        assert_eq!(
            (&found.client_id, &found.model_id),
            (&expected.client_id, &expected.model_id)
        );
    }
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

async fn dashboard(model: &Model, usage: &Usage<'_>, scope: &Scope, filter: &Filter) {
    let matching = model.matching(scope, filter);
    let expected = DashboardStats {
        total_receipts: matching.len() as u64,
        unique_clients: distinct(&matching, |receipt| receipt.client_id),
        top_content: top_content(&matching),
        usage_by_purpose: purposes(&matching),
    };
    assert_eq!(
        usage.dashboard(scope, filter, TOP).await.unwrap(),
        expected,
        "{scope:?} {filter:?}"
    );
}

async fn content_and_client(rng: &mut StdRng, model: &Model, usage: &Usage<'_>, scope: &Scope, filter: &Filter) {
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
        usage.content(scope, &filter, chosen.entry_id, TOP).await.unwrap(),
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
        usage.client(scope, &filter, chosen.client_id, TOP).await.unwrap(),
        expected
    );
}

async fn series(rng: &mut StdRng, model: &Model, usage: &Usage<'_>, scope: &Scope, filter: &Filter) {
    // Sometimes beginning after `from`, and where no interval does.
    let mut boundaries = vec![filter.from_ms + rng.random_range(0..2) * DAY_MS];
    let interval = rng.random_range(0..5);
    while boundaries.len() < 60 {
        let length_ms = match interval {
            // As around a change of the clocks.
            0 => rng.random_range(23..=25) * HOUR_MS,
            // As in Lord Howe.
            1 => DAY_MS + rng.random_range(-1..=1) * HOUR_MS / 2,
            2 => rng.random_range(28..=31) * DAY_MS,
            3 => HOUR_MS,
            _ => MINUTE_MS,
        };
        boundaries.push(boundaries.last().unwrap() + length_ms);
    }
    let metric = *[Metric::Receipts, Metric::Clients, Metric::Content]
        .choose(rng)
        .unwrap();
    let groups = [
        GroupBy::None,
        GroupBy::Purpose,
        GroupBy::Client,
        GroupBy::Entry,
        GroupBy::Model,
    ];
    let group_by = *groups.choose(rng).unwrap();
    let expected = timeseries(&model.matching(scope, filter), metric, &boundaries, group_by);
    let found = usage
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
        .filter(|(receipt, _)| receipt.receipt_id == id && in_scope(scope, &receipt.publisher))
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
    let scope = Scope::of(vec!["news.example".to_owned(), "other.example".to_owned()]);
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
    let other = Scope::of(vec![(*PUBLISHERS.choose(rng).unwrap()).to_owned() + "x"]);
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
        let scope = Scope::of(Vec::new());
        let filter = Filter {
            from_ms: i64::MIN,
            to_ms: i64::MAX,
            ..Filter::default()
        };
        assert_eq!(
            warehouse
                .usage(&RollupView::none())
                .dashboard(&scope, &filter, TOP)
                .await
                .unwrap(),
            DashboardStats::default()
        );
        let points = warehouse
            .usage(&RollupView::none())
            .timeseries(&scope, &filter, Metric::Receipts, &[0], GroupBy::None, TOP)
            .await
            .unwrap();
        assert!(points.is_empty());
        let all = Scope::of(vec!["news.example".to_owned()]);
        assert_eq!(
            warehouse
                .usage(&RollupView::none())
                .dashboard(&all, &filter, 0)
                .await
                .unwrap()
                .total_receipts,
            1
        );
    });
}
