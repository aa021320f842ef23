//! `/api/v1/auth/keys`: the API keys of the account that the person behind a JWT acts for.
//!
//! Someone else's key is answered exactly as one that doesn't exist.

use std::sync::Arc;

use accounts::{
    AccountsError, Domain, EndedKey, IssuedKey, KeyInfo, KeyRequest, Lifetime, Overlap, Revocation, Rotation, Scope,
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
use web::params::Params;
use web::{Failure, JsonBody, rfc3339_ms};

use super::paging::cursor;
use crate::identity::Identity;
use crate::state::PublisherState;
use web::openapi::{BodyRefusals, ProblemBody, Refusals};

const PATH: &str = "/api/v1/auth/keys";
/// Keys of a page, and the most of them.
const PAGE: u32 = 50;
const PAGE_MAX: u32 = 100;
/// The length of a key's id, in lower-case hexadecimal digits.
const KEY_ID_CHARS: usize = 16;

pub(crate) fn routes() -> OpenApiRouter<Arc<PublisherState>> {
    OpenApiRouter::new()
        .routes(routes!(create, list))
        .routes(routes!(one, revoke))
        .routes(routes!(rotate))
}

/// Permission of a key.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum ScopeWord {
    Read,
    Write,
    Erase,
}

/// A key to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CreateKey {
    /// A label.
    #[schema(min_length = 1, max_length = 100, example = "dashboard")]
    name: String,
    /// Permissions: `read` for GET, `erase` for erasures and for deleting entries, `write` for
    /// anything else. None includes another.
    #[schema(min_items = 1)]
    scope: Vec<ScopeWord>,
    /// The verified domains of yours that it is limited to; all of your domains, later ones
    /// included, if it isn't given.
    #[schema(min_items = 1, max_items = 100, example = json!(["example.com"]))]
    domains: Option<Vec<String>>,
    /// Life of the key: a number and a unit (h, d, w, y), from 1h to 10y.
    #[schema(pattern = "^[0-9]+[hdwy]$", max_length = 20, example = "30d")]
    expires_in: String,
}

/// Request to replace a key.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RotateKey {
    /// Time that the old key continues: a number and a unit, from 0h to 30d; 1d if it isn't given.
    #[schema(pattern = "^[0-9]+[hdwy]$", max_length = 20, example = "12h")]
    overlap: Option<String>,
    /// Life of the new key; that of the old one if it isn't given.
    #[schema(pattern = "^[0-9]+[hdwy]$", max_length = 20, example = "1y")]
    expires_in: Option<String>,
}

/// A key just made. The secret is shown only now.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct NewKeyBody {
    /// The secret bearer value; only a hash of it is stored.
    api_key: String,
    key_id: String,
    scope: Vec<ScopeWord>,
    /// The domains that it is limited to, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    domains: Option<Vec<String>>,
    #[schema(format = DateTime)]
    expires_at: String,
}

/// A key that replaces another.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct RotatedKeyBody {
    #[serde(flatten)]
    new: NewKeyBody,
    replaces: ReplacedKeyBody,
}

/// The key that was replaced.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ReplacedKeyBody {
    key_id: String,
    /// When it ends.
    #[schema(format = DateTime)]
    expires_at: String,
}

/// Whether a key works.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum KeyStatus {
    Active,
    Expired,
    Revoked,
}

/// A key without its secret.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct KeyBody {
    key_id: String,
    name: String,
    scope: Vec<ScopeWord>,
    /// The domains that it is limited to, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    domains: Option<Vec<String>>,
    status: KeyStatus,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    expires_at: String,
    #[schema(format = DateTime)]
    revoked_at: Option<String>,
    /// The key that a rotation made instead of it.
    replaced_by: Option<String>,
    /// Actor that made it: `user:<userId>`, or `operator`.
    created_by: String,
    /// When it was last used, to the hour; null: never.
    #[schema(format = DateTime)]
    last_used_at: Option<String>,
}

/// A page of keys.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct KeysBody {
    keys: Vec<KeyBody>,
    /// To be handed back as `cursor` for the next page; null after the last.
    next_cursor: Option<String>,
}

/// Make an API key
///
/// The tier of the account limits the number of its active keys: those that work and that no
/// rotation has replaced.
#[utoipa::path(
    post, path = PATH, tag = "keys", security(("jwt" = [])), request_body = CreateKey,
    responses(
        (status = 201, description = "Made", body = NewKeyBody, headers(("Location" = String, description = "Its address"))),
        (status = 409, description = "The account has as many active keys as its tier allows", body = ProblemBody, content_type = "application/problem+json"),
        Refusals, BodyRefusals,
    ),
)]
async fn create(
    State(app): State<Arc<PublisherState>>,
    Extension(identity): Extension<Arc<Identity>>,
    JsonBody(request): JsonBody<CreateKey>,
) -> Result<Response, Failure> {
    let accounts = &app.deps.accounts;
    let request = request.checked(accounts.now_ms())?;
    let domains = request.domains.clone().unwrap_or_default();
    let made = accounts
        .create_key(identity.account_id(), request, &identity.actor())
        .await;
    let issued = made.map_err(|error| match error {
        AccountsError::KeyDomain(domain) => {
            let at = domains.iter().position(|one| *one == domain).unwrap_or_default();
            let what = AccountsError::KeyDomain(domain).to_string();
            let problem = Problem::new(Kind::InvalidBody, what.clone());
            problem
                .fault(format!("/domains/{at}"), "domain_not_verified", what)
                .into()
        }
        error => refusal(error),
    })?;
    Ok(created(&issued.key_id.clone(), NewKeyBody::from(issued)))
}

/// The API keys, newest first
///
/// Keys that have expired or were revoked are listed too. A key that exists all the while is shown
/// once, whatever is made meanwhile.
#[utoipa::path(
    get, path = PATH, tag = "keys", security(("jwt" = [])),
    params(
        ("limit" = Option<u32>, Query, description = "Keys of a page; 50 if it isn't given", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "The nextCursor of the page before", max_length = 120),
    ),
    responses((status = 200, description = "A page", body = KeysBody), Refusals),
)]
async fn list(
    State(app): State<Arc<PublisherState>>,
    Extension(identity): Extension<Arc<Identity>>,
    uri: Uri,
) -> Result<Json<KeysBody>, Failure> {
    let params = Params::parse(&uri, &["limit", "cursor"])?;
    let limit = params.count("limit", PAGE_MAX)?.unwrap_or(PAGE);
    let after = cursor(&params)?;
    let accounts = &app.deps.accounts;
    let page = accounts
        .keys_page(identity.account_id(), after.as_ref(), limit as usize)
        .await?;
    let now_ms = accounts.now_ms();
    Ok(Json(KeysBody {
        keys: page.items.into_iter().map(|key| KeyBody::of(key, now_ms)).collect(),
        next_cursor: page.next.map(|next| next.to_string()),
    }))
}

/// Get an API key
#[utoipa::path(
    get, path = "/api/v1/auth/keys/{id}", tag = "keys", security(("jwt" = [])),
    params(("id" = String, Path, description = "The keyId")),
    responses(
        (status = 200, description = "The key, without its secret", body = KeyBody),
        (status = 404, description = "You have no such key", body = ProblemBody, content_type = "application/problem+json"),
        Refusals,
    ),
)]
async fn one(
    State(app): State<Arc<PublisherState>>,
    Extension(identity): Extension<Arc<Identity>>,
    Path(id): Path<String>,
) -> Result<Json<KeyBody>, Failure> {
    let id = key_id(id)?;
    let accounts = &app.deps.accounts;
    let key = accounts.key(identity.account_id(), &id).await?.ok_or_else(none)?;
    Ok(Json(KeyBody::of(key, accounts.now_ms())))
}

/// Revoke an API key
///
/// For good. It holds everywhere within two seconds. Revoking one that was revoked before changes
/// nothing.
#[utoipa::path(
    delete, path = "/api/v1/auth/keys/{id}", tag = "keys", security(("jwt" = [])),
    params(("id" = String, Path, description = "The keyId")),
    responses(
        (status = 204, description = "It is revoked"),
        (status = 404, description = "You have no such key", body = ProblemBody, content_type = "application/problem+json"),
        Refusals,
    ),
)]
async fn revoke(
    State(app): State<Arc<PublisherState>>,
    Extension(identity): Extension<Arc<Identity>>,
    Path(id): Path<String>,
) -> Result<StatusCode, Failure> {
    let id = key_id(id)?;
    let accounts = &app.deps.accounts;
    match accounts
        .revoke_key(Some(identity.account_id()), &id, &identity.actor())
        .await?
    {
        Revocation::Done | Revocation::Before => Ok(StatusCode::NO_CONTENT),
        Revocation::Unknown => Err(none()),
    }
}

/// Replace an API key
///
/// Makes a key of the same label, scope and domains. The old one works until the overlap ends,
/// though never beyond its own time. An account with as many active keys as its tier allows can
/// rotate them.
#[utoipa::path(
    post, path = "/api/v1/auth/keys/{id}/rotate", tag = "keys", security(("jwt" = [])), request_body = RotateKey,
    params(("id" = String, Path, description = "The keyId of the old one")),
    responses(
        (status = 201, description = "Made", body = RotatedKeyBody, headers(("Location" = String, description = "Its address"))),
        (status = 404, description = "You have no such key", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "The key doesn't work any more or has been replaced, or as many replaced keys work as the tier allows", body = ProblemBody, content_type = "application/problem+json"),
        Refusals, BodyRefusals,
    ),
)]
async fn rotate(
    State(app): State<Arc<PublisherState>>,
    Extension(identity): Extension<Arc<Identity>>,
    Path(id): Path<String>,
    JsonBody(request): JsonBody<RotateKey>,
) -> Result<Response, Failure> {
    let id = key_id(id)?;
    let (overlap, lifetime) = request.checked()?;
    let accounts = &app.deps.accounts;
    let rotation = accounts
        .rotate_key(identity.account_id(), &id, overlap, lifetime, &identity.actor())
        .await
        .map_err(refusal)?;
    match rotation {
        Rotation::Done { issued, old_until_ms } => {
            let key_id = issued.key_id.clone();
            let body = RotatedKeyBody {
                new: issued.into(),
                replaces: ReplacedKeyBody {
                    key_id: id,
                    expires_at: rfc3339_ms(old_until_ms),
                },
            };
            Ok(created(&key_id, body))
        }
        Rotation::Unknown => Err(none()),
        Rotation::Ended(why) => {
            let why = match why {
                EndedKey::Revoked => "the key was revoked: make a new one".to_owned(),
                EndedKey::Expired => "the key has expired: make a new one".to_owned(),
                EndedKey::Replaced(by) => format!("the key has been replaced by {by}"),
            };
            Err(Failure::new(Kind::KeyEnded, why))
        }
    }
}

fn created(key_id: &str, body: impl Serialize) -> Response {
    let location = format!("{PATH}/{key_id}");
    (StatusCode::CREATED, [(header::LOCATION, location)], Json(body)).into_response()
}

/// The id of a key, if it can be one. Any other text names none, and the database needn't be asked
/// for it.
fn key_id(id: String) -> Result<String, Failure> {
    let can_be = id.len() == KEY_ID_CHARS && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if can_be { Ok(id) } else { Err(none()) }
}

fn none() -> Failure {
    Failure::not_found("you have no such API key; GET /api/v1/auth/keys lists yours")
}

/// Failure for an error of the store that the request caused.
fn refusal(error: AccountsError) -> Failure {
    match error {
        AccountsError::TooManyKeys { .. } | AccountsError::TooManyReplacedKeys { .. } => {
            Failure::new(Kind::TooManyKeys, error.to_string())
        }
        AccountsError::Name => faulty([("/name", error.to_string())]),
        AccountsError::KeyDomainCount => faulty([("/domains", error.to_string())]),
        AccountsError::NoScope => faulty([("/scope", error.to_string())]),
        other => other.into(),
    }
}

/// 400, with every fault.
fn faulty(faults: impl IntoIterator<Item = (&'static str, String)>) -> Failure {
    let faults: Vec<_> = faults.into_iter().collect();
    let details: Vec<&str> = faults.iter().map(|(_, detail)| detail.as_str()).collect();
    let problem = Problem::new(Kind::InvalidBody, details.join("; "));
    let add = |problem: Problem, (pointer, detail)| problem.fault(pointer, "invalid_member", detail);
    faults.into_iter().fold(problem, add).into()
}

impl CreateKey {
    fn checked(self, now_ms: i64) -> Result<KeyRequest, Failure> {
        let lifetime: Lifetime = self
            .expires_in
            .parse()
            .map_err(|error: accounts::LifetimeError| faulty([("/expiresIn", error.to_string())]))?;
        Ok(KeyRequest {
            domains: self.domains.map(domains).transpose()?,
            name: self.name,
            scopes: self.scope.into_iter().map(Scope::from).collect(),
            expires_at_ms: lifetime.end_ms(now_ms),
        })
    }
}

/// The names of a key's limit, each checked.
fn domains(names: Vec<String>) -> Result<Vec<Domain>, Failure> {
    let parsed = names.iter().enumerate().map(|(at, name)| {
        name.parse().map_err(|error: accounts::DomainError| {
            let what = error.to_string();
            let problem = Problem::new(Kind::InvalidBody, what.clone());
            problem.fault(format!("/domains/{at}"), "invalid_domain", what).into()
        })
    });
    parsed.collect()
}

impl RotateKey {
    fn checked(&self) -> Result<(Overlap, Option<Lifetime>), Failure> {
        let overlap = self.overlap.as_deref().map_or(Ok(Overlap::DAY), str::parse);
        let lifetime = self.expires_in.as_deref().map(str::parse::<Lifetime>).transpose();
        match (overlap, lifetime) {
            (Ok(overlap), Ok(lifetime)) => Ok((overlap, lifetime)),
            (overlap, lifetime) => {
                let overlap = overlap.err().map(|error| ("/overlap", error.to_string()));
                let lifetime = lifetime.err().map(|error| ("/expiresIn", error.to_string()));
                Err(faulty(overlap.into_iter().chain(lifetime)))
            }
        }
    }
}

impl From<ScopeWord> for Scope {
    fn from(word: ScopeWord) -> Self {
        match word {
            ScopeWord::Read => Scope::Read,
            ScopeWord::Write => Scope::Write,
            ScopeWord::Erase => Scope::Erase,
        }
    }
}

impl From<Scope> for ScopeWord {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::Read => ScopeWord::Read,
            Scope::Write => ScopeWord::Write,
            Scope::Erase => ScopeWord::Erase,
        }
    }
}

impl From<IssuedKey> for NewKeyBody {
    fn from(issued: IssuedKey) -> Self {
        Self {
            api_key: issued.api_key,
            key_id: issued.key_id,
            scope: issued.scopes.into_iter().map(ScopeWord::from).collect(),
            domains: issued.domains,
            expires_at: rfc3339_ms(issued.expires_at_ms),
        }
    }
}

impl KeyBody {
    fn of(key: KeyInfo, now_ms: i64) -> Self {
        let status = match key.revoked_at_ms {
            Some(_) => KeyStatus::Revoked,
            None if key.expires_at_ms <= now_ms => KeyStatus::Expired,
            None => KeyStatus::Active,
        };
        Self {
            key_id: key.key_id,
            name: key.name,
            scope: key.scopes.into_iter().map(ScopeWord::from).collect(),
            domains: key.domains,
            status,
            created_at: rfc3339_ms(key.created_at_ms),
            expires_at: rfc3339_ms(key.expires_at_ms),
            revoked_at: key.revoked_at_ms.map(rfc3339_ms),
            replaced_by: key.replaced_by,
            created_by: key.created_by,
            last_used_at: key.last_used_at_ms.map(rfc3339_ms),
        }
    }
}
