//! `/api/v1/auth/members`: the people of the account, and their roles.

use std::sync::Arc;

use accounts::{AccountRole, Member, MemberError};
use axum::extract::{Path, State};
use axum::{Extension, Json};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use service::problem::Kind;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::openapi::{BodyRefusals, ProblemBody, Refusals};
use web::{Failure, JsonBody, rfc3339_ms};

use crate::identity::Identity;
use crate::state::PublisherState;

const PATH: &str = "/api/v1/auth/members";

pub(crate) fn routes() -> OpenApiRouter<Arc<PublisherState>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(change, remove))
}

/// Role in the account.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum RoleWord {
    Owner,
    Editor,
    Reader,
}

/// A person in the account.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct MemberBody {
    /// `usr_...`, as the trail names the person behind `user:`.
    user_id: String,
    email: Option<String>,
    name: Option<String>,
    role: RoleWord,
    /// Whether it is whoever signs in by a login link for this account and role.
    is_login_link: bool,
    /// Whether it is you.
    is_own: bool,
    #[schema(format = DateTime)]
    since: String,
}

/// The people of the account.
#[derive(Debug, Serialize, ToSchema)]
struct MembersBody {
    members: Vec<MemberBody>,
}

/// Another role for a person.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ChangeMember {
    role: RoleWord,
}

/// The members of the account
#[utoipa::path(
    get, path = PATH, tag = "members", security(("jwt" = [])),
    responses((status = 200, description = "All of them, 100 at most, those who came first first", body = MembersBody), Refusals),
)]
async fn list(
    State(app): State<Arc<PublisherState>>,
    Extension(identity): Extension<Arc<Identity>>,
) -> Result<Json<MembersBody>, Failure> {
    let members = app.deps.accounts.members(identity.account_id()).await?;
    let members = members.into_iter().map(|one| MemberBody::of(one, &identity)).collect();
    Ok(Json(MembersBody { members }))
}

/// Give a member another role
///
/// The role holds from the member's next request on. The last owner stays one.
#[utoipa::path(
    patch, path = "/api/v1/auth/members/{userId}", tag = "members", security(("jwt" = [])), request_body = ChangeMember,
    params(("userId" = String, Path, description = "The member's userId")),
    responses(
        (status = 204, description = "The member has the role"),
        (status = 404, description = "The account has no such member", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "It is the account's last owner", body = ProblemBody, content_type = "application/problem+json"),
        Refusals, BodyRefusals,
    ),
)]
async fn change(
    State(app): State<Arc<PublisherState>>,
    Extension(identity): Extension<Arc<Identity>>,
    Path(user_id): Path<String>,
    JsonBody(wanted): JsonBody<ChangeMember>,
) -> Result<StatusCode, Failure> {
    let accounts = &app.deps.accounts;
    let changed = accounts.set_role(identity.account_id(), &identity.user.id, &user_id, wanted.role.into());
    changed.await.map_err(refusal)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Remove a member
///
/// A member's sessions in the account end at once, and invitations that they made are withdrawn.
/// API keys are the account's: those that the person made continue to work, and the trail names
/// their makers. Revoke or rotate them if the person has seen their secrets. Who is in no other
/// account is erased.
#[utoipa::path(
    delete, path = "/api/v1/auth/members/{userId}", tag = "members", security(("jwt" = [])),
    params(("userId" = String, Path, description = "The member's userId")),
    responses(
        (status = 204, description = "Removed"),
        (status = 404, description = "The account has no such member", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "It is the account's last owner", body = ProblemBody, content_type = "application/problem+json"),
        Refusals,
    ),
)]
async fn remove(
    State(app): State<Arc<PublisherState>>,
    Extension(identity): Extension<Arc<Identity>>,
    Path(user_id): Path<String>,
) -> Result<StatusCode, Failure> {
    let accounts = &app.deps.accounts;
    let removed = accounts.remove_member(identity.account_id(), &identity.user.id, &user_id);
    removed.await.map_err(refusal)?;
    Ok(StatusCode::NO_CONTENT)
}

impl MemberBody {
    fn of(member: Member, identity: &Identity) -> Self {
        Self {
            is_own: member.user_id == identity.user.id,
            user_id: member.user_id,
            email: member.email.map(|email| email.as_str().to_owned()),
            name: member.name.map(|name| name.as_str().to_owned()),
            role: member.role.into(),
            is_login_link: member.is_login_link,
            since: rfc3339_ms(member.since_ms),
        }
    }
}

impl From<RoleWord> for AccountRole {
    fn from(word: RoleWord) -> Self {
        match word {
            RoleWord::Owner => Self::Owner,
            RoleWord::Editor => Self::Editor,
            RoleWord::Reader => Self::Reader,
        }
    }
}

impl From<AccountRole> for RoleWord {
    fn from(role: AccountRole) -> Self {
        match role {
            AccountRole::Owner => Self::Owner,
            AccountRole::Editor => Self::Editor,
            AccountRole::Reader => Self::Reader,
        }
    }
}

/// Failure of a change of members.
pub(super) fn refusal(error: MemberError) -> Failure {
    let kind = match error {
        MemberError::Store(error) => return error.into(),
        // Somebody else has just changed the caller's role.
        MemberError::NotOwner => Kind::InsufficientRole,
        MemberError::Unknown => Kind::NotFound,
        MemberError::LastOwner => Kind::LastOwner,
        MemberError::Limit(_) => Kind::TooManyMembers,
    };
    Failure::new(kind, error.to_string())
}
