//! Quotas over two replicas of the API, one Redis and 200 clients at once.
//!
//! The limiters' clock is the test's: it is stopped while requests are counted, so no window
//! turns, and each scenario has a minute of its own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

mod outage;
#[path = "../api/progress.rs"]
mod progress;
mod replicas;
mod shared;

use std::process::ExitCode;

use test_engines::scenarios;

use crate::replicas::Replicas;

fn main() -> ExitCode {
    http_server::listen::lift_open_files();
    let scenarios = scenarios![
        Replicas;
        shared::exactly_the_quota_is_admitted_and_no_other_key_waits,
        shared::admitted_costs_add_up_to_the_quota,
        shared::keys_of_an_account_share_its_quota,
        outage::each_replica_holds_the_limit_by_itself_until_redis_is_back,
    ];
    scenarios::run(Replicas::start, scenarios, Replicas::stop)
}
