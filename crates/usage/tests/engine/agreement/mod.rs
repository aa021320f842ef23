//! Every query over the real engine against a plain count of the receipts in memory.

mod compare;
mod edges;
mod expected;
mod harness;
mod model;
mod question;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use self::compare::all_queries;
use self::model::{Model, PUBLISHERS};
use self::question::random_question;
use crate::engine::{fresh, run};

/// A seed of `USAGE_SEED`, or a random one; printed, so that a failure can be repeated.
fn rng() -> StdRng {
    let seed = std::env::var("USAGE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(rand::random::<u32>);
    println!("USAGE_SEED={seed}");
    StdRng::seed_from_u64(u64::from(seed))
}

#[test]
fn every_query_agrees_with_a_plain_count() {
    run(async {
        let mut rng = rng();
        let usage = fresh().await;
        let mut model = Model::default();
        for _ in 0..10 {
            model.batch(&mut rng, &usage).await;
        }
        for _ in 0..60 {
            let (scope, filter) = random_question(&mut rng, &model);
            all_queries(&mut rng, &model, &usage, &scope, &filter).await;
        }
    });
}

#[test]
fn every_query_agrees_between_batches_and_erasures() {
    run(async {
        let mut rng = rng();
        let usage = fresh().await;
        let mut model = Model::default();
        for step in 0..12 {
            model.batch(&mut rng, &usage).await;
            if step % 4 == 3 {
                model.erase(&usage, PUBLISHERS.choose(&mut rng).unwrap()).await;
            }
            if rng.random_bool(0.3) {
                let merge = warehouse::Call::new("OPTIMIZE TABLE usage FINAL");
                usage.warehouse().execute("test", merge).await.unwrap();
            }
            for _ in 0..4 {
                let (scope, filter) = random_question(&mut rng, &model);
                all_queries(&mut rng, &model, &usage, &scope, &filter).await;
            }
        }
    });
}
