//! The addresses, one file each.

pub(crate) mod client;
pub(crate) mod clients;
pub(crate) mod content;
pub(crate) mod dashboard;
pub(crate) mod entry;
pub(crate) mod evidence;
pub(crate) mod index;
pub(crate) mod models;
pub(crate) mod outcomes;
pub(crate) mod purposes;
pub(crate) mod receipt;
pub(crate) mod receipts;
pub(crate) mod refusals;
pub(crate) mod sender_summary;
mod summary;
pub(crate) mod timeseries;

use std::sync::Arc;

use accounts::Principal;
use serde::Serialize;
use usage::{TopClient, TopContent, UsageByPurpose};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;
use web::params::{InvalidQuery, Params};

use crate::app::App;
use crate::labels::{Labelled, Labels};
use crate::parameters::Query;
use crate::trust::{ByTrust, Signer};

/// Entries of a list when the query gives no `limit`.
const TOP: u32 = 10;

/// All addresses of numbers, which need an API key.
pub(crate) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(dashboard::dashboard))
        .routes(routes!(timeseries::timeseries))
        .routes(routes!(content::content))
        .routes(routes!(entry::entry))
        .routes(routes!(clients::clients))
        .routes(routes!(client::client))
        .routes(routes!(purposes::purposes))
        .routes(routes!(models::models))
        .routes(routes!(refusals::refusals))
        .routes(routes!(receipts::receipts))
        .routes(routes!(evidence::evidence))
}

/// The address of a single receipt, which needs an API key or a sender's signature.
pub(crate) fn of_receipts() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(receipt::receipt))
}

/// Addresses for senders, who sign their requests.
pub(crate) fn of_senders() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(outcomes::outcomes))
        .routes(routes!(sender_summary::sender_summary))
}

/// Parameters of the addresses for senders.
pub(crate) const SENDER_QUERIES: [(&str, &[Query]); 2] = [
    (outcomes::PATH, outcomes::PARAMETERS),
    (sender_summary::PATH, sender_summary::PARAMETERS),
];

/// Parameters of each address.
pub(crate) const QUERIES: [(&str, &[Query]); 12] = [
    (dashboard::PATH, dashboard::PARAMETERS),
    (timeseries::PATH, timeseries::PARAMETERS),
    (content::PATH, content::PARAMETERS),
    (entry::PATH, entry::PARAMETERS),
    (clients::PATH, clients::PARAMETERS),
    (client::PATH, client::PARAMETERS),
    (purposes::PATH, purposes::PARAMETERS),
    (models::PATH, models::PARAMETERS),
    (refusals::PATH, refusals::PARAMETERS),
    (receipts::PATH, receipts::PARAMETERS),
    (receipt::PATH, receipt::PARAMETERS),
    (evidence::PATH, evidence::PARAMETERS),
];

/// Length of a list.
fn top(app: &App, params: &Params) -> Result<u32, InvalidQuery> {
    let max = app.config.top_max;
    Ok(params.count("limit", max)?.unwrap_or(TOP.min(max)))
}

/// Receipts per purpose.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub(crate) struct PurposeCounts {
    training: u64,
    inference: u64,
    research: u64,
}

impl PurposeCounts {
    /// By name, in the order in which they are answered.
    fn named(self) -> [(&'static str, u64); 3] {
        [
            ("training", self.training),
            ("inference", self.inference),
            ("research", self.research),
        ]
    }
}

impl From<UsageByPurpose> for PurposeCounts {
    fn from(usage: UsageByPurpose) -> Self {
        Self {
            training: usage.training,
            inference: usage.inference,
            research: usage.research,
        }
    }
}

/// An entry and the number of its uses.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ContentCount {
    #[schema(format = "uuid")]
    entry_id: String,
    /// The entry's title; where the account lists no such entry, its URL.
    title: String,
    /// The entry's URL; where the account lists no such entry, the receipts'.
    url: String,
    receipt_count: u64,
    by_trust: ByTrust,
    /// Whether the account lists no such entry. Left out if that couldn't be told.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown_entry: Option<bool>,
}

/// A key of a client and its use.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ClientCount {
    #[schema(format = "uuid")]
    client_id: String,
    /// As the key's newest receipt says.
    #[serde(flatten)]
    signer: Signer,
    /// As the key's newest receipt says.
    name: String,
    /// As the key's newest receipt says.
    organization: String,
    receipt_count: u64,
    by_trust: ByTrust,
}

impl From<TopClient> for ClientCount {
    fn from(client: TopClient) -> Self {
        Self {
            client_id: client.client_id.to_string(),
            signer: Signer::new(&client.key_fingerprint, client.operator),
            name: client.name,
            organization: client.organization,
            receipt_count: client.receipt_count,
            by_trust: client.by_trust.into(),
        }
    }
}

/// `topContent`, with what the account of `principal` calls its entries.
async fn labelled(app: &App, principal: &Principal, top: Vec<TopContent>) -> Vec<ContentCount> {
    let ids: Vec<Uuid> = top.iter().map(|content| content.entry_id).collect();
    let labels = Labels::of(app, principal, &ids).await;
    let count = |content: TopContent| {
        let Labelled { url, title, unknown } = labels.of_entry(content.entry_id, content.url);
        ContentCount {
            entry_id: content.entry_id.to_string(),
            title,
            url,
            receipt_count: content.receipt_count,
            by_trust: content.by_trust.into(),
            unknown_entry: unknown,
        }
    };
    top.into_iter().map(count).collect()
}
