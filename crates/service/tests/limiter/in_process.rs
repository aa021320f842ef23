//! The limiter of one process.

use std::sync::Arc;

use service::rate_limit::InProcessLimiter;

use crate::{Clock, Replicas, model, suite};

fn alone() -> Replicas {
    let clock = Clock::at_noon();
    Replicas {
        limiters: vec![Arc::new(InProcessLimiter::with_clock(100_000, clock.reader()))],
        clock,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_suite_holds() {
    suite::run(&alone()).await;
}

#[test]
fn it_is_as_the_model_says() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    model::check(runtime.handle(), &alone(), 256);
}
