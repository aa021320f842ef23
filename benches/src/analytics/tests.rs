//! Statements of the run under the engine: loading, counting, and the reference.

use ::usage::{GroupBy, Metric, RankingPage, Usage};
use warehouse::{EmbeddedEngine, Filter, QueryScope, WarehouseConfig};

use crate::arguments::Program;
use clap::Parser;

use super::loading::{DAY_MS, GRAINS, Load, publisher};
use super::speed::{Query, Reference};
use crate::cost::stored;
use crate::sql;

const CHUNK: u64 = 45_000;

fn defaults() -> super::Arguments {
    let given = crate::arguments::Arguments::parse_from(["compare", "analytics"]);
    match given.program {
        Some(Program::Analytics(arguments)) => arguments,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_loaded_is_counted_and_the_reference_agrees() {
    // Enough for duplicates, which are far apart.
    let arguments = super::Arguments {
        receipts: 2 * CHUNK,
        publishers: 20,
        days: 2,
        ..defaults()
    };
    let load = Load::of(&arguments);
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("w.sock");
    let engine = EmbeddedEngine::start(&WarehouseConfig::default(), &dir.path().join("data"), &socket)
        .await
        .unwrap();
    for first in [0, CHUNK] {
        sql::run(&socket, &load.statement(first, CHUNK)).await.unwrap();
    }
    for day in load.counted_days() {
        for grain in GRAINS {
            sql::run(&socket, &grain.statement(day)).await.unwrap();
        }
    }
    let receipts = sql::run(&socket, "SELECT count() FROM receipts FINAL").await.unwrap();
    let is_without_duplicates = (80_000..90_000).contains(&receipts.parse::<u64>().unwrap());
    assert!(is_without_duplicates, "{receipts}");
    let sums = "SELECT DISTINCT sum(receipts) FROM usage GROUP BY grain";
    assert_eq!(sql::run(&socket, sums).await.unwrap(), receipts);

    let tables = stored::tables(&socket).await.unwrap();
    assert!(tables["receipts"].rows >= receipts.parse().unwrap());
    assert!(tables["usage"].inserts >= 5.0);
    stored::columns(&socket).await.unwrap();
    assert!(stored::events(&socket).await.unwrap()["InsertedRows"] > 0.0);

    let usage = Usage::new(engine.warehouse());
    for day in load.counted_days() {
        let day_s = u32::try_from(day * DAY_MS / 1_000).unwrap();
        for number in 0..load.publishers() {
            let changes = usage.rebuild_day(&publisher(number), day_s, None).await.unwrap();
            assert_eq!(changes, 0, "a rebuild changes publisher {number} on day {day}");
        }
    }

    let reference = Reference {
        warehouse: engine.warehouse(),
        publisher: publisher(0),
        from_ms: load.begin_ms(),
        to_ms: load.end_ms(),
    };
    let scope = QueryScope::of(vec![publisher(0)]);
    let filter = Filter {
        from_ms: load.begin_ms(),
        to_ms: load.end_ms(),
        ..Filter::default()
    };
    let total = usage.dashboard(&scope, &filter, 10).await.unwrap().total_receipts;
    assert!(total > 0);
    let starts = [filter.from_ms, filter.from_ms + DAY_MS];
    let points = usage.timeseries(&scope, &filter, Metric::Receipts, &starts, &[GroupBy::Purpose], 3);
    let series: u64 = points.await.unwrap().iter().map(|point| point.value).sum();
    let content = usage
        .top_content(&scope, &filter, &RankingPage::top(10), None)
        .await
        .unwrap();
    let clients = usage
        .top_clients(&scope, &filter, &RankingPage::top(10), None)
        .await
        .unwrap();
    for (query, sum) in [
        (Query::Dashboard, total),
        (Query::Series("day", DAY_MS, false), total),
        (Query::Series("day", DAY_MS, true), series),
        (
            Query::TopContent,
            content.items.iter().map(|one| one.content.receipt_count).sum(),
        ),
        (
            Query::TopClients,
            clients.items.iter().map(|one| one.receipt_count).sum(),
        ),
    ] {
        let (_, found) = reference.answer(query).await.unwrap();
        assert_eq!(found, sum, "{query:?}");
    }
    engine.stop().await;
}
