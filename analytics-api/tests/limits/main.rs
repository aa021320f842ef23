//! Quotas over two replicas of the API, one Redis and 200 clients at once. One engine a process, so
//! one test that runs every scenario on it.
//!
//! The limiters' clock is the test's: it is stopped while requests are counted, so no window
//! turns, and each scenario has a minute of its own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

mod outage;
#[path = "../api/progress.rs"]
mod progress;
mod replicas;
mod shared;

use crate::replicas::Replicas;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_replicas_admit_what_one_quota_allows() {
    http_server::listen::lift_open_files();
    let (replicas, engine) = Replicas::start().await;
    shared::exactly_the_quota_is_admitted_and_no_other_key_waits(&replicas).await;
    replicas.next_minute();
    shared::admitted_costs_add_up_to_the_quota(&replicas).await;
    replicas.next_minute();
    shared::keys_of_an_account_share_its_quota(&replicas).await;
    replicas.next_minute();
    outage::each_replica_holds_the_limit_by_itself(&replicas).await;
    outage::what_was_admitted_meanwhile_counts_when_redis_is_back(&replicas).await;
    replicas.next_minute();
    shared::exactly_the_quota_is_admitted_and_no_other_key_waits(&replicas).await;
    replicas.stop(engine).await;
}
