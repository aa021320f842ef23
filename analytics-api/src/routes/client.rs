//! `GET /api/v1/analytics/clients/{clientId}`: activity under one client ID, by key.

use std::sync::Arc;

use accounts::Principal;
use axum::Extension;
use axum::extract::{Path, State};
use axum::response::Response;
use serde::Serialize;
use usage::ClientKeyUsage;
use utoipa::ToSchema;
use uuid::Uuid;
use web::openapi::ProblemBody;
use web::params::parse_uuid;
use web::{Failure, rfc3339_ms};

use super::summary::{self, SummaryRows};
use super::top;
use crate::answers::{ByTrust, ContentCount, PurposeCounts, Refusals, TotalsByTrust, labelled};
use crate::format::reply::Complete;
use crate::parameters::{DOMAIN, ENTRIES, MEMBERS, Query, RANGE, ROWS, TOP_LIMIT};
use crate::receipt_query::ReceiptQuery;
use crate::selection::everything;
use crate::signers::{Signer, Signers};
use crate::state::AnalyticsState;
use web::format::column::RowColumn;
use web::format::table::{Table, TableError, Tabular};

pub(crate) const PATH: &str = "/api/v1/analytics/clients/{clientId}";
pub(crate) const PARAMETERS: &[&[Query]] = &[RANGE, ENTRIES, MEMBERS, &[DOMAIN, TOP_LIMIT], ROWS];

/// Activity under a client ID. Anybody can use any ID, so each key that did is a client of its own.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClientActivity {
    #[schema(format = "uuid")]
    client_id: String,
    /// The clients with this ID, one for each key: those with the most receipts first, 100 at most.
    keys: Vec<ClientKey>,
    /// Number of all clients with this ID.
    unique_clients: u64,
    total_receipts: u64,
    unique_content: u64,
    usage_by_purpose: PurposeCounts,
    by_trust: TotalsByTrust,
    /// The entries that were used most.
    top_content: Vec<ContentCount>,
    /// The timestamp of the first receipt in the selection.
    #[schema(format = DateTime, required = true)]
    first_seen: Option<String>,
    /// That of the last.
    #[schema(format = DateTime, required = true)]
    last_seen: Option<String>,
    #[schema(format = DateTime, required = true)]
    from: Option<String>,
    #[schema(format = DateTime, required = true)]
    to: Option<String>,
}

/// A client: a key that signed with the ID.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ClientKey {
    /// As the key's newest receipt says.
    #[serde(flatten)]
    signer: Signer,
    /// As the key's newest receipt says.
    name: String,
    /// As the key's newest receipt says.
    organization: String,
    /// Versions that the key's receipts name, 100 at most.
    versions: Vec<String>,
    receipt_count: u64,
    by_trust: ByTrust,
    /// The timestamp of the key's last receipt in the selection.
    #[schema(format = DateTime)]
    last_seen: String,
}

impl ClientKey {
    fn new(client_id: Uuid, key: ClientKeyUsage, signers: &Signers<'_>) -> Self {
        Self {
            signer: signers.signer(client_id, &key.key_fingerprint, key.operator),
            name: key.name,
            organization: key.organization,
            versions: key.versions,
            receipt_count: key.by_trust.total(),
            by_trust: key.by_trust.into(),
            last_seen: rfc3339_ms(key.last_seen_ms),
        }
    }
}

impl Tabular for ClientActivity {
    fn columns(&self) -> Vec<RowColumn> {
        summary::columns(false)
    }

    fn rows(&self, table: &mut Table) -> Result<(), TableError> {
        let mut rows = SummaryRows::default();
        rows.total("totalReceipts", self.total_receipts, None);
        rows.total("uniqueClients", self.unique_clients, None);
        rows.total("uniqueContent", self.unique_content, None);
        rows.purposes(self.usage_by_purpose, None);
        rows.parts(&self.by_trust, None);
        for key in &self.keys {
            rows.key(&key.signer, &key.name, key.receipt_count);
        }
        rows.content(&self.top_content);
        rows.write(table)
    }
}

/// Get the activity under a client ID
///
/// By key, because anybody can use any ID: each key is a client with a name of its own.
/// 404 if no receipt of your domains names it; zeros if only the selection, `domain` included,
/// leaves nothing.
#[utoipa::path(
    get, path = PATH, tag = "analytics", security(("apiKey" = [])),
    params(("clientId" = String, Path, format = "uuid", description = "The client")),
    responses(
        (status = 200, description = "The activity", body = Complete<ClientActivity>),
        (status = 404, description = "There is no such client", body = ProblemBody, content_type = "application/problem+json"),
        Refusals,
    ),
)]
pub(crate) async fn client(
    State(app): State<Arc<AnalyticsState>>,
    Extension(principal): Extension<Arc<Principal>>,
    Path(client_id): Path<String>,
    ReceiptQuery {
        access,
        params,
        reply,
        scope,
        range,
        filter,
    }: ReceiptQuery,
) -> Result<Response, Failure> {
    let client_id = parse_uuid("clientId", &client_id)?;
    let top_max = top(&app, &params)?;
    let (completeness, stats) = app
        .ask(access.account_id(), async |snapshot| {
            let usage = snapshot.usage();
            let stats = usage.client(&scope, &filter, client_id, top_max).await?;
            if stats.total_receipts > 0 {
                return Ok(Some(stats));
            }
            // None in this selection; whether there is such a client at all takes a second look.
            let any = usage.client(&access.whole(), &everything(), client_id, 1).await?;
            Ok((any.total_receipts > 0).then_some(stats))
        })
        .await?;
    let stats = stats.ok_or_else(|| Failure::not_found("no verified receipt of your domains names this client"))?;
    let rows = stats.keys.iter().map(|key| (client_id, key.operator.as_str()));
    let signers = Signers::of(&app, access.trusted(), rows).await;
    let keys = stats.keys.into_iter();
    let (from, to) = range.texts();
    let answer = ClientActivity {
        client_id: client_id.to_string(),
        keys: keys.map(|key| ClientKey::new(client_id, key, &signers)).collect(),
        unique_clients: stats.unique_clients,
        total_receipts: stats.total_receipts,
        unique_content: stats.unique_content,
        usage_by_purpose: stats.usage_by_purpose.into(),
        by_trust: TotalsByTrust::new(stats.proven, stats.unproven),
        top_content: labelled(&app, &principal, stats.top_content).await,
        first_seen: stats.first_seen_ms.map(rfc3339_ms),
        last_seen: stats.last_seen_ms.map(rfc3339_ms),
        from,
        to,
    };
    Ok(reply.answer(answer, completeness))
}
