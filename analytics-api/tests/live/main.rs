//! Live streams over the real embedded engine, with real clients.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod ending;
mod many;
mod resuming;
#[path = "../api/server.rs"]
mod server;
mod stream;
mod world;

use std::process::ExitCode;

use test_engines::scenarios;

use crate::world::World;

fn main() -> ExitCode {
    http_server::listen::lift_open_files();
    let scenarios = scenarios![
        World;
        many::two_thousand_listeners_share_one_question,
        many::publishers_never_see_each_others,
        many::a_slow_reader_learns_what_it_missed,
        many::streams_are_bounded,
        resuming::every_receipt_once_over_any_number_of_cuts,
        resuming::a_process_that_is_behind_repeats_nothing,
        resuming::too_much_to_tell_is_said,
        resuming::texts_that_are_too_long_are_left_out,
        resuming::ids_that_are_none,
        ending::a_revoked_key_ends_its_streams,
        ending::a_sign_out_ends_its_streams_and_no_others,
        ending::a_shutdown_ends_streams_in_time,
        ending::the_days_totals_turn_with_the_day,
    ];
    scenarios::run(World::start, scenarios, World::stop)
}
