//! The analytics API over the real embedded engine.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod authorisation;
mod availability;
mod compared;
mod formats;
mod lists;
mod numbers;
mod progress;
mod queries;
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
        numbers::dashboard,
        numbers::dashboard_selections,
        numbers::timeseries_in_a_time_zone,
        numbers::every_interval_adds_up,
        numbers::grouped_series,
        numbers::default_series_end_with_the_current_interval,
        numbers::csv,
        numbers::content,
        numbers::clients,
        numbers::refusals,
        numbers::receipts,
        lists::content_clients_purposes_models,
        lists::receipts_page_by_page,
        lists::receipts_as_a_stream,
        lists::a_stream_of_many_pages,
        lists::refusals_page_by_page,
        lists::only_receipts_of_a_model,
        trust::filters,
        trust::operators_and_keys_are_read_in_any_form,
        trust::bad_values,
        trust::strangers_cannot_rename_a_client,
        trust::parts_add_up,
        trust::rows,
        trust::strangers_payloads_hide_no_proven_one,
        trust::only_trusted_operators_are_proven,
        trust::claims_of_client_ids_flag_other_keys,
        compared::dashboards,
        compared::series,
        compared::a_series_of_models,
        formats::every_endpoint_in_every_format,
        formats::compressed_answers,
        formats::tags_and_revalidation,
        formats::heads,
        formats::words_of_strangers,
        formats::the_document,
        titles::entries_are_shown_by_their_own_titles,
        titles::an_account_store_that_fails_costs_only_the_titles,
        queries::documented_parameters,
        queries::invalid_queries,
        queries::addresses_and_methods,
        queries::request_ids_and_caching,
        queries::policies,
        queries::heads_over_the_limit,
        authorisation::keys,
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
