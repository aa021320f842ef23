//! The analytics API over the real embedded engine.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod authorisation;
mod availability;
mod formats;
mod lists;
mod months;
mod numbers;
mod parquet;
mod progress;
mod queries;
mod reports;
mod rows;
mod sender;
mod server;
mod stack;
mod titles;
mod trust;

use std::process::ExitCode;

use test_engines::scenarios;

use crate::stack::Stack;

fn main() -> ExitCode {
    let scenarios = scenarios![
        Stack;
        numbers::default_series_end_with_the_current_interval,
        numbers::csv,
        numbers::counts_of_refusals,
        numbers::texts_of_receipts_may_have_nul,
        numbers::csv_beside_the_period_before,
        lists::receipts_as_a_stream,
        lists::a_stream_of_many_pages,
        lists::rankings_of_long_pages,
        lists::a_cursor_says_where_and_not_whose,
        lists::refusals_as_rows,
        trust::operators_and_keys_are_read_in_any_form,
        trust::bad_values,
        trust::rows,
        trust::strangers_payloads_hide_no_proven_one,
        trust::only_trusted_operators_are_proven,
        trust::claims_of_client_ids_flag_other_keys,
        months::files_add_up_and_equal_the_answers,
        months::evidence_verifies_with_openssl,
        months::who_may_not_read_receipts_gets_no_month,
        months::bad_months_and_too_many_at_a_time,
        months::an_archive_without_its_end_is_none,
        formats::every_endpoint_in_every_format,
        formats::formats_by_the_address,
        formats::pages_of_other_origins,
        formats::compressed_answers,
        formats::tags_and_revalidation,
        formats::heads,
        formats::words_of_strangers,
        formats::each_answer_has_an_example_that_fits_its_schema,
        formats::the_document,
        parquet::files_have_the_values_of_json,
        titles::entries_are_shown_by_their_own_titles,
        titles::an_account_store_that_fails_costs_only_the_titles,
        queries::documented_parameters,
        queries::invalid_queries,
        queries::addresses_and_methods,
        queries::request_ids_and_caching,
        queries::policies,
        queries::heads_over_the_limit,
        authorisation::keys,
        authorisation::sessions,
        authorisation::wrong_keys,
        authorisation::domains,
        authorisation::quotas,
        sender::outcomes,
        sender::deliveries_by_others,
        sender::receipts,
        sender::unlisted_rejections,
        sender::summary,
        sender::signatures,
        sender::quotas_by_key,
        sender::quotas_by_address,
        sender::authorities,
        sender::waiting,
        sender::waiting_ends_with_the_process,
        reports::mails_of_a_week_and_a_month_have_the_numbers_of_the_api,
        reports::a_new_operator_is_reported_once_to_whom_it_is_new,
        reports::a_day_above_the_limit_is_reported_once_after_one_that_was_not,
        reports::a_silence_is_reported_once_and_not_in_an_outage,
        reports::what_fails_is_reported_by_the_next_round,
        reports::what_can_not_have_changed_is_not_queried_again,
        availability::watermark,
        availability::published_progress,
        availability::the_watermark_is_read_before_the_query,
        availability::warehouse_away,
        availability::accounts_away,
        availability::slow_warehouse,
        availability::requests_under_way_end_before_the_process,
        availability::silent_connections_are_closed,
        availability::h2c,
    ];
    scenarios::run(Stack::start, scenarios, Stack::stop)
}
