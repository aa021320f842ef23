//! `GET /api/v1/analytics/receipts`: receipts, newest first; a page as JSON, or a stream of rows.

use std::sync::Arc;

use accounts::Principal;
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use service::problem::{Kind, Problem};
use utoipa::ToSchema;
use uuid::Uuid;
use warehouse::{ExportedReceipt, Filter, NewestCursor, QueryScope, WarehouseError};
use web::stream::BrokenOff;
use web::{Failure, rfc3339_ms};

use super::receipt::sha256;
use crate::answers::Refusals;
use crate::cursor::ListCursor;
use crate::format::reply::Complete;
use crate::labels::{Labelled, Labels};
use crate::parameters::{CLIENTS, CURSOR, DOMAIN, ENTRIES, MEMBERS, Query, RANGE, ROWS, ROWS_LIMIT};
use crate::receipt_query::ReceiptQuery;
use crate::signers::{Signer, Signers};
use crate::state::AnalyticsState;
use web::format::column::{RowColumn, flag, instant, integer, text};
use web::format::table::{RowFormat, Table, TableError};

pub(crate) const PATH: &str = "/api/v1/analytics/receipts";
pub(crate) const PARAMETERS: &[&[Query]] = &[RANGE, CLIENTS, ENTRIES, MEMBERS, &[DOMAIN, ROWS_LIMIT, CURSOR], ROWS];

/// Receipts of a page when the query gives no `limit`.
const PAGE: u32 = 100;
/// Receipts of a page at most, and of a piece of a stream.
const PAGE_MAX: u32 = 1_000;

/// A page of receipts, newest first.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReceiptList {
    receipts: Vec<ListedReceipt>,
    /// Begin of the next page; null if this is the last one.
    #[schema(required = true)]
    next_cursor: Option<String>,
    #[schema(format = DateTime, required = true)]
    from: Option<String>,
    #[schema(format = DateTime, required = true)]
    to: Option<String>,
}

/// A receipt. Members that it didn't state, or that an erasure has blanked, are null.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListedReceipt {
    #[schema(format = "uuid")]
    receipt_id: String,
    /// When the content was accessed, as the receipt says.
    #[schema(format = DateTime)]
    timestamp: String,
    /// When the gateway first took it.
    #[schema(format = DateTime)]
    received_at: String,
    publisher: String,
    #[schema(format = "uuid")]
    entry_id: String,
    /// The entry's title; where the account lists no such entry, the receipt's URL.
    title: String,
    /// The receipt's own.
    url: String,
    #[schema(format = "uuid", required = true)]
    client_id: Option<String>,
    #[schema(required = true)]
    client_name: Option<String>,
    #[schema(required = true)]
    client_version: Option<String>,
    #[schema(required = true)]
    organization: Option<String>,
    purpose: String,
    #[schema(required = true)]
    context: Option<String>,
    #[schema(required = true)]
    dataset_id: Option<String>,
    #[schema(required = true)]
    model_id: Option<String>,
    /// `sha256:` and the hash of its canonical bytes in hexadecimal.
    payload_hash: String,
    /// In how many places of the log it stands: 1, and one more for each duplicate.
    occurrences: u64,
    signature_algorithm: String,
    #[serde(flatten)]
    signer: Signer,
    /// Whether the receipt arrived before anybody had verified the publisher's domain. Totals
    /// exclude such receipts.
    before_verification: bool,
}

const COLUMNS: [RowColumn; 24] = [
    text("receiptId"),
    instant("timestamp"),
    instant("receivedAt"),
    text("publisher"),
    text("entryId"),
    text("title"),
    text("url"),
    text("clientId"),
    text("clientName"),
    text("clientVersion"),
    text("organization"),
    text("purpose"),
    text("context"),
    text("datasetId"),
    text("modelId"),
    text("payloadHash"),
    integer("occurrences"),
    text("signatureAlgorithm"),
    text("keyFingerprint"),
    text("operator"),
    text("trust"),
    text("clientIdClaimedBy"),
    flag("beforeVerification"),
    text("cursor"),
];

impl ListedReceipt {
    fn new(receipt: ExportedReceipt, labels: &Labels, signers: &Signers<'_>) -> Self {
        let stated = |text: String| Some(text).filter(|text| !text.is_empty());
        let Labelled { title, .. } = labels.of_entry(receipt.key.entry_id, receipt.url.clone());
        Self {
            receipt_id: receipt.key.receipt_id.to_string(),
            timestamp: rfc3339_ms(receipt.key.timestamp_ms),
            received_at: rfc3339_ms(receipt.received_at_ms),
            publisher: receipt.key.publisher,
            entry_id: receipt.key.entry_id.to_string(),
            title,
            url: receipt.url,
            client_id: Some(receipt.client_id)
                .filter(|id| !id.is_nil())
                .map(|id| id.to_string()),
            client_name: stated(receipt.client_name),
            client_version: stated(receipt.client_version),
            organization: stated(receipt.organization),
            purpose: receipt.purpose,
            context: stated(receipt.context),
            dataset_id: stated(receipt.dataset_id),
            model_id: stated(receipt.model_id),
            payload_hash: sha256(&receipt.key.payload_hash),
            occurrences: receipt.occurrences,
            signature_algorithm: receipt.algorithm,
            signer: signers.signer(receipt.client_id, &receipt.key_fingerprint, receipt.operator),
            before_verification: !receipt.publisher_verified,
        }
    }
}

/// Receipts with what the account of `principal` calls their entries.
pub(crate) async fn listed(
    app: &AnalyticsState,
    principal: &Principal,
    receipts: Vec<ExportedReceipt>,
) -> Vec<ListedReceipt> {
    let mut ids: Vec<Uuid> = receipts.iter().map(|receipt| receipt.key.entry_id).collect();
    ids.sort_unstable();
    ids.dedup();
    let labels = Labels::of(app, principal, &ids).await;
    let rows = receipts
        .iter()
        .map(|receipt| (receipt.client_id, receipt.operator.as_str()));
    let signers = Signers::of(app, &principal.trusted_operators, rows).await;
    let receipts = receipts.into_iter();
    receipts
        .map(|receipt| ListedReceipt::new(receipt, &labels, &signers))
        .collect()
}

/// Walk over the pages.
struct PageWalk {
    app: Arc<AnalyticsState>,
    principal: Arc<Principal>,
    scope: QueryScope,
    filter: Filter,
}

/// Some receipts, and the cursor behind the last of them if there are more.
struct Page {
    receipts: Vec<ExportedReceipt>,
    next: Option<NewestCursor>,
}

impl PageWalk {
    /// `rows` receipts behind `after`, or as many as there are.
    async fn page(&self, mut after: Option<NewestCursor>, rows: u32) -> Result<Page, WarehouseError> {
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        let mut receipts: Vec<ExportedReceipt> = Vec::new();
        // One more than wanted: the page says whether there are more.
        while receipts.len() <= rows {
            let missing = u32::try_from(rows + 1 - receipts.len()).unwrap_or(u32::MAX);
            let warehouse = self.app.warehouse();
            let found = warehouse
                .receipts_page(&self.scope, &self.filter, after.as_ref(), missing)
                .await?;
            let Some(last) = found.last() else { break };
            after = Some(NewestCursor::from(last));
            receipts.extend(found);
        }
        let more = receipts.len() > rows;
        receipts.truncate(rows);
        let next = receipts.last().filter(|_| more).map(NewestCursor::from);
        Ok(Page { receipts, next })
    }

    async fn listed(&self, receipts: Vec<ExportedReceipt>) -> Vec<ListedReceipt> {
        listed(&self.app, &self.principal, receipts).await
    }

    /// Writes the page's rows, and gives back where to continue.
    async fn write(&self, page: Page, table: &mut Table) -> Result<Option<NewestCursor>, BrokenOff> {
        let cursor = page.next.as_ref().map(ListCursor::to_text);
        let receipts = self.listed(page.receipts).await;
        let last = receipts.len().saturating_sub(1);
        for (at, receipt) in receipts.iter().enumerate() {
            let cursor = cursor.as_deref().filter(|_| at == last);
            table.row(receipt, &[("cursor", cursor)]).map_err(unwritable)?;
        }
        Ok(page.next)
    }

    /// Pages from the first, which was read already, until `rows` receipts or the end. A page that
    /// can't be had at once is waited for in its turn, like any other query.
    async fn produce(
        &self,
        form: RowFormat,
        first: Page,
        mut rows: u32,
        pieces: &web::stream::PieceWriter,
    ) -> Result<Vec<u8>, BrokenOff> {
        let mut table = Table::new(form, COLUMNS.to_vec()).map_err(unwritable)?;
        let mut page = first;
        loop {
            rows = rows.saturating_sub(u32::try_from(page.receipts.len()).unwrap_or(u32::MAX));
            let next = self.write(page, &mut table).await?;
            let Some(next) = next.filter(|_| rows > 0) else {
                return table.end().map_err(unwritable);
            };
            let written = table.take().map_err(unwritable)?;
            if !written.is_empty() {
                pieces.send(written).await?;
            }
            let asked = self.app.ask(&self.principal.account_id, async |_| {
                self.page(Some(next), rows.min(PAGE_MAX)).await
            });
            page = asked.await.map_err(|_| "an engine doesn't answer")?.1;
        }
    }
}

/// Receipts
///
/// Newest first by their own timestamp; each receipt once, however often it was sent. Pages are in
/// an order of what never changes: each receipt that stood there when the first page was requested
/// is in exactly one of them, whatever comes meanwhile.
///
/// As JSON a page of at most 1,000. As rows a stream: the last row of every 1,000,
/// and of the whole if there are more, has a `cursor`. A stream that broke off is gone on with by
/// the last cursor that arrived. It breaks off after ten minutes, or if nobody reads on for one; a
/// page that broke off is recognised by its missing end. A Parquet file has its end last: without
/// that it can't be read.
#[utoipa::path(
    get, path = PATH, tag = "analytics", security(("apiKey" = [])),
    responses(
        (status = 200, description = "The receipts", body = Complete<ReceiptList>),
        Refusals,
    ),
)]
pub(crate) async fn receipts(
    State(app): State<Arc<AnalyticsState>>,
    Extension(principal): Extension<Arc<Principal>>,
    ReceiptQuery {
        params,
        reply,
        scope,
        range,
        filter,
        ..
    }: ReceiptQuery,
) -> Result<Response, Failure> {
    let after = NewestCursor::read(&params)?;
    let rows_max = match reply.form() {
        None => PAGE_MAX,
        Some(_) => app.config.stream_rows_max,
    };
    let wanted = params.count("limit", rows_max)?;
    let permit = match reply.form() {
        None => None,
        Some(_) => Some(app.streams.take(&principal.account_id).map_err(too_many)?),
    };
    let walk = PageWalk {
        app: Arc::clone(&app),
        principal,
        scope,
        filter,
    };
    let rows = wanted.unwrap_or(if reply.form().is_some() { rows_max } else { PAGE });
    // The first page before the head is sent: an engine that is away is a 503, not a stream that
    // breaks off.
    let asked = app.ask(&walk.principal.account_id, async |_| {
        walk.page(after, rows.min(PAGE_MAX)).await
    });
    let (completeness, first) = asked.await?;
    let Some(form) = reply.form() else {
        let (from, to) = range.texts();
        let next_cursor = first.next.as_ref().map(ListCursor::to_text);
        let answer = ReceiptList {
            receipts: walk.listed(first.receipts).await,
            next_cursor,
            from,
            to,
        };
        return Ok(reply.object(answer, completeness));
    };
    let body = web::stream::body(|pieces| async move {
        let _permit = permit;
        walk.produce(form, first, rows, &pieces).await
    });
    Ok(reply.stream(body, &completeness))
}

fn unwritable(error: TableError) -> BrokenOff {
    tracing::error!(%error, "a receipt can't be written");
    "a receipt can't be written"
}

pub(super) fn too_many(own: bool) -> Failure {
    let (kind, detail) = if own {
        (
            Kind::RateLimited,
            "as many streams of your account as there may be are under way: read one to its end",
        )
    } else {
        (
            Kind::Overloaded,
            "as many streams as there may be are under way; try again",
        )
    };
    Problem::new(kind, detail).retry_after_s(5).into()
}
