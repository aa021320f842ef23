//! `/api/v1/publisher/erasures`: what is to go, how far it is, and the way back
//! until it begins.

use std::collections::BTreeMap;
use std::sync::Arc;

use accounts::{
    CancelledErasure, ERASURE_ENTRIES_MAX, ERASURES_OPEN_MAX, ErasedEntries, Erasure, ErasureState, NewErasure, Person,
    PersonKind, Principal, RequestedErasure,
};
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use http::{StatusCode, Uri, header};
use serde::{Deserialize, Serialize};
use service::problem::{Kind, Problem};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::params::{Params, parse_uuid};
use web::{Failure, JsonBody, rfc3339_ms};

use super::key_domains;
use super::paging::cursor;
use crate::state::PublisherState;
use web::openapi::{BodyRefusals, ProblemBody, Refusals};

const PATH: &str = "/api/v1/publisher/erasures";
const HOUR_MS: i64 = 60 * 60 * 1_000;
/// Erasures of a page, and the most of them.
const PAGE: u32 = 50;
const PAGE_MAX: u32 = 100;
/// The longest identifier of a person whose receipts are erased, in bytes.
const PERSON_ID_BYTES_MAX: usize = 4_096;

pub(crate) fn routes() -> OpenApiRouter<Arc<PublisherState>> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(erasure))
}

/// Addresses that need the scope `erase`.
pub(crate) fn erasing() -> OpenApiRouter<Arc<PublisherState>> {
    OpenApiRouter::new().routes(routes!(request)).routes(routes!(cancel))
}

/// Request for an erasure. At least one member.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ErasureRequest {
    /// Only these entries; those that aren't yours are passed over.
    #[serde(default)]
    #[schema(required = false, max_items = 1000, format = "uuid")]
    entry_ids: Vec<String>,
    /// All entries.
    #[serde(default)]
    #[schema(required = false)]
    all_entries: bool,
    /// Names and e-mail addresses of users, and the labels of API keys. The account works on.
    #[serde(default)]
    #[schema(required = false)]
    personal_data: bool,
    /// Data that identify who used your content, in all receipts until now: client, key, context,
    /// session and researcher, and of rejected ones their bytes and addresses. The receipts
    /// continue to be counted, under the client id of zeros.
    #[serde(default)]
    #[schema(required = false)]
    receipt_client_metadata: bool,
    /// Data that name this person (context, query, session, study and researcher), in all receipts
    /// until now with this `usage.researcherId`, and their exact bytes. Clients stay. Of rejected
    /// receipts that have it as a string, as of `receiptClientMetadata`.
    #[schema(required = false, min_length = 1, max_length = 4096)]
    researcher_id: Option<String>,
    /// As `researcherId`, by `usage.sessionId`.
    #[schema(required = false, min_length = 1, max_length = 4096)]
    session_id: Option<String>,
}

/// An erasure.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ErasureBody {
    /// `era_...`.
    erasure_id: String,
    state: StateWord,
    /// Parts of the request: `all entries, personal data`.
    summary: String,
    #[schema(format = DateTime)]
    requested_at: String,
    /// When it begins. Until then nothing is erased, and it can be cancelled.
    #[schema(format = DateTime)]
    execute_at: String,
    #[schema(format = DateTime)]
    cancelled_at: Option<String>,
    /// Requester: `key:<keyId>`.
    requested_by: String,
    /// Rows erased so far, by table.
    erased: BTreeMap<String, u64>,
    /// Problem that delays the erasure; it is tried again by itself.
    problem: Option<String>,
    #[schema(format = DateTime)]
    finished_at: Option<String>,
}

/// A page of erasures.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ErasuresBody {
    erasures: Vec<ErasureBody>,
    /// To be handed back as `cursor` for the next page; null after the last.
    next_cursor: Option<String>,
}

/// State of an erasure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
enum StateWord {
    /// Requested: nothing is erased before `executeAt`, and it can be cancelled.
    Scheduled,
    /// Cancelled before it began: nothing was erased.
    Cancelled,
    /// Under way.
    Running,
    /// All is gone, which a query over what is stored has confirmed.
    Done,
}

/// Ask for an erasure
///
/// By a key with the scope `erase`. It begins 24 hours later, unless the operator has set another
/// time, and can be cancelled until then; nothing is erased before. Then entries and names are gone
/// permanently. The account gets a mail when an erasure is requested, cancelled and done.
#[utoipa::path(
    post, path = PATH, tag = "data", security(("apiKey" = [])), request_body = ErasureRequest,
    responses(
        (status = 202, description = "It will be done, unless it is cancelled", body = ErasureBody, headers(("Location" = String, description = "Where to look at it"))),
        (status = 409, description = "Too many erasures of yours aren't done", body = ProblemBody, content_type = "application/problem+json"),
        Refusals, BodyRefusals,
    ),
)]
async fn request(
    State(app): State<Arc<PublisherState>>,
    Extension(principal): Extension<Arc<Principal>>,
    JsonBody(body): JsonBody<ErasureRequest>,
) -> Result<Response, Failure> {
    let request = stored_request(body, &principal)?;
    own_domains(&app, &principal, &request).await?;
    let actor = principal.actor.to_string();
    let accounts = &app.deps.accounts;
    let delay_ms = i64::from(app.config.erasure_delay_hours) * HOUR_MS;
    match accounts
        .request_erasure(&principal.account_id, &actor, request, delay_ms)
        .await?
    {
        RequestedErasure::TooMany => {
            let detail = format!(
                "{ERASURES_OPEN_MAX} erasures of this account aren't done or were requested within 24 hours: wait"
            );
            Err(Failure::new(Kind::TooManyErasures, detail))
        }
        RequestedErasure::Gone => {
            let detail = "your account has just been erased";
            Err(Failure::new(Kind::InvalidApiKey, detail))
        }
        RequestedErasure::Taken(erasure) => {
            app.erasures_wanted.notify_one();
            let location = format!("{PATH}/{}", erasure.id);
            Ok((
                StatusCode::ACCEPTED,
                [(header::LOCATION, location)],
                Json(ErasureBody::from(*erasure)),
            )
                .into_response())
        }
    }
}

/// Cancel an erasure
///
/// By a key with the scope `erase`, until it begins at `executeAt`. Nothing was erased then.
/// Cancelling one that was cancelled before changes nothing.
#[utoipa::path(
    delete, path = "/api/v1/publisher/erasures/{id}", tag = "data", security(("apiKey" = [])),
    params(("id" = String, Path, description = "The erasureId")),
    responses(
        (status = 200, description = "It is cancelled", body = ErasureBody),
        (status = 404, description = "You have no such erasure", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "It has begun, or is done", body = ProblemBody, content_type = "application/problem+json"),
        Refusals,
    ),
)]
async fn cancel(
    State(app): State<Arc<PublisherState>>,
    Extension(principal): Extension<Arc<Principal>>,
    Path(id): Path<String>,
) -> Result<Json<ErasureBody>, Failure> {
    let id = own_erasure(&app, &principal, id).await?.id;
    let actor = principal.actor.to_string();
    let accounts = &app.deps.accounts;
    match accounts.cancel_erasure(&principal.account_id, &id, &actor).await? {
        CancelledErasure::Cancelled(erasure) => Ok(Json(ErasureBody::from(*erasure))),
        CancelledErasure::Begun => {
            let detail =
                format!("the erasure has begun and can't be cancelled any more: GET {PATH}/{id} shows how far it is");
            Err(Failure::new(Kind::ErasureBegun, detail))
        }
        CancelledErasure::Unknown => Err(unknown()),
    }
}

/// Erasures
///
/// Newest first. A key that is limited to some domains sees those that it requested.
#[utoipa::path(
    get, path = PATH, tag = "data", security(("apiKey" = [])),
    params(
        ("limit" = Option<u32>, Query, description = "Erasures of a page; 50 if it isn't given", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "The nextCursor of the page before", max_length = 120),
    ),
    responses((status = 200, description = "A page", body = ErasuresBody), Refusals),
)]
async fn list(
    State(app): State<Arc<PublisherState>>,
    Extension(principal): Extension<Arc<Principal>>,
    uri: Uri,
) -> Result<Json<ErasuresBody>, Failure> {
    let params = Params::parse(&uri, &["limit", "cursor"])?;
    let limit = params.count("limit", PAGE_MAX)?.unwrap_or(PAGE);
    let after = cursor(&params)?;
    let actor = principal.limit.as_ref().map(|_| principal.actor.to_string());
    let accounts = &app.deps.accounts;
    let page = accounts
        .erasures_page(&principal.account_id, actor.as_deref(), after.as_ref(), limit as usize)
        .await?;
    Ok(Json(ErasuresBody {
        erasures: page.items.into_iter().map(ErasureBody::from).collect(),
        next_cursor: page.next.map(|next| next.to_string()),
    }))
}

/// An erasure
#[utoipa::path(
    get, path = "/api/v1/publisher/erasures/{id}", tag = "data", security(("apiKey" = [])),
    params(("id" = String, Path, description = "The erasureId")),
    responses(
        (status = 200, description = "How far it is", body = ErasureBody),
        (status = 404, description = "You have no such erasure", body = ProblemBody, content_type = "application/problem+json"),
        Refusals,
    ),
)]
async fn erasure(
    State(app): State<Arc<PublisherState>>,
    Extension(principal): Extension<Arc<Principal>>,
    Path(id): Path<String>,
) -> Result<Json<ErasureBody>, Failure> {
    Ok(Json(own_erasure(&app, &principal, id).await?.into()))
}

/// An erasure of the principal's account. A limited key sees its own: another's may be about other
/// domains.
async fn own_erasure(app: &PublisherState, principal: &Principal, id: String) -> Result<Erasure, Failure> {
    // Any other text names none, and the database needn't be queried for it.
    if id.len() > 64 || !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Err(unknown());
    }
    let erasure = app.deps.accounts.erasure(&principal.account_id, &id).await?;
    let is_own = |erasure: &Erasure| principal.limit.is_none() || erasure.actor == principal.actor.to_string();
    erasure.filter(is_own).ok_or_else(unknown)
}

fn unknown() -> Failure {
    Failure::not_found("you have no such erasure")
}

/// Checks that a limited key erases nothing beyond its domains. Metadata of receipts is that of the
/// domains which the principal speaks for.
async fn own_domains(app: &PublisherState, principal: &Principal, request: &NewErasure) -> Result<(), Failure> {
    if request.personal_data {
        key_domains::allow_account(principal, "personalData erases from")?;
    }
    match &request.entries {
        ErasedEntries::All => key_domains::allow_account(principal, "allEntries erases from"),
        ErasedEntries::These(ids) if principal.limit.is_some() => {
            for id in ids {
                let entry = app.deps.accounts.entry(&principal.account_id, *id).await?;
                // Entries of other domains are as unknown to the key as those that don't exist.
                if !entry.is_some_and(|entry| principal.may_act_on(&entry.domain)) {
                    let detail = format!("this API key's domains have no entry {id}; leave it out of entryIds");
                    return Err(Failure::not_found(detail));
                }
            }
            Ok(())
        }
        ErasedEntries::These(_) | ErasedEntries::None => Ok(()),
    }
}

fn stored_request(body: ErasureRequest, principal: &Principal) -> Result<NewErasure, Failure> {
    let refused = |pointer: &str, code: &str, detail: String| -> Failure {
        let problem = Problem::new(Kind::InvalidBody, format!("the erasure can't be taken: {detail}"));
        problem.fault(pointer, code, detail).into()
    };
    if body.entry_ids.len() > ERASURE_ENTRIES_MAX {
        let detail = format!("at most {ERASURE_ENTRIES_MAX} entries at a time; allEntries takes any number");
        return Err(refused("/entryIds", "too_many", detail));
    }
    let mut ids = Vec::with_capacity(body.entry_ids.len());
    for (at, id) in body.entry_ids.iter().enumerate() {
        let id = parse_uuid("entryIds", id);
        ids.push(id.map_err(|error| refused(&format!("/entryIds/{at}"), "invalid_uuid", error.detail))?);
    }
    let entries = match (body.all_entries, ids.is_empty()) {
        (true, true) => ErasedEntries::All,
        (false, true) => ErasedEntries::None,
        (false, false) => ErasedEntries::These(ids),
        (true, false) => {
            let detail = "allEntries goes without entryIds".to_owned();
            return Err(refused("/allEntries", "contradiction", detail));
        }
    };
    let person = person(body.researcher_id, body.session_id, body.receipt_client_metadata)
        .map_err(|(pointer, code, detail)| refused(pointer, code, detail))?;
    let of_receipts = body.receipt_client_metadata || person.is_some();
    if entries == ErasedEntries::None && !body.personal_data && !of_receipts {
        let detail = "name what is to be erased: entryIds, allEntries, personalData, receiptClientMetadata, \
            researcherId or sessionId";
        return Err(refused("", "nothing_named", detail.to_owned()));
    }
    if of_receipts && principal.domains.is_empty() {
        let detail = "your account has no verified domain, so no receipts are known to be its";
        return Err(Failure::new(Kind::NoVerifiedDomain, detail));
    }
    Ok(NewErasure {
        entries,
        personal_data: body.personal_data,
        receipt_metadata: of_receipts.then(|| principal.coverage()),
        person,
    })
}

/// The person whose receipts are to be erased; or the pointer, code and detail of what is wrong.
fn person(
    researcher_id: Option<String>,
    session_id: Option<String>,
    with_clients: bool,
) -> Result<Option<Person>, (&'static str, &'static str, String)> {
    let (kind, id, pointer) = match (researcher_id, session_id) {
        (None, None) => return Ok(None),
        (Some(id), None) => (PersonKind::Researcher, id, "/researcherId"),
        (None, Some(id)) => (PersonKind::Session, id, "/sessionId"),
        (Some(_), Some(_)) => {
            let detail = "one erasure is of a researcherId or of a sessionId: request two";
            return Err(("/sessionId", "contradiction", detail.to_owned()));
        }
    };
    if with_clients {
        let detail = format!(
            "receiptClientMetadata erases every person: it goes without {}",
            &pointer[1..]
        );
        return Err((pointer, "contradiction", detail));
    }
    if id.is_empty() || id.len() > PERSON_ID_BYTES_MAX {
        let detail = format!("must have 1 to {PERSON_ID_BYTES_MAX} bytes");
        return Err((pointer, "invalid_member", detail));
    }
    Ok(Some(Person { kind, id }))
}

impl From<Erasure> for ErasureBody {
    fn from(erasure: Erasure) -> Self {
        Self {
            summary: erasure.request.summary(),
            erasure_id: erasure.id,
            state: match erasure.state {
                ErasureState::Scheduled => StateWord::Scheduled,
                ErasureState::Cancelled => StateWord::Cancelled,
                ErasureState::Store | ErasureState::Warehouse => StateWord::Running,
                ErasureState::Done | ErasureState::Settled => StateWord::Done,
            },
            requested_at: rfc3339_ms(erasure.requested_at_ms),
            execute_at: rfc3339_ms(erasure.execute_at_ms),
            cancelled_at: erasure.cancelled_at_ms.map(rfc3339_ms),
            requested_by: erasure.actor,
            erased: erasure.counts,
            problem: erasure.problem,
            finished_at: erasure.finished_at_ms.map(rfc3339_ms),
        }
    }
}
