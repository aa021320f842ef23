//! Answers while receipts come in: each lies between what was committed at its request, which is at
//! least what its `completeThrough` promises, and what a writer had begun to insert by its arrival.
//! Counts only grow, as nothing is erased here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

use crate::JSON;
use crate::asking::{Expected, Group, Question, Series, View};
use crate::calendar::milliseconds;
use crate::making::{Maker, PARTITIONS};
use crate::model::Model;
use crate::world::{EmptyWarehouse, World, write_receipts, write_the_line, write_the_rest};

const BLOCKS: usize = 12;
const READERS: u64 = 2;
const PARTS: [&str; 2] = ["proven", "unproven"];

/// Model after each block, and the ends of the blocks.
struct History {
    models: Mutex<Vec<Arc<Model>>>,
    /// Watermark after each block.
    complete_ms: Mutex<Vec<i64>>,
    begun: AtomicUsize,
    committed: AtomicUsize,
    done: AtomicBool,
}

impl History {
    fn model(&self, number: usize) -> Arc<Model> {
        Arc::clone(&self.models.lock()[number])
    }
}

/// Runs one history. Returns the number of answers.
pub(crate) async fn run(warehouse_at: &EmptyWarehouse, seed: u64) -> usize {
    let mut world = World::new(warehouse_at).await;
    let history = History {
        models: Mutex::new(vec![Arc::new(Model::default())]),
        complete_ms: Mutex::new(vec![0]),
        begun: AtomicUsize::new(0),
        committed: AtomicUsize::new(0),
        done: AtomicBool::new(false),
    };
    let readers = (1..=READERS).map(|number| read(&world, &history, seed ^ number << 32));
    let (answers, ()) = tokio::join!(futures_util::future::join_all(readers), write(&world, &history, seed));
    let last = history.model(BLOCKS);
    world.model = Model::clone(&last);
    let mut rng = StdRng::seed_from_u64(seed);
    for kind in 0..Question::KINDS * 2 {
        crate::ask(&mut rng, &world, kind).await;
    }
    world.stop().await;
    answers.iter().sum()
}

async fn write(world: &World, history: &History, seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut maker = Maker::new(jiff::Timestamp::now().as_millisecond());
    for number in 1..=BLOCKS {
        let partition = rng.random_range(0..PARTITIONS);
        let block = maker.block(&mut rng, partition, world.progress.next_offset(partition));
        let mut model = Model::clone(&history.model(number - 1));
        block.add_to(&mut model);
        history.models.lock().push(Arc::new(model));
        history.begun.store(number, Ordering::SeqCst);
        let half = rng.random_range(0..=block.accepted.len());
        write_receipts(&world.warehouse, &block.accepted[..half]).await;
        tokio::join!(
            write_receipts(&world.warehouse, &block.accepted[half..]),
            write_the_rest(&world.warehouse, &block)
        );
        history.complete_ms.lock().push(block.line.committed_at_ms);
        write_the_line(&world.warehouse, &block).await;
        world.progress.publish(&block.line);
        world
            .progress
            .complete_ms
            .store(block.line.committed_at_ms, Ordering::SeqCst);
        history.committed.store(number, Ordering::SeqCst);
    }
    history.done.store(true, Ordering::SeqCst);
}

/// Asks until all is written; how often.
async fn read(world: &World, history: &History, seed: u64) -> usize {
    let mut rng = StdRng::seed_from_u64(seed);
    let maker = Maker::new(jiff::Timestamp::now().as_millisecond());
    let mut asked = 0;
    while !history.done.load(Ordering::SeqCst) {
        let reader = &world.readers[rng.random_range(0..4_usize).saturating_sub(1)];
        let Some(question) = countable(&mut rng, &maker, reader) else {
            continue;
        };
        let committed = history.committed.load(Ordering::SeqCst);
        let path = question.path();
        let answer = world.api().get(reader, &path, JSON).await;
        let begun = history.begun.load(Ordering::SeqCst);
        let found = answer.json();
        let of = |model: &Model| {
            let view = View {
                model,
                ..world.view(reader)
            };
            question.expected(&view, &found)
        };
        let (Expected::Ok(low), Expected::Ok(high)) = (of(&history.model(committed)), of(&history.model(begun))) else {
            assert_ne!(answer.status, 200, "GET {path}");
            continue;
        };
        assert_eq!(answer.status, 200, "GET {path}: {found}");
        let complete_ms = milliseconds(found["completeThrough"].as_str().unwrap());
        let promised = history.complete_ms.lock().iter().rposition(|ms| *ms <= complete_ms);
        assert!(promised.unwrap_or(0) >= committed, "GET {path}: a stale watermark");
        let promised = of(&history.model(promised.unwrap_or(0)));
        if let Expected::Ok(promised) = promised {
            between(&path, &promised, &found, &high);
        }
        between(&path, &low, &found, &high);
        asked += 1;
    }
    asked
}

/// A question whose counts can only grow.
fn countable(rng: &mut StdRng, maker: &Maker, reader: &crate::world::Reader) -> Option<Question> {
    let kind = rng.random_range(0..Question::KINDS);
    match Question::any(kind, rng, maker, reader) {
        Question::Dashboard(selection, limit, _) => Some(Question::Dashboard(selection, limit, None)),
        Question::Timeseries(series) if series.selection.from.is_some() && series.selection.to.is_some() => {
            Some(Question::Timeseries(Series {
                groups: series
                    .groups
                    .first()
                    .map(|_| (Group::Purpose, "purpose"))
                    .into_iter()
                    .collect(),
                compared: None,
                ..series
            }))
        }
        question @ Question::Purposes(_) => Some(question),
        _ => None,
    }
}

/// Every count by what it is of.
fn counts(answer: &Value) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let mut tell = |name: String, value: &Value| {
        if let Some(count) = value.as_u64() {
            found.insert(name, count);
        }
    };
    for name in ["totalReceipts", "uniqueClients"] {
        tell(name.to_owned(), &answer[name]);
    }
    for (purpose, count) in answer["usageByPurpose"].as_object().into_iter().flatten() {
        tell(purpose.clone(), count);
    }
    for part in PARTS {
        let totals = &answer["byTrust"][part];
        for name in ["totalReceipts", "uniqueClients"] {
            tell(format!("{part} {name}"), &totals[name]);
        }
        for (purpose, count) in totals["usageByPurpose"].as_object().into_iter().flatten() {
            tell(format!("{part} {purpose}"), count);
        }
    }
    for one in answer["purposes"].as_array().into_iter().flatten() {
        tell(one["purpose"].to_string(), &one["receiptCount"]);
        tell(format!("clients {}", one["purpose"]), &one["uniqueClients"]);
        for part in PARTS {
            tell(format!("{part} {}", one["purpose"]), &one["byTrust"][part]);
        }
    }
    for point in answer["points"].as_array().into_iter().flatten() {
        tell(point["start"].to_string(), &point["value"]);
        for part in PARTS {
            tell(format!("{part} {}", point["start"]), &point["byTrust"][part]);
        }
    }
    for one in answer["series"].as_array().into_iter().flatten() {
        for point in one["points"].as_array().into_iter().flatten() {
            let name = format!("{} {} {}", one["key"], one["keyFingerprint"], point["start"]);
            for part in PARTS {
                tell(format!("{part} {name}"), &point["byTrust"][part]);
            }
            tell(name, &point["value"]);
        }
    }
    found
}

fn between(path: &str, low: &Value, found: &Value, high: &Value) {
    let (low, found, high) = (counts(low), counts(found), counts(high));
    assert!(
        !found.is_empty() && found.keys().eq(high.keys()),
        "GET {path}: {found:?}"
    );
    for (name, count) in &found {
        assert!(
            low[name] <= *count && *count <= high[name],
            "GET {path}: {name} is {count}, must be from {} to {}",
            low[name],
            high[name]
        );
    }
}
