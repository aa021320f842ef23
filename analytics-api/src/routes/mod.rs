//! The addresses, one file each.

pub(crate) mod client;
pub(crate) mod clients;
pub(crate) mod content;
pub(crate) mod dashboard;
pub(crate) mod entry;
pub(crate) mod evidence;
pub(crate) mod index;
pub(crate) mod models;
pub(crate) mod month;
pub(crate) mod operators;
pub(crate) mod outcomes;
pub(crate) mod purposes;
pub(crate) mod receipt;
pub(crate) mod receipts;
pub(crate) mod refusals;
pub(crate) mod sender_summary;
mod summary;
pub(crate) mod timeseries;

use std::sync::Arc;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::params::{InvalidQuery, Params};

use crate::live::route;
use crate::parameters::Query;
use crate::state::AnalyticsState;

/// Entries of a list when the query gives no `limit`.
const TOP: u32 = 10;

/// All addresses of numbers, which need an API key.
pub(crate) fn routes() -> OpenApiRouter<Arc<AnalyticsState>> {
    OpenApiRouter::new()
        .routes(routes!(dashboard::dashboard))
        .routes(routes!(timeseries::timeseries))
        .routes(routes!(content::content))
        .routes(routes!(entry::entry))
        .routes(routes!(clients::clients))
        .routes(routes!(client::client))
        .routes(routes!(purposes::purposes))
        .routes(routes!(models::models))
        .routes(routes!(operators::operators))
        .routes(routes!(refusals::refusals))
        .routes(routes!(receipts::receipts))
        .routes(routes!(evidence::evidence))
}

/// Addresses whose answers are streams alone.
pub(crate) fn of_streams() -> OpenApiRouter<Arc<AnalyticsState>> {
    route::routes().routes(routes!(month::month))
}

/// The address of a single receipt, which needs an API key or a sender's signature.
pub(crate) fn of_receipts() -> OpenApiRouter<Arc<AnalyticsState>> {
    OpenApiRouter::new().routes(routes!(receipt::receipt))
}

/// Addresses for senders, who sign their requests.
pub(crate) fn of_senders() -> OpenApiRouter<Arc<AnalyticsState>> {
    OpenApiRouter::new()
        .routes(routes!(outcomes::outcomes))
        .routes(routes!(sender_summary::sender_summary))
}

/// Parameters of the addresses for senders.
pub(crate) const SENDER_QUERIES: [(&str, &[&[Query]]); 2] = [
    (outcomes::PATH, outcomes::PARAMETERS),
    (sender_summary::PATH, sender_summary::PARAMETERS),
];

/// Parameters of the addresses whose answers are streams alone.
pub(crate) const STREAM_QUERIES: [(&str, &[&[Query]]); 2] =
    [(route::PATH, route::PARAMETERS), (month::PATH, month::PARAMETERS)];

/// Parameters of each address.
pub(crate) const QUERIES: [(&str, &[&[Query]]); 13] = [
    (dashboard::PATH, dashboard::PARAMETERS),
    (timeseries::PATH, timeseries::PARAMETERS),
    (content::PATH, content::PARAMETERS),
    (entry::PATH, entry::PARAMETERS),
    (clients::PATH, clients::PARAMETERS),
    (client::PATH, client::PARAMETERS),
    (purposes::PATH, purposes::PARAMETERS),
    (models::PATH, models::PARAMETERS),
    (operators::PATH, operators::PARAMETERS),
    (refusals::PATH, refusals::PARAMETERS),
    (receipts::PATH, receipts::PARAMETERS),
    (receipt::PATH, receipt::PARAMETERS),
    (evidence::PATH, evidence::PARAMETERS),
];

/// Parameters of the address `path`, none if it takes none.
pub(crate) fn parameters_of(path: &str) -> &'static [&'static [Query]] {
    let mut all = QUERIES.into_iter().chain(SENDER_QUERIES).chain(STREAM_QUERIES);
    all.find(|(queried, _)| *queried == path)
        .map_or(&[], |(_, parameters)| parameters)
}

/// Length of a list.
fn top(app: &AnalyticsState, params: &Params) -> Result<u32, InvalidQuery> {
    let max = app.config.top_max;
    Ok(params.count("limit", max)?.unwrap_or(TOP.min(max)))
}
