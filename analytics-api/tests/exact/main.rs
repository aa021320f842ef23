//! Every endpoint against a plain model in memory, over random receipts with retries, conflicts,
//! late and future ones, refusals and erasures, at changes of daylight saving and ends of months:
//! over the embedded engine, and over three shards on two ClickHouse servers.
//!
//! A failure prints the seed, the address and the difference. `RECEIPTS_EXACT_SEED=<seed>` runs
//! that one again, and `RECEIPTS_EXACT_SEEDS=<count>` draws more of them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod asking;
mod calendar;
mod lists;
mod live;
mod making;
mod model;
mod progress;
mod selecting;
mod series;
#[path = "../api/server.rs"]
mod server;
mod single;
mod totals;
mod trust;
mod world;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use test_engines::ClickHouse;
use tokio::task::block_in_place;
use warehouse::{EmbeddedEngine, Target, WarehouseConfig};

use crate::asking::{Expected, Question};
use crate::selecting::escaped;
use crate::world::{EmptyWarehouse, Reader, World};

/// Seeds of an ordinary run.
const SEEDS: [u64; 1] = [1];
const JSON: &str = "application/json";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_endpoint_agrees_with_a_plain_model() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("sock");
    let engine = EmbeddedEngine::start(&WarehouseConfig::default(), &dir.path().join("warehouse"), &socket)
        .await
        .unwrap();
    agrees(|name| EmptyWarehouse::embedded(&socket, name)).await;
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes of both cores: `make ci` runs it beside the drills"]
async fn every_endpoint_agrees_with_a_plain_model_over_shards() {
    let mut servers = block_in_place(|| ClickHouse::start(2).unwrap());
    agrees(|name| {
        let shards = [0, 1, 2].map(|number| (number % 2, format!("{name}_{number}")));
        let cluster = shards.each_ref().map(|(server, database)| (*server, database.as_str()));
        block_in_place(|| servers.set_cluster(name, &cluster).unwrap());
        let url = servers.url(0);
        let config = WarehouseConfig {
            url: Some(url.clone()),
            database: name.to_owned(),
            shards: shards
                .map(|(server, database)| format!("{}/{database}", servers.url(server)))
                .to_vec(),
            cluster: Some(name.to_owned()),
            rejected_days_max: 2_557,
            ..WarehouseConfig::default()
        };
        let target = Target::Url(url);
        EmptyWarehouse { target, config }
    })
    .await;
}

/// Asks while nothing changes, and then while receipts come in. `warehouse_at` makes an empty
/// warehouse of this name.
async fn agrees(mut warehouse_at: impl FnMut(&str) -> EmptyWarehouse) {
    for seed in seeds() {
        println!("seed {seed}");
        let warehouse_at = warehouse_at(&format!("exact_{seed}"));
        let done = tokio::spawn(async move { steps(&warehouse_at, seed).await }).await;
        assert!(done.is_ok(), "RECEIPTS_EXACT_SEED={seed} runs this one again");
    }
    let warehouse_at = warehouse_at(&format!("live_{}", SEEDS[0]));
    let done = tokio::spawn(async move { live::run(&warehouse_at, SEEDS[0]).await }).await;
    let answers = done.expect("answers while receipts come in");
    println!("{answers} answers while receipts came in");
}

fn seeds() -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    if let Some(seed) = number("RECEIPTS_EXACT_SEED") {
        return vec![seed];
    }
    let more = number("RECEIPTS_EXACT_SEEDS").unwrap_or(0);
    SEEDS
        .into_iter()
        .chain((0..more).map(|_| u64::from(rand::random::<u32>())))
        .collect()
}

/// Blocks, erasures and questions in turn.
async fn steps(warehouse_at: &EmptyWarehouse, seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut world = World::new(warehouse_at).await;
    for step in 0..10 {
        match rng.random_range(0..6) {
            0 if step > 3 => world.erase(&mut rng).await,
            _ => world.verify_a_block(&mut rng).await,
        }
        for kind in 0..Question::KINDS {
            ask(&mut rng, &world, kind).await;
        }
    }
    for number in 0..60 {
        ask(&mut rng, &world, number).await;
    }
    world.stop().await;
}

async fn ask(rng: &mut StdRng, world: &World, kind: usize) {
    let reader = &world.readers[rng.random_range(0..4_usize).saturating_sub(1)];
    let question = Question::any(kind, rng, &world.maker, reader);
    let (status, found) = answered(world, reader, &question).await;
    let expected = match question.expected(&world.view(reader), &found) {
        Expected::Ok(mut expected) => {
            expected["completeThrough"] = json!(world.complete_through());
            Expected::Ok(expected)
        }
        problem @ Expected::Problem(_) => problem,
    };
    let found = match status {
        200 => Expected::Ok(found),
        status => Expected::Problem(status),
    };
    let path = question.path();
    assert!(found == expected, "GET {path}\n{}", difference(&found, &expected));
}

/// The answer; of pages all of them as one.
async fn answered(world: &World, reader: &Reader, question: &Question) -> (u16, Value) {
    let path = question.path();
    let api = world.api();
    let first = api.get(reader, &path, JSON).await;
    let (status, mut found) = (first.status, first.json());
    let Some((member, limit)) = question.paged().filter(|_| status == 200) else {
        return (status, found);
    };
    let mut all = Vec::new();
    let mut page = found.clone();
    loop {
        let Some(Value::Array(items)) = page.get(member) else {
            panic!("GET {path}: no {member}: {page}");
        };
        all.extend(items.iter().cloned());
        let Some(cursor) = page["nextCursor"].as_str() else {
            break;
        };
        assert_eq!(items.len(), limit, "GET {path}: a page that isn't the last is full");
        let next = api
            .get(reader, &format!("{path}&cursor={}", escaped(cursor)), JSON)
            .await;
        assert_eq!(next.status, 200, "GET {path}, cursor {cursor}: {}", next.text());
        page = next.json();
        for total in ["totalContent", "totalClients", "totalModels", "totalOperators"] {
            assert_eq!(page[total], found[total], "GET {path}, a later page");
        }
    }
    found[member] = Value::Array(all);
    found.as_object_mut().unwrap().remove("nextCursor");
    (status, found)
}

/// Members that differ, or all.
fn difference(found: &Expected, expected: &Expected) -> String {
    let (Expected::Ok(Value::Object(found)), Expected::Ok(Value::Object(expected))) = (found, expected) else {
        return format!("found {found:?}\nexpected {expected:?}");
    };
    let names: std::collections::BTreeSet<_> = found.keys().chain(expected.keys()).collect();
    let differing = names.into_iter().filter(|name| found.get(*name) != expected.get(*name));
    let lines = differing.map(|name| {
        let text = |value: Option<&Value>| value.map_or("nothing".to_owned(), ToString::to_string);
        format!(
            "{name}:\n  found    {}\n  expected {}\n",
            text(found.get(name)),
            text(expected.get(name))
        )
    });
    lines.collect()
}
