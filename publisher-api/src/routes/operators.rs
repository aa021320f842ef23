//! `/api/v1/operators`: AI operators of the account, their signing keys and their client IDs.
//!
//! Another account's operator is answered as one that doesn't exist. Adding needs a domain whose
//! verification holds; ending and releasing never do.

mod shape;

use std::sync::Arc;

use accounts::{Domain, KeySource, Operator, OperatorError, OperatorKey, Principal};
use axum::extract::{Path, Request, State};
use axum::{Extension, Json};
use http::StatusCode;
use http_signatures::DirectoryKey;
use service::problem::{Kind, Problem};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;
use web::openapi::{BodyRefusals, ProblemBody, Refusals};
use web::{Failure, JsonBody, json};

use self::shape::{
    NewOperatorBody, NewOperatorKeyBody, OperatorBody, OperatorDetailBody, OperatorKeyBody, OperatorsBody,
};
use super::key_domains;
use super::verification::take_looks;
use crate::operators::{operator_key, possession};
use crate::state::PublisherState;

pub(crate) fn routes() -> OpenApiRouter<Arc<PublisherState>> {
    OpenApiRouter::new()
        .routes(routes!(create, list))
        .routes(routes!(one))
        .routes(routes!(add_key))
        .routes(routes!(end_key))
        .routes(routes!(claim, release))
        .routes(routes!(fetch))
}

/// Become the operator of a domain
///
/// The account must have verified the domain. Its key directory is fetched from then on. An
/// operator that exists is answered.
#[utoipa::path(
    post, path = "/api/v1/operators", tag = "operators", security(("apiKey" = [])), request_body = NewOperatorBody,
    responses(
        (status = 200, description = "The operator", body = OperatorBody),
        (status = 409, description = "The account has 100 operators", body = ProblemBody, content_type = "application/problem+json"),
        Refusals, BodyRefusals,
    ),
)]
async fn create(
    State(app): State<Arc<PublisherState>>,
    Extension(principal): Extension<Arc<Principal>>,
    JsonBody(body): JsonBody<NewOperatorBody>,
) -> Result<Json<OperatorBody>, Failure> {
    let domain: Domain = body
        .domain
        .parse()
        .map_err(|error: accounts::DomainError| faulty("/domain", error.to_string()))?;
    let (accounts, actor) = (&app.deps.accounts, principal.actor.to_string());
    key_domains::allow(&principal, domain.as_str())?;
    let created = accounts.create_operator(&principal.account_id, &actor, &domain).await;
    Ok(Json(OperatorBody::from(&created.map_err(refusal)?)))
}

/// Your operators
///
/// By domain.
#[utoipa::path(
    get, path = "/api/v1/operators", tag = "operators", security(("apiKey" = [])),
    responses((status = 200, description = "All of them, 100 at most", body = OperatorsBody), Refusals),
)]
async fn list(
    State(app): State<Arc<PublisherState>>,
    Extension(principal): Extension<Arc<Principal>>,
) -> Result<Json<OperatorsBody>, Failure> {
    let mut operators = app.deps.accounts.operators(Some(&principal.account_id)).await?;
    operators.retain(|operator| principal.may_act_on(&operator.domain));
    Ok(Json(OperatorsBody {
        operators: operators.iter().map(OperatorBody::from).collect(),
    }))
}

/// An operator of yours
///
/// With the periods of its keys, up to 1,000, and the client IDs that it claims.
#[utoipa::path(
    get, path = "/api/v1/operators/{id}", tag = "operators", security(("apiKey" = [])),
    params(("id" = String, Path, description = "The operatorId")),
    responses(
        (status = 200, description = "The operator", body = OperatorDetailBody),
        (status = 404, description = "You have no such operator", body = ProblemBody, content_type = "application/problem+json"),
        Refusals,
    ),
)]
async fn one(
    State(app): State<Arc<PublisherState>>,
    Extension(principal): Extension<Arc<Principal>>,
    Path(id): Path<String>,
) -> Result<Json<OperatorDetailBody>, Failure> {
    let operator = find(&app, &principal, &id).await?;
    detail(&app, &operator).await
}

/// Register a signing key
///
/// The request proves possession: it carries a signature by this very key (RFC 9421) over
/// `"@method"`, `"@target-uri"` and `"content-digest"` (RFC 9530), with `created` and `expires` at
/// most 300 seconds apart. Receipts that arrive from now on and are signed with the key are the
/// operator's.
#[utoipa::path(
    post, path = "/api/v1/operators/{id}/keys", tag = "operators", security(("apiKey" = [])), request_body = NewOperatorKeyBody,
    params(
        ("id" = String, Path, description = "The operatorId"),
        ("Signature-Input" = String, Header, description = "What the signature covers, and when"),
        ("Signature" = String, Header, description = "The signature by the key"),
        ("Content-Digest" = String, Header, description = "SHA-256 or SHA-512 of the body"),
    ),
    responses(
        (status = 200, description = "The key, in its present period", body = OperatorKeyBody),
        (status = 404, description = "You have no such operator", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "Another operator has the key, or yours has 100 keys", body = ProblemBody, content_type = "application/problem+json"),
        Refusals, BodyRefusals,
    ),
)]
async fn add_key(
    State(app): State<Arc<PublisherState>>,
    Extension(principal): Extension<Arc<Principal>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Json<OperatorKeyBody>, Failure> {
    let operator = find_proven(&app, &principal, &id).await?;
    let (head, body) = request.into_parts();
    json::media(&head.headers, "application/json")?;
    let body = json::read(body, json::BYTES_MAX).await?;
    let accounts = &app.deps.accounts;
    let now_s = accounts.now_ms().div_euclid(1_000);
    let key = json::parse::<NewOperatorKeyBody>(&body)?.key(now_s)?;
    possession::check(&head, &body, &app.public_url, &key, now_s).map_err(|why| {
        let components = possession::COMPONENTS.map(|name| format!("\"{name}\"")).join(" ");
        let detail = format!("sign the request with the key over ({components}): {why}");
        Failure::new(Kind::KeyNotProven, detail)
    })?;
    let new = operator_key(&key, KeySource::Registered);
    let added = accounts
        .add_operator_key(&operator, &principal.actor.to_string(), &new)
        .await;
    added.map_err(refusal)?;
    let period = newest_period(&app, &operator, &key.thumbprint).await?;
    Ok(Json(OperatorKeyBody::from(&period)))
}

/// End the period of a key
///
/// Receipts that arrive from now on and are signed with the key are unproven; what arrived before
/// stays proven. Remove the key from your directory first: a directory that lists a key adds it
/// again. Ending a period that has ended changes nothing.
#[utoipa::path(
    delete, path = "/api/v1/operators/{id}/keys/{thumbprint}", tag = "operators", security(("apiKey" = [])),
    params(
        ("id" = String, Path, description = "The operatorId"),
        ("thumbprint" = String, Path, description = "The key's RFC 7638 thumbprint"),
    ),
    responses(
        (status = 204, description = "The period has ended"),
        (status = 404, description = "You have no such operator, or it never had the key", body = ProblemBody, content_type = "application/problem+json"),
        Refusals,
    ),
)]
async fn end_key(
    State(app): State<Arc<PublisherState>>,
    Extension(principal): Extension<Arc<Principal>>,
    Path((id, thumbprint)): Path<(String, String)>,
) -> Result<StatusCode, Failure> {
    let operator = find(&app, &principal, &id).await?;
    let key = newest_period(&app, &operator, &thumbprint).await?.key;
    let (accounts, actor) = (&app.deps.accounts, principal.actor.to_string());
    accounts.end_operator_key(&operator, &actor, key.fingerprint).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Claim a client ID
///
/// Receipts that arrive from now on with this `client.id` are proven only if a key of an operator
/// that claims it signed them. Others count as before: unproven, as clients of their own, and with
/// `clientIdClaimedBy` in answers. Several operators may claim one ID.
#[utoipa::path(
    put, path = "/api/v1/operators/{id}/clients/{clientId}", tag = "operators", security(("apiKey" = [])),
    params(
        ("id" = String, Path, description = "The operatorId"),
        ("clientId" = String, Path, description = "The client.id of your receipts: a UUID"),
    ),
    responses(
        (status = 204, description = "The operator claims it"),
        (status = 404, description = "You have no such operator", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "The operator claims 1,000 client IDs", body = ProblemBody, content_type = "application/problem+json"),
        Refusals,
    ),
)]
async fn claim(
    State(app): State<Arc<PublisherState>>,
    Extension(principal): Extension<Arc<Principal>>,
    Path((id, client_id)): Path<(String, String)>,
) -> Result<StatusCode, Failure> {
    let operator = find_proven(&app, &principal, &id).await?;
    let client_id = client(&client_id)?;
    let (accounts, actor) = (&app.deps.accounts, principal.actor.to_string());
    let claimed = accounts.claim_client(&operator, &actor, client_id).await;
    claimed.map_err(refusal)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Release a client ID
///
/// Releasing one that the operator doesn't claim changes nothing.
#[utoipa::path(
    delete, path = "/api/v1/operators/{id}/clients/{clientId}", tag = "operators", security(("apiKey" = [])),
    params(
        ("id" = String, Path, description = "The operatorId"),
        ("clientId" = String, Path, description = "The claimed client.id"),
    ),
    responses(
        (status = 204, description = "The operator doesn't claim it"),
        (status = 404, description = "You have no such operator", body = ProblemBody, content_type = "application/problem+json"),
        Refusals,
    ),
)]
async fn release(
    State(app): State<Arc<PublisherState>>,
    Extension(principal): Extension<Arc<Principal>>,
    Path((id, client_id)): Path<(String, String)>,
) -> Result<StatusCode, Failure> {
    let operator = find(&app, &principal, &id).await?;
    let client_id = client(&client_id)?;
    let accounts = &app.deps.accounts;
    accounts
        .release_client(&operator, &principal.actor.to_string(), client_id)
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Fetch the key directory now
///
/// Counts as one look for a verification token in the account's limit of these. `directory.failure`
/// says what is wrong, if anything is.
#[utoipa::path(
    post, path = "/api/v1/operators/{id}/directory/fetch", tag = "operators", security(("apiKey" = [])),
    params(("id" = String, Path, description = "The operatorId")),
    responses(
        (status = 200, description = "The operator after the fetch", body = OperatorDetailBody),
        (status = 404, description = "You have no such operator", body = ProblemBody, content_type = "application/problem+json"),
        Refusals,
    ),
)]
async fn fetch(
    State(app): State<Arc<PublisherState>>,
    Extension(principal): Extension<Arc<Principal>>,
    Path(id): Path<String>,
) -> Result<Json<OperatorDetailBody>, Failure> {
    let operator = find_proven(&app, &principal, &id).await?;
    take_looks(&app, &principal, 1).await?;
    let accounts = &app.deps.accounts;
    // None: another process fetches it at this moment, and the state after that fetch is as good.
    if let Some(due) = accounts.take_directory(operator).await? {
        app.directories.refresh(due).await?;
    }
    let operator = find(&app, &principal, &id).await?;
    detail(&app, &operator).await
}

/// The account's operator with this ID.
async fn find(app: &PublisherState, principal: &Principal, id: &str) -> Result<Operator, Failure> {
    let none = || Failure::not_found("you have no such operator; GET /api/v1/operators lists yours");
    let id: Uuid = id.parse().map_err(|_| none())?;
    let found = app.deps.accounts.operator(id, Some(&principal.account_id)).await?;
    let found = found.filter(|operator| principal.may_act_on(&operator.domain));
    found.ok_or_else(none)
}

/// The account's operator with this ID, if the verification of its domain holds.
async fn find_proven(app: &PublisherState, principal: &Principal, id: &str) -> Result<Operator, Failure> {
    let operator = find(app, principal, id).await?;
    if operator.is_domain_proven {
        return Ok(operator);
    }
    let detail = format!("your verification of {} has ended: renew it first", operator.domain);
    Err(Failure::new(Kind::DomainNotVerified, detail))
}

async fn detail(app: &PublisherState, operator: &Operator) -> Result<Json<OperatorDetailBody>, Failure> {
    let accounts = &app.deps.accounts;
    let keys = accounts.operator_keys(operator).await?;
    let client_ids = accounts.operator_clients(operator).await?;
    Ok(Json(OperatorDetailBody::new(operator, &keys, &client_ids)))
}

/// The open period of the operator's key, or else its last one.
async fn newest_period(app: &PublisherState, operator: &Operator, thumbprint: &str) -> Result<OperatorKey, Failure> {
    let periods = app.deps.accounts.operator_keys(operator).await?;
    let mut of_key = periods.into_iter().filter(|period| period.key.thumbprint == thumbprint);
    let none = || Failure::not_found("the operator has never had a key with this thumbprint");
    of_key.next().ok_or_else(none)
}

/// A client ID that a receipt could have.
fn client(text: &str) -> Result<Uuid, Failure> {
    let parsed = text.parse::<Uuid>().ok().filter(|id| !id.is_nil() && !id.is_max());
    parsed.ok_or_else(|| Failure::new(Kind::BadRequest, "the client ID must be a UUID, neither nil nor max"))
}

impl NewOperatorKeyBody {
    fn key(self, now_s: i64) -> Result<DirectoryKey, Failure> {
        match (self.public_key, self.jwk) {
            (Some(pem), None) => DirectoryKey::from_pem(&pem).map_err(|error| faulty("/publicKey", error)),
            (None, Some(jwk)) => DirectoryKey::from_jwk(&jwk, now_s).map_err(|error| faulty("/jwk", error.to_string())),
            _ => Err(faulty("", "give either publicKey or jwk".to_owned())),
        }
    }
}

/// 400, about one member.
pub(super) fn faulty(pointer: &str, what: String) -> Failure {
    Problem::new(Kind::InvalidBody, what.clone())
        .fault(pointer, "invalid_member", what)
        .into()
}

fn refusal(error: OperatorError) -> Failure {
    let kind = match &error {
        OperatorError::DomainNotProven(_) => Kind::DomainNotVerified,
        OperatorError::KeyHeldElsewhere => Kind::OperatorKeyHeldElsewhere,
        OperatorError::TooMany | OperatorError::TooManyKeys | OperatorError::TooManyClients => {
            Kind::TooManyOperatorItems
        }
        OperatorError::KeyTooLong => Kind::InvalidBody,
        OperatorError::Store(_) => Kind::AccountsUnavailable,
    };
    match error {
        OperatorError::Store(error) => error.into(),
        refused => Failure::new(kind, refused.to_string()),
    }
}
