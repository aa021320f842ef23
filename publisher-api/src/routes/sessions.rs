//! `/api/v1/auth/session` and `/api/v1/auth/sessions`: sessions of people in browsers.

use std::sync::Arc;

use accounts::{AccountRole, SecretToken, SessionInfo, User, UserSession};
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use http::{StatusCode, header};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::openapi::{BodyRefusals, ProblemBody, Refusals};
use web::{Failure, JsonBody, rfc3339_ms, session};

use super::user::AccountBody;
use crate::identity::Identity;
use crate::state::PublisherState;

const SESSION: &str = "/api/v1/auth/session";
const SESSIONS: &str = "/api/v1/auth/sessions";

pub(crate) fn routes() -> OpenApiRouter<Arc<PublisherState>> {
    OpenApiRouter::new()
        .routes(routes!(own, sign_out))
        .routes(routes!(switch))
        .routes(routes!(list))
        .routes(routes!(end))
}

/// The session of a request: its person, and how long it holds.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct SessionBody {
    /// `ses_...`.
    session_id: String,
    /// `usr_...`.
    user_id: String,
    email: Option<String>,
    name: Option<String>,
    /// `owner`, `editor` or `reader`, in the account.
    role: &'static str,
    /// `acc_...`; null while you are in no account. The first request that makes or changes
    /// something makes one, which you own.
    account_id: Option<String>,
    /// The accounts that you are in, 20 at most, the one that you chose last first.
    accounts: Vec<AccountBody>,
    /// When you signed in. Keys, people and erasures can be changed for ten minutes after it.
    #[schema(format = DateTime)]
    signed_in_at: String,
    /// When the session ends at the latest.
    #[schema(format = DateTime)]
    ends_at: String,
    /// Value of `X-CSRF-Token` for requests that change something.
    csrf_token: String,
}

/// Account to switch to.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SwitchAccount {
    /// `acc_...`, one of your `accounts`.
    account_id: String,
}

/// A session in a list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ListedSessionBody {
    session_id: String,
    user_id: String,
    /// Whether it is the one of this request.
    is_own: bool,
    #[schema(format = DateTime)]
    signed_in_at: String,
    /// When it was last used, to the minute.
    #[schema(format = DateTime)]
    seen_at: String,
    #[schema(format = DateTime)]
    ends_at: String,
}

/// Sessions, newest first.
#[derive(Debug, Serialize, ToSchema)]
struct SessionsBody {
    sessions: Vec<ListedSessionBody>,
}

/// Get the session
#[utoipa::path(
    get, path = SESSION, tag = "sessions", security(("session" = [])),
    responses((status = 200, description = "Who is signed in", body = SessionBody), Refusals),
)]
async fn own(
    State(app): State<Arc<PublisherState>>,
    Extension(identity): Extension<Arc<Identity>>,
) -> Result<Json<SessionBody>, Failure> {
    let (session, token) = identity.session.as_ref().ok_or_else(session::none)?;
    SessionBody::read(&app, &identity.user, session, token).await.map(Json)
}

/// Switch to another account
///
/// The session acts for the account from now on, and so does your next sign-in. It gets another
/// cookie and another `csrfToken`: what another window of this browser sends for the account before
/// is refused.
#[utoipa::path(
    put, path = "/api/v1/auth/session/account", tag = "sessions", security(("session" = [])), request_body = SwitchAccount,
    responses(
        (status = 200, description = "The session, with its new token", body = SessionBody, headers(("Set-Cookie" = String, description = "The session"))),
        (status = 404, description = "You are in no such account", body = ProblemBody, content_type = "application/problem+json"),
        Refusals, BodyRefusals,
    ),
)]
async fn switch(
    State(app): State<Arc<PublisherState>>,
    Extension(identity): Extension<Arc<Identity>>,
    JsonBody(wanted): JsonBody<SwitchAccount>,
) -> Result<Response, Failure> {
    let (session, _) = identity.session.as_ref().ok_or_else(session::none)?;
    let accounts = &app.deps.accounts;
    let switched = accounts.switch_account(session, &wanted.account_id).await?;
    let token =
        switched.ok_or_else(|| Failure::not_found(format!("you are in no such account; GET {SESSION} lists yours")))?;
    let session = accounts.session(&token).await?.ok_or_else(session::none)?;
    let body = SessionBody::read(&app, &identity.user, &session, &token).await?;
    Ok(([(header::SET_COOKIE, session::begun(&token))], Json(body)).into_response())
}

/// Sign out
///
/// Ends the session everywhere at once.
#[utoipa::path(
    delete, path = SESSION, tag = "sessions", security(("session" = [])),
    responses((status = 204, description = "The session has ended, and the cookie is removed"), Refusals),
)]
async fn sign_out(
    State(app): State<Arc<PublisherState>>,
    Extension(identity): Extension<Arc<Identity>>,
) -> Result<Response, Failure> {
    let (session, _) = identity.session.as_ref().ok_or_else(session::none)?;
    end_one(&app, &identity, &session.id).await?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, session::removed())]).into_response())
}

/// Sessions
///
/// Your own, in all accounts, and for an owner those of everybody in the account.
#[utoipa::path(
    get, path = SESSIONS, tag = "sessions", security(("session" = [])),
    responses((status = 200, description = "Newest first, 200 at most", body = SessionsBody), Refusals),
)]
async fn list(
    State(app): State<Arc<PublisherState>>,
    Extension(identity): Extension<Arc<Identity>>,
) -> Result<Json<SessionsBody>, Failure> {
    let own = identity.session.as_ref().map(|(session, _)| session.id.as_str());
    let accounts = &app.deps.accounts;
    let sessions = accounts.sessions(&identity.user.id, owned(&identity)).await?;
    let sessions = sessions
        .into_iter()
        .map(|one| ListedSessionBody::of(one, own))
        .collect();
    Ok(Json(SessionsBody { sessions }))
}

/// End a session
///
/// Owners end anybody's in the account, others their own.
#[utoipa::path(
    delete, path = "/api/v1/auth/sessions/{id}", tag = "sessions", security(("session" = [])),
    params(("id" = String, Path, description = "The sessionId")),
    responses(
        (status = 204, description = "It has ended"),
        (status = 404, description = "You see no such session", body = ProblemBody, content_type = "application/problem+json"),
        Refusals,
    ),
)]
async fn end(
    State(app): State<Arc<PublisherState>>,
    Extension(identity): Extension<Arc<Identity>>,
    Path(id): Path<String>,
) -> Result<StatusCode, Failure> {
    match end_one(&app, &identity, &id).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(Failure::not_found(format!(
            "you see no such session; GET {SESSIONS} lists them"
        ))),
    }
}

async fn end_one(app: &PublisherState, identity: &Identity, id: &str) -> Result<bool, Failure> {
    let accounts = &app.deps.accounts;
    Ok(accounts.end_session(&identity.user.id, owned(identity), id).await?)
}

/// The account, all of whose sessions the caller sees.
fn owned(identity: &Identity) -> Option<&str> {
    let account_id = identity.account_id.as_deref();
    account_id.filter(|_| identity.role == AccountRole::Owner)
}

impl SessionBody {
    async fn read(
        app: &PublisherState,
        user: &User,
        session: &UserSession,
        token: &SecretToken,
    ) -> Result<Self, Failure> {
        let accounts = app.deps.accounts.memberships(&user.id).await?;
        Ok(Self {
            session_id: session.id.clone(),
            user_id: user.id.clone(),
            email: user.email.as_ref().map(|email| email.as_str().to_owned()),
            name: user.name.as_ref().map(|name| name.as_str().to_owned()),
            role: session.role.as_str(),
            account_id: session.account_id.clone(),
            accounts: accounts.into_iter().map(AccountBody::from).collect(),
            signed_in_at: rfc3339_ms(session.signed_in_at_ms),
            ends_at: rfc3339_ms(session.ends_at_ms),
            csrf_token: session::csrf_token(token),
        })
    }
}

impl ListedSessionBody {
    fn of(session: SessionInfo, own: Option<&str>) -> Self {
        Self {
            is_own: own == Some(session.id.as_str()),
            session_id: session.id,
            user_id: session.user_id,
            signed_in_at: rfc3339_ms(session.signed_in_at_ms),
            seen_at: rfc3339_ms(session.seen_at_ms),
            ends_at: rfc3339_ms(session.ends_at_ms),
        }
    }
}
