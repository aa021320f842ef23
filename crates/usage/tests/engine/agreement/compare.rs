//! Every query of a selection, compared with the expected answer.

use std::cmp::Reverse;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use usage::{DashboardStats, GroupBy, Metric, Usage};
use warehouse::{BeforeVerification, Filter, NewestCursor, Scope};

use super::expected;
use super::model::Model;
use super::question::random_boundaries;

pub(crate) const METRICS: [Metric; 3] = [Metric::Receipts, Metric::Clients, Metric::Content];
pub(crate) const GROUPS: [GroupBy; 5] = [
    GroupBy::None,
    GroupBy::Purpose,
    GroupBy::Client,
    GroupBy::Entry,
    GroupBy::Model,
];

/// All queries over one selection.
pub(crate) async fn all_queries(rng: &mut StdRng, model: &Model, usage: &Usage, scope: &Scope, filter: &Filter) {
    let top_max = *[1, 2, 5, 1_000].choose(rng).unwrap();
    lists(model, usage, scope, filter, top_max).await;
    content_and_client(rng, model, usage, scope, filter, top_max).await;
    listing(rng, model, usage, scope, filter).await;
    let boundaries = random_boundaries(rng, filter);
    let (metric, group_by) = (*METRICS.choose(rng).unwrap(), *GROUPS.choose(rng).unwrap());
    series(model, usage, scope, filter, metric, &boundaries, group_by, top_max).await;
    let boundaries = random_boundaries(rng, filter);
    series(
        model,
        usage,
        scope,
        filter,
        Metric::Receipts,
        &boundaries,
        GroupBy::None,
        top_max,
    )
    .await;
}

/// Queries without an ID or buckets.
pub(crate) async fn lists(model: &Model, usage: &Usage, scope: &Scope, filter: &Filter, top_max: u32) {
    let of = format!("{top_max} {scope:?} {filter:?}");
    let matching = model.matching(scope, filter);
    let found = usage.dashboard(scope, filter, top_max).await.unwrap();
    let only = Filter {
        before_verification: BeforeVerification::Only,
        ..filter.clone()
    };
    let expected = DashboardStats {
        receipts_before_verification: model.matching(scope, &only).len() as u64,
        ..expected::dashboard(&matching, top_max)
    };
    assert_eq!(found, expected, "{of}");
    let found = usage.top_content(scope, filter, top_max).await.unwrap();
    assert_eq!(found, expected::top_content(&matching, top_max), "{of}");
    let found = usage.top_clients(scope, filter, top_max).await.unwrap();
    assert_eq!(found, expected::top_clients(&matching, top_max), "{of}");
    let found = usage.by_model(scope, filter, top_max).await.unwrap();
    let shares = expected::shares(&matching, |receipt| &receipt.model_id, top_max);
    assert_eq!(found, shares, "{of}");
    let found = usage.by_purpose(scope, filter).await.unwrap();
    let shares = expected::shares(&matching, |receipt| &receipt.purpose, u32::MAX);
    assert_eq!(found, shares.items, "{of}");
}

/// Pages of receipts have each receipt once, newest first.
async fn listing(rng: &mut StdRng, model: &Model, usage: &Usage, scope: &Scope, filter: &Filter) {
    let mut expected = model.matching(scope, filter);
    expected.sort_by_key(|receipt| Reverse((receipt.timestamp_ms, receipt.receipt_id())));
    let rows_max = rng.random_range(100..2_000);
    let mut found = Vec::new();
    let mut after: Option<NewestCursor> = None;
    loop {
        let page = usage.warehouse().receipts_page(scope, filter, after.as_ref(), rows_max);
        let page = page.await.unwrap();
        assert!(page.len() <= rows_max as usize);
        let Some(last) = page.last() else { break };
        after = Some(last.into());
        found.extend(page);
    }
    assert_eq!(found.len(), expected.len(), "{scope:?} {filter:?} {rows_max}");
    for (found, expected) in found.iter().zip(expected) {
        let key = (found.key.timestamp_ms, found.key.receipt_id, found.key.payload_hash);
        assert_eq!(
            key,
            (expected.timestamp_ms, expected.receipt_id(), expected.payload_hash)
        );
        assert_eq!(
            (found.client_id, &found.model_id),
            (expected.client_id, &expected.model_id)
        );
    }
}

async fn content_and_client(
    rng: &mut StdRng,
    model: &Model,
    usage: &Usage,
    scope: &Scope,
    filter: &Filter,
    top_max: u32,
) {
    let chosen = model.receipts.choose(rng).unwrap();
    let top_max = if rng.random_bool(0.1) { 0 } else { top_max };
    let of = format!("{top_max} {scope:?} {filter:?}");
    let of_entry = Filter {
        entry_id: Some(chosen.entry_id),
        ..filter.clone()
    };
    let found = usage.content(scope, filter, chosen.entry_id, top_max).await.unwrap();
    let expected = expected::content(&model.matching(scope, &of_entry), top_max);
    assert_eq!(found, expected, "{} {of}", chosen.entry_id);
    let of_client = Filter {
        client_id: Some(chosen.client_id),
        ..filter.clone()
    };
    let found = usage.client(scope, filter, chosen.client_id, top_max).await.unwrap();
    let expected = expected::client(&model.matching(scope, &of_client), top_max);
    assert_eq!(found, expected, "{} {of}", chosen.client_id);
}

#[expect(clippy::too_many_arguments, reason = "those of the query and two more")]
pub(crate) async fn series(
    model: &Model,
    usage: &Usage,
    scope: &Scope,
    filter: &Filter,
    metric: Metric,
    boundaries: &[i64],
    group_by: GroupBy,
    top_max: u32,
) {
    let matching = model.matching(scope, filter);
    let expected = expected::timeseries(&matching, metric, boundaries, group_by, top_max);
    let found = usage
        .timeseries(scope, filter, metric, boundaries, group_by, top_max)
        .await;
    let of = format!("{metric:?} {group_by:?} {top_max} {scope:?} {filter:?} {boundaries:?}");
    assert_eq!(found.unwrap(), expected, "{of}");
}
