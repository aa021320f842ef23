//! Live streams over the real embedded engine, with real clients: one engine a process, so one test
//! that runs every scenario on it.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod ending;
mod many;
mod resuming;
mod stream;
mod world;

use std::sync::Arc;

use crate::world::World;

/// Runs each scenario; all of them, also after one failed, and none beside another.
macro_rules! run {
    ($world:expr, $failed:expr, $($module:ident::$scenario:ident,)*) => {
        $(
            let world = Arc::clone(&$world);
            let done = tokio::spawn(async move { $module::$scenario(&world).await }).await;
            let outcome = if done.is_ok() { "ok" } else { "FAILED" };
            println!("scenario {}::{} ... {outcome}", stringify!($module), stringify!($scenario));
            if done.is_err() {
                $failed.push(concat!(stringify!($module), "::", stringify!($scenario)));
            }
        )*
    };
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn live_streams_over_the_real_engine() {
    http_server::listen::lift_open_files();
    let (world, engine) = World::start().await;
    let world = Arc::new(world);
    let mut failed: Vec<&str> = Vec::new();
    run!(
        world,
        failed,
        many::two_thousand_listeners_share_one_question,
        many::publishers_never_see_each_others,
        many::a_slow_reader_is_told_what_it_missed,
        many::streams_are_bounded,
        resuming::every_receipt_once_over_any_number_of_cuts,
        resuming::a_process_that_is_behind_repeats_nothing,
        resuming::too_much_to_tell_is_said,
        resuming::texts_that_are_too_long_are_left_out,
        resuming::ids_that_are_none,
        ending::a_revoked_key_ends_its_streams,
        ending::a_shutdown_ends_streams_in_time,
        ending::the_days_totals_turn_with_the_day,
    );
    let world = Arc::into_inner(world).expect("every scenario has ended");
    world.accounts.close().await;
    engine.stop().await;
    assert!(failed.is_empty(), "failed: {}", failed.join(", "));
}
