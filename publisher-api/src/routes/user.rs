//! `/api/v1/user`: the person behind a JWT, and the end of the account they act for.

use std::sync::Arc;

use accounts::{AccountMembership, Cancellation, Deletion, Email, PersonName, User, UserChange};
use axum::extract::{Request, State};
use axum::{Extension, Json};
use http::StatusCode;
use serde::{Deserialize, Deserializer, Serialize};
use service::problem::{Kind, Problem};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::{Failure, json, rfc3339_ms, session};

use super::members::refusal;
use crate::identity::Identity;
use crate::state::PublisherState;
use web::openapi::{BodyRefusals, ProblemBody, Refusals};

const INFORMATION: &str = "/api/v1/user/information";
const ACCOUNT: &str = "/api/v1/user/account";
const CANCEL: &str = "/api/v1/user/account/cancel-deletion";
const DAY_MS: i64 = 86_400_000;

pub(crate) fn routes() -> OpenApiRouter<Arc<PublisherState>> {
    OpenApiRouter::new().routes(routes!(information, correct, erase))
}

/// Addresses about the whole account, which only owners change.
pub(crate) fn of_account() -> OpenApiRouter<Arc<PublisherState>> {
    OpenApiRouter::new().routes(routes!(delete)).routes(routes!(cancel))
}

/// Data about a person.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct InformationBody {
    /// `usr_...`.
    id: String,
    /// Identity provider that vouches for you: its `iss`.
    issuer: String,
    /// Your name there: its `sub`.
    subject: String,
    email: Option<String>,
    name: Option<String>,
    /// When you came first.
    #[schema(format = DateTime)]
    created_at: String,
    /// The accounts that you are in, 20 at most, the one that you chose last first.
    accounts: Vec<AccountBody>,
}

/// An account that a person is in.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct AccountBody {
    /// `acc_...`.
    id: String,
    /// The account's first domain, or what it was named when it was made.
    name: String,
    /// Your role there: `owner`, `editor` or `reader`.
    role: &'static str,
    /// `free`, `pro` or `enterprise`.
    tier: &'static str,
    /// Given while the account is to be deleted.
    deletion: Option<DeletionBody>,
}

/// A deletion that is planned.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct DeletionBody {
    #[schema(format = DateTime)]
    requested_at: String,
    /// Until then it can be taken back; everything is erased soon after.
    #[schema(format = DateTime)]
    erased_after: String,
}

/// Corrections. A member that isn't there stays as it is; null removes it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Correction {
    /// `name@example.com`, 254 bytes at most.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, required = false, format = Email, max_length = 254)]
    email: Option<Option<String>>,
    /// 1 to 200 characters.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, required = false, min_length = 1, max_length = 200)]
    name: Option<Option<String>>,
}

/// A member that is there, null or not.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// Get the data about you
#[utoipa::path(
    get, path = INFORMATION, tag = "user", security(("jwt" = [])),
    responses((status = 200, description = "All of it", body = InformationBody), Refusals),
)]
async fn information(
    State(app): State<Arc<PublisherState>>,
    Extension(identity): Extension<Arc<Identity>>,
) -> Result<Json<InformationBody>, Failure> {
    read(&app, identity.user.clone()).await.map(Json)
}

/// Put right what is known of you
///
/// E-mail address and name. What your identity provider says of them later doesn't change them
/// again.
#[utoipa::path(
    patch, path = INFORMATION, tag = "user", security(("jwt" = [])),
    request_body(content((Correction = "application/json"), (Correction = "application/merge-patch+json"))),
    responses((status = 200, description = "As it is now", body = InformationBody), Refusals, BodyRefusals),
)]
async fn correct(
    State(app): State<Arc<PublisherState>>,
    Extension(identity): Extension<Arc<Identity>>,
    request: Request,
) -> Result<Json<InformationBody>, Failure> {
    let (head, body) = request.into_parts();
    if json::media(&head.headers, "application/merge-patch+json").is_err() {
        json::media(&head.headers, "application/json")?;
    }
    let correction: Correction = json::parse(&json::read(body, json::BYTES_MAX).await?)?;
    let change = correction.checked()?;
    let accounts = &app.deps.accounts;
    let changed = accounts
        .change_user(&identity.user.id, &change, &identity.actor())
        .await?;
    read(&app, changed.ok_or_else(gone)?).await.map(Json)
}

/// Erase yourself
///
/// You leave all your accounts, and nothing but your ID in their trails is left of you. An account
/// that you alone own must be deleted or get another owner before. Who signs in again is new.
#[utoipa::path(
    delete, path = INFORMATION, tag = "user", security(("jwt" = [])),
    responses(
        (status = 204, description = "You are erased, and signed out everywhere"),
        (status = 409, description = "You are the last owner of an account", body = ProblemBody, content_type = "application/problem+json"),
        Refusals,
    ),
)]
async fn erase(
    State(app): State<Arc<PublisherState>>,
    Extension(identity): Extension<Arc<Identity>>,
) -> Result<StatusCode, Failure> {
    let accounts = &app.deps.accounts;
    if let Some((session, _)) = &identity.session {
        session::check_fresh(session.signed_in_at_ms, accounts.now_ms())?;
    }
    accounts.erase_user(&identity.user.id).await.map_err(refusal)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Delete the account
///
/// The account of all its members, with its keys, domains, entries and everything else. It can be
/// taken back for a time (30 days unless the operator has set another), in which everything
/// continues working; then it is erased. Asking again doesn't change the time.
#[utoipa::path(
    delete, path = ACCOUNT, tag = "user", security(("jwt" = [])),
    responses(
        (status = 202, description = "It is to be deleted", body = DeletionBody),
        (status = 404, description = "You are in no account", body = ProblemBody, content_type = "application/problem+json"),
        Refusals,
    ),
)]
async fn delete(
    State(app): State<Arc<PublisherState>>,
    Extension(identity): Extension<Arc<Identity>>,
) -> Result<(StatusCode, Json<DeletionBody>), Failure> {
    let grace_ms = i64::from(app.config.deletion_grace_days) * DAY_MS;
    let accounts = &app.deps.accounts;
    let planned = accounts
        .request_deletion(identity.account_id(), grace_ms, &identity.actor())
        .await?;
    let planned = planned.ok_or_else(|| Failure::not_found("you are in no account, so there is none to delete"))?;
    Ok((StatusCode::ACCEPTED, Json(planned.into())))
}

/// Keep the account after all
#[utoipa::path(
    post, path = CANCEL, tag = "user", security(("jwt" = [])),
    responses(
        (status = 200, description = "It stays", body = InformationBody),
        (status = 409, description = "It wasn't to be deleted, or the time to take it back is over", body = ProblemBody, content_type = "application/problem+json"),
        Refusals,
    ),
)]
async fn cancel(
    State(app): State<Arc<PublisherState>>,
    Extension(identity): Extension<Arc<Identity>>,
) -> Result<Json<InformationBody>, Failure> {
    let accounts = &app.deps.accounts;
    match accounts
        .cancel_deletion(identity.account_id(), &identity.actor())
        .await?
    {
        Cancellation::Done => read(&app, identity.user.clone()).await.map(Json),
        Cancellation::NothingPending => Err(Failure::new(Kind::NoDeletionPending, "the account isn't to be deleted")),
        Cancellation::TooLate => {
            let detail = "the time to take the deletion back is over; the account is being erased";
            Err(Failure::new(Kind::DeletionFinal, detail))
        }
    }
}

async fn read(app: &PublisherState, user: User) -> Result<InformationBody, Failure> {
    let accounts = app.deps.accounts.memberships(&user.id).await?;
    Ok(InformationBody {
        id: user.id,
        issuer: user.issuer,
        subject: user.subject,
        email: user.email.map(|email| email.as_str().to_owned()),
        name: user.name.map(|name| name.as_str().to_owned()),
        created_at: rfc3339_ms(user.created_at_ms),
        accounts: accounts.into_iter().map(AccountBody::from).collect(),
    })
}

/// The user was erased while the request was in progress.
fn gone() -> Failure {
    Failure::new(Kind::InvalidToken, "the user has just been erased")
}

impl Correction {
    fn checked(self) -> Result<UserChange, Failure> {
        let email = self
            .email
            .map(|email| email.map(|text| text.parse::<Email>()).transpose())
            .transpose();
        let name = self
            .name
            .map(|name| name.map(|text| text.parse::<PersonName>()).transpose())
            .transpose();
        match (email, name) {
            (Ok(email), Ok(name)) => Ok(UserChange { email, name }),
            (email, name) => {
                let mut problem = Problem::new(
                    Kind::InvalidBody,
                    "this can't be what is known of you; the errors say why",
                );
                if let Err(error) = email {
                    problem = problem.fault("/email", "invalid_member", error.to_string());
                }
                if let Err(error) = name {
                    problem = problem.fault("/name", "invalid_member", error.to_string());
                }
                Err(problem.into())
            }
        }
    }
}

impl From<AccountMembership> for AccountBody {
    fn from(membership: AccountMembership) -> Self {
        Self {
            id: membership.account_id,
            name: membership.account_name,
            role: membership.role.as_str(),
            tier: membership.tier.as_str(),
            deletion: membership.deletion.map(DeletionBody::from),
        }
    }
}

impl From<Deletion> for DeletionBody {
    fn from(deletion: Deletion) -> Self {
        Self {
            requested_at: rfc3339_ms(deletion.requested_at_ms),
            erased_after: rfc3339_ms(deletion.erase_after_ms),
        }
    }
}
