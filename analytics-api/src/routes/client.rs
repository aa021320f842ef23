//! `GET /api/v1/analytics/clients/{clientId}`: one client's activity.

use std::sync::Arc;

use accounts::Principal;
use axum::Extension;
use axum::extract::{Path, State};
use axum::response::Response;
use http::{HeaderMap, Uri};
use serde::Serialize;
use usage::ClientKeyUsage;
use utoipa::ToSchema;
use web::openapi::ProblemBody;
use web::params::parse_uuid;
use web::{Failure, rfc3339_ms};

use super::summary::{self, SummaryRows};
use super::top;
use crate::access::Access;
use crate::answers::{ByTrust, ContentCount, PurposeCounts, Refusals, Signer, TotalsByTrust, labelled};
use crate::format::reply::{Complete, Reply};
use crate::format::table::{Table, Tabular};
use crate::parameters::{
    self, BEFORE_VERIFICATION, BOM, DOMAIN, ENTRY, FROM, KEY, MODEL, OPERATOR, PURPOSE, Query, TO, TOP_LIMIT, TRUST, TZ,
};
use crate::selection::{OpenRange, everything, filter};
use crate::state::AnalyticsState;

pub(crate) const PATH: &str = "/api/v1/analytics/clients/{clientId}";
pub(crate) const PARAMETERS: &[Query] = &[
    FROM,
    TO,
    TZ,
    PURPOSE,
    ENTRY,
    MODEL,
    TRUST,
    OPERATOR,
    KEY,
    BEFORE_VERIFICATION,
    DOMAIN,
    TOP_LIMIT,
    BOM,
];

/// Activity of a client.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClientActivity {
    #[schema(format = "uuid")]
    client_id: String,
    /// As its newest receipt in the selection says, a proven one if there are any: anybody can
    /// claim a client's ID.
    name: String,
    /// As the same receipt says.
    organization: String,
    /// The keys that signed its receipts, those with the most receipts first, 100 at most.
    keys: Vec<ClientKey>,
    /// Versions that its receipts name, 100 at most.
    versions: Vec<String>,
    total_receipts: u64,
    unique_content: u64,
    usage_by_purpose: PurposeCounts,
    by_trust: TotalsByTrust,
    /// The entries that it used most.
    top_content: Vec<ContentCount>,
    /// The timestamp of its first receipt in the selection.
    #[schema(format = DateTime, required = true)]
    first_seen: Option<String>,
    /// That of its last.
    #[schema(format = DateTime, required = true)]
    last_seen: Option<String>,
    #[schema(format = DateTime, required = true)]
    from: Option<String>,
    #[schema(format = DateTime, required = true)]
    to: Option<String>,
}

/// A key that signed a client's receipts.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ClientKey {
    /// As the key's newest receipt says.
    #[serde(flatten)]
    signer: Signer,
    receipt_count: u64,
    by_trust: ByTrust,
    /// The timestamp of the key's last receipt in the selection.
    #[schema(format = DateTime)]
    last_seen: String,
}

impl From<ClientKeyUsage> for ClientKey {
    fn from(key: ClientKeyUsage) -> Self {
        Self {
            signer: Signer::new(&key.key_fingerprint, key.operator),
            receipt_count: key.by_trust.total(),
            by_trust: key.by_trust.into(),
            last_seen: rfc3339_ms(key.last_seen_ms),
        }
    }
}

impl Tabular for ClientActivity {
    fn columns(&self) -> Vec<&'static str> {
        summary::columns(false)
    }

    fn rows(&self, table: &mut Table) {
        let mut rows = SummaryRows::new(table, false);
        rows.total("totalReceipts", self.total_receipts, None);
        rows.total("uniqueContent", self.unique_content, None);
        rows.purposes(self.usage_by_purpose, None);
        rows.parts(&self.by_trust, None);
        rows.content(&self.top_content);
    }
}

/// Get the activity of a client
///
/// 404 if no receipt of your domains names it; zeros if only the selection, `domain` included,
/// leaves nothing.
#[utoipa::path(
    get, path = PATH, tag = "analytics", security(("apiKey" = [])),
    params(("clientId" = String, Path, format = "uuid", description = "The client")),
    responses(
        (status = 200, description = "Its activity", content((Complete<ClientActivity> = "application/json"), (String = "text/csv"), (String = "application/x-ndjson"))),
        (status = 404, description = "There is no such client", body = ProblemBody, content_type = "application/problem+json"),
        Refusals,
    ),
)]
pub(crate) async fn client(
    State(app): State<Arc<AnalyticsState>>,
    access: Access,
    Extension(principal): Extension<Arc<Principal>>,
    Path(client_id): Path<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Failure> {
    let params = parameters::read(&uri, PARAMETERS)?;
    let reply = Reply::of(headers, &uri, &params)?;
    let client_id = parse_uuid("clientId", &client_id)?;
    let scope = access.scope(&params)?;
    let range = OpenRange::of(&params)?;
    let filter = filter(&params, range.start_ms(), range.end_ms())?;
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
    let (from, to) = range.texts();
    let answer = ClientActivity {
        client_id: client_id.to_string(),
        name: stats.name,
        organization: stats.organization,
        keys: stats.keys.into_iter().map(ClientKey::from).collect(),
        versions: stats.versions,
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
